//! JSON functions whose time grows with a product of lengths. Short arguments are passed on to SQLite's own.

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

/// Limit of the product of both lengths: each member of one document is looked up in the other.
const PATCH_PRODUCT: usize = 1 << 32;
/// Longest indent of `json_pretty`, which repeats it for each member and depth.
const INDENT: usize = 32;

thread_local! {
    /// SQLite's own functions: a connection without replacements or data.
    static ORIGINAL: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

fn patch(call: &Call<'_>, sql: &str, binary: bool) -> Outcome {
    let (document, changes) = (call.value(0), call.value(1));
    if length(document).saturating_mul(length(changes)) > PATCH_PRODUCT {
        return Outcome::Error(
            "json_patch: the two values are too long to merge; change single members with json_set"
                .to_owned(),
        );
    }
    ask(sql, document, changes, binary)
}

fn pretty(call: &Call<'_>) -> Outcome {
    let (value, indent) = (call.value(0), call.value(1));
    if length(indent) > INDENT {
        return Outcome::Error(format!("json_pretty: the indent may have at most {INDENT} bytes"));
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

/// Calls SQLite's own function.
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
        Err(_) => Outcome::Error("the JSON could not be processed".to_owned()),
    }
}
