//! The walk over the tree of SQLite's own grammar. Every `match` lists every kind of node, so that a new kind in a
//! later grammar does not compile until it is judged.

use std::collections::{BTreeSet, HashMap};

use sqlite3_parser::ast::{Cmd, InsertBody, Name, QualifiedName, Stmt, TriggerCmd, TriggerEvent};

use crate::fts5_options;
use crate::gate::token::{Kind, Lexed};
use crate::policy::{Mode, Policy};
use crate::refusals;
use crate::verdict::{Accepted, Access, Position, Refusal, Relation, Stage, StatementKind};

pub(super) type Walked = Result<(), Refusal>;

/// What is known while walking.
pub(super) struct Walk<'w, 'a> {
    pub(super) lexed: &'w Lexed<'a>,
    pub(super) policy: &'w Policy,
    /// Visible names of common table expressions, innermost last, with their counts.
    pub(super) named: Vec<String>,
    pub(super) times: HashMap<String, usize>,
    pub(super) relations: Vec<Relation>,
    pub(super) known: BTreeSet<Relation>,
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

/// The kind of a command, if it can be allowed.
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
    /// Returns whether it returns rows in addition to its effect.
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
                fts5_options::check(Stage::Walk, position, &module, args.unwrap_or_default(), self.policy)?;
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
}

fn schema_of<'t, 'b>(object: &'t QualifiedName<'b>) -> Option<&'t Name<'b>> {
    object.db_name.as_ref()
}
