//! The engine's log and shadow pages beside a file, before the engine sees them.
//!
//! The engine reads the log before it locks the file, crashes on one that a kill cut off within a value, and writes records that
//! are longer than a page damaged. So nothing of ours is read from its records: a write is acknowledged once a checkpoint
//! has taken it into the file ([`Connections::commit`](crate::engine::Connections::commit)). Of the log only the record is used
//! that tells the engine to put its shadow pages into the file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind as IoErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use memory_core::Result;
use memory_hierarchical::transfer::PrivateFolder;

use crate::files::{refuse_link, unread};

/// What a log begins with: the id of the database, whether records have checksums, and the checksum of both.
const HEADER: usize = 25;
/// Records without content: their type and its checksum.
const BEGIN: [u8; 9] = *b"\x01\x08\x9d\xe3\x02\xca\xf3\x2c\x25";
const COMMIT: [u8; 9] = *b"\x02\x8a\x43\x64\x7d\x3c\xc6\x0f\x50";
/// All shadow pages are on the disk. The log ends with it.
const CHECKPOINT: [u8; 9] = *b"\xfe\xce\xd9\x57\xc9\x7a\x7a\x23\x9a";
const UNREAD: &str = "the log of the agent's graph cannot be read; check its folder and the disk";
/// Read at a time.
const WINDOW: u64 = 1 << 20;

/// What the engine puts beside a file.
pub(crate) const ENDINGS: [&str; 2] = [".wal", ".shadow"];

/// The path that goes on with this ending.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether there is anything beside a file that the engine would use.
pub(crate) fn is_beside(path: &Path) -> bool {
    ENDINGS.iter().any(|ending| fs::symlink_metadata(beside(path, ending)).is_ok_and(|found| found.len() > 0))
}

/// Refuses symbolic links, which the engine would follow.
pub(crate) fn refuse_links(path: &Path) -> Result<()> {
    ENDINGS.iter().try_for_each(|ending| refuse_link(&beside(path, ending)))
}

/// A file's name in a copy.
pub(crate) const COPY: &str = "graph_db";

/// Copies a file, which is open as `locked`, and what is beside it, with a log that the engine reads.
pub(crate) fn copied(path: &Path, locked: &File) -> Result<PrivateFolder> {
    let copy = PrivateFolder::new()?;
    copy.put(COPY, locked)?;
    for ending in ENDINGS {
        match File::open(beside(path, ending)) {
            Ok(file) => copy.put(&format!("{COPY}{ending}"), file)?,
            Err(error) if error.kind() == IoErrorKind::NotFound => continue,
            Err(error) => return Err(unread(UNREAD, error)),
        };
    }
    mend(&copy.path().join(COPY), Records::Trusted)?;
    Ok(copy)
}

/// Whose records a log has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Records {
    /// Ours: nobody was told of a write whose checkpoint is not complete.
    Own,
    /// Of a program that trusts the log: only what a kill cut off is left out.
    Trusted,
}

/// Makes the log of a file, which nobody has open, one that the engine reads.
pub(crate) fn mend(path: &Path, records: Records) -> Result<()> {
    mended(&beside(path, ".wal"), records).map_err(|error| unread(UNREAD, error))
}

fn mended(log: &Path, records: Records) -> io::Result<()> {
    let mut file = match OpenOptions::new().read(true).write(true).open(log) {
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let (length, whole) = (file.metadata()?.len(), to_u64(HEADER + CHECKPOINT.len()));
    if length >= whole && read(&mut file, length - to_u64(CHECKPOINT.len()), CHECKPOINT.len())? == CHECKPOINT
    {
        return if length > whole { only_checkpoint(&mut file, log) } else { Ok(()) };
    }
    match records {
        Records::Own => fs::remove_file(log),
        Records::Trusted => {
            let end = committed(&mut file, length)?;
            let tail = read(&mut file, end, BEGIN.len())?;
            // Anything else is for the engine to judge.
            if tail.len() < BEGIN.len() || tail == BEGIN { file.set_len(end) } else { Ok(()) }
        }
    }
}

/// Leaves the record of the checkpoint alone in a log, at once.
fn only_checkpoint(file: &mut File, log: &Path) -> io::Result<()> {
    let mut bytes = read(file, 0, HEADER)?;
    bytes.extend(CHECKPOINT);
    let draft = beside(log, ".new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != IoErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut made = options.open(&draft)?;
    made.write_all(&bytes)?;
    made.sync_all()?;
    fs::rename(&draft, log)
}

/// Where the last transaction that was committed ends.
fn committed(file: &mut File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > to_u64(HEADER) {
        let start = end.saturating_sub(WINDOW);
        let window = read(file, start, usize::try_from(end - start).unwrap_or(usize::MAX))?;
        if let Some(at) = window.windows(COMMIT.len()).rposition(|bytes| bytes == COMMIT) {
            return Ok(start + to_u64(at + COMMIT.len()));
        }
        if start == 0 {
            break;
        }
        // A record may lie over the edge.
        end = start + to_u64(COMMIT.len() - 1);
    }
    Ok(if length < to_u64(HEADER) { 0 } else { to_u64(HEADER) })
}

fn read(file: &mut File, from: u64, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(to_u64(count)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
