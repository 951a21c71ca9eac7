//! A sink that writes records as lines of a file.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use memory_core::{Error, ErrorKind, Result};

use super::record::AuditRecord;
use super::sink::AuditSink;

/// How long to wait while the file is being rewritten.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Appends each record as one line of JSON to a file, created with mode 0600. Each line is passed to the operating
/// system in one write before the next record is taken, and synced when the auditor is idle or on
/// [`flush`](super::Auditor::flush). If the file is moved or deleted (log rotation), the next record creates it again.
#[derive(Debug)]
pub struct JsonLines {
    path: PathBuf,
    file: Option<File>,
    /// The last line may be incomplete.
    torn: bool,
}

impl JsonLines {
    /// Refuses a path that records cannot be appended to: its folder is missing, or it exists and is not a file.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub fn check(path: &Path) -> Result<()> {
        let why = match (path.metadata(), path.parent().filter(|folder| !folder.as_os_str().is_empty())) {
            (Ok(there), _) if !there.is_file() => "is no file but a folder, a pipe or a device",
            (Err(_), Some(folder)) if !folder.is_dir() => "is in a folder that does not exist",
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("the audit file {} {why}; name a file for it", path.display())))
    }

    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// Those of [`check`](Self::check); `unavailable` or `forbidden`, depending on the file system.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        Self::check(&path)?;
        let file = append(&path)?;
        // A killed process may have left an unfinished line.
        let torn = !ends_with_a_newline(&path);
        Ok(Self { path, file: Some(file), torn })
    }

    fn file(&mut self) -> Result<&mut File> {
        if self.file.is_none() {
            self.file = Some(append(&self.path)?);
        }
        self.file.as_mut().ok_or_else(|| Error::internal("the audit file was not opened"))
    }
}

impl AuditSink for JsonLines {
    fn write(&mut self, record: &AuditRecord) -> Result<()> {
        let mut line = Vec::with_capacity(512);
        if self.torn && !ends_with_a_newline(&self.path) {
            line.push(b'\n');
        }
        serde_json::to_writer(&mut line, record).map_err(|error| {
            Error::internal("an audit record could not be written as JSON").with_source(error)
        })?;
        line.push(b'\n');
        if self.file.as_ref().is_some_and(|file| !holds_still(file, &self.path)) {
            self.file = None;
        }
        self.torn = true;
        let file = self.file()?;
        let written = file.write_all(&line).map_err(unwritten);
        // From here on the file may be rewritten.
        let _ = file.unlock();
        written?;
        self.torn = false;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let Some(file) = self.file.as_ref() else { return Ok(()) };
        let synced = file.sync_data();
        if synced.is_err() || is_displaced(file, &self.path) {
            self.file = None;
        }
        synced.map_err(unwritten)
    }
}

/// Locks the file against replacement; false if it was replaced already.
fn holds_still(file: &File, path: &Path) -> bool {
    let begun = std::time::Instant::now();
    while matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
        && begun.elapsed() < PATIENCE
    {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    !is_displaced(file, path)
}

fn ends_with_a_newline(path: &Path) -> bool {
    let last = || -> std::io::Result<Option<u8>> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(None);
        }
        file.seek(SeekFrom::End(-1))?;
        let mut byte = [0];
        file.read_exact(&mut byte)?;
        Ok(byte.first().copied())
    };
    // If the file cannot be read, an extra blank line does no harm.
    matches!(last(), Ok(None | Some(b'\n')))
}

fn append(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => ErrorKind::Forbidden,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, "the audit file cannot be opened; check its folder and permissions")
            .with_source(error)
    })
}

fn unwritten(error: std::io::Error) -> Error {
    Error::unavailable("the audit file cannot be written; check the disk").with_source(error)
}

/// Whether the path now names another file, or none.
#[cfg(unix)]
fn is_displaced(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) != (named.dev(), named.ino()),
        _ => true,
    }
}

#[cfg(not(unix))]
fn is_displaced(_: &File, path: &Path) -> bool {
    !path.exists()
}
