//! The walk over a tree of SQLite's own grammar: statements, queries and relations. Every `match` names every kind of
//! node, so that a kind that a later grammar adds does not compile until somebody decides about it.

use std::collections::{BTreeSet, HashMap};

use sqlite3_parser::ast::{
    AlterTableBody, As, Cmd, ColumnConstraint, ColumnDefinition, CommonTableExpr, CompoundSelect,
    CreateTableBody, DistinctNames, ForeignKeyClause, FromClause, Indexed, IndexedColumn, InsertBody,
    JoinConstraint, JoinedSelectTable, Limit, Name, NamedColumnConstraint, NamedTableConstraint, OneSelect,
    QualifiedName, RefArg, ResolveType, ResultColumn, Select, SelectBody, SelectTable, Set, SortedColumn,
    Stmt, TableConstraint, TriggerCmd, TriggerEvent, Type, TypeSize, Upsert, UpsertDo, UpsertIndex, Window,
    WindowDef, With,
};

use crate::gate::characters::hidden;
use crate::gate::sqlite::name;
use crate::gate::token::{Kind, Lexed};
use crate::modules;
use crate::policy::{Mode, Policy};
use crate::refusals;
use crate::verdict::{Accepted, Access, Position, Refusal, Relation, Stage, StatementKind};

pub(super) type Walked = Result<(), Refusal>;

/// What is known while walking.
pub(super) struct Walk<'w, 'a> {
    pub(super) lexed: &'w Lexed<'a>,
    pub(super) policy: &'w Policy,
    /// Names of common table expressions, innermost last, and how often each is among them.
    named: Vec<String>,
    times: HashMap<String, usize>,
    relations: Vec<Relation>,
    known: BTreeSet<Relation>,
}

/// Refuses what the policy does not allow, and describes the rest.
pub(crate) fn check(
    lexed: &Lexed<'_>,
    command: &Cmd<'_>,
    mode: Mode,
    policy: &Policy,
) -> Result<Accepted, Refusal> {
    let (statement, explains) = inner(command);
    let start = lexed.tokens.iter().position(|token| token.kind != Kind::Semicolon).unwrap_or(0);
    let Some(kind) = statement_kind(statement) else {
        let at = if explains { first_word(lexed, start) } else { start };
        let token = lexed.at(at);
        let position = token.map(|token| lexed.position(token)).unwrap_or_default();
        return Err(refusals::kind(
            Stage::Walk,
            position,
            token.map(|token| lexed.text(token)).unwrap_or_default(),
        ));
    };
    refusals::statement(Stage::Walk, lexed, start, kind, explains, mode, policy)?;
    let mut walk = Walk {
        lexed,
        policy,
        named: Vec::new(),
        times: HashMap::new(),
        relations: Vec::new(),
        known: BTreeSet::new(),
    };
    let returning = walk.statement(statement)?;
    let mut accepted = Accepted::new(if explains { StatementKind::Explain } else { kind });
    accepted.returning = returning;
    accepted.relations = walk.relations;
    Ok(accepted)
}

/// The kind of a command, where it is one that may be allowed.
pub(crate) fn kind(command: &Cmd<'_>) -> Option<StatementKind> {
    statement_kind(inner(command).0)
}

fn inner<'t, 'b>(command: &'t Cmd<'b>) -> (&'t Stmt<'b>, bool) {
    match command {
        Cmd::Explain(statement) | Cmd::ExplainQueryPlan(statement) => (statement, true),
        Cmd::Stmt(statement) => (statement, false),
    }
}

/// The word after `EXPLAIN [QUERY PLAN]`.
fn first_word(lexed: &Lexed<'_>, start: usize) -> usize {
    if lexed.is_word(start + 1, "query") && lexed.is_word(start + 2, "plan") { start + 3 } else { start + 1 }
}

fn statement_kind(statement: &Stmt<'_>) -> Option<StatementKind> {
    Some(match statement {
        Stmt::Select(..) => StatementKind::Select,
        Stmt::Insert { .. } => StatementKind::Insert,
        Stmt::Update { .. } => StatementKind::Update,
        Stmt::Delete { .. } => StatementKind::Delete,
        Stmt::CreateTable { .. } => StatementKind::CreateTable,
        Stmt::CreateVirtualTable { .. } => StatementKind::CreateVirtualTable,
        Stmt::CreateView { .. } => StatementKind::CreateView,
        Stmt::CreateIndex { .. } => StatementKind::CreateIndex,
        Stmt::CreateTrigger { .. } => StatementKind::CreateTrigger,
        Stmt::AlterTable(..) => StatementKind::Alter,
        Stmt::DropIndex { .. }
        | Stmt::DropTable { .. }
        | Stmt::DropTrigger { .. }
        | Stmt::DropView { .. } => StatementKind::Drop,
        Stmt::Reindex { .. } => StatementKind::Reindex,
        Stmt::Analyze(..) => StatementKind::Analyze,
        Stmt::Attach { .. }
        | Stmt::Detach(..)
        | Stmt::Begin(..)
        | Stmt::Commit(..)
        | Stmt::Rollback { .. }
        | Stmt::Savepoint(..)
        | Stmt::Release(..)
        | Stmt::Pragma(..)
        | Stmt::Vacuum(..) => return None,
    })
}

impl Walk<'_, '_> {
    /// Whether it returns rows beside doing its work.
    fn statement(&mut self, statement: &Stmt<'_>) -> Result<bool, Refusal> {
        match statement {
            Stmt::Select(select) => self.select(select)?,
            Stmt::Insert { with, or_conflict, tbl_name, columns, body, returning } => {
                let depth = self.with(with.as_ref())?;
                self.conflict(*or_conflict)?;
                self.target(tbl_name, Access::Write)?;
                self.names(columns.as_ref())?;
                match body {
                    InsertBody::Select(select, upsert) => {
                        self.select(select)?;
                        self.upsert(*upsert)?;
                    }
                    InsertBody::DefaultValues => {}
                }
                self.results(returning.unwrap_or_default())?;
                self.forget(depth);
                return Ok(returning.is_some());
            }
            Stmt::Update {
                with,
                or_conflict,
                tbl_name,
                indexed,
                sets,
                from,
                where_clause,
                returning,
                order_by,
                limit,
            } => {
                let depth = self.with(with.as_ref())?;
                self.conflict(*or_conflict)?;
                self.target(tbl_name, Access::Write)?;
                self.indexed(indexed.as_ref())?;
                self.sets(sets)?;
                self.from(from.as_ref())?;
                self.maybe(where_clause.as_ref())?;
                self.results(returning.unwrap_or_default())?;
                self.sorted(order_by.unwrap_or_default())?;
                self.limit(*limit)?;
                self.forget(depth);
                return Ok(returning.is_some());
            }
            Stmt::Delete { with, tbl_name, indexed, where_clause, returning, order_by, limit } => {
                let depth = self.with(with.as_ref())?;
                self.target(tbl_name, Access::Write)?;
                self.indexed(indexed.as_ref())?;
                self.maybe(where_clause.as_ref())?;
                self.results(returning.unwrap_or_default())?;
                self.sorted(order_by.unwrap_or_default())?;
                self.limit(*limit)?;
                self.forget(depth);
                return Ok(returning.is_some());
            }
            Stmt::CreateTable { temporary, if_not_exists: _, tbl_name, body } => {
                self.temporary(*temporary)?;
                self.target(tbl_name, Access::Define)?;
                self.table(body)?;
            }
            Stmt::CreateVirtualTable { if_not_exists: _, tbl_name, module_name, args } => {
                self.target(tbl_name, Access::Define)?;
                let module = self.bare(module_name.0)?;
                if !self.policy.modules.contains(&module) {
                    return Err(refusals::module(Stage::Walk, self.find(&module, false), &module));
                }
                let position = self.find(&module, false);
                modules::check(Stage::Walk, position, &module, args.unwrap_or_default(), self.policy)?;
            }
            Stmt::CreateView { temporary, if_not_exists: _, view_name, columns, select } => {
                self.temporary(*temporary)?;
                self.target(view_name, Access::Define)?;
                self.columns(columns.unwrap_or_default())?;
                self.select(select)?;
            }
            Stmt::CreateIndex { unique: _, if_not_exists: _, idx_name, tbl_name, columns, where_clause } => {
                self.object(idx_name)?;
                self.relation(schema_of(idx_name), tbl_name, Access::Define)?;
                self.sorted(columns)?;
                self.maybe(where_clause.as_ref())?;
            }
            Stmt::CreateTrigger {
                temporary,
                if_not_exists: _,
                trigger_name,
                time: _,
                event,
                tbl_name,
                for_each_row: _,
                when_clause,
                commands,
            } => {
                self.temporary(*temporary)?;
                self.object(trigger_name)?;
                match event {
                    TriggerEvent::Delete | TriggerEvent::Insert | TriggerEvent::Update => {}
                    TriggerEvent::UpdateOf(columns) => self.names(Some(columns))?,
                }
                self.target(tbl_name, Access::Define)?;
                self.maybe(when_clause.as_ref())?;
                for command in *commands {
                    self.command(command)?;
                }
            }
            Stmt::AlterTable(table, body) => {
                self.target(table, Access::Define)?;
                self.alter(body)?;
            }
            Stmt::DropTable { if_exists: _, tbl_name }
            | Stmt::DropView { if_exists: _, view_name: tbl_name } => {
                self.target(tbl_name, Access::Define)?;
            }
            Stmt::DropIndex { if_exists: _, idx_name } => self.object(idx_name)?,
            Stmt::DropTrigger { if_exists: _, trigger_name } => self.object(trigger_name)?,
            Stmt::Reindex { obj_name } | Stmt::Analyze(obj_name) => {
                if let Some(object) = obj_name {
                    if object.db_name.is_none() && self.bare(object.name.0)? == "temp" {
                        return Err(refusals::temp(Stage::Walk, self.find("temp", false), "temp"));
                    }
                    self.object(object)?;
                }
            }
            Stmt::Attach { .. }
            | Stmt::Detach(..)
            | Stmt::Begin(..)
            | Stmt::Commit(..)
            | Stmt::Rollback { .. }
            | Stmt::Savepoint(..)
            | Stmt::Release(..)
            | Stmt::Pragma(..)
            | Stmt::Vacuum(..) => {
                return Err(refusals::kind(Stage::Walk, Position::of(self.lexed.sql, 0), ""));
            }
        }
        Ok(false)
    }

    fn command(&mut self, command: &TriggerCmd<'_>) -> Walked {
        match command {
            TriggerCmd::Update { or_conflict, tbl_name, sets, from, where_clause } => {
                self.conflict(*or_conflict)?;
                self.target(tbl_name, Access::Write)?;
                self.sets(sets)?;
                self.from(from.as_ref())?;
                self.maybe(where_clause.as_ref())
            }
            TriggerCmd::Insert { or_conflict, tbl_name, col_names, select, upsert } => {
                self.conflict(*or_conflict)?;
                self.target(tbl_name, Access::Write)?;
                self.names(col_names.as_ref())?;
                self.select(select)?;
                self.upsert(*upsert)
            }
            TriggerCmd::Delete { tbl_name, where_clause } => {
                self.target(tbl_name, Access::Write)?;
                self.maybe(where_clause.as_ref())
            }
            TriggerCmd::Select(select) => self.select(select),
        }
    }

    fn table(&mut self, body: &CreateTableBody<'_>) -> Walked {
        match body {
            CreateTableBody::AsSelect(select) => self.select(select),
            CreateTableBody::ColumnsAndConstraints { columns, constraints, flags: _ } => {
                for column in columns {
                    self.column(column)?;
                }
                for constraint in constraints.unwrap_or_default() {
                    self.constraint(constraint)?;
                }
                Ok(())
            }
        }
    }

    fn column(&mut self, column: &ColumnDefinition<'_>) -> Walked {
        let ColumnDefinition { col_name, col_type, constraints, flags: _ } = column;
        self.plain(col_name)?;
        self.column_type(col_type.as_ref())?;
        for NamedColumnConstraint { name, constraint } in *constraints {
            self.plains(name.as_ref())?;
            match constraint {
                ColumnConstraint::PrimaryKey { order: _, conflict_clause, auto_increment: _ } => {
                    self.conflict(*conflict_clause)?;
                }
                ColumnConstraint::NotNull { nullable: _, conflict_clause } => {
                    self.conflict(*conflict_clause)?;
                }
                ColumnConstraint::Unique(conflict) => self.conflict(*conflict)?,
                ColumnConstraint::Check(expr) | ColumnConstraint::Default(expr) => self.expr(expr)?,
                ColumnConstraint::Defer(_) => {}
                ColumnConstraint::Collate { collation_name } => self.plain(collation_name)?,
                ColumnConstraint::ForeignKey { clause, defer_clause: _ } => self.foreign_key(clause)?,
                ColumnConstraint::Generated { expr, typ: _ } => self.expr(expr)?,
            }
        }
        Ok(())
    }

    fn constraint(&mut self, constraint: &NamedTableConstraint<'_>) -> Walked {
        let NamedTableConstraint { name, constraint } = constraint;
        self.plains(name.as_ref())?;
        match constraint {
            TableConstraint::PrimaryKey { columns, auto_increment: _, conflict_clause }
            | TableConstraint::Unique { columns, conflict_clause } => {
                self.sorted(columns)?;
                self.conflict(*conflict_clause)
            }
            TableConstraint::Check(expr, conflict) => {
                self.expr(expr)?;
                self.conflict(*conflict)
            }
            TableConstraint::ForeignKey { columns, clause, defer_clause: _ } => {
                self.columns(columns)?;
                self.foreign_key(clause)
            }
        }
    }

    fn foreign_key(&mut self, clause: &ForeignKeyClause<'_>) -> Walked {
        let ForeignKeyClause { tbl_name, columns, args } = clause;
        let table = self.bare(tbl_name.0)?;
        if self.policy.is_reserved(&table) {
            return Err(refusals::relation(Stage::Walk, self.find(&table, false), &table));
        }
        self.note(None, table, Access::Read);
        self.columns(columns.unwrap_or_default())?;
        for arg in *args {
            match arg {
                RefArg::OnDelete(_) | RefArg::OnInsert(_) | RefArg::OnUpdate(_) => {}
                RefArg::Match(name) => self.plain(name)?,
            }
        }
        Ok(())
    }

    fn alter(&mut self, body: &AlterTableBody<'_>) -> Walked {
        match body {
            AlterTableBody::RenameTo(new) => self.made(new),
            AlterTableBody::AddColumn(column) => self.column(column),
            AlterTableBody::DropColumnNotNull(name)
            | AlterTableBody::DropColumn(name)
            | AlterTableBody::DropConstraint(name) => self.plain(name),
            AlterTableBody::SetColumnNotNull(name, conflict) => {
                self.plain(name)?;
                self.conflict(*conflict)
            }
            AlterTableBody::RenameColumn { old, new } => {
                self.plain(old)?;
                self.plain(new)
            }
            AlterTableBody::AddConstraint(constraint) => self.constraint(constraint),
        }
    }

    pub(super) fn select(&mut self, select: &Select<'_>) -> Walked {
        let Select { with, body, order_by, limit } = select;
        let depth = self.with(with.as_ref())?;
        let SelectBody { select: first, compounds } = body;
        self.one(first)?;
        for CompoundSelect { operator: _, select } in compounds.iter().flatten() {
            self.one(select)?;
        }
        self.sorted(order_by.unwrap_or_default())?;
        self.limit(*limit)?;
        self.forget(depth);
        Ok(())
    }

    /// Walks common table expressions and leaves their names known; returns how many were known before.
    fn with(&mut self, with: Option<&With<'_>>) -> Result<usize, Refusal> {
        let depth = self.named.len();
        let Some(With { recursive: _, ctes }) = with else { return Ok(depth) };
        for CommonTableExpr { tbl_name, .. } in *ctes {
            let name = self.bare(tbl_name.0)?;
            *self.times.entry(name.clone()).or_default() += 1;
            self.named.push(name);
        }
        for CommonTableExpr { tbl_name: _, columns, materialized: _, select } in *ctes {
            self.columns(columns.unwrap_or_default())?;
            self.select(select)?;
        }
        Ok(depth)
    }

    /// Forgets the names of common table expressions beyond a number.
    fn forget(&mut self, depth: usize) {
        while self.named.len() > depth {
            let Some(name) = self.named.pop() else { break };
            if let Some(times) = self.times.get_mut(&name) {
                *times -= 1;
                if *times == 0 {
                    self.times.remove(&name);
                }
            }
        }
    }

    fn one(&mut self, select: &OneSelect<'_>) -> Walked {
        match select {
            OneSelect::Select {
                distinctness: _,
                columns,
                from,
                where_clause,
                group_by,
                having,
                window_clause,
            } => {
                self.results(columns)?;
                self.from(from.as_ref())?;
                self.maybe(*where_clause)?;
                self.exprs(group_by.unwrap_or_default())?;
                self.maybe(*having)?;
                for WindowDef { name, window } in window_clause.unwrap_or_default() {
                    self.plain(name)?;
                    self.window(window)?;
                }
                Ok(())
            }
            OneSelect::Values(rows) => rows.iter().try_for_each(|row| self.exprs(row)),
        }
    }

    fn from(&mut self, from: Option<&FromClause<'_>>) -> Walked {
        let Some(from) = from else { return Ok(()) };
        if let Some(table) = from.select {
            self.item(table)?;
        }
        for JoinedSelectTable { operator: _, table, constraint } in from.joins.iter().flatten() {
            self.item(table)?;
            match constraint {
                Some(JoinConstraint::On(expr)) => self.expr(expr)?,
                Some(JoinConstraint::Using(columns)) => self.names(Some(columns))?,
                None => {}
            }
        }
        Ok(())
    }

    fn item(&mut self, table: &SelectTable<'_>) -> Walked {
        match table {
            SelectTable::Table(name, alias, indexed) => {
                self.target(name, Access::Read)?;
                self.indexed(indexed.as_ref())?;
                self.alias(alias.as_ref())
            }
            SelectTable::TableCall(name, args, alias) => {
                self.table_call(name)?;
                self.exprs(args.unwrap_or_default())?;
                self.alias(alias.as_ref())
            }
            SelectTable::Select(select, alias) => {
                self.select(select)?;
                self.alias(alias.as_ref())
            }
            SelectTable::Sub(from, alias) => {
                self.from(Some(from))?;
                self.alias(alias.as_ref())
            }
        }
    }

    /// A table function.
    pub(super) fn table_call(&mut self, function: &QualifiedName<'_>) -> Walked {
        let QualifiedName { db_name, name, alias } = function;
        self.schema(db_name.as_ref(), Access::Read)?;
        self.plains(alias.as_ref())?;
        let name = self.bare(name.0)?;
        if !self.policy.table_functions.contains(&name) {
            return Err(refusals::table_function(Stage::Walk, self.find(&name, true), &name));
        }
        Ok(())
    }

    pub(super) fn window(&mut self, window: &Window<'_>) -> Walked {
        let Window { base, partition_by, order_by, frame_clause } = window;
        self.plains(base.as_ref())?;
        self.exprs(partition_by.unwrap_or_default())?;
        self.sorted(order_by.unwrap_or_default())?;
        self.frame(frame_clause.as_ref())
    }

    fn results(&mut self, columns: &[ResultColumn<'_>]) -> Walked {
        for column in columns {
            match column {
                ResultColumn::Expr(expr, alias) => {
                    self.expr(expr)?;
                    self.alias(alias.as_ref())?;
                }
                ResultColumn::Star => {}
                ResultColumn::TableStar(name) => self.plain(name)?,
            }
        }
        Ok(())
    }

    fn upsert(&mut self, upsert: Option<&Upsert<'_>>) -> Walked {
        let mut next = upsert;
        while let Some(Upsert { index, do_clause, next: following }) = next {
            if let Some(UpsertIndex { targets, where_clause }) = index {
                self.sorted(targets)?;
                self.maybe(where_clause.as_ref())?;
            }
            match do_clause {
                UpsertDo::Set { sets, where_clause } => {
                    self.sets(sets)?;
                    self.maybe(where_clause.as_ref())?;
                }
                UpsertDo::Nothing => {}
            }
            next = *following;
        }
        Ok(())
    }

    fn sets(&mut self, sets: &[Set<'_>]) -> Walked {
        for Set { col_names, expr } in sets {
            self.names(Some(col_names))?;
            self.expr(expr)?;
        }
        Ok(())
    }

    pub(super) fn sorted(&mut self, columns: &[SortedColumn<'_>]) -> Walked {
        columns.iter().try_for_each(|SortedColumn { expr, order: _, nulls: _ }| self.expr(expr))
    }

    fn limit(&mut self, limit: Option<&Limit<'_>>) -> Walked {
        let Some(Limit { expr, offset }) = limit else { return Ok(()) };
        self.expr(expr)?;
        self.maybe(offset.as_ref())
    }

    pub(super) fn column_type(&mut self, column_type: Option<&Type<'_>>) -> Walked {
        let Some(Type { name: _, size }) = column_type else { return Ok(()) };
        match size {
            Some(TypeSize::MaxSize(size)) => self.expr(size),
            Some(TypeSize::TypeSize(size, scale)) => {
                self.expr(size)?;
                self.expr(scale)
            }
            None => Ok(()),
        }
    }

    fn columns(&self, columns: &[IndexedColumn<'_>]) -> Walked {
        columns.iter().try_for_each(|IndexedColumn { col_name, collation_name, order: _ }| {
            self.plain(col_name)?;
            self.plains(collation_name.as_ref())
        })
    }

    fn indexed(&self, indexed: Option<&Indexed<'_>>) -> Walked {
        match indexed {
            Some(Indexed::IndexedBy(name)) => self.plain(name),
            Some(Indexed::NotIndexed) | None => Ok(()),
        }
    }

    fn alias(&self, alias: Option<&As<'_>>) -> Walked {
        match alias {
            Some(As::As(name) | As::Elided(name)) => self.plain(name),
            None => Ok(()),
        }
    }

    fn names(&self, names: Option<&DistinctNames<'_>>) -> Walked {
        names.map_or(Ok(()), |names| names.iter().try_for_each(|name| self.plain(name)))
    }

    fn plains(&self, name: Option<&Name<'_>>) -> Walked {
        name.map_or(Ok(()), |name| self.plain(name))
    }

    /// A name that is neither a relation's nor a function's.
    pub(super) fn plain(&self, name: &Name<'_>) -> Walked {
        self.seen(name.0)
    }

    /// Refuses characters in a bare name that a reader does not see; the engine takes one of them for a space.
    pub(super) fn seen(&self, text: &str) -> Walked {
        if text.is_ascii() || text.starts_with(['"', '`', '[', '\'']) {
            return Ok(());
        }
        let Some(odd) = text.chars().find(|character| hidden(*character).is_some()) else { return Ok(()) };
        let at = self.lexed.sql.find(odd).unwrap_or(0);
        let construct = format!("U+{:04X}", u32::from(odd));
        Err(Refusal::new(Stage::Walk, "character", Position::of(self.lexed.sql, at), construct)
            .because("a name holds a character that is not seen")
            .instead("leave it out, or quote the name"))
    }

    /// A name as the engine folds it.
    pub(super) fn bare(&self, text: &str) -> Result<String, Refusal> {
        self.seen(text)?;
        Ok(name(text).into_owned())
    }

    /// Something that is made, changed or dropped and is no relation: an index, a trigger.
    fn object(&self, object: &QualifiedName<'_>) -> Walked {
        let QualifiedName { db_name, name, alias } = object;
        self.schema(db_name.as_ref(), Access::Define)?;
        self.plains(alias.as_ref())?;
        self.made(name)
    }

    fn made(&self, name: &Name<'_>) -> Walked {
        let name = self.bare(name.0)?;
        if self.policy.is_reserved(&name) {
            return Err(refusals::reserved(Stage::Walk, self.find(&name, false), &name));
        }
        Ok(())
    }

    /// A relation by its full name.
    pub(super) fn target(&mut self, relation: &QualifiedName<'_>, access: Access) -> Walked {
        let QualifiedName { db_name, name, alias } = relation;
        self.plains(alias.as_ref())?;
        self.relation(db_name.as_ref(), name, access)
    }

    fn relation(&mut self, schema: Option<&Name<'_>>, relation: &Name<'_>, access: Access) -> Walked {
        self.schema(schema, access)?;
        let name = self.bare(relation.0)?;
        match access {
            Access::Read => {
                if !self.policy.may_read(&name) {
                    return Err(refusals::relation(Stage::Walk, self.find(&name, false), &name));
                }
                let table_function = self.policy.table_functions.contains(&name);
                if table_function || schema.is_none() && self.times.contains_key(&name) {
                    return Ok(());
                }
            }
            Access::Write | Access::Define => {
                if self.policy.is_reserved(&name) {
                    return Err(refusals::reserved(Stage::Walk, self.find(&name, false), &name));
                }
            }
        }
        let schema = schema.map(|schema| self::name(schema.0).into_owned());
        self.note(schema, name, access);
        Ok(())
    }

    fn note(&mut self, schema: Option<String>, name: String, access: Access) {
        let relation = Relation::new(schema, name, access);
        if self.known.insert(relation.clone()) {
            self.relations.push(relation);
        }
    }

    pub(super) fn schema(&self, schema: Option<&Name<'_>>, access: Access) -> Walked {
        let Some(schema) = schema else { return Ok(()) };
        let schema = self.bare(schema.0)?;
        if !self.policy.knows_schema(&schema) {
            return Err(refusals::schema(Stage::Walk, self.find(&schema, false), &schema));
        }
        if access != Access::Read && self.policy.read_only_schemas.contains(&schema) {
            return Err(refusals::read_only_schema(Stage::Walk, self.find(&schema, false), &schema));
        }
        Ok(())
    }

    fn temporary(&self, temporary: bool) -> Walked {
        if temporary { Err(refusals::temp(Stage::Walk, self.find("temp", false), "TEMP")) } else { Ok(()) }
    }

    pub(super) fn conflict(&self, resolution: Option<ResolveType>) -> Walked {
        match resolution {
            Some(ResolveType::Rollback) => Err(refusals::rollback(Stage::Walk, self.find("rollback", false))),
            Some(ResolveType::Abort | ResolveType::Fail | ResolveType::Ignore | ResolveType::Replace)
            | None => Ok(()),
        }
    }

    /// Where a name first stands: the tree does not say.
    pub(super) fn find(&self, name: &str, called: bool) -> Position {
        let lexed = self.lexed;
        let named = |token: &crate::gate::token::Token| {
            matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Text) && lexed.name(*token) == name
        };
        let mut found = lexed.tokens.iter().enumerate().filter(|(_, token)| named(token));
        let at = if called { found.find(|(index, _)| lexed.is(index + 1, Kind::Open)) } else { found.next() };
        at.map(|(_, token)| lexed.position(*token)).unwrap_or_default()
    }
}

fn schema_of<'t, 'b>(object: &'t QualifiedName<'b>) -> Option<&'t Name<'b>> {
    object.db_name.as_ref()
}
