//! Transactions, savepoints, and the size of the database.

use memory_core::{Error, Result};

use super::connection::Sandbox;
use super::refusal;
use crate::error::engine;

/// The savepoint that undoes one statement; transactions are numbered from 1.
const OF_STATEMENT: u32 = 0;

impl Sandbox {
    /// Begins a write transaction, waiting for the lock until the deadline.
    /// Fails with `unavailable` if the lock is held.
    pub(crate) fn begin_immediate(&mut self) -> Result<()> {
        self.command("BEGIN IMMEDIATE")
    }

    /// Begins a read transaction on one snapshot.
    pub(crate) fn begin_snapshot(&mut self) -> Result<()> {
        self.command("BEGIN")
    }

    /// Commits. A violated deferred constraint leaves the transaction open.
    /// Fails with `invalid_argument` with `details.constraint`; `outcome_unknown` if the disk failed during the
    /// commit.
    pub(crate) fn commit(&mut self) -> Result<()> {
        self.bracket("COMMIT").map_err(|error| {
            match crate::error::code(&error) {
                Some(rusqlite::ErrorCode::SystemIoFailure) => Error::outcome_unknown(
                    "the disk failed during the commit; read what the transaction wrote to see whether it was kept",
                )
                .with_source(error),
                _ => refusal::statement(error, self.quota),
            }
        })
    }

    /// Rolls back; does nothing if no transaction is open.
    pub(crate) fn rollback(&mut self) -> Result<()> {
        if self.in_transaction() { self.command("ROLLBACK") } else { Ok(()) }
    }

    /// Opens the savepoint with this number.
    pub(crate) fn savepoint(&mut self, number: u32) -> Result<()> {
        self.command(&format!("SAVEPOINT mem_{number}"))
    }

    /// Releases a savepoint, keeping its changes.
    pub(crate) fn release(&mut self, number: u32) -> Result<()> {
        self.command(&format!("RELEASE mem_{number}"))
    }

    /// Undoes everything since the savepoint, which stays open.
    pub(crate) fn rollback_to(&mut self, number: u32) -> Result<()> {
        self.command(&format!("ROLLBACK TO mem_{number}"))
    }

    /// Runs a statement in its own savepoint, which undoes it if it fails.
    pub(crate) fn undoing<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.savepoint(OF_STATEMENT)?;
        let done = work(self);
        if self.in_transaction() {
            if done.is_err() {
                self.rollback_to(OF_STATEMENT)?;
            }
            self.release(OF_STATEMENT)?;
        }
        done
    }

    /// Whether a transaction is open.
    pub(crate) fn in_transaction(&self) -> bool {
        !self.conn.is_autocommit()
    }

    /// Limits the size of the database in bytes; `None` for no limit. Existing data stays.
    pub(crate) fn set_quota(&mut self, bytes: Option<u64>) {
        self.quota = bytes;
    }

    /// Bytes of pages in use.
    pub(crate) fn usage(&self) -> Result<u64> {
        let free = self.count("PRAGMA freelist_count")?.saturating_mul(self.page_bytes()?);
        Ok(self.file_bytes()?.saturating_sub(free))
    }

    /// Bytes of the database, free pages included.
    pub(super) fn file_bytes(&self) -> Result<u64> {
        Ok(self.count("PRAGMA page_count")?.saturating_mul(self.page_bytes()?))
    }

    pub(super) fn page_bytes(&self) -> Result<u64> {
        if let Some(known) = self.page_bytes.get() {
            return Ok(known);
        }
        let bytes = self.count("PRAGMA page_size")?;
        self.page_bytes.set(Some(bytes));
        Ok(bytes)
    }

    fn count(&self, pragma: &str) -> Result<u64> {
        let count = self
            .trusted(|conn| conn.prepare_cached(pragma)?.query_row([], |row| row.get::<_, i64>(0)))
            .map_err(engine)?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}
