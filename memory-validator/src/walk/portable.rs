//! The walk over the portable grammar's tree.
//!
//! Each node must be in [`NODES`], with no content in fields not listed there. Names are judged by their place; a name
//! in an unexpected place is judged as a table.

use std::collections::HashMap;
use std::sync::LazyLock;

use sqlparser::tokenizer::Location;

use super::judge::Judge;
use super::portable_nodes::NODES;
use crate::gate::token::Lexed;
use crate::grammar::flat_tree::{Tree, Value, deep};
use crate::grammar::location::position;
use crate::policy::{Mode, Policy};
use crate::verdict::{Accepted, Access, Position, Refusal, StatementKind};

static ALLOWED: LazyLock<HashMap<String, Vec<&str>>> = LazyLock::new(|| {
    let mut allowed = HashMap::new();
    for (nodes, fields) in NODES {
        let fields: Vec<&str> = fields.split_whitespace().collect();
        match nodes.split_once("::") {
            None => drop(allowed.insert((*nodes).to_owned(), fields)),
            Some((ty, variants)) => allowed
                .extend(variants.split('|').map(|variant| (format!("{ty}::{variant}"), fields.clone()))),
        }
    }
    allowed
});

/// Walks the tree of one statement.
pub(crate) fn walk(lexed: &Lexed<'_>, tree: &Tree, mode: Mode, policy: &Policy) -> Result<Accepted, Refusal> {
    let mut walk = Walk {
        tree,
        judge: Judge::new(lexed.dialect, mode, policy),
        targets: Vec::new(),
        key: String::new(),
    };
    let walked = walk.visit(0, Place::default());
    walked.and_then(|()| walk.judge.accepted()).map_err(|mut refusal| {
        refusal.position = place(lexed, tree, refusal.position.offset);
        refusal
    })
}

/// The approximate start of a node in the text: its first known place, or the last one before it.
fn place(lexed: &Lexed<'_>, tree: &Tree, at: usize) -> Position {
    let place = |index: usize| match tree.node(index).value {
        Value::At(line, column) if line > 0 => Some(Location { line: line.into(), column: column.into() }),
        _ => None,
    };
    let whole = at <= 1 && tree.node(at).ty != "Ident";
    let found = (at..tree.end(at)).find_map(place).or_else(|| (0..at).rev().find_map(place));
    match found {
        Some(place) if !whole => position(lexed.sql, place),
        _ => lexed.at(0).map(|token| lexed.position(token)).unwrap_or_default(),
    }
}

/// The context of a node: the nearest enclosing type, and the field.
#[derive(Clone, Copy, Default)]
struct Place {
    ty: &'static str,
    variant: &'static str,
    field: &'static str,
    /// Whether that node has arguments: `f(x)` in FROM.
    called: bool,
}

/// What a name with several parts refers to.
enum Role {
    Relation(Access),
    Function {
        table: bool,
    },
    Type,
    Operator,
    /// A column, with its table perhaps.
    Column,
    /// A constraint, a collation, an operator class.
    Thing,
}

struct Walk<'p> {
    tree: &'p Tree,
    judge: Judge<'p>,
    /// Nodes of names that are written to.
    targets: Vec<usize>,
    key: String,
}

impl Walk<'_> {
    fn visit(&mut self, at: usize, above: Place) -> Result<(), Refusal> {
        let node = self.tree.node(at);
        let (ty, variant, field) = (node.ty, node.variant, node.field);
        if ty == "Location" || ty == "Span" || ty == "AttachedToken" {
            return Ok(());
        }
        let mut here = above;
        if ty.is_empty() {
            if !field.is_empty() {
                here.field = field;
            }
        } else {
            self.known(at)?;
            here = Place {
                ty,
                variant,
                field: "",
                called: ty == "TableFactor"
                    && self.tree.field(at, "args").is_some_and(|args| !self.is_absent(args)),
            };
        }
        let above = Place { field: if field.is_empty() { above.field } else { field }, ..above };
        let scope = self.judge.ctes();
        self.judge_node(at, above)?;
        // The common table expressions of a query are visible in all of it, although they are in one field.
        let first = if ty == "Query" { self.tree.field(at, "with") } else { None };
        if let Some(with) = first {
            deep(|| self.visit(with, here))?;
        }
        for child in self.tree.children(at) {
            if Some(child) != first {
                let field = self.tree.node(child).field;
                let place = Place { field: if field.is_empty() { here.field } else { field }, ..here };
                deep(|| self.visit(child, place))?;
            }
        }
        match ty {
            "Query" => self.judge.leave(scope),
            "Cte" => self.names(at, "alias"),
            _ => {}
        }
        Ok(())
    }

    fn is_absent(&self, at: usize) -> bool {
        self.tree.node(at).value == Value::Absent
    }

    /// Makes a common table expression visible.
    fn names(&mut self, cte: usize, field: &str) {
        let ident = self.tree.field(cte, field).and_then(|alias| self.tree.first(alias, "Ident"));
        if let Some(ident) = ident {
            let name = self.ident(ident);
            self.judge.see(name);
        }
    }

    /// Refuses a kind of node, or a field, that is not listed.
    fn known(&mut self, at: usize) -> Result<(), Refusal> {
        let node = self.tree.node(at);
        let fields = if node.variant.is_empty() {
            ALLOWED.get(node.ty)
        } else {
            self.key.clear();
            self.key.push_str(node.ty);
            self.key.push_str("::");
            self.key.push_str(node.variant);
            ALLOWED
                .get(self.key.as_str())
                .or_else(|| ALLOWED.get(node.ty).filter(|fields| fields.as_slice() == ["*"]))
        };
        let Some(fields) = fields else {
            let construct = if node.variant.is_empty() { node.ty } else { node.variant };
            let rule = if node.ty == "Statement" { "statement_kind" } else { "construct" };
            return Err(self
                .refuse(rule, at, spaced(construct))
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
        match odd {
            None => Ok(()),
            Some(child) => Err(self.field(node.ty, child)),
        }
    }

    /// The refusal of a field that must be empty.
    fn field(&self, ty: &str, child: usize) -> Refusal {
        let field = self.tree.node(child).field;
        let refuse = |rule, construct: &str| self.refuse(rule, child, construct);
        match field {
            "into" => self.judge.writes(
                refuse("select_into", "INTO")
                    .because("SELECT INTO makes a table")
                    .instead("use CREATE TABLE … AS"),
            ),
            "locks" | "for_clause" => {
                refuse("row_lock", "FOR UPDATE").because("a query cannot lock rows").instead("update them")
            }
            "temporary" => refuse("temp", "TEMPORARY")
                .because("temporary objects are not allowed")
                .instead("create a plain table and drop it when it is not needed"),
            "unlogged" => refuse("unlogged", "UNLOGGED")
                .because("a crash of the server empties what is unlogged")
                .instead("leave UNLOGGED out"),
            _ => refuse(
                "construct",
                &format!("{} {}", spaced(ty), field.replace('_', " ").to_ascii_uppercase()),
            )
            .because("this construct is not allowed")
            .instead("leave it out"),
        }
    }

    fn judge_node(&mut self, at: usize, above: Place) -> Result<(), Refusal> {
        let node = self.tree.node(at);
        match (node.ty, node.variant) {
            ("Statement", variant) => self.statement(at, variant),
            ("SetExpr", "Insert" | "Update" | "Delete" | "Merge") => Ok(()),
            // With `WITH RECURSIVE` the names are visible in their own queries; the engine also makes them visible in
            // later ones.
            ("With", _) if self.tree.field_true(at, "recursive") => {
                let list = self.tree.field(at, "cte_tables");
                let ctes: Vec<usize> =
                    list.map(|list| self.tree.children(list).collect()).unwrap_or_default();
                ctes.into_iter().for_each(|cte| self.names(cte, "alias"));
                Ok(())
            }
            ("ObjectName", _) => self.name(at, above),
            ("AccessExpr", "Dot") => self.parts(at).iter().try_for_each(|name| self.judge.field(name, at)),
            ("Table", _) => {
                let text = |field| self.tree.field_str(at, field).map(str::to_owned);
                let parts: Vec<String> =
                    [text("schema_name"), text("table_name")].into_iter().flatten().collect();
                // Whether the name was quoted is lost, so both readings must be allowed.
                let folded: Vec<String> = parts.iter().map(|part| part.to_ascii_lowercase()).collect();
                self.judge.relation(&folded, Access::Read, at)
            }
            ("Expr", variant) => self.expression(at, variant),
            ("TableFactor", "JsonTable") => self.judge.function(&["json_table".to_owned()], true, at),
            ("TableFactor", "UNNEST") => self.judge.function(&["unnest".to_owned()], true, at),
            ("BinaryOperator", "PGCustomBinaryOperator") | ("ExcludeConstraintOperator", "PGOperator") => {
                let parts: Vec<String> = self.strings(at);
                self.judge.operator(&parts, at)
            }
            ("BinaryOperator", "Custom") | ("DataType", "Custom") => Ok(()),
            ("SqlOption", "KeyValue") | ("UtilityOption", _) => {
                let field = if node.ty == "SqlOption" { "key" } else { "name" };
                let key = self
                    .tree
                    .field(at, field)
                    .map(|key| self.ident(key).to_ascii_lowercase())
                    .unwrap_or_default();
                if node.ty == "SqlOption" {
                    self.judge.storage_option(&key, at)
                } else {
                    self.judge.explain_option(&key, at)
                }
            }
            ("CreateIndex", _) => self.index_options(at),
            ("IndexType", "Custom") => {
                let method = self
                    .tree
                    .first(at, "Ident")
                    .map(|ident| self.ident(ident).to_ascii_lowercase())
                    .unwrap_or_default();
                self.judge.index_method(&method, at)
            }
            ("Update", _) => self.target(at, "table"),
            ("Delete", _) => self.target(at, "from"),
            ("Merge", _) => self.target(at, "table"),
            ("Function", _) => self.raise(at),
            _ => Ok(()),
        }
    }

    fn statement(&mut self, at: usize, variant: &str) -> Result<(), Refusal> {
        use StatementKind as Kind;
        let kind = match variant {
            "Query" => {
                // `WITH … INSERT` is an insert, whatever its common table expressions do.
                if self.judge.kind().is_none() {
                    let body = self.tree.children(at).next().and_then(|query| self.tree.field(query, "body"));
                    let change = body.and_then(|body| self.tree.children(body).next());
                    if let Some(change) = change.filter(|change| self.tree.node(*change).ty == "Statement") {
                        return self.statement(change, self.tree.node(change).variant);
                    }
                }
                Kind::Select
            }
            "Insert" => Kind::Insert,
            "Update" => Kind::Update,
            "Delete" => Kind::Delete,
            "Merge" => Kind::Merge,
            "Truncate" => Kind::Truncate,
            "Explain" => {
                if self.tree.field_true(at, "analyze") {
                    self.judge.explain_option("analyze", at)?;
                }
                Kind::Explain
            }
            "CreateTable" => Kind::CreateTable,
            "CreateVirtualTable" => {
                let module =
                    self.tree.field(at, "module_name").map(|name| self.ident(name)).unwrap_or_default();
                if !self.judge.policy().modules.contains(&module) {
                    return Err(self
                        .refuse("module", at, module)
                        .because("virtual tables with this module are not allowed")
                        .instead("use fts5 for text, rtree for ranges"));
                }
                Kind::CreateVirtualTable
            }
            "CreateView" => Kind::CreateView,
            "CreateIndex" => Kind::CreateIndex,
            "CreateTrigger" => Kind::CreateTrigger,
            "CreateSequence" => Kind::CreateSequence,
            "CreateType" => Kind::CreateType,
            "AlterTable" | "AlterIndex" | "AlterType" => Kind::Alter,
            "Drop" | "DropTrigger" => Kind::Drop,
            "Comment" => Kind::Comment,
            "Analyze" => Kind::Analyze,
            // Not a known node.
            _ => {
                return Err(self
                    .refuse("statement_kind", at, spaced(variant))
                    .because("this is not allowed"));
            }
        };
        let top = self.judge.kind().is_none();
        self.judge.statement(kind, at)?;
        if top && matches!(kind, Kind::Insert | Kind::Update | Kind::Delete | Kind::Merge) {
            let change = self.tree.children(at).next().unwrap_or(at);
            let returning = ["returning", "output"].iter().filter_map(|field| self.tree.field(change, field));
            let returning = returning.into_iter().any(|field| !self.is_absent(field));
            self.judge.returns(returning);
        }
        Ok(())
    }

    fn expression(&mut self, at: usize, variant: &str) -> Result<(), Refusal> {
        let function = match variant {
            "CompoundIdentifier" => {
                return self.parts(at).iter().skip(1).try_for_each(|name| self.judge.field(name, at));
            }
            // A call with a separate kind of node.
            "Ceil" => "ceil",
            "Floor" => "floor",
            "Position" => "position",
            "Substring" => "substring",
            "Trim" => "trim",
            "Overlay" => "overlay",
            "Extract" => "extract",
            "AtTimeZone" => "timezone",
            "IsNormalized" => "is_normalized",
            // `date '2024-01-01'`: to SQLite a column with its alias, or a call with its alias.
            "TypedString" if !self.judge.is_postgres() => {
                return Err(self
                    .refuse("construct", at, "TYPED STRING")
                    .because("a literal cannot have a type before it here")
                    .instead("write just the literal"));
            }
            _ => return Ok(()),
        };
        self.judge.function(&[function.to_owned()], false, at)
    }

    /// `RAISE(ROLLBACK, …)` would end the runtime's transaction.
    fn raise(&mut self, at: usize) -> Result<(), Refusal> {
        let name = self.tree.field(at, "name").map(|name| self.parts(name)).unwrap_or_default();
        let end = self.tree.end(at);
        let rolls_back = |index: usize| {
            self.tree.node(index).ty == "Ident" && self.ident(index).eq_ignore_ascii_case("rollback")
        };
        if !self.judge.is_postgres() && name == ["raise"] && (at..end).any(rolls_back) {
            return Err(self
                .refuse("conflict_rollback", at, "RAISE(ROLLBACK")
                .because("a trigger may not end the transaction")
                .instead("use RAISE(ABORT, …)"));
        }
        Ok(())
    }

    /// `WITH (fillfactor = 70)`, which this grammar reads as a list of comparisons.
    fn index_options(&mut self, at: usize) -> Result<(), Refusal> {
        let Some(list) = self.tree.field(at, "with") else { return Ok(()) };
        let options: Vec<usize> = self.tree.children(list).collect();
        for option in options {
            let key = self.tree.first(option, "Ident").map(|ident| self.ident(ident)).unwrap_or_default();
            self.judge.storage_option(&key, option)?;
        }
        Ok(())
    }

    /// Records the name of a written relation.
    fn target(&mut self, at: usize, field: &str) -> Result<(), Refusal> {
        let field = self.tree.field(at, field);
        if let Some(name) = field.and_then(|field| self.tree.first(field, "ObjectName")) {
            self.targets.push(name);
        }
        Ok(())
    }

    /// A name with several parts, judged by its place.
    fn name(&mut self, at: usize, above: Place) -> Result<(), Refusal> {
        let mut parts = self.parts(at);
        if above.variant == "Comment" && self.comments_on_column(at) {
            parts.pop();
        }
        match self.role(at, above) {
            Role::Relation(access) => self.judge.relation(&parts, access, at),
            Role::Function { table } => self.judge.function(&parts, table, at),
            Role::Type => self.judge.type_name(&parts, at),
            Role::Operator => self.judge.operator(&parts, at),
            Role::Thing => self.judge.thing(&parts, at),
            // Its parts are judged one by one.
            Role::Column => Ok(()),
        }
    }

    fn role(&self, at: usize, above: Place) -> Role {
        match (above.ty, above.variant, above.field) {
            ("Function", _, "name") if !self.judge.is_postgres() && self.parts(at) == ["raise"] => {
                Role::Column
            }
            ("Function", _, "name") => Role::Function { table: false },
            ("TableFactor", "Table", "name") if above.called => Role::Function { table: true },
            ("TableFactor", "Function", "name") => Role::Function { table: true },
            ("DataType", "Custom", _) => Role::Type,
            ("OrderBySort", "Using", _) => Role::Operator,
            ("Expr", "Collate", "collation")
            | ("ColumnOption", "Collation", _)
            | ("UserDefinedTypeCompositeAttributeDef", _, "collation")
            | ("ConflictTarget", "OnConstraint", _)
            | ("IndexColumn", _, "operator_class")
            | ("CreateIndex", _, "name")
            | ("RenameTableNameKind" | "AlterIndexOperation", _, _) => Role::Thing,
            ("Insert" | "MergeInsertExpr", _, "columns")
            | (
                "AssignmentTarget" | "JoinConstraint" | "FunctionArgExpr" | "SelectItemQualifiedWildcardKind",
                _,
                _,
            )
            | ("Expr", "QualifiedWildcard", _)
            | ("Statement", "CreateSequence", "owned_by") => Role::Column,
            ("TableObject" | "TruncateTableTarget", _, _) => Role::Relation(Access::Write),
            (
                "CreateTable" | "CreateView" | "CreateIndex" | "CreateTrigger" | "AlterTable" | "AlterType"
                | "DropTrigger",
                _,
                "name" | "table_name" | "trigger_name",
            )
            | ("Statement", _, "name" | "names" | "object_name") => Role::Relation(Access::Define),
            _ if self.targets.contains(&at) => Role::Relation(Access::Write),
            _ => Role::Relation(Access::Read),
        }
    }

    /// Whether the statement is `COMMENT ON COLUMN`, which occurs only at the top.
    fn comments_on_column(&self, at: usize) -> bool {
        let kind = (0..at).rev().find(|index| self.tree.node(*index).ty == "CommentObject");
        kind.is_some_and(|kind| self.tree.node(kind).variant == "Column")
    }

    /// The parts of a name, folded.
    fn parts(&self, at: usize) -> Vec<String> {
        let end = self.tree.end(at);
        (at..end)
            .filter(|index| self.tree.node(*index).ty == "Ident")
            .map(|index| self.ident(index))
            .collect()
    }

    fn strings(&self, at: usize) -> Vec<String> {
        let end = self.tree.end(at);
        (at..end).filter_map(|index| self.tree.str(index)).map(str::to_owned).collect()
    }

    /// A name without quotes, as the engine folds it.
    fn ident(&self, at: usize) -> String {
        let value = self.tree.field_str(at, "value").unwrap_or_default();
        let quoted = self.tree.field(at, "quote_style").is_some_and(|quote| !self.is_absent(quote));
        if quoted && self.judge.is_postgres() { value.to_owned() } else { value.to_ascii_lowercase() }
    }

    fn refuse(&self, rule: &'static str, at: usize, construct: impl Into<String>) -> Refusal {
        self.judge.refuse(rule, at, construct)
    }
}

/// `CreateFunction` as `CREATE FUNCTION`.
pub(super) fn spaced(name: &str) -> String {
    let mut words = String::new();
    let mut before = 'A';
    for character in name.chars() {
        if character.is_ascii_uppercase() && before.is_ascii_lowercase() {
            words.push(' ');
        }
        words.push(character.to_ascii_uppercase());
        before = character;
    }
    words
}
