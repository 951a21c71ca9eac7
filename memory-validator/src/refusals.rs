//! Refusals of SQLite statements that several stages share.

use crate::gate::token::Lexed;
use crate::policy::{Mode, Policy};
use crate::verdict::{Position, Refusal, Stage, StatementKind};

/// A forbidden kind of statement, by its first word.
pub(crate) fn kind(stage: Stage, position: Position, word: &str) -> Refusal {
    let word: String = word.chars().take(32).collect();
    let (why, instead) = match word.to_ascii_uppercase().as_str() {
        "ATTACH" | "DETACH" => ("a scope has one database", "shared data, if any, can already be read"),
        "PRAGMA" => (
            "the runtime manages settings",
            "describe the tables, or read `pragma_table_info('name')` as a table",
        ),
        "VACUUM" => ("the runtime manages the file", "delete what is not needed: its space is reused"),
        "BEGIN" | "COMMIT" | "END" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" | "START" | "ABORT" => (
            "transactions have separate operations",
            "use begin (`sql_begin`), commit and rollback, and pass the transaction to each statement",
        ),
        _ => (
            "statements of this kind are not allowed",
            "use SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER or DROP",
        ),
    };
    Refusal::new(stage, "statement_kind", position, word).because(why).instead(instead)
}

/// A temporary object.
pub(crate) fn temp(stage: Stage, position: Position, construct: &str) -> Refusal {
    Refusal::new(stage, "temp", position, construct)
        .because("temporary objects do not survive a statement")
        .instead("name the rows with `WITH`, or make an ordinary table and drop it")
}

/// `EXPLAIN` of anything but a query.
fn explain(stage: Stage, position: Position) -> Refusal {
    Refusal::new(stage, "explain", position, "EXPLAIN")
        .because("only queries can be explained")
        .instead("explain the SELECT that finds the same rows")
}

/// A write where only reading is allowed.
fn write(stage: Stage, position: Position, kind: StatementKind) -> Refusal {
    Refusal::new(stage, "read_only", position, kind.name().to_ascii_uppercase().replace('_', " "))
        .because("a query may only read")
        .instead("use exec (`sql_exec`) for statements that write")
        .writing()
}

/// Refuses a kind that is not allowed at all, or not in this mode.
pub(crate) fn statement(
    stage: Stage,
    lexed: &Lexed<'_>,
    start: usize,
    kind: StatementKind,
    explains: bool,
    mode: Mode,
    policy: &Policy,
) -> Result<(), Refusal> {
    let first = lexed.at(start);
    let position = first.map(|token| lexed.position(token)).unwrap_or_default();
    if explains && kind != StatementKind::Select {
        let refusal = explain(stage, position);
        return Err(if mode == Mode::Query { refusal.writing() } else { refusal });
    }
    let kind = if explains { StatementKind::Explain } else { kind };
    if !policy.statements.contains(&kind) {
        return Err(self::kind(stage, position, first.map(|token| lexed.text(token)).unwrap_or_default()));
    }
    if mode == Mode::Query && !kind.reads_only() {
        return Err(write(stage, position, kind));
    }
    Ok(())
}

/// A function that is not allowed.
pub(crate) fn function(stage: Stage, position: Position, name: &str) -> Refusal {
    let instead = match name {
        "generate_series" => "use `WITH RECURSIVE`",
        "regexp" => "use LIKE, GLOB, or a full-text table and MATCH",
        "load_extension" => "the available extensions are already loaded",
        "readfile" | "writefile" | "edit" | "system" | "shell" => "pass contents as arguments",
        _ => "use another function, or compute it outside",
    };
    Refusal::new(stage, "function", position, format!("{}(", short(name)))
        .because("this function is not on the list of allowed functions")
        .instead(instead)
}

/// A table function that is not allowed.
pub(crate) fn table_function(stage: Stage, position: Position, name: &str) -> Refusal {
    let instead = match name {
        "generate_series" => "use `WITH RECURSIVE`",
        _ if name.starts_with("pragma_") => "read `pragma_table_info('name')` or `pragma_index_list('name')`",
        _ => "use json_each or json_tree; search a full-text table by `WHERE name MATCH …`",
    };
    Refusal::new(stage, "table_function", position, format!("{}(", short(name)))
        .because("this table function is not on the list of allowed ones")
        .instead(instead)
}

/// A relation of the engine or the runtime.
pub(crate) fn relation(stage: Stage, position: Position, name: &str) -> Refusal {
    Refusal::new(stage, "relation", position, short(name))
        .because("relations with this name belong to the engine or the runtime")
        .instead("read `sqlite_schema`, `memory_entries` or tables of your own")
}

/// A name that cannot be created or written.
pub(crate) fn reserved(stage: Stage, position: Position, name: &str) -> Refusal {
    Refusal::new(stage, "reserved", position, short(name))
        .because("nothing can be created, changed or written under this name")
        .instead("choose another name")
}

/// A schema that is not allowed.
pub(crate) fn schema(stage: Stage, position: Position, name: &str) -> Refusal {
    if name == "temp" {
        return temp(stage, position, "temp");
    }
    Refusal::new(stage, "schema", position, short(name))
        .because("no schema of this name is available")
        .instead("leave the schema out, or write `main`")
}

/// A write to a read-only schema.
pub(crate) fn read_only_schema(stage: Stage, position: Position, name: &str) -> Refusal {
    Refusal::new(stage, "schema_read_only", position, short(name))
        .because("this schema is read-only")
        .instead("write to a table of your own")
}

/// A conflict clause or `RAISE` that would end the transaction.
pub(crate) fn rollback(stage: Stage, position: Position) -> Refusal {
    Refusal::new(stage, "conflict_rollback", position, "ROLLBACK")
        .because("a conflict must not end the transaction")
        .instead("use ABORT, FAIL, IGNORE or REPLACE")
}

/// A forbidden module of virtual tables.
pub(crate) fn module(stage: Stage, position: Position, name: &str) -> Refusal {
    Refusal::new(stage, "module", position, short(name))
        .because("virtual tables with this module are not allowed")
        .instead("use fts5 for text, rtree for ranges, or an ordinary table")
}

/// A name shortened for a message.
pub(crate) fn short(name: &str) -> String {
    name.chars().take(64).collect()
}
