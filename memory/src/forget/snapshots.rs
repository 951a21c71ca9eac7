//! Snapshots listed in the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use memory_core::{EraseTarget, Error, ErrorKind, Result};

use super::policy::SnapshotPolicy;
use super::report::{ForgetReport, StepOutcome};
use crate::snapshot::{Held, Ledger, LedgerEntry, clean_last, holds, is_under_way, rewrite};

const UNDER_WAY: &str = "a snapshot is being written there; forget again when it is finished";

/// What happened to a file.
enum Fate {
    /// It was deleted.
    Gone,
    /// Replaced by one without the target, with this digest and size.
    Smaller { sha256: String, bytes: u64 },
}

/// FGT-33, FGT-34.
pub(super) fn step(
    target: &EraseTarget,
    ledger: &Ledger,
    policy: SnapshotPolicy,
    report: &mut ForgetReport,
    changes: bool,
) {
    // A line describes a planned snapshot, and its process may have died before or after the file got its name. So
    // every line that does not rule out the target counts, and the file's content decides. True: the file can hold
    // nothing but the target.
    let mut files = BTreeMap::<PathBuf, bool>::new();
    let mut folders = BTreeSet::<PathBuf>::new();
    let read = ledger.each(|entry| {
        if let Some(folder) = entry.path.parent().filter(|folder| !folders.contains(*folder)) {
            folders.insert(folder.to_owned());
        }
        if may_hold(&entry, target) {
            let named = is_named(&entry, target);
            files.entry(entry.path).and_modify(|all| *all &= named).or_insert(named);
        }
    });
    if let Err(error) = read {
        return report.failed("snapshots", Some(ledger.path()), &error);
    }
    for folder in folders.iter().filter(|folder| changes && folder.is_dir()) {
        match clean_last(folder) {
            Ok(false) => {}
            Ok(true) => report.add("snapshots", Some(folder), 0, StepOutcome::OutOfReach, UNDER_WAY),
            Err(error) => report.failed("snapshots", Some(folder), &error),
        }
    }
    let policy = if changes { policy } else { SnapshotPolicy::Report };
    let mut fates = BTreeMap::<&Path, Fate>::new();
    for (path, named) in &files {
        if let Some(fate) = of_one(path, *named, target, policy, report, changes) {
            fates.insert(path, fate);
        }
    }
    if policy == SnapshotPolicy::Report || fates.is_empty() {
        return;
    }
    let edited = ledger.edit(|entry| match fates.get(entry.path.as_path()) {
        // Another snapshot may have been written there since; it was recorded first.
        Some(Fate::Gone) => {
            (is_under_way(&entry.path).unwrap_or(true) || entry.path.exists()).then_some(entry)
        }
        // Lines that name more than the target describe the file's remaining content.
        Some(Fate::Smaller { .. }) if is_named(&entry, target) && files.get(&entry.path) == Some(&false) => {
            None
        }
        Some(Fate::Smaller { sha256, bytes }) => {
            Some(LedgerEntry { sha256: sha256.clone(), bytes: *bytes, ..entry })
        }
        None => Some(entry),
    });
    if let Err(error) = edited {
        report.failed("snapshots", Some(ledger.path()), &error);
    }
}

/// Handles and reports one file. `named`: it can hold nothing but the target.
fn of_one(
    path: &PathBuf,
    named: bool,
    target: &EraseTarget,
    policy: SnapshotPolicy,
    report: &mut ForgetReport,
    changes: bool,
) -> Option<Fate> {
    if !path.parent().is_some_and(Path::is_dir) {
        let why = "its folder does not exist: attach its disk, or, if it is gone for good, create the \
                   folder, and forget again";
        report.add("snapshots", Some(path), 0, StepOutcome::OutOfReach, why);
        return None;
    }
    match of_file(path, target, policy, changes) {
        Ok(Found::UnderWay) => {
            report.add("snapshots", Some(path), 0, StepOutcome::OutOfReach, UNDER_WAY);
            None
        }
        Ok(Found::File(Held::Nothing)) => {
            report.done("snapshots", Some(path), 0);
            None
        }
        Ok(Found::File(held)) if policy != SnapshotPolicy::Report => {
            report.done("snapshots", Some(path), 1);
            match held {
                Held::Some { sha256, bytes } if policy == SnapshotPolicy::Rewrite => {
                    Some(Fate::Smaller { sha256, bytes })
                }
                _ => Some(Fate::Gone),
            }
        }
        Ok(Found::File(_)) if changes => {
            report.add("snapshots", Some(path), 1, StepOutcome::Kept, "the policy keeps snapshots");
            None
        }
        Ok(Found::File(_)) => {
            report.found("snapshots", Some(path), 1);
            None
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A file that held nothing else was removed when the target was forgotten, or was discarded.
            let why = if named {
                ""
            } else {
                "the file is missing; if it was copied elsewhere, the copy is unknown here"
            };
            report.add("snapshots", Some(path), 0, StepOutcome::Nothing, why);
            Some(Fate::Gone)
        }
        Err(error) => {
            report.failed("snapshots", Some(path), &error);
            None
        }
    }
}

/// Whether a line names the target, so that its snapshot can hold nothing else.
fn is_named(entry: &LedgerEntry, target: &EraseTarget) -> bool {
    entry.scope.as_ref().is_some_and(|scope| target.has_scope(scope))
        || target.scope().is_none() && entry.tenant.as_ref() == Some(target.tenant())
}

/// Whether the ledger line leaves open that the snapshot holds the target.
fn may_hold(entry: &LedgerEntry, target: &EraseTarget) -> bool {
    let of_tenant = entry.tenant.as_ref().is_none_or(|tenant| tenant == target.tenant());
    let of_scope = entry.scope.as_ref().is_none_or(|scope| match target.scope() {
        Some(only) => only == scope,
        None => scope.tenant == *target.tenant(),
    });
    of_tenant && of_scope
}

/// What was found at a path.
enum Found {
    File(Held),
    /// Unknown: a process is about to create the file.
    UnderWay,
}

fn of_file(path: &Path, target: &EraseTarget, policy: SnapshotPolicy, changes: bool) -> Result<Found> {
    if changes && is_under_way(path)? {
        return Ok(Found::UnderWay);
    }
    let held = match policy {
        SnapshotPolicy::Rewrite => rewrite(path, target)?,
        SnapshotPolicy::Report => holds(path, target)?,
        SnapshotPolicy::Delete => {
            let held = holds(path, target)?;
            if held != Held::Nothing {
                fs::remove_file(path).map_err(|error| {
                    Error::unavailable(format!("it cannot be deleted: {error}")).with_source(error)
                })?;
            }
            held
        }
    };
    Ok(Found::File(held))
}
