//! Snapshots that the ledger knows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use memory_core::{EraseTarget, Error, ErrorKind, Result};

use super::SnapshotPolicy;
use super::report::{ForgetReport, StepOutcome};
use crate::snapshot::{Held, Ledger, LedgerEntry, clean, holds, rewrite};

/// FGT-33, FGT-34.
pub(super) fn step(
    target: &EraseTarget,
    ledger: Option<&Ledger>,
    policy: SnapshotPolicy,
    report: &mut ForgetReport,
    changes: bool,
) {
    let Some(ledger) = ledger else { return };
    let entries = match ledger.entries() {
        Ok(entries) => entries,
        Err(error) => return report.failed("snapshots", Some(ledger.path()), &error),
    };
    // Those that can hold nothing but the target.
    let named = |entry: &LedgerEntry| {
        entry.scope.as_ref().is_some_and(|scope| target.has_scope(scope))
            || target.scope().is_none() && entry.tenant.as_ref() == Some(target.tenant())
    };
    // The last that was noted of a file is what it is.
    let files: BTreeMap<PathBuf, LedgerEntry> =
        entries.into_iter().map(|entry| (entry.path.clone(), entry)).collect();
    for (path, entry) in files.into_iter().filter(|(_, entry)| may_hold(entry, target)) {
        let policy = if changes { policy } else { SnapshotPolicy::Report };
        match of_file(&path, target, policy, changes) {
            Ok(Held::Nothing) => report.done("snapshots", Some(&path), 0),
            Ok(held) if policy != SnapshotPolicy::Report => {
                report.done("snapshots", Some(&path), 1);
                let noted = ledger.edit(|noted| match &held {
                    _ if noted.path != path => Some(noted),
                    Held::Some { sha256, bytes } if policy == SnapshotPolicy::Rewrite => {
                        Some(LedgerEntry { sha256: sha256.clone(), bytes: *bytes, ..noted })
                    }
                    _ => None,
                });
                if let Err(error) = noted {
                    report.failed("snapshots", Some(ledger.path()), &error);
                }
            }
            Ok(_) if changes => {
                report.add("snapshots", Some(&path), 1, StepOutcome::Kept, "the policy keeps snapshots");
            }
            Ok(_) => report.found("snapshots", Some(&path), 1),
            // It held nothing else, and is gone: whoever removed it did not live to say so.
            Err(error) if error.kind() == ErrorKind::NotFound && named(&entry) => {
                report.done("snapshots", Some(&path), 0);
            }
            Err(error) => report.failed("snapshots", Some(&path), &error),
        }
    }
    // What is not there any more is still named by its line.
    if changes
        && policy != SnapshotPolicy::Report
        && let Err(error) = ledger.edit(|entry| (!named(&entry) || entry.path.exists()).then_some(entry))
    {
        report.failed("snapshots", Some(ledger.path()), &error);
    }
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

fn of_file(path: &Path, target: &EraseTarget, policy: SnapshotPolicy, changes: bool) -> Result<Held> {
    if changes {
        clean(path)?;
    }
    match policy {
        SnapshotPolicy::Rewrite => rewrite(path, target),
        SnapshotPolicy::Report => holds(path, target),
        SnapshotPolicy::Delete => {
            let held = holds(path, target)?;
            if held != Held::Nothing {
                fs::remove_file(path).map_err(|error| {
                    Error::new(ErrorKind::Unavailable, format!("it cannot be deleted: {error}"))
                        .with_source(error)
                })?;
            }
            Ok(held)
        }
    }
}
