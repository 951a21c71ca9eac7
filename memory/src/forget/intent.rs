//! Records of started forgets, so that they can be completed.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind as IoErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memory_core::{EraseTarget, Error, IdGen as _, Result, Retry, TombstoneId};
use serde::{Deserialize, Serialize};

use super::policy::ForgetPolicy;
use crate::private;
use crate::system::RandomIds;

/// How long to wait for another process that is forgetting.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest record to read, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// A started forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    pub(super) target: EraseTarget,
    pub(super) policy: ForgetPolicy,
}

fn file_of(folder: &Path, target: &EraseTarget) -> PathBuf {
    folder.join(format!("{}.json", TombstoneId::of(target).digest()))
}

/// Records a target before anything else is done. Returns whether it is new.
pub(super) fn note(folder: &Path, intent: &Intent) -> Result<bool> {
    let bytes = serde_json::to_vec(intent)
        .map_err(|error| Error::internal("an intent has no JSON form").with_source(error))?;
    private::folder(folder, true).map_err(failed)?;
    let is_new = !file_of(folder, &intent.target).exists();
    let draft = folder.join(format!(".{:032x}.part", RandomIds.fresh()));
    let mut file = private::create_new(&draft).map_err(failed)?;
    let written = file
        .write_all(&bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&draft, file_of(folder, &intent.target)));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written.map_err(failed)?;
    sync(folder);
    Ok(is_new)
}

/// Waits for other processes that are forgetting, then keeps them out until dropped. Each rewrites whole files, so if
/// two ran at once, one would bring back what the other removed. The folder stays, because it holds the caller's
/// record.
pub(super) fn turn(folder: &Path) -> Result<Option<File>> {
    let begun = Instant::now();
    // If folders cannot be opened or locked, only one process should forget at a time; nothing enforces it.
    let Ok(lock) = File::open(folder) else { return Ok(None) };
    loop {
        match lock.try_lock() {
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(Some(lock)),
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::unavailable(
                    "another process is forgetting; nothing was done, try again when it has ended",
                ));
            }
        }
    }
}

/// Removes the record when the forget has completed.
pub(super) fn end(folder: &Path, target: &EraseTarget) -> Result<()> {
    match fs::remove_file(file_of(folder, target)) {
        Err(error) if error.kind() != IoErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    // Drafts of dead processes contain names too.
    for item in fs::read_dir(folder).map_err(failed)?.flatten() {
        if item.file_name().to_string_lossy().ends_with(".part") {
            let _ = fs::remove_file(item.path());
        }
    }
    // Succeeds only if the folder is empty.
    let _ = fs::remove_dir(folder);
    Ok(())
}

/// How many forgets were started but not completed, as far as known.
pub(super) fn count(folder: &Path) -> usize {
    let Ok(items) = fs::read_dir(folder) else { return 0 };
    items
        .flatten()
        .filter(|item| item.path().extension().is_some_and(|extension| extension == "json"))
        .count()
}

/// The forgets that were started but not completed.
pub(super) fn pending(folder: &Path) -> Result<Vec<Intent>> {
    let items = match fs::read_dir(folder) {
        Ok(items) => items,
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut intents = Vec::new();
    for item in items {
        let path = item.map_err(failed)?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let mut text = Vec::new();
        File::open(&path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text)).map_err(failed)?;
        let intent = serde_json::from_slice(&text).map_err(|error| {
            Error::corrupt(format!("{} is not a valid record of a forget; remove it", path.display()))
                .with_source(error)
        })?;
        intents.push(intent);
    }
    Ok(intents)
}

fn sync(folder: &Path) {
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::unavailable(format!("the forget cannot be recorded: {error}; check the folder beside the store"))
        .with_retry(Retry::Never)
        .with_source(error)
}
