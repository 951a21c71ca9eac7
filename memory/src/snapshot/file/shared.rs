//! A private file that several processes append to and replace.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use memory_core::Result;

use super::place::{Draft, Place, same_file, unwritten};
use crate::private;

/// How long to wait for another process that writes to the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// Appends bytes to a private file, creating it if missing. Appending and replacing exclude each other.
pub(super) fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    loop {
        let mut file = private::append(path).map_err(unwritten(path))?;
        if locked(&file, path)? {
            return file.write_all(bytes).and_then(|()| file.sync_all()).map_err(unwritten(path));
        }
    }
}

/// Replaces a private file written by [`append`]. `change` reads the old content and writes the new.
pub(super) fn replace(
    path: &Path,
    change: impl FnOnce(File, &mut BufWriter<File>) -> Result<()>,
) -> Result<()> {
    let place = Place::of(path)?;
    loop {
        let file = File::open(path).map_err(unwritten(path))?;
        if !locked(&file, path)? {
            continue;
        }
        // Whoever left a draft held the lock, so that process is dead.
        place.clean()?;
        let (mut draft, out) = Draft::create(&place)?;
        let mut out = BufWriter::new(out);
        change(file.try_clone().map_err(unwritten(path))?, &mut out)?;
        out.flush().and_then(|()| out.get_ref().sync_all()).map_err(unwritten(path))?;
        return draft.name(&place);
    }
}

/// Waits for the lock of a file. Returns false if the file has been replaced or removed meanwhile.
pub(crate) fn locked(file: &File, path: &Path) -> Result<bool> {
    let begun = std::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(unwritten(path)(io::Error::from(io::ErrorKind::WouldBlock)));
            }
            // On a file system without locks, only one process can use the file.
            Err(TryLockError::Error(_)) => break,
        }
    }
    let (held, named) = (file.metadata().map_err(unwritten(path))?, fs::symlink_metadata(path));
    Ok(!cfg!(unix) || named.is_ok_and(|named| same_file(&named, &held)))
}
