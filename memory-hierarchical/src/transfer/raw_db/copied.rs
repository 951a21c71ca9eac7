//! A private copy of a database and its write-ahead log. To read both, SQLite creates an index next to them, and leaves
//! it there.

use std::fs::{self, File};
use std::io::{ErrorKind as IoErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::{Error, ErrorKind, Result, Retry};

use super::path::{beside, io, ordinary};
use crate::transfer::graph::MAX_BYTES;

/// Most bytes of a database with its log: indexes and free pages make it larger than its rows.
const MAX_COPY: u64 = 8 * MAX_BYTES;
/// The header of a log. Its salts change when the log is restarted.
const HEAD: u64 = 32;
/// How often to retry a copy while the writer keeps restarting the log.
const TRIES: usize = 5;
/// How many folder names are tried.
const NAMES: usize = 100;
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A new folder for its owner only, inside the temporary folder, with copies of another program's files; removed when
/// this is dropped.
#[derive(Debug)]
pub struct PrivateFolder(PathBuf);

impl PrivateFolder {
    /// # Errors
    /// `unavailable` if none can be created.
    pub fn new() -> Result<Self> {
        private().map(Self)
    }

    /// Under its real name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Copies a file into the folder, and returns its length.
    ///
    /// # Errors
    /// `unavailable` if there is no room.
    pub fn put(&self, name: &str, mut from: impl Read) -> Result<u64> {
        let mut to = File::create(self.0.join(name)).map_err(no_room)?;
        std::io::copy(&mut from, &mut to).map_err(no_room)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // It is in the temporary folder, where others clean up too.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The copy; it is gone when this is dropped.
pub(crate) struct Copied(PrivateFolder);

/// Its name.
const COPY: &str = "copy.db";

impl Copied {
    /// Copies a database and its log; returns `None` if the log is gone or empty.
    ///
    /// The writer may continue meanwhile. It may move pages from the log into the database during the copy, but the
    /// log, copied afterwards, still has them. Only a restarted log may not, and then the copy is repeated.
    ///
    /// # Errors
    /// `too_large`; `unavailable` if there is no room, or the log keeps being restarted.
    pub(super) fn of(path: &Path) -> Result<Option<Self>> {
        let log = beside(path, "-wal");
        match ordinary(&log) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        let copied = Self(PrivateFolder::new()?);
        let to_log = beside(&copied.database(), "-wal");
        for _ in 0..TRIES {
            let Some(begun) = head(&log)? else { return Ok(None) };
            let length = copied.copy(path, "", MAX_COPY)?;
            match copied.copy(&log, "-wal", MAX_COPY.saturating_sub(length)) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                done => done?,
            };
            if head(&log)?.as_ref() == Some(&begun) && head(&to_log)? == Some(begun) {
                return Ok(Some(copied));
            }
        }
        Err(Error::unavailable("another program is writing the file; try again").with_retry(Retry::Now))
    }

    pub(super) fn database(&self) -> PathBuf {
        self.0.path().join(COPY)
    }

    /// Copies a file of at most `most` bytes, and returns its length.
    fn copy(&self, from: &Path, ending: &str, most: u64) -> Result<u64> {
        let from = File::open(from).map_err(io)?;
        let length = from.metadata().map_err(io)?.len();
        if length > most {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the database and its write-ahead log have more than {MAX_COPY} bytes, the most that is copied to be read; have its \
                     program close it, which empties the log"
                ),
            )
            .with_detail("limit", MAX_COPY)
            .with_detail("unit", "bytes"));
        }
        self.0.put(&format!("{COPY}{ending}"), from.take(most))
    }
}

/// A new folder for its owner only, under its real name, because SQLite must follow no link.
fn private() -> Result<PathBuf> {
    let parent = fs::canonicalize(std::env::temp_dir()).map_err(no_room)?;
    let mut made = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut made, 0o700);
    let mut last = None;
    for _ in 0..NAMES {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("memory-copy-{}-{n}", std::process::id()));
        match made.create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == IoErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(no_room(error)),
        }
    }
    Err(no_room(last.unwrap_or_else(|| IoErrorKind::AlreadyExists.into())))
}

/// The header of a log; `None` if there is no log or it is empty.
fn head(log: &Path) -> Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    match File::open(log).and_then(|file| file.take(HEAD).read_to_end(&mut head)) {
        Err(error) if error.kind() == IoErrorKind::NotFound => Ok(None),
        read => read.map(|_| (!head.is_empty()).then_some(head)).map_err(io),
    }
}

fn no_room(error: std::io::Error) -> Error {
    Error::unavailable(
        format!(
            "a database with a write-ahead log is copied to be read, and that failed in {}: make room there, or name another folder \
             in the variable for temporary files",
            std::env::temp_dir().display()
        ),
    )
    .with_retry(Retry::Never)
    .with_source(error)
}
