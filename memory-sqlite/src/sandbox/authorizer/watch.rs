//! The boundary: every action of a statement is denied unless it is known.
//!
//! The engine does some things for an agent that the agent may not do itself: `CREATE TABLE` inserts into
//! `sqlite_schema`, `ANALYZE` writes `sqlite_stat1`, a full-text table writes its shadow tables. The authorizer is
//! asked about these too, often before it learns the reason. They stay *pending* until the statement is compiled,
//! and it runs only if the reason came: see [`Watch::finish`].

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use memory_validator::{Dialect, Mode, Policy};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// What is being compiled, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sandbox) enum Phase {
    /// Nothing may be compiled.
    Closed,
    /// The runtime's own statements.
    Trusted,
    /// The runtime drops everything the agent created.
    Clearing,
    /// The runtime begins or ends a transaction. Virtual tables then write what they buffered.
    Bracketing,
    /// An agent's statement.
    Compiling(Mode),
    /// An agent's query that may read only known tables: see [`Watch::tables`].
    CompilingInline,
    /// Statements that virtual tables compile while an agent's statement runs.
    Running(Mode),
}

/// What was denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sandbox) struct Denied {
    /// The construct, for the agent.
    pub(in crate::sandbox) construct: String,
    /// Whether it was denied because a query may not write.
    pub(in crate::sandbox) writes: bool,
}

/// Why the engine may write its own tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Define,
    Alter,
    Analyze,
}

/// Suffixes of the names of shadow tables of full-text and r-tree tables.
const SHADOWS: [&str; 8] = ["_data", "_idx", "_content", "_docsize", "_config", "_node", "_rowid", "_parent"];

/// Pragmas of the runtime's own statements.
const TRUSTED_PRAGMAS: [&str; 11] = [
    "page_count",
    "freelist_count",
    "page_size",
    "max_page_count",
    "query_only",
    "table_xinfo",
    "index_list",
    "schema_version",
    "user_version",
    "wal_checkpoint",
    "table_list",
];

/// Functions that the engine calls in the statements ALTER TABLE is made of.
const ALTER_FUNCTIONS: [&str; 12] = [
    "sqlite_rename_column",
    "sqlite_rename_table",
    "sqlite_rename_test",
    "sqlite_rename_quotefix",
    "sqlite_drop_column",
    "sqlite_drop_constraint",
    "sqlite_add_constraint",
    "sqlite_find_constraint",
    "sqlite_fail",
    "substr",
    "like",
    "printf",
];

/// Operators that the engine implements as functions.
const OPERATORS: [&str; 3] = ["match", "->", "->>"];

/// The policy is the same on every connection.
static POLICY: LazyLock<Policy> = LazyLock::new(|| Policy::new(Dialect::Sqlite));

/// The authorizer's state for one statement.
#[derive(Debug)]
pub(in crate::sandbox) struct Watch {
    policy: &'static Policy,
    /// Modules whose tables need no CREATE: such a name is never an agent's table.
    modules: Arc<BTreeSet<String>>,
    shared: BTreeSet<String>,
    armed: bool,
    phase: Phase,
    reason: Option<Reason>,
    /// The first internal table that the statement touches.
    pending: Option<String>,
    /// Names that are shadow tables if a virtual table of that name exists.
    suspects: Vec<String>,
    denied: Option<Denied>,
    writes_rows: bool,
    /// Whether it reads by `SELECT` or `VALUES`.
    selects: bool,
    names_virtual: bool,
    second: bool,
    /// Relations whose rows the statement reads; `None`: also through a view.
    relations: Option<Vec<String>>,
    /// Whether anything was compiled.
    compiles: bool,
    /// Ordinary tables, known to store their own rows.
    tables: BTreeSet<String>,
}

impl Watch {
    pub(in crate::sandbox) fn new(armed: bool, shared: BTreeSet<String>) -> Self {
        Self {
            policy: &POLICY,
            modules: Arc::default(),
            shared,
            armed,
            phase: Phase::Trusted,
            reason: None,
            pending: None,
            suspects: Vec::new(),
            denied: None,
            writes_rows: false,
            selects: false,
            names_virtual: false,
            second: false,
            relations: Some(Vec::new()),
            compiles: false,
            tables: BTreeSet::new(),
        }
    }

    /// Tables that inline queries may read.
    pub(in crate::sandbox) fn tables(&mut self) -> &mut BTreeSet<String> {
        &mut self.tables
    }

    /// Sets the connection's modules.
    pub(in crate::sandbox) fn set_modules(&mut self, modules: Arc<BTreeSet<String>>) {
        self.modules = modules;
    }

    /// Starts a new statement.
    pub(in crate::sandbox) fn begin(&mut self, phase: Phase) {
        self.phase = phase;
        self.reason = None;
        self.pending = None;
        self.suspects.clear();
        self.denied = None;
        self.writes_rows = false;
        self.selects = false;
        self.names_virtual = false;
        self.second = false;
        self.relations = Some(Vec::new());
        self.compiles = false;
    }

    /// Starts compiling the same statement again: its virtual tables are open now, so everything compiled belongs
    /// to it.
    pub(in crate::sandbox) fn begin_again(&mut self, phase: Phase) {
        self.begin(phase);
        self.second = true;
    }

    /// Whether the statement must be compiled again, to tell its own actions from those of opening a virtual table.
    pub(in crate::sandbox) fn needs_second_look(&self) -> bool {
        !self.second && !self.suspects.is_empty()
    }

    /// Changes the phase within the same statement.
    pub(in crate::sandbox) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Whether a function is one that agents may call.
    pub(in crate::sandbox) fn knows_function(&self, name: &str) -> bool {
        self.function(name).is_ok()
    }

    /// Whether a relation of this name could belong to an agent.
    pub(in crate::sandbox) fn knows_relation(&self, name: &str) -> bool {
        self.own(name).is_ok() && !self.policy.reserved_names.contains(&name.to_ascii_lowercase())
    }

    /// The first thing denied.
    pub(in crate::sandbox) fn take_denied(&mut self) -> Option<Denied> {
        self.denied.take()
    }

    /// Whether the statement itself inserts, updates or deletes rows of an agent's table.
    pub(in crate::sandbox) fn writes_rows(&self) -> bool {
        self.writes_rows && self.reason.is_none()
    }

    /// Whether the statement may give a virtual table its name, which reserves the names of its shadow tables.
    pub(in crate::sandbox) fn names_virtual(&self) -> bool {
        self.names_virtual
    }

    /// Whether the statement may be kept prepared: the same names decide the next time. A definition that has nothing to do,
    /// as `CREATE TABLE IF NOT EXISTS`, may have something to do then.
    pub(in crate::sandbox) fn is_plain(&self) -> bool {
        self.reason.is_none() && self.suspects.is_empty() && (self.selects || self.writes_rows)
    }

    /// The relations whose rows it reads, if it was compiled since it began; an inner `None` means that it also reads
    /// through a view.
    pub(in crate::sandbox) fn take_compiled(&mut self) -> Option<Option<Vec<String>>> {
        std::mem::take(&mut self.compiles).then(|| self.relations.take())
    }

    /// Names to look up before the statement runs.
    pub(in crate::sandbox) fn take_suspects(&mut self) -> Vec<String> {
        std::mem::take(&mut self.suspects)
    }

    /// Called after compiling: every internal table that it touches must have had a reason.
    pub(in crate::sandbox) fn finish(&mut self) -> Result<(), Denied> {
        match (&self.pending, self.reason) {
            (Some(name), None) if self.armed => Err(Denied { construct: name.clone(), writes: false }),
            _ => Ok(()),
        }
    }

    /// The authorizer.
    pub(in crate::sandbox) fn authorize(&mut self, context: &AuthContext<'_>) -> Authorization {
        self.compiles = true;
        if self.armed && self.describes_internal_table(&context.action) {
            return Authorization::Ignore;
        }
        let judged = match self.phase {
            Phase::Closed => Err(construct(&context.action)),
            Phase::Trusted => trusted(&context.action),
            Phase::Clearing => trusted(&context.action).or_else(|_| clearing(&context.action)),
            Phase::Bracketing => trusted(&context.action).or_else(|_| self.judge(context, Mode::Exec, true)),
            Phase::Compiling(mode) => self.judge(context, mode, false),
            Phase::CompilingInline => self.judge_short(context),
            Phase::Running(mode) => self.judge(context, mode, true),
        };
        match judged {
            Ok(()) => Authorization::Allow,
            Err(_) if !self.armed && !matches!(self.phase, Phase::Closed | Phase::CompilingInline) => {
                Authorization::Allow
            }
            Err(construct) => {
                let writes =
                    matches!(self.phase, Phase::Compiling(Mode::Query) | Phase::Running(Mode::Query))
                        && is_write(&context.action);
                self.denied.get_or_insert(Denied { construct, writes });
                Authorization::Deny
            }
        }
    }

    /// Judged like a query, but only known tables may be read.
    fn judge_short(&mut self, context: &AuthContext<'_>) -> Result<(), String> {
        if let AuthAction::Read { table_name, .. } = &context.action
            && !(context.accessor.is_none()
                && in_main(context.database_name)
                && self.tables.contains(*table_name))
        {
            return Err((*table_name).to_owned());
        }
        self.judge(context, Mode::Query, false)
    }

    fn judge(&mut self, context: &AuthContext<'_>, mode: Mode, running: bool) -> Result<(), String> {
        let action = &context.action;
        if mode == Mode::Query && is_write(action) {
            // Opening an r-tree compiles the statements that it would write with.
            let opened = (running || !self.second) && in_main(context.database_name);
            return match written(action) {
                Some(table) if opened && is_shadow(table) => {
                    if !running {
                        self.suspect(&table.to_ascii_lowercase());
                    }
                    Ok(())
                }
                _ => Err(construct(action)),
            };
        }
        match action {
            AuthAction::Select | AuthAction::Recursive => {
                self.selects = true;
                Ok(())
            }
            AuthAction::Function { function_name } => self.function(function_name),
            AuthAction::Read { table_name, .. } => {
                self.reads(table_name, context.accessor);
                self.read(table_name, context.database_name)
            }
            // `CREATE TRIGGER temp.t … ON main.x` is reported as one in `main`; only this insert shows where it
            // goes.
            AuthAction::Insert { table_name } if context.database_name == Some("temp") => {
                Err((*table_name).to_owned())
            }
            AuthAction::Insert { table_name }
            | AuthAction::Delete { table_name }
            | AuthAction::Update { table_name, .. } => self.write(table_name, context, running),
            AuthAction::CreateTable { table_name } | AuthAction::CreateView { view_name: table_name } => {
                if *table_name == "sqlite_sequence" && self.reason == Some(Reason::Define) {
                    return Ok(());
                }
                if is_statistics(table_name) {
                    self.reason.get_or_insert(Reason::Analyze);
                    return in_main(context.database_name)
                        .then_some(())
                        .ok_or_else(|| (*table_name).to_owned());
                }
                self.define(table_name, context.database_name, running)
            }
            AuthAction::CreateIndex { index_name, table_name } => {
                if !index_name.to_ascii_lowercase().starts_with("sqlite_autoindex_") {
                    self.own(index_name)?;
                }
                self.define(table_name, context.database_name, running)
            }
            AuthAction::CreateTrigger { trigger_name: name, table_name }
            | AuthAction::DropTrigger { trigger_name: name, table_name }
            | AuthAction::DropIndex { index_name: name, table_name } => {
                self.own(name)?;
                self.define(table_name, context.database_name, running)
            }
            AuthAction::CreateVtable { table_name, module_name } => {
                if !self.policy.modules.contains(&module_name.to_ascii_lowercase()) {
                    return Err((*module_name).to_owned());
                }
                self.names_virtual = true;
                self.define(table_name, context.database_name, running)
            }
            AuthAction::DropTable { table_name }
            | AuthAction::DropView { view_name: table_name }
            | AuthAction::DropVtable { table_name, .. } => {
                self.define(table_name, context.database_name, running)
            }
            AuthAction::AlterTable { database_name, table_name } => {
                // The engine passes the dropped column where other actions pass the database.
                self.define(table_name, Some(database_name), running)?;
                self.reason = Some(Reason::Alter);
                self.names_virtual = true;
                Ok(())
            }
            AuthAction::Analyze { table_name } => {
                self.reason.get_or_insert(Reason::Analyze);
                self.own(table_name)?;
                in_main(context.database_name).then_some(()).ok_or_else(|| (*table_name).to_owned())
            }
            AuthAction::Reindex { index_name } => {
                in_main(context.database_name).then_some(()).ok_or_else(|| (*index_name).to_owned())
            }
            AuthAction::Pragma { pragma_name, pragma_value } => {
                self.pragma(pragma_name, *pragma_value, running)
            }
            _ => Err(construct(action)),
        }
    }

    fn function(&self, name: &str) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        let known = self.policy.functions.contains(&name)
            || OPERATORS.contains(&name.as_str())
            || self.reason == Some(Reason::Alter) && ALTER_FUNCTIONS.contains(&name.as_str());
        if known { Ok(()) } else { Err(format!("{name}(")) }
    }

    fn reads(&mut self, table: &str, accessor: Option<&str>) {
        if accessor.is_some() {
            self.relations = None;
        } else if let Some(relations) = &mut self.relations
            && !relations.iter().any(|known| known == table)
        {
            relations.push(table.to_owned());
        }
    }

    fn read(&mut self, table: &str, database: Option<&str>) -> Result<(), String> {
        let name = table.to_ascii_lowercase();
        if self.policy.readable.contains(&name) || self.policy.table_functions.contains(&name) {
            return Ok(());
        }
        match database {
            Some("temp") => self.of_the_engine(&name),
            Some("main") | None if is_of_the_engine(&name) => self.of_the_engine(&name),
            // The engine checks what ALTER TABLE may have broken.
            Some("main") | None if name == "pragma_quick_check" && self.reason == Some(Reason::Alter) => {
                Ok(())
            }
            Some("main") | None => self.own(table),
            Some(shared) if self.shared.contains(shared) => self.own(table),
            Some(_) => Err(table.to_owned()),
        }
    }

    fn write(&mut self, table: &str, context: &AuthContext<'_>, running: bool) -> Result<(), String> {
        let name = table.to_ascii_lowercase();
        if is_of_the_engine(&name) {
            if context.accessor.is_some() {
                return Err(table.to_owned());
            }
            return self.of_the_engine(&name);
        }
        if !in_main(context.database_name) {
            return Err(table.to_owned());
        }
        self.own(table)?;
        if !running {
            self.suspect(&name);
            self.writes_rows = true;
        }
        Ok(())
    }

    /// Creates, changes or drops an object of the agent.
    fn define(&mut self, name: &str, database: Option<&str>, running: bool) -> Result<(), String> {
        if !in_main(database) {
            return Err(name.to_owned());
        }
        self.own(name)?;
        if !running {
            self.suspect(&name.to_ascii_lowercase());
        }
        self.reason.get_or_insert(Reason::Define);
        Ok(())
    }

    fn suspect(&mut self, name: &str) {
        if is_shadow(name) && !self.suspects.iter().any(|known| known == name) {
            self.suspects.push(name.to_owned());
        }
    }

    /// Touches a table that only the engine writes.
    fn of_the_engine(&mut self, name: &str) -> Result<(), String> {
        match self.phase {
            // A running statement was compiled, so it has had its reason.
            Phase::Running(_) | Phase::Bracketing if self.reason.is_none() => Err(name.to_owned()),
            _ => {
                self.pending.get_or_insert_with(|| name.to_owned());
                Ok(())
            }
        }
    }

    /// Whether an agent may use a name.
    fn own(&self, name: &str) -> Result<(), String> {
        let folded = name.to_ascii_lowercase();
        let foreign = self.policy.reserved_prefixes.iter().any(|prefix| folded.starts_with(prefix.as_str()))
            || folded.starts_with("_mem_")
            || folded.starts_with("sqlite_")
            || folded.starts_with("pragma_")
            || folded == "memory_entries"
            || self.modules.contains(&folded);
        if foreign { Err(name.to_owned()) } else { Ok(()) }
    }

    /// A table function over the schema that reaches a table of the runtime; it skips that table.
    fn describes_internal_table(&self, action: &AuthAction<'_>) -> bool {
        let AuthAction::Pragma { pragma_name, pragma_value: Some(table) } = action else { return false };
        matches!(self.phase, Phase::Running(_))
            && is_reserved(table)
            && self.policy.table_functions.contains(&format!("pragma_{}", pragma_name.to_ascii_lowercase()))
    }

    fn pragma(&self, name: &str, value: Option<&str>, running: bool) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        let alter = self.reason == Some(Reason::Alter) && name == "quick_check";
        let module = matches!(name.as_str(), "data_version" | "page_size") && value.is_none();
        let table_function = self.policy.table_functions.contains(&format!("pragma_{name}"));
        if running && (alter || module || table_function) { Ok(()) } else { Err(format!("PRAGMA {name}")) }
    }
}

fn is_reserved(name: &str) -> bool {
    name.to_ascii_lowercase().starts_with("_mem_")
}

/// Whether the name could be that of a shadow table.
pub(in crate::sandbox) fn is_shadow(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SHADOWS.iter().any(|end| name.ends_with(end))
}

/// The table whose rows are written.
fn written<'a>(action: &AuthAction<'a>) -> Option<&'a str> {
    match action {
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. } => Some(table_name),
        _ => None,
    }
}

fn in_main(database: Option<&str>) -> bool {
    matches!(database, None | Some("main"))
}

fn is_statistics(name: &str) -> bool {
    matches!(name.to_ascii_lowercase().as_str(), "sqlite_stat1" | "sqlite_stat3" | "sqlite_stat4")
}

fn is_of_the_engine(name: &str) -> bool {
    matches!(
        name,
        "sqlite_master" | "sqlite_schema" | "sqlite_temp_master" | "sqlite_temp_schema" | "sqlite_sequence"
    ) || is_statistics(name)
}

/// The runtime's own statements: transactions, a few settings, reading the schema.
fn trusted(action: &AuthAction<'_>) -> Result<(), String> {
    match action {
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Transaction { .. }
        | AuthAction::Savepoint { .. } => Ok(()),
        // AUTOINCREMENT's counters in a restored database; statements that an r-tree compiles when opened.
        _ if written(action).is_some_and(|table| table == "sqlite_sequence" || is_shadow(table)) => Ok(()),
        AuthAction::Pragma { pragma_name, .. }
            if TRUSTED_PRAGMAS.contains(&pragma_name.to_ascii_lowercase().as_str()) =>
        {
            Ok(())
        }
        _ => Err(construct(action)),
    }
}

/// Dropping deletes from the schema and moves its pages.
fn clearing(action: &AuthAction<'_>) -> Result<(), String> {
    match action {
        AuthAction::DropTable { .. }
        | AuthAction::DropVtable { .. }
        | AuthAction::DropView { .. }
        | AuthAction::DropIndex { .. }
        | AuthAction::DropTrigger { .. }
        | AuthAction::Delete { .. } => Ok(()),
        _ if written(action).is_some_and(is_of_the_engine) => Ok(()),
        _ => Err(construct(action)),
    }
}

fn is_write(action: &AuthAction<'_>) -> bool {
    !matches!(
        action,
        AuthAction::Select
            | AuthAction::Recursive
            | AuthAction::Function { .. }
            | AuthAction::Read { .. }
            | AuthAction::Pragma { .. }
            | AuthAction::Unknown { .. }
            | AuthAction::Attach { .. }
            | AuthAction::Detach { .. }
            | AuthAction::Transaction { .. }
            | AuthAction::Savepoint { .. }
    )
}

/// The name of an action, for the agent that wrote it.
fn construct(action: &AuthAction<'_>) -> String {
    let (verb, name) = match action {
        AuthAction::Insert { table_name } => ("INSERT", *table_name),
        AuthAction::Update { table_name, .. } => ("UPDATE", *table_name),
        AuthAction::Delete { table_name } => ("DELETE", *table_name),
        AuthAction::CreateTable { table_name } => ("CREATE TABLE", *table_name),
        AuthAction::CreateIndex { index_name, .. } => ("CREATE INDEX", *index_name),
        AuthAction::CreateView { view_name } => ("CREATE VIEW", *view_name),
        AuthAction::CreateTrigger { trigger_name, .. } => ("CREATE TRIGGER", *trigger_name),
        AuthAction::CreateVtable { table_name, .. } => ("CREATE VIRTUAL TABLE", *table_name),
        AuthAction::CreateTempTable { table_name } => ("TEMP", *table_name),
        AuthAction::CreateTempView { view_name } => ("TEMP", *view_name),
        AuthAction::CreateTempTrigger { trigger_name, .. } => ("TEMP", *trigger_name),
        AuthAction::CreateTempIndex { index_name, .. } => ("TEMP", *index_name),
        AuthAction::DropTable { table_name } | AuthAction::DropTempTable { table_name } => {
            ("DROP TABLE", *table_name)
        }
        AuthAction::AlterTable { table_name, .. } => ("ALTER TABLE", *table_name),
        AuthAction::Read { table_name, .. } => ("", *table_name),
        AuthAction::Function { function_name } => return format!("{function_name}("),
        AuthAction::Pragma { pragma_name, .. } => ("PRAGMA", *pragma_name),
        AuthAction::Attach { .. } | AuthAction::Unknown { code: 24, .. } => ("ATTACH", ""),
        AuthAction::Detach { .. } => ("DETACH", ""),
        AuthAction::Transaction { .. } => ("BEGIN, COMMIT or ROLLBACK", ""),
        AuthAction::Savepoint { .. } => ("SAVEPOINT, RELEASE or ROLLBACK TO", ""),
        AuthAction::Analyze { table_name } => ("ANALYZE", *table_name),
        AuthAction::Reindex { index_name } => ("REINDEX", *index_name),
        _ => ("this statement", ""),
    };
    match (verb, name) {
        ("", name) => name.to_owned(),
        (verb, "") => verb.to_owned(),
        (verb, name) => format!("{verb} {name}"),
    }
}
