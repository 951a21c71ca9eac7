//! Turns the engine's errors into refusals for the agent.

use memory_core::{Error, ErrorKind};
use memory_sql::errors;
use rusqlite::ErrorCode;
use rusqlite::ffi;

use super::authorizer::Denied;
use super::limits::settings::PROGRAM_STEPS;
use crate::error::{code, engine};

/// Refuses what the authorizer denied.
pub(super) fn denied(denied: &Denied) -> Error {
    let construct = &denied.construct;
    if denied.writes {
        return Error::read_only(format!(
            "`{construct}` writes, and a query may only read; use sql_exec for it"
        ))
        .with_detail("layer", "authorizer")
        .with_detail("construct", construct.clone());
    }
    Error::statement_refused(format!(
        "`{construct}` is not for agents; use the scope's own tables and the documented functions"
    ))
    .with_detail("layer", "authorizer")
    .with_detail("construct", construct.clone())
}

/// More than one statement, or trailing text that is not one.
pub(super) fn several() -> Error {
    Error::statement_refused(
        "only one statement may be run at a time; send what follows the first `;` by itself",
    )
    .with_detail("layer", "config")
}

/// A text without a statement.
pub(super) fn empty() -> Error {
    Error::invalid("the text contains no statement; write one")
}

pub(super) fn nul() -> Error {
    Error::statement_refused("the statement holds a NUL character; pass values with NULs as arguments")
        .with_detail("layer", "config")
}

pub(super) fn log_full() -> Error {
    Error::new(
        ErrorKind::TooLarge,
        "the statement changes more than one statement may; change fewer rows at a time",
    )
    .with_detail("layer", "quota")
}

pub(super) fn heap(limit: usize) -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!(
            "the statement needs more than {limit} bytes of memory; let it sort, group or concatenate less"
        ),
    )
    .with_detail("layer", "heap")
    .with_detail("limit", limit)
    .with_detail("unit", "bytes")
}

pub(super) fn program() -> Error {
    Error::new(
        ErrorKind::TooLarge,
        format!(
            "the statement makes a program of more than {PROGRAM_STEPS} steps; use fewer columns, fewer generated \
             columns that name each other, or fewer joins"
        ),
    )
    .with_detail("layer", "limits")
    .with_detail("limit", PROGRAM_STEPS)
    .with_detail("unit", "steps")
}

/// The engine's messages around the name of something agents may not use, and the layer that removed it.
const REMOVED: [(&str, &str, &str); 5] = [
    ("no such function: ", "", "functions"),
    ("wrong number of arguments to function ", "()", "functions"),
    ("no such module: ", "", "config"),
    ("no such table: ", "", "config"),
    ("unsafe use of ", "", "config"),
];

/// How the engine's messages about its own tables, and about shadow tables, begin and end.
const PROTECTED: [(&str, &str); 7] = [
    ("table ", " may not be modified"),
    ("table ", " may not be dropped"),
    ("table ", " may not be altered"),
    ("table ", " may not be indexed"),
    ("object name reserved for internal use: ", ""),
    ("cannot create trigger on system table", ""),
    ("cannot create triggers on ", ""),
];

/// A refusal by the engine itself, if this is one.
pub(super) fn by_the_engine(error: &rusqlite::Error, is_known: impl Fn(&str, &str) -> bool) -> Option<Error> {
    let told = told(error);
    let refuse = |construct: &str, layer: &str| {
        Error::statement_refused(format!(
            "`{construct}` is not for agents; use the scope's own tables and the documented functions"
        ))
        .with_detail("layer", layer)
        .with_detail("construct", construct)
    };
    for (before, after, layer) in REMOVED {
        let name = told.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if let Some(name) = name
            && !is_known(before, name)
        {
            return Some(refuse(name, layer));
        }
    }
    let protected =
        PROTECTED.iter().find(|(before, after)| told.starts_with(before) && told.ends_with(after));
    protected.map(|_| refuse(&told, "config"))
}

/// Only the runtime ends the transaction.
pub(super) fn rolls_back() -> Error {
    Error::statement_refused(
        "a conflict would roll the whole transaction back (OR ROLLBACK, ON CONFLICT ROLLBACK, RAISE(ROLLBACK)); \
         use ABORT, which undoes the statement, and roll back by sql_rollback",
    )
    .with_detail("layer", "config")
    .with_detail("construct", "ROLLBACK")
}

/// The virtual table would take over an existing table.
pub(super) fn taken(table: &str) -> Error {
    Error::invalid(format!(
        "the name {table} is one that the virtual table keeps for itself, and that table could not be written any more; \
         rename or drop it first, or choose another name for the virtual table"
    ))
    .with_detail("layer", "config")
}

/// Any other error of the engine about a statement.
pub(super) fn statement(error: rusqlite::Error, quota: Option<u64>) -> Error {
    let extended = match &error {
        rusqlite::Error::SqliteFailure(failure, _)
        | rusqlite::Error::SqlInputError { error: failure, .. } => Some(failure.extended_code),
        _ => None,
    };
    let told = told(&error);
    match (code(&error), quota) {
        (Some(ErrorCode::DiskFull), Some(bytes)) => errors::quota_exceeded(bytes).with_source(error),
        (Some(ErrorCode::ConstraintViolation), _) => {
            let constraint = extended.map_or("constraint", constraint);
            errors::constraint(constraint, &told)
        }
        (Some(ErrorCode::TooBig), _) => Error::new(
            ErrorKind::TooLarge,
            format!("a value or the statement is longer than allowed: {told}"),
        )
        .with_detail("layer", "limits"),
        (Some(ErrorCode::ReadOnly), _) => errors::writes().with_source(error),
        (Some(ErrorCode::Unknown | ErrorCode::TypeMismatch | ErrorCode::ParameterOutOfRange), _) => {
            Error::invalid(format!("SQLite refuses the statement: {told}"))
        }
        (Some(ErrorCode::SchemaChanged), _) => {
            Error::new(ErrorKind::Conflict, "the tables were changed while the statement began; run it again")
                .with_source(error)
        }
        (None, _) => Error::invalid(format!("SQLite refuses the statement: {told}")),
        (Some(ErrorCode::InternalMalfunction | ErrorCode::OperationAborted | ErrorCode::ApiMisuse), _) => {
            Error::internal(format!(
                "SQLite ended the statement with code {}; please report it: {told}",
                extended.unwrap_or_default()
            ))
        }
        _ => engine(error),
    }
}

/// SQLite's message, cut to a maximum length. It may quote the statement, never stored data.
fn told(error: &rusqlite::Error) -> String {
    let told = match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    };
    told.chars().take(300).collect()
}

fn constraint(extended: i32) -> &'static str {
    match extended {
        ffi::SQLITE_CONSTRAINT_CHECK => "check",
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => "foreign_key",
        ffi::SQLITE_CONSTRAINT_NOTNULL => "not_null",
        ffi::SQLITE_CONSTRAINT_PRIMARYKEY => "primary_key",
        ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_ROWID => "unique",
        ffi::SQLITE_CONSTRAINT_TRIGGER => "trigger",
        ffi::SQLITE_CONSTRAINT_DATATYPE => "datatype",
        _ => "constraint",
    }
}
