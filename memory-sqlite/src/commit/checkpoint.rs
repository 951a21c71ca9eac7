//! Moving the write-ahead log into the file, so that it begins anew.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::writer::Writer;

/// How long writers wait for readers of the log.
const PATIENCE: Duration = Duration::from_millis(20);
/// As [`PATIENCE`], where the log is very long: longer than most reads take.
const MUCH_PATIENCE: Duration = Duration::from_millis(500);
/// A log of so many times the pages it may have is given back, not only written over.
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
    /// Pages of log from which writers are made to wait. Grows where that was in vain, as while an export reads.
    tolerated: u64,
}

impl Checkpointer {
    pub(crate) fn new(connection: Connection, database: &Path, pages: u32) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let pages = u64::from(pages);
        Self { connection, log: log.into(), pages, tolerated: 8 * pages }
    }

    /// Moves as much of the log as readers and writers allow. Where it has grown long, writers wait meanwhile: the log
    /// restarts only while nobody reads or writes it, and they may write faster than the disk can sync.
    pub(crate) fn run(&mut self, writer: &Writer) -> rusqlite::Result<()> {
        let length = std::fs::metadata(&self.log).map_or(0, |log| log.len() / FRAME_BYTES);
        if length <= self.tolerated {
            return writer.checkpoint(|| self.checkpoint("PASSIVE", Duration::ZERO)).map(drop);
        }
        // The log's file may be long though the log is not: writing over a file's blocks is cheaper than having new
        // ones, so the file stays as long as that is not very long.
        let very_long = length > VERY_LONG * self.pages;
        if !very_long {
            let log = writer.checkpoint(|| self.checkpoint("PASSIVE", Duration::ZERO))?;
            if log.pages <= self.tolerated {
                return Ok(());
            }
        }
        let (mode, patience) = if very_long { ("TRUNCATE", MUCH_PATIENCE) } else { ("RESTART", PATIENCE) };
        let log = writer.pause("a checkpoint", || {
            // First, so that readers who come now read the file alone and are not in the way.
            self.checkpoint("PASSIVE", Duration::ZERO)?;
            self.checkpoint(mode, patience)
        })?;
        // By as much each time, not by as many times: a reader that was in the way once need not be again.
        let more = if very_long { VERY_LONG * self.pages } else { 8 * self.pages };
        self.tolerated = if log.busy { length + more } else { 8 * self.pages };
        Ok(())
    }

    /// Empties the log of a file that lost its name. The log still has its own name, and a program that opens the file put
    /// in its place would apply it to that one.
    pub(crate) fn empty(&self, writer: &Writer) -> rusqlite::Result<()> {
        writer.pause("emptying the log", || empty(&self.connection, MUCH_PATIENCE)).map(drop)
    }

    fn checkpoint(&self, mode: &str, patience: Duration) -> rusqlite::Result<Log> {
        checkpoint(&self.connection, mode, patience)
    }
}

/// Moves all of the log into the file, and makes the log empty.
pub(crate) fn empty(connection: &Connection, patience: Duration) -> rusqlite::Result<Log> {
    checkpoint(connection, "TRUNCATE", patience)
}

fn checkpoint(connection: &Connection, mode: &str, patience: Duration) -> rusqlite::Result<Log> {
    connection.busy_timeout(patience)?;
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        let pages: i64 = row.get(1)?;
        Ok(Log { busy: row.get(0)?, pages: u64::try_from(pages).unwrap_or(0) })
    })
}

/// What a checkpoint says of the log.
pub(crate) struct Log {
    /// A lock was in the way.
    pub(crate) busy: bool,
    /// How many pages are in it.
    pages: u64,
}
