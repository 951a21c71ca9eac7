//! Snapshots that the ledger knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use memory_core::{EraseTarget, Error, ErrorKind, Result};

use super::policy::SnapshotPolicy;
use super::report::{ForgetReport, StepOutcome};
use crate::snapshot::{Held, Ledger, LedgerEntry, clean_last, holds, is_under_way, rewrite};

/// What a file that was there became.
enum Fate {
    /// It was deleted.
    Gone,
    /// One without the target, with this digest and these bytes.
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
    // A line says what was to be written, and a process may die before or after the file has its name: each that does not
    // rule the target out counts, and the file says what it holds. True: each can hold nothing else.
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
        if let Err(error) = clean_last(folder) {
            report.failed("snapshots", Some(folder), &error);
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
        // Another may have been written there meanwhile; it was noted first.
        Some(Fate::Gone) => {
            (is_under_way(&entry.path).unwrap_or(true) || entry.path.exists()).then_some(entry)
        }
        // What the file holds now is said by the lines that do not name the target alone.
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

/// What became of a file, and says so. `named`: it can hold nothing but the target.
fn of_one(
    path: &PathBuf,
    named: bool,
    target: &EraseTarget,
    policy: SnapshotPolicy,
    report: &mut ForgetReport,
    changes: bool,
) -> Option<Fate> {
    if !path.parent().is_some_and(Path::is_dir) {
        let why = "its folder is not there: attach the disk on which it lies, or, where it is gone for good, make the \
                   folder anew, and forget again";
        report.add("snapshots", Some(path), 0, StepOutcome::OutOfReach, why);
        return None;
    }
    match of_file(path, target, policy, changes) {
        Ok(Found::UnderWay) => {
            let why = "a snapshot is being written there; forget again when that has ended";
            report.add("snapshots", Some(path), 0, StepOutcome::OutOfReach, why);
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
            // One that held nothing else is gone since it was forgotten, or let go of.
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

/// Whether a line names the target, so that what it was written for can hold nothing else.
fn is_named(entry: &LedgerEntry, target: &EraseTarget) -> bool {
    entry.scope.as_ref().is_some_and(|scope| target.has_scope(scope))
        || target.scope().is_none() && entry.tenant.as_ref() == Some(target.tenant())
}

/// Whether the ledger does not rule it out.
fn may_hold(entry: &LedgerEntry, target: &EraseTarget) -> bool {
    let of_tenant = entry.tenant.as_ref().is_none_or(|tenant| tenant == target.tenant());
    let of_scope = entry.scope.as_ref().is_none_or(|scope| match target.scope() {
        Some(only) => only == scope,
        None => scope.tenant == *target.tenant(),
    });
    of_tenant && of_scope
}

/// What was found under a name.
enum Found {
    File(Held),
    /// Nothing to rely on: a process is about to give the name to a file.
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
                    Error::new(ErrorKind::Unavailable, format!("it cannot be deleted: {error}"))
                        .with_source(error)
                })?;
            }
            held
        }
    };
    Ok(Found::File(held))
}
