//! A read transaction on a connection of its own.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::{Clock, Result, Timestamp};
use rusqlite::Connection;

use crate::error::engine;

/// An open transaction that sees what was committed when it began; it ends with the value.
#[derive(Debug)]
pub(crate) struct ReadTransaction {
    connection: Mutex<Connection>,
    /// What has expired by then is not there.
    pub(crate) now: Timestamp,
}

impl ReadTransaction {
    pub(crate) fn begin(connection: Connection, clock: &dyn Clock) -> Result<Self> {
        // A transaction sees what was committed when it first reads.
        connection.execute_batch("BEGIN").map_err(engine)?;
        let now = clock.now();
        connection
            .query_row("SELECT count(*) FROM sequence", [], |row| row.get::<_, i64>(0))
            .map_err(engine)?;
        Ok(Self { connection: Mutex::new(connection), now })
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
