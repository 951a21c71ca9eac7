//! Functions added for agents, or replacing SQLite's own.
//!
//! Several of SQLite's take time proportional to the product of two arguments' lengths, all within one virtual
//! machine instruction that nothing can interrupt. These are replaced by linear ones.

mod call;
mod fts5;
mod full_text;
mod json;
mod math;
mod pattern;
mod percentile;
mod text;
mod vector;

use memory_core::Result;
use rusqlite::Connection;

use crate::error::engine;
use crate::sandbox::limits::Layers;

/// The engine's functions that no agent needs, by name and number of arguments.
const REMOVED: [(&str, i32); 9] = [
    ("load_extension", 1),
    ("load_extension", 2),
    ("fts3_tokenizer", 1),
    ("fts3_tokenizer", 2),
    ("sqlite_compileoption_get", 1),
    ("sqlite_compileoption_used", 1),
    ("sqlite_source_id", 0),
    ("sqlite_log", 2),
    ("rtreecheck", -1),
];

/// Registers the functions that agents may call.
pub(super) fn register(conn: &Connection, layers: Layers) -> Result<()> {
    call::register(conn, math::FUNCTIONS)?;
    call::register(conn, vector::FUNCTIONS)?;
    percentile::register(conn)?;
    if layers.functions {
        call::register(conn, text::FUNCTIONS)?;
        call::register(conn, pattern::FUNCTIONS)?;
        call::register(conn, json::FUNCTIONS)?;
        fts5::register(conn, full_text::FUNCTIONS)?;
        for (name, arguments) in REMOVED {
            conn.remove_function(name, arguments).map_err(engine)?;
        }
    }
    Ok(())
}
