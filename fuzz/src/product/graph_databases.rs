//! Databases of flat memories and graphs that somebody else wrote: whatever the tables hold, they are read or refused.
//!
//! The input is SQL, which makes the database.

use memory_hierarchical::Agent;
use memory_hierarchical::migrate::Source;
use rusqlite::Connection;
use rusqlite::limits::Limit;

use crate::support::text;

/// Most times 1,000 steps of the engine.
const MAX_STEPS: u32 = 200;

/// Reads one database.
pub fn run(data: &[u8]) {
    let Some(sql) = text(data) else { return };
    let mut connection = Connection::open_in_memory().expect("a database in memory");
    // No file is reached: neither ATTACH nor VACUUM INTO works.
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0).expect("a limit");
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, 1 << 20).expect("a limit");
    let mut steps = 0;
    let watch = move || {
        steps += 1;
        steps > MAX_STEPS
    };
    connection.progress_handler(1_000, Some(watch)).expect("a handler");
    for statement in sql.split(";\n") {
        // What is wrong with a statement is not what is tried.
        let _ = connection.execute_batch(statement);
    }
    connection.progress_handler(0, None::<fn() -> bool>).expect("no handler");
    let agent = Agent::new("ann").expect("a name");
    if let Err(error) = Source::of_connection(connection, Some(&agent)) {
        assert!(!error.to_string().is_empty());
    }
}
