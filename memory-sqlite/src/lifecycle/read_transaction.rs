//! A read transaction on its own connection.

use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::{Clock, Result, Timestamp};
use rusqlite::Connection;

use crate::error::engine;

/// An open transaction on the snapshot taken when it began; dropping it ends the transaction.
#[derive(Debug)]
pub(crate) struct ReadTransaction {
    connection: Mutex<Connection>,
    /// Entries expired at this time are invisible.
    pub(crate) now: Timestamp,
}

impl ReadTransaction {
    pub(crate) fn begin(connection: Connection, clock: &dyn Clock) -> Result<Self> {
        // The snapshot is taken at the first read, which must happen now.
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
