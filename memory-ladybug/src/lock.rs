//! The lock that the engine takes on a file, before the engine: it reads the log first, which another process may be writing.

use std::fs::{File, OpenOptions};
use std::path::Path;

use memory_core::Result;

use crate::files::unread;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Ours; an empty file becomes a graph.
    Own,
    /// Not ours: reading only.
    Foreign,
}

/// Locks a file for as long as what is returned is open, and no other handle to the file is closed. `None`: another process has
/// it.
pub(crate) fn of(path: &Path, opening: Opening) -> Result<Option<File>> {
    let failed = |error| unread("the agent's graph cannot be opened; check its folder and the disk", error);
    let file = OpenOptions::new().read(true).write(opening == Opening::Own).open(path).map_err(failed)?;
    #[cfg(unix)]
    {
        use rustix::fs::{FlockOperation, fcntl_lock};
        use rustix::io::Errno;
        let operation = match opening {
            Opening::Own => FlockOperation::NonBlockingLockExclusive,
            Opening::Foreign => FlockOperation::NonBlockingLockShared,
        };
        match fcntl_lock(&file, operation) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        }
    }
    Ok(Some(file))
}
