//! The walk over the tree of PostgreSQL's own grammar.
//!
//! Each node must be in [`NODES`], with no content in fields not listed there; numbers that select a kind are judged by
//! lists of allowed ones.

use std::collections::HashMap;
use std::sync::LazyLock;

use pg_query::protobuf::{AlterTableType, ObjectType, SqlValueFunctionOp};

use super::judge::Judge;
use super::portable::spaced;
use super::postgres_nodes::NODES;
use crate::gate::token::Lexed;
use crate::grammar::flat_tree::{Tree, Value, deep};
use crate::policy::postgres::OF_SEQUENCES;
use crate::policy::{Mode, Policy};
use crate::verdict::{Accepted, Access, Position, Refusal, StatementKind};

static ALLOWED: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(|| {
    NODES.iter().map(|(node, fields)| (*node, fields.split_whitespace().collect())).collect()
});

/// Kinds of object that may be created, altered and dropped.
const OBJECTS: &[ObjectType] = &[
    ObjectType::ObjectTable,
    ObjectType::ObjectView,
    ObjectType::ObjectMatview,
    ObjectType::ObjectIndex,
    ObjectType::ObjectSequence,
    ObjectType::ObjectType,
];

/// Parts of objects that may be renamed and commented on.
const PARTS: &[ObjectType] =
    &[ObjectType::ObjectColumn, ObjectType::ObjectTabconstraint, ObjectType::ObjectAttribute];

const ALTERATIONS: &[AlterTableType] = &[
    AlterTableType::AtAddColumn,
    AlterTableType::AtColumnDefault,
    AlterTableType::AtDropNotNull,
    AlterTableType::AtSetNotNull,
    AlterTableType::AtSetExpression,
    AlterTableType::AtDropExpression,
    AlterTableType::AtSetStatistics,
    AlterTableType::AtSetStorage,
    AlterTableType::AtSetCompression,
    AlterTableType::AtDropColumn,
    AlterTableType::AtAddConstraint,
    AlterTableType::AtAlterConstraint,
    AlterTableType::AtValidateConstraint,
    AlterTableType::AtAddIndexConstraint,
    AlterTableType::AtDropConstraint,
    AlterTableType::AtAlterColumnType,
    AlterTableType::AtSetLogged,
    AlterTableType::AtSetRelOptions,
    AlterTableType::AtResetRelOptions,
    AlterTableType::AtAddInherit,
    AlterTableType::AtDropInherit,
    AlterTableType::AtAttachPartition,
    AlterTableType::AtDetachPartition,
    AlterTableType::AtAddIdentity,
    AlterTableType::AtSetIdentity,
    AlterTableType::AtDropIdentity,
];

/// The options of a sequence.
const SEQUENCE_OPTIONS: &[&str] =
    &["as", "increment", "minvalue", "maxvalue", "start", "restart", "cache", "cycle", "owned_by"];

/// Walks the tree of one statement.
pub(crate) fn walk(lexed: &Lexed<'_>, tree: &Tree, mode: Mode, policy: &Policy) -> Result<Accepted, Refusal> {
    let mut walk = Walk { tree, judge: Judge::new(lexed.dialect, mode, policy), of_sequence: None };
    let walked = walk.visit(0, Place::default());
    walked.and_then(|()| walk.judge.accepted()).map_err(|mut refusal| {
        refusal.position = place(lexed, tree, refusal.position.offset);
        refusal
    })
}

/// The approximate start of a node in the text.
fn place(lexed: &Lexed<'_>, tree: &Tree, at: usize) -> Position {
    let place = |index: usize| match tree.node(index) {
        node if node.field == "location" => match node.value {
            Value::Int(offset) => usize::try_from(offset).ok(),
            _ => None,
        },
        _ => None,
    };
    let statement = tree.node(at).ty.ends_with("Stmt");
    let found = (at..tree.end(at)).find_map(place);
    match found {
        Some(offset) if !statement => Position::of(lexed.sql, offset),
        _ => lexed.at(0).map(|token| lexed.position(token)).unwrap_or_default(),
    }
}

/// The context of a node: the nearest enclosing type, and the field.
#[derive(Clone, Copy, Default)]
struct Place {
    ty: &'static str,
    field: &'static str,
}

struct Walk<'p> {
    tree: &'p Tree,
    judge: Judge<'p>,
    /// The `regclass` to which the last call of a sequence function casts its literal.
    of_sequence: Option<usize>,
}

impl Walk<'_> {
    fn visit(&mut self, at: usize, above: Place) -> Result<(), Refusal> {
        let node = self.tree.node(at);
        let ty = node.ty;
        // A `Node` represents its content.
        let typed = !ty.is_empty() && ty != "Node";
        if typed {
            self.known(at)?;
            self.judge_node(at, above)?;
        }
        let scope = self.judge.ctes();
        let first = self.tree.field(at, "with_clause");
        let here = |child: usize| {
            let field = self.tree.node(child).field;
            let inside = if typed { Place { ty, field: "" } } else { above };
            if field.is_empty() || matches!(field, "node" | "0") || !typed {
                inside
            } else {
                Place { ty, field }
            }
        };
        if let Some(with) = first {
            let place = here(with);
            deep(|| self.visit(with, place))?;
        }
        for child in self.tree.children(at) {
            if Some(child) != first {
                let place = here(child);
                deep(|| self.visit(child, place))?;
            }
        }
        match ty {
            "SelectStmt" | "InsertStmt" | "UpdateStmt" | "DeleteStmt" | "MergeStmt" => {
                self.judge.leave(scope);
            }
            "CommonTableExpr" => self.names(at),
            _ => {}
        }
        Ok(())
    }

    /// Makes a common table expression visible.
    fn names(&mut self, cte: usize) {
        if let Some(name) = self.tree.field_str(cte, "ctename") {
            self.judge.see(name.to_owned());
        }
    }

    /// Refuses a kind of node, or a field, that is not listed.
    fn known(&self, at: usize) -> Result<(), Refusal> {
        let ty = self.tree.node(at).ty;
        let Some(fields) = ALLOWED.get(ty) else {
            let rule = if ty.ends_with("Stmt") { "statement_kind" } else { "construct" };
            return Err(self
                .judge
                .refuse(rule, at, spaced(ty.trim_end_matches("Stmt")))
                .because("this construct is not allowed")
                .instead("write it in a simpler way"));
        };
        if fields.as_slice() == ["*"] {
            return Ok(());
        }
        let odd = self.tree.children(at).find(|child| {
            let field = self.tree.node(*child).field;
            !field.is_empty() && !fields.contains(&field) && !self.tree.is_empty(*child)
        });
        odd.map_or(Ok(()), |child| Err(self.field(ty, child)))
    }

    /// The refusal of a field that must be empty.
    fn field(&self, ty: &str, child: usize) -> Refusal {
        let field = self.tree.node(child).field;
        match field {
            "into_clause" | "is_select_into" => self.judge.writes(
                self.judge
                    .refuse("select_into", child, "INTO")
                    .because("SELECT INTO makes a table")
                    .instead("use CREATE TABLE … AS"),
            ),
            "locking_clause" => self
                .judge
                .refuse("row_lock", child, "FOR UPDATE")
                .because("a query cannot lock rows")
                .instead("update them"),
            _ => self
                .judge
                .refuse(
                    "construct",
                    child,
                    format!("{} {}", spaced(ty), field.replace('_', " ").to_ascii_uppercase()),
                )
                .because("this construct is not allowed")
                .instead("leave it out"),
        }
    }

    fn judge_node(&mut self, at: usize, above: Place) -> Result<(), Refusal> {
        match self.tree.node(at).ty {
            "SelectStmt" => self.select(at, above),
            "InsertStmt" => self.change(StatementKind::Insert, at),
            "UpdateStmt" => self.change(StatementKind::Update, at),
            "DeleteStmt" => self.change(StatementKind::Delete, at),
            "MergeStmt" => self.change(StatementKind::Merge, at),
            "TruncateStmt" => self.judge.statement(StatementKind::Truncate, at),
            "CreateStmt" => self.judge.statement(StatementKind::CreateTable, at),
            "CreateTableAsStmt" => {
                let view = self.int(at, "objtype") == ObjectType::ObjectMatview as i64;
                let kind = if view { StatementKind::CreateView } else { StatementKind::CreateTable };
                self.judge.statement(kind, at)
            }
            "ViewStmt" => self.judge.statement(StatementKind::CreateView, at),
            "IndexStmt" => {
                self.judge.statement(StatementKind::CreateIndex, at)?;
                let name = self.text(at, "idxname");
                self.judge.thing(&[name], at)?;
                self.judge.index_method(&self.text(at, "access_method"), at)
            }
            "CreateSeqStmt" => self.judge.statement(StatementKind::CreateSequence, at),
            "CompositeTypeStmt" => self.judge.statement(StatementKind::CreateType, at),
            "CreateEnumStmt" => {
                self.judge.statement(StatementKind::CreateType, at)?;
                self.defines(at, "type_name")
            }
            "AlterEnumStmt" => {
                self.judge.statement(StatementKind::Alter, at)?;
                self.defines(at, "type_name")
            }
            "AlterSeqStmt" => self.judge.statement(StatementKind::Alter, at),
            "AlterTableStmt" => {
                self.judge.statement(StatementKind::Alter, at)?;
                self.object(at, "objtype", &[OBJECTS])
            }
            "AlterTableCmd" => self.alteration(at),
            "RenameStmt" => {
                self.judge.statement(StatementKind::Alter, at)?;
                self.object(at, "rename_type", &[OBJECTS, PARTS])?;
                self.judge.thing(&[self.text(at, "newname")], at)?;
                if self.tree.field(at, "object").is_some() { self.defines(at, "object") } else { Ok(()) }
            }
            "DropStmt" => {
                self.judge.statement(StatementKind::Drop, at)?;
                self.object(at, "remove_type", &[OBJECTS])?;
                let Some(objects) = self.tree.field(at, "objects") else { return Ok(()) };
                let objects: Vec<usize> = self.tree.children(objects).collect();
                for object in objects {
                    self.judge.relation(&self.strings(object), Access::Define, object)?;
                }
                Ok(())
            }
            "CommentStmt" => {
                self.judge.statement(StatementKind::Comment, at)?;
                self.object(at, "objtype", &[OBJECTS, PARTS])?;
                let kind = self.int(at, "objtype");
                let mut parts =
                    self.tree.field(at, "object").map(|object| self.strings(object)).unwrap_or_default();
                if PARTS.iter().any(|part| *part as i64 == kind) {
                    parts.pop();
                }
                self.judge.relation(&parts, Access::Define, at)
            }
            "RefreshMatViewStmt" => self.judge.statement(StatementKind::Refresh, at),
            "ExplainStmt" => self.judge.statement(StatementKind::Explain, at),
            "RangeVar" => self.range(at, above),
            "FuncCall" => {
                let name = self.list(at, "funcname");
                self.of_sequence = self.sequence_type(&name, at);
                self.judge.function(&name, false, at)
            }
            "TypeName" if self.of_sequence == Some(at) => Ok(()),
            "TypeName" => self.judge.type_name(&self.list(at, "names"), at),
            "ColumnRef" => {
                self.list(at, "fields").iter().skip(1).try_for_each(|name| self.judge.field(name, at))
            }
            "AIndirection" | "ResTarget" => {
                self.list(at, "indirection").iter().try_for_each(|name| self.judge.field(name, at))
            }
            "AExpr" => self.judge.operator(&self.list(at, "name"), at),
            "SubLink" => self.judge.operator(&self.list(at, "oper_name"), at),
            "SortBy" => self.judge.operator(&self.list(at, "use_op"), at),
            "CollateClause" => self.judge.thing(&self.list(at, "collname"), at),
            "IndexElem" | "PartitionElem" => {
                self.judge.thing(&self.list(at, "collation"), at)?;
                self.judge.thing(&self.list(at, "opclass"), at)
            }
            "Constraint" if self.tree.field(at, "access_method").is_some() => {
                self.judge.index_method(&self.text(at, "access_method"), at)
            }
            "SqlValueFunction" => self.value_function(at),
            "RangeTableSample" => {
                let method = self.list(at, "method");
                if matches!(method.join(".").as_str(), "bernoulli" | "system") {
                    return Ok(());
                }
                Err(self
                    .judge
                    .refuse("sample", at, method.join("."))
                    .because("this sampling method is not allowed")
                    .instead("use BERNOULLI or SYSTEM"))
            }
            "DefElem" => self.option(at, above),
            // With `WITH RECURSIVE` the names are visible in their own queries.
            "WithClause" if self.tree.field_true(at, "recursive") => {
                let ctes: Vec<usize> = (at..self.tree.end(at))
                    .filter(|index| self.tree.node(*index).ty == "CommonTableExpr")
                    .collect();
                ctes.into_iter().for_each(|cte| self.names(cte));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The `regclass` of `nextval('s'::regclass)`: the gate has read the literal.
    fn sequence_type(&self, name: &[String], at: usize) -> Option<usize> {
        let is_one = name.last().is_some_and(|name| OF_SEQUENCES.contains(&name.as_str()));
        let first = self.tree.children(self.tree.field(at, "args").filter(|_| is_one)?).next()?;
        let cast =
            (first..self.tree.end(first)).find(|index| !matches!(self.tree.node(*index).ty, "" | "Node"))?;
        if self.tree.node(cast).ty != "TypeCast" {
            return None;
        }
        let ty = self.tree.first(self.tree.field(cast, "type_name")?, "TypeName")?;
        (self.list(ty, "names") == ["regclass"]).then_some(ty)
    }

    /// A top statement, or part of another.
    fn select(&mut self, at: usize, above: Place) -> Result<(), Refusal> {
        let top = self.judge.kind().is_none();
        if top || matches!(above.ty, "ExplainStmt") {
            return self.judge.statement(StatementKind::Select, at);
        }
        Ok(())
    }

    fn change(&mut self, kind: StatementKind, at: usize) -> Result<(), Refusal> {
        let top = self.judge.kind().is_none();
        self.judge.statement(kind, at)?;
        if top {
            self.judge.returns(self.tree.field(at, "returning_clause").is_some());
        }
        Ok(())
    }

    fn object(&self, at: usize, field: &str, among: &[&[ObjectType]]) -> Result<(), Refusal> {
        let found = self.int(at, field);
        if among.iter().any(|kinds| kinds.iter().any(|kind| *kind as i64 == found)) {
            return Ok(());
        }
        Err(self
            .judge
            .refuse("object_kind", at, spaced(self.tree.node(at).ty.trim_end_matches("Stmt")))
            .because("objects of this kind are not allowed")
            .instead("tables, views, indexes, sequences and types of your own can be defined"))
    }

    fn alteration(&self, at: usize) -> Result<(), Refusal> {
        let found = self.int(at, "subtype");
        if ALTERATIONS.iter().any(|kind| *kind as i64 == found) {
            return Ok(());
        }
        let name = i32::try_from(found).ok().and_then(|found| AlterTableType::try_from(found).ok());
        let name = name.map_or("", |name| name.as_str_name());
        Err(self
            .judge
            .refuse("alter", at, name.trim_start_matches("AT_"))
            .because("this way of altering a table is not allowed")
            .instead("columns, constraints, defaults, types and names can be changed"))
    }

    /// A table, view, index or sequence.
    fn range(&mut self, at: usize, above: Place) -> Result<(), Refusal> {
        if self.text(at, "relpersistence") == "t" {
            return Err(self
                .judge
                .refuse("temp", at, "TEMPORARY")
                .because("temporary objects are not allowed")
                .instead("create a plain table and drop it when it is not needed"));
        }
        if self.text(at, "relpersistence") == "u" {
            return Err(self
                .judge
                .refuse("unlogged", at, "UNLOGGED")
                .because("a crash of the server empties what is unlogged")
                .instead("leave UNLOGGED out"));
        }
        let access = match (above.ty, above.field) {
            ("InsertStmt" | "UpdateStmt" | "DeleteStmt" | "MergeStmt", "relation") | ("TruncateStmt", _) => {
                Access::Write
            }
            (
                "CreateStmt" | "IndexStmt" | "AlterTableStmt" | "RenameStmt" | "RefreshMatViewStmt",
                "relation",
            )
            | ("IntoClause", "rel")
            | ("ViewStmt", "view")
            | ("CreateSeqStmt" | "AlterSeqStmt", "sequence")
            | ("CompositeTypeStmt", "typevar") => Access::Define,
            _ => Access::Read,
        };
        let parts: Vec<String> = ["schemaname", "relname"]
            .iter()
            .filter_map(|field| self.tree.field_str(at, field))
            .map(str::to_owned)
            .collect();
        self.judge.relation(&parts, access, at)
    }

    /// `CURRENT_DATE` and the like, which are calls without brackets.
    fn value_function(&self, at: usize) -> Result<(), Refusal> {
        let op = i32::try_from(self.int(at, "op")).ok().and_then(|op| SqlValueFunctionOp::try_from(op).ok());
        let name = match op {
            Some(SqlValueFunctionOp::SvfopCurrentCatalog) | None => "current_catalog",
            Some(SqlValueFunctionOp::SvfopCurrentSchema) => "current_schema",
            Some(
                SqlValueFunctionOp::SvfopCurrentRole
                | SqlValueFunctionOp::SvfopCurrentUser
                | SqlValueFunctionOp::SvfopUser
                | SqlValueFunctionOp::SvfopSessionUser,
            ) => "current_user",
            Some(_) => "now",
        };
        self.judge.function(&[name.to_owned()], false, at)
    }

    /// `name = value` in brackets after a definition.
    fn option(&mut self, at: usize, above: Place) -> Result<(), Refusal> {
        let name = self.text(at, "defname");
        if name == "owned_by" {
            // A column of a table, or `NONE`.
            let mut parts = self.strings(at);
            if parts.len() > 1 {
                parts.pop();
                self.judge.relation(&parts, Access::Read, at)?;
            }
        }
        match above.ty {
            "ExplainStmt" => self.judge.explain_option(&name, at),
            "CreateSeqStmt" | "AlterSeqStmt" if SEQUENCE_OPTIONS.contains(&name.as_str()) => Ok(()),
            "Constraint" if SEQUENCE_OPTIONS.contains(&name.as_str()) => Ok(()),
            // How a class of operators is set up.
            "IndexElem" => Ok(()),
            "AlterTableCmd" | "List" if SEQUENCE_OPTIONS.contains(&name.as_str()) || name == "generated" => {
                Ok(())
            }
            _ => self.judge.storage_option(&name, at),
        }
    }

    /// The object that a statement names in a list.
    fn defines(&mut self, at: usize, field: &str) -> Result<(), Refusal> {
        let parts = self.tree.field(at, field).map(|object| self.strings(object)).unwrap_or_default();
        self.judge.relation(&parts, Access::Define, at)
    }

    fn int(&self, at: usize, field: &str) -> i64 {
        match self.tree.field(at, field).map(|child| &self.tree.node(child).value) {
            Some(Value::Int(number)) => *number,
            _ => 0,
        }
    }

    fn text(&self, at: usize, field: &str) -> String {
        self.tree.field_str(at, field).unwrap_or_default().to_owned()
    }

    /// The names directly in a field's list; other elements are ignored.
    fn list(&self, at: usize, field: &str) -> Vec<String> {
        let Some(list) = self.tree.field(at, field) else { return Vec::new() };
        self.tree.children(list).filter_map(|element| self.string(element)).collect()
    }

    /// The text of a `Node` that contains a name.
    fn string(&self, element: usize) -> Option<String> {
        let at =
            (element..self.tree.end(element)).find(|index| !matches!(self.tree.node(*index).ty, "Node"))?;
        (self.tree.node(at).ty == "String").then(|| self.text(at, "sval"))
    }

    /// All names in a subtree: the parts of one object's name.
    fn strings(&self, at: usize) -> Vec<String> {
        (at..self.tree.end(at))
            .filter(|index| self.tree.node(*index).ty == "String")
            .map(|index| self.text(index, "sval"))
            .collect()
    }
}
