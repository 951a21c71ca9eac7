//! JSON functions whose time grows with a product of lengths: SQLite's own do the work, for arguments that are short enough.

use std::cell::RefCell;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::call::{Call, Function, Outcome};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "json_patch",
        arguments: 2,
        run: |call| patch(call, "SELECT json_patch(?1, ?2)", false),
    },
    Function {
        name: "jsonb_patch",
        arguments: 2,
        run: |call| patch(call, "SELECT jsonb_patch(?1, ?2)", true),
    },
    Function { name: "json_pretty", arguments: 2, run: pretty },
];

/// Most that the lengths of a document and a patch may be, multiplied: each member of the one is looked for in the other.
const PATCH_PRODUCT: usize = 1 << 32;
/// Longest indent of `json_pretty`: it is repeated for each member and each depth.
const INDENT: usize = 32;

thread_local! {
    /// SQLite's own functions: a connection without replacements, and without data.
    static ORIGINAL: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

fn patch(call: &Call<'_>, sql: &str, binary: bool) -> Outcome {
    let (document, changes) = (call.value(0), call.value(1));
    if length(document).saturating_mul(length(changes)) > PATCH_PRODUCT {
        return Outcome::Error(
            "json_patch: the two values are too long to be merged; use json_set for what changes".to_owned(),
        );
    }
    ask(sql, document, changes, binary)
}

fn pretty(call: &Call<'_>) -> Outcome {
    let (value, indent) = (call.value(0), call.value(1));
    if length(indent) > INDENT {
        return Outcome::Error(format!("json_pretty: the indent may have {INDENT} bytes at most"));
    }
    match ask("SELECT json_pretty(?1, ?2)", value, indent, false) {
        Outcome::Json(text) => Outcome::Text(text),
        other => other,
    }
}

fn length(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 24,
    }
}

/// Has SQLite's own function answer.
fn ask(sql: &str, first: ValueRef<'_>, second: ValueRef<'_>, binary: bool) -> Outcome {
    let asked = ORIGINAL.with(|original| -> rusqlite::Result<Outcome> {
        let Ok(mut original) = original.try_borrow_mut() else { return Ok(Outcome::Null) };
        let conn = match original.as_ref() {
            Some(conn) => conn,
            None => &*original.insert(Connection::open_in_memory()?),
        };
        let mut statement = conn.prepare_cached(sql)?;
        let (first, second) =
            (rusqlite::types::ToSqlOutput::Borrowed(first), rusqlite::types::ToSqlOutput::Borrowed(second));
        let mut rows = statement.query([&first, &second])?;
        let Some(row) = rows.next()? else { return Ok(Outcome::Null) };
        Ok(match row.get_ref(0)? {
            ValueRef::Text(text) => Outcome::Json(text.to_vec()),
            ValueRef::Blob(bytes) if binary => Outcome::Blob(bytes.to_vec()),
            _ => Outcome::Null,
        })
    });
    match asked {
        Ok(outcome) => outcome,
        Err(rusqlite::Error::SqliteFailure(failure, _)) if failure.code == rusqlite::ErrorCode::TooBig => {
            Outcome::TooBig
        }
        Err(rusqlite::Error::SqliteFailure(_, Some(message))) => Outcome::Error(message),
        Err(_) => Outcome::Error("the JSON could not be worked on".to_owned()),
    }
}
