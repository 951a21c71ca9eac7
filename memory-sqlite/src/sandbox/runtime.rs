//! What the runtime itself does on an agent's database, beside running statements.

use memory_core::Result;

use super::Sandbox;
use crate::error::engine;

impl Sandbox {
    /// The runtime's mark on the database, of which the agent sees nothing: 0 on a new one.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    pub(crate) fn mark(&self) -> Result<i32> {
        self.trusted(|conn| conn.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0)))
            .map_err(engine)
    }

    /// Marks the database, in the transaction that is open.
    ///
    /// # Errors
    /// `unavailable`.
    pub(crate) fn set_mark(&mut self, mark: i32) -> Result<()> {
        self.command(&format!("PRAGMA user_version = {mark}"))
    }

    /// Moves the log into the file, without waiting for anybody; whether all of it is moved, so that the log begins
    /// anew.
    ///
    /// # Errors
    /// `unavailable`.
    pub(crate) fn checkpoint(&mut self) -> Result<bool> {
        self.trusted(|conn| {
            conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
                let (busy, log, moved): (bool, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(!busy && log == moved)
            })
        })
        .map_err(engine)
    }
}
