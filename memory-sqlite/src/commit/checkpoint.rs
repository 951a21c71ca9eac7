//! Checkpoints: moving the write-ahead log into the file, so that it restarts from its beginning.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::writer::Writer;

/// How long writers wait for readers of the log.
const TIMEOUT: Duration = Duration::from_millis(20);
/// As [`TIMEOUT`], if the log is very long. Most reads take less.
const LONG_TIMEOUT: Duration = Duration::from_millis(500);
/// A log this many times longer than the limit is truncated, not only overwritten.
const VERY_LONG: u64 = 64;
/// A page and its header in the log.
const FRAME_BYTES: u64 = 4_096 + 24;

/// Keeps the log short. It has a connection of its own.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    connection: Connection,
    log: PathBuf,
    /// How long the log may get before it is moved.
    pages: u64,
    /// Length of the log, in pages, above which writers are made to wait. It grows when waiting did not help, for
    /// example during an export.
    tolerated: u64,
}

impl Checkpointer {
    pub(crate) fn new(connection: Connection, database: &Path, pages: u32) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let pages = u64::from(pages);
        Self { connection, log: log.into(), pages, tolerated: 8 * pages }
    }

    /// Moves as much of the log as readers and writers allow. If the log has grown long, writers have to wait: it
    /// restarts only while nobody reads or writes it, and they may write faster than the disk can sync.
    pub(crate) fn run(&mut self, writer: &Writer) -> rusqlite::Result<()> {
        let length = std::fs::metadata(&self.log).map_or(0, |log| log.len() / FRAME_BYTES);
        if length <= self.tolerated {
            return writer.checkpoint(|| self.checkpoint("PASSIVE", Duration::ZERO)).map(drop);
        }
        // The file can be longer than the log in it. Overwriting blocks is cheaper than allocating them, so the file keeps its
        // length unless that is extreme.
        let very_long = length > VERY_LONG * self.pages;
        if !very_long {
            let log = writer.checkpoint(|| self.checkpoint("PASSIVE", Duration::ZERO))?;
            if log.pages <= self.tolerated {
                return Ok(());
            }
        }
        let (mode, timeout) = if very_long { ("TRUNCATE", LONG_TIMEOUT) } else { ("RESTART", TIMEOUT) };
        let log = writer.run_first("a checkpoint", || {
            // First, so that new readers use only the file and do not block the next step.
            self.checkpoint("PASSIVE", Duration::ZERO)?;
            self.checkpoint(mode, timeout)
        })?;
        // Linear growth, not exponential: a reader that blocked the restart once may not do so again.
        let more = if very_long { VERY_LONG * self.pages } else { 8 * self.pages };
        self.tolerated = if log.busy { length + more } else { 8 * self.pages };
        Ok(())
    }

    /// Empties the log of a file that was renamed or replaced. The log keeps its name, and SQLite would apply it to the file that
    /// took the database's place.
    pub(crate) fn empty(&self, writer: &Writer) -> rusqlite::Result<()> {
        writer.run_first("emptying the log", || empty(&self.connection, LONG_TIMEOUT)).map(drop)
    }

    fn checkpoint(&self, mode: &str, timeout: Duration) -> rusqlite::Result<Log> {
        checkpoint(&self.connection, mode, timeout)
    }
}

/// Moves the whole log into the file and empties it.
pub(crate) fn empty(connection: &Connection, timeout: Duration) -> rusqlite::Result<Log> {
    checkpoint(connection, "TRUNCATE", timeout)
}

fn checkpoint(connection: &Connection, mode: &str, timeout: Duration) -> rusqlite::Result<Log> {
    connection.busy_timeout(timeout)?;
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let pages: i64 = row.get(1)?;
        Ok(Log { busy: row.get(0)?, pages: u64::try_from(pages).unwrap_or(0) })
    })
}

/// The log after a checkpoint.
pub(crate) struct Log {
    /// A lock prevented the checkpoint from completing.
    pub(crate) busy: bool,
    /// Pages in it.
    pages: u64,
}
