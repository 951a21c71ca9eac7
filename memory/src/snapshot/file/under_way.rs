//! Snapshots being written, and the names of garbage collection's last snapshots.

use std::path::Path;

use memory_core::{Result, Scope, Timestamp};

use super::place::{Place, clean_parts};

/// Whether a process is writing a snapshot with this name. Leftovers of dead processes are removed.
pub(crate) fn is_under_way(path: &Path) -> Result<bool> {
    Place::of(path)?.clean()
}

/// Digits of the scope's digest in the name of a last snapshot.
const LAST_DIGEST: usize = 16;

/// The file name of a scope's last snapshot. It reveals neither tenant nor id.
pub(crate) fn last_name(scope: &Scope, now: Timestamp) -> String {
    let digest = scope.digest().to_hex();
    let digest = digest.get(..LAST_DIGEST).unwrap_or(&digest);
    format!("{}-{digest}-{}.snapshot", scope.kind, now.as_millis())
}

/// Removes what dead processes left of last snapshots in a folder. Returns whether a living process is writing one.
pub(crate) fn clean_last(folder: &Path) -> Result<bool> {
    clean_parts(folder, |of| {
        let parts = of.strip_prefix('.').and_then(|of| of.strip_suffix(".snapshot."));
        let Some((kind, rest)) = parts.and_then(|of| of.split_once('-')) else { return false };
        let Some((digest, millis)) = rest.split_once('-') else { return false };
        ["agent", "user"].contains(&kind)
            && digest.len() == LAST_DIGEST
            && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
            && millis.parse::<i64>().is_ok()
    })
}
