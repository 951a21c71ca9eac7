//! Decisions about names and kinds, for every kind of tree.

use std::collections::{HashMap, HashSet};

use crate::policy::postgres::{OF_SEQUENCES, element, is_denied_field, is_denied_function, is_denied_type};
use crate::policy::{Dialect, Mode, Policy};
use crate::verdict::{Accepted, Access, Position, Refusal, Relation, Stage, StatementKind};

/// The findings about a statement so far.
pub(crate) struct Judge<'p> {
    dialect: Dialect,
    mode: Mode,
    policy: &'p Policy,
    kind: Option<StatementKind>,
    returning: bool,
    relations: Vec<Relation>,
    mentioned: HashSet<Relation>,
    /// Visible names of common table expressions, with their counts.
    ctes: Vec<String>,
    visible: HashMap<String, usize>,
}

impl<'p> Judge<'p> {
    pub(crate) fn new(dialect: Dialect, mode: Mode, policy: &'p Policy) -> Self {
        Self {
            dialect,
            mode,
            policy,
            kind: None,
            returning: false,
            relations: Vec::new(),
            mentioned: HashSet::new(),
            ctes: Vec::new(),
            visible: HashMap::new(),
        }
    }

    /// The number of visible common table expressions.
    pub(crate) fn ctes(&self) -> usize {
        self.ctes.len()
    }

    /// Makes one visible from here on.
    pub(crate) fn see(&mut self, cte: String) {
        *self.visible.entry(cte.clone()).or_default() += 1;
        self.ctes.push(cte);
    }

    /// Leaves a query, keeping only the first `count` names.
    pub(crate) fn leave(&mut self, ctes: usize) {
        for cte in self.ctes.drain(ctes.min(self.ctes.len())..) {
            if let Some(count) = self.visible.get_mut(&cte) {
                *count -= 1;
            }
        }
    }

    pub(crate) fn policy(&self) -> &'p Policy {
        self.policy
    }

    pub(crate) fn is_postgres(&self) -> bool {
        self.dialect == Dialect::Postgres
    }

    /// The verdict at the end.
    pub(crate) fn accepted(self) -> Result<Accepted, Refusal> {
        let Some(kind) = self.kind else {
            return Err(self.refuse("statement_kind", 0, "statement").because("there is no statement"));
        };
        let mut accepted = Accepted::new(kind);
        accepted.returning = self.returning;
        accepted.relations = self.relations;
        Ok(accepted)
    }

    /// A refusal at a node; the walk turns it into a position in the text.
    pub(crate) fn refuse(&self, rule: &'static str, node: usize, construct: impl Into<String>) -> Refusal {
        let construct: String = construct.into();
        let construct = construct.chars().take(80).collect::<String>();
        Refusal::new(Stage::Walk, rule, Position { offset: node, line: 0, column: 0 }, construct)
    }

    /// Marks a refusal as that of a write where only reads are allowed.
    pub(crate) fn writes(&self, refusal: Refusal) -> Refusal {
        if self.mode == Mode::Query { refusal.writing() } else { refusal }
    }

    /// A statement, or one nested in another: in a common table expression or a trigger.
    pub(crate) fn statement(&mut self, kind: StatementKind, node: usize) -> Result<(), Refusal> {
        let name = kind.name().replace('_', " ").to_ascii_uppercase();
        if !self.policy.statements.contains(&kind) {
            return Err(self
                .refuse("statement_kind", node, name)
                .because("statements of this kind are not allowed")
                .instead("use statements that read, write or define your own tables"));
        }
        if self.mode == Mode::Query && !kind.reads_only() {
            return Err(self
                .refuse("read_only", node, name)
                .because("this statement writes, and only reading is allowed here")
                .instead("execute it instead of querying")
                .writing());
        }
        match self.kind {
            None => self.kind = Some(kind),
            Some(StatementKind::Explain) if !kind.reads_only() => {
                return Err(self
                    .refuse("explain", node, name)
                    .because("only statements that read can be explained")
                    .instead("explain the SELECT in it"));
            }
            // `WITH gone AS (DELETE … RETURNING *) SELECT …` is a delete that returns rows.
            Some(StatementKind::Select) if !kind.reads_only() => {
                self.kind = Some(kind);
                self.returning = true;
            }
            // A statement that also grows data does not count as freeing space.
            Some(before) if before.frees() && !kind.reads_only() && !kind.frees() => self.kind = Some(kind),
            Some(_) => {}
        }
        Ok(())
    }

    /// Whether the top statement returns rows in addition to its effect.
    pub(crate) fn returns(&mut self, returning: bool) {
        self.returning = returning;
    }

    /// Whether a statement has been seen.
    pub(crate) fn kind(&self) -> Option<StatementKind> {
        self.kind
    }

    fn is_reserved(&self, name: &str) -> bool {
        self.policy.is_reserved(&name.to_ascii_lowercase())
    }

    /// A table, view, index, sequence or type by its full name.
    pub(crate) fn relation(&mut self, parts: &[String], access: Access, node: usize) -> Result<(), Refusal> {
        let construct = parts.join(".");
        let (schema, name) = match parts {
            [name] => (None, name),
            [schema, name] => (Some(schema), name),
            _ => {
                return Err(self
                    .refuse("qualified_name", node, construct)
                    .because("a name can have only one schema")
                    .instead("use the table's name alone"));
            }
        };
        if let Some(schema) = schema {
            if !self.policy.knows_schema(schema) {
                return Err(self
                    .refuse("schema", node, construct)
                    .because("this schema is not yours")
                    .instead("name the table without a schema"));
            }
            if access != Access::Read
                && self.policy.read_only_schemas.contains(schema)
                && !self.policy.schemas.contains(schema)
            {
                return Err(self
                    .refuse("schema_read_only", node, construct)
                    .because("this schema is read-only")
                    .instead("write to a table of your own"));
            }
        }
        if self.is_reserved(name) && !(access == Access::Read && self.policy.readable.contains(name)) {
            return Err(self
                .refuse("reserved", node, construct)
                .because("this name belongs to the engine or the runtime")
                .instead("use your own tables"));
        }
        if schema.is_none()
            && access == Access::Read
            && self.visible.get(name).is_some_and(|count| *count > 0)
        {
            return Ok(());
        }
        let relation = Relation::new(schema.cloned(), name.clone(), access);
        if self.mentioned.insert(relation.clone()) {
            self.relations.push(relation);
        }
        Ok(())
    }

    /// Any other named object: a constraint, a collation, an operator class.
    pub(crate) fn thing(&self, parts: &[String], node: usize) -> Result<(), Refusal> {
        let schemas = parts.split_last().map_or(&[][..], |(_, schemas)| schemas);
        let foreign = schemas.iter().any(|schema| !self.is_own_schema(schema));
        if foreign || parts.last().is_some_and(|name| self.is_reserved(name)) {
            return Err(self
                .refuse("reserved", node, parts.join("."))
                .because("this name is not yours")
                .instead("use a name without a schema"));
        }
        Ok(())
    }

    fn is_own_schema(&self, schema: &str) -> bool {
        self.policy.knows_schema(schema) || (self.is_postgres() && schema == "pg_catalog")
    }

    /// A name after a dot, of a column or a field. If there is no such column or field, `x.name` calls a function or
    /// casts to a type.
    pub(crate) fn field(&self, name: &str, node: usize) -> Result<(), Refusal> {
        let denied = is_denied_field(name) && (!self.allows(name) || OF_SEQUENCES.contains(&name));
        if self.is_postgres() && denied {
            return Err(self
                .refuse("reserved", node, name)
                .because("this name belongs to the engine, even for a column")
                .instead("use another name"));
        }
        Ok(())
    }

    fn allows(&self, name: &str) -> bool {
        self.policy.functions.contains(name) || self.policy.table_functions.contains(name)
    }

    /// A call; `table` if it is in FROM.
    pub(crate) fn function(&self, parts: &[String], table: bool, node: usize) -> Result<(), Refusal> {
        let construct = format!("{}(", parts.join("."));
        let refusal = || {
            self.refuse("function", node, construct.as_str())
                .because("this function is not allowed")
                .instead("use the functions on strings, numbers, dates, JSON and aggregates; functions cannot be defined")
        };
        let name = match parts {
            [name] => name,
            [schema, name] if self.is_postgres() && schema == "pg_catalog" => name,
            _ => return Err(refusal()),
        };
        let name = if self.is_postgres() { name.clone() } else { name.to_ascii_lowercase() };
        // On PostgreSQL every function is allowed in FROM, and one that returns rows in an expression.
        let allowed = match (self.dialect, table) {
            (Dialect::Sqlite, true) => self.policy.table_functions.contains(&name),
            (Dialect::Sqlite, false) => self.policy.functions.contains(&name),
            (Dialect::Postgres, _) => {
                self.allows(&name) && (!is_denied_function(&name) || self.policy.functions.contains(&name))
            }
        };
        if allowed { Ok(()) } else { Err(refusal()) }
    }

    /// A type in a cast or a column.
    pub(crate) fn type_name(&self, parts: &[String], node: usize) -> Result<(), Refusal> {
        if self.policy.types.is_empty() {
            return Ok(());
        }
        let refusal = || {
            self.refuse("type", node, parts.join("."))
                .because("this type is not allowed")
                .instead("use numbers, text, dates, JSON, arrays, or a type you created")
        };
        let (schema, name) = match parts {
            [name] => (None, name),
            [schema, name] if self.is_own_schema(schema) => (Some(schema.as_str()), name),
            _ => return Err(refusal()),
        };
        let element = element(name);
        if self.policy.types.contains(name) || self.policy.types.contains(element) {
            return Ok(());
        }
        // Other engine types are refused; remaining names can only be the agent's own types.
        let engines = schema == Some("pg_catalog")
            || is_denied_type(name)
            || self.is_reserved(name)
            || self.is_reserved(element);
        if engines { Err(refusal()) } else { Ok(()) }
    }

    /// An operator written `OPERATOR(schema.op)`.
    pub(crate) fn operator(&self, parts: &[String], node: usize) -> Result<(), Refusal> {
        let schemas = parts.split_last().map_or(&[][..], |(_, schemas)| schemas);
        if schemas.iter().all(|schema| schema == "pg_catalog") {
            return Ok(());
        }
        Err(self
            .refuse("operator", node, parts.join("."))
            .because("operators from this schema are not allowed")
            .instead("write just the operator"))
    }

    /// A storage parameter of a table, view or index.
    pub(crate) fn storage_option(&self, name: &str, node: usize) -> Result<(), Refusal> {
        const ALLOWED: &[&str] = &[
            "fillfactor",
            "fastupdate",
            "gin_pending_list_limit",
            "pages_per_range",
            "autosummarize",
            "buffering",
            "deduplicate_items",
            "m",
            "ef_construction",
            "lists",
            "security_barrier",
            "security_invoker",
            "check_option",
        ];
        if ALLOWED.contains(&name) {
            return Ok(());
        }
        Err(self
            .refuse("storage_option", node, name)
            .because("this storage parameter is not allowed")
            .instead("leave it out"))
    }

    /// How an index is kept.
    pub(crate) fn index_method(&self, name: &str, node: usize) -> Result<(), Refusal> {
        const ALLOWED: &[&str] = &["btree", "hash", "gin", "gist", "spgist", "brin", "hnsw", "ivfflat"];
        if ALLOWED.contains(&name) {
            return Ok(());
        }
        Err(self
            .refuse("index_method", node, name)
            .because("indexes of this kind are not allowed")
            .instead("use btree, hash, gin, gist, spgist, brin, hnsw or ivfflat"))
    }

    /// `EXPLAIN ANALYZE`, which runs the statement.
    pub(crate) fn explain_option(&self, name: &str, node: usize) -> Result<(), Refusal> {
        const ALLOWED: &[&str] = &["costs", "verbose", "format", "summary", "generic_plan", "memory"];
        let runs =
            matches!(name, "analyze" | "buffers" | "timing" | "wal" | "serialize") && self.mode == Mode::Exec;
        if runs || ALLOWED.contains(&name) {
            return Ok(());
        }
        Err(self
            .refuse("explain", node, format!("EXPLAIN ({name})"))
            .because("this option of EXPLAIN is not allowed here")
            .instead("explain without running the statement"))
    }
}
