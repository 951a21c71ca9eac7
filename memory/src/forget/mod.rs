//! Forgetting a tenant, a scope or a key: in the store, and in everything beside it that holds a copy.
//!
//! [`forget`] reaches what waits in the journal of a fallback, the store (both of a pair), backups that drift left, the
//! snapshots that the ledger knows, audit files, and the facts of a conversational layer. It notes the target before the
//! first step and can be run again ([`resume`]). What it did, what it left and what it could not reach is in its report.
//! `docs/spec/forget.md` numbers the behaviours.

mod audit;
mod intent;
mod report;
mod snapshots;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::{EraseTarget, Result, RunContext, TombstoneId};
use serde::{Deserialize, Serialize};

pub use audit::FORGOTTEN;
pub use report::{ForgetReport, ForgetStep, StepOutcome};

use crate::audit::{AuditForget, Auditor};
use crate::drift::Backups;
use crate::memory::Memory;
use crate::snapshot::Ledger;
use intent::Intent;

/// What becomes of snapshots that hold the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotPolicy {
    /// Each is replaced by one without it.
    #[default]
    Rewrite,
    /// Each is deleted.
    Delete,
    /// Each is named.
    Report,
}

/// What becomes of audit records about the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditPolicy {
    /// They stay: an audit is kept for a reason.
    #[default]
    Keep,
    /// Names and contents in them are replaced by [`FORGOTTEN`].
    Redact,
}

/// How far forgetting goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ForgetPolicy {
    /// Snapshots.
    pub snapshots: SnapshotPolicy,
    /// Audit files.
    pub audit: AuditPolicy,
}

impl ForgetPolicy {
    /// Sets what becomes of snapshots.
    #[must_use]
    pub const fn with_snapshots(mut self, snapshots: SnapshotPolicy) -> Self {
        self.snapshots = snapshots;
        self
    }

    /// Sets what becomes of audit records.
    #[must_use]
    pub const fn with_audit(mut self, audit: AuditPolicy) -> Self {
        self.audit = audit;
        self
    }
}

/// Where copies of what a store holds lie.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Places {
    /// The folder of backups that drift left.
    pub drift_backups: Option<PathBuf>,
    /// The ledger of its snapshots.
    pub ledger: Option<Ledger>,
    /// Folders of backups that drift of a fallback left.
    pub fallback_backups: Vec<PathBuf>,
    /// Ledgers of snapshots of a fallback.
    pub fallback_ledgers: Vec<Ledger>,
    /// Journals of fallbacks.
    pub journals: Vec<PathBuf>,
    /// Audit files, without their rotated siblings.
    pub audit_files: Vec<PathBuf>,
    /// Files of definitions of backends, which name tenants and are left.
    pub definitions: Vec<PathBuf>,
    /// Where it is noted what was begun; `None`: nowhere, so that a process that dies leaves it to the caller.
    pub intents: Option<PathBuf>,
    /// Gets a record of what was done.
    pub auditor: Option<Arc<Auditor>>,
}

impl Places {
    /// Those beside the file of a SQLite store, where they are by default.
    #[must_use]
    pub fn beside(file: &Path) -> Self {
        let beside = |ending: &str| {
            let mut name = file.as_os_str().to_owned();
            name.push(ending);
            PathBuf::from(name)
        };
        Self {
            drift_backups: Some(beside(".drift")),
            ledger: Some(Ledger::at(beside(".snapshots"))),
            intents: Some(beside(".forget")),
            ..Self::default()
        }
    }

    /// Adds the journal of a fallback.
    #[must_use]
    pub fn with_journal(mut self, file: Option<PathBuf>) -> Self {
        self.journals.extend(file);
        self
    }

    /// Adds what lies beside the fallback of a pair.
    #[must_use]
    pub fn with_fallback(mut self, drift_backups: Option<PathBuf>, ledger: Option<Ledger>) -> Self {
        self.fallback_backups.extend(drift_backups);
        self.fallback_ledgers.extend(ledger);
        self
    }

    /// Adds a file of definitions.
    #[must_use]
    pub fn with_definitions(mut self, file: Option<PathBuf>) -> Self {
        self.definitions.extend(file);
        self
    }

    /// Adds an audit file.
    #[must_use]
    pub fn with_audit_file(mut self, file: Option<PathBuf>) -> Self {
        self.audit_files.extend(file);
        self
    }

    /// Sets who records what was done.
    #[must_use]
    pub fn with_auditor(mut self, auditor: Option<Arc<Auditor>>) -> Self {
        self.auditor = auditor;
        self
    }
}

/// Forgets a target, everywhere. `run` is who acts, for a conversational layer.
///
/// # Behavior
/// - FGT-30 to FGT-37.
///
/// # Errors
/// `unavailable` where it cannot be noted, or as the store fails; it is noted then and can be resumed.
pub async fn forget(
    memory: &Memory,
    target: &EraseTarget,
    places: &Places,
    policy: ForgetPolicy,
    run: Option<&RunContext>,
) -> Result<ForgetReport> {
    if let Some(folder) = &places.intents {
        intent::note(folder, &Intent { target: target.clone(), policy })?;
    }
    let done = steps(memory, target, places, policy, run).await;
    if let Some(auditor) = &places.auditor {
        let report = done.as_ref().ok();
        auditor.forgot(AuditForget {
            number: 0,
            time: memory_core::Timestamp::EPOCH,
            op: "forget",
            target: target.kind(),
            digest: TombstoneId::of(target).digest().to_string(),
            entries: report.map_or(0, |report| report.entries),
            left: report.map_or(0, ForgetReport::left),
            outcome: done.as_ref().err().map_or("ok", |error| error.kind().code()),
        });
    }
    let report = done?;
    if let Some(folder) = &places.intents {
        intent::end(folder, target)?;
    }
    Ok(report)
}

/// Ends what was begun and not ended: the reports, one for each target.
///
/// # Errors
/// As [`forget`]; `corrupt` for a note that is none.
pub async fn resume(memory: &Memory, places: &Places, run: Option<&RunContext>) -> Result<Vec<ForgetReport>> {
    let Some(folder) = &places.intents else { return Ok(Vec::new()) };
    let mut reports = Vec::new();
    for Intent { target, policy } in intent::pending(folder)? {
        reports.push(forget(memory, &target, places, policy, run).await?);
    }
    Ok(reports)
}

/// How many were begun and have not ended, of those noted in this folder ([`Places::intents`]): by a process that died, or
/// that is at it now.
#[must_use]
pub fn unfinished(folder: &Path) -> usize {
    intent::count(folder)
}

/// Says what there is of a target, and touches nothing.
///
/// # Behavior
/// - FGT-39.
///
/// # Errors
/// As the store fails.
pub async fn dry_run(
    memory: &Memory,
    target: &EraseTarget,
    places: &Places,
    policy: ForgetPolicy,
) -> Result<ForgetReport> {
    let mut report = ForgetReport::new(target);
    report.dry_run = true;
    #[cfg(feature = "sqlite")]
    for journal in places.journals.iter().filter(|journal| journal.is_file()) {
        let waiting = crate::fallback::journal_counts(journal)?.waiting;
        report.add("journal", Some(journal), waiting, StepOutcome::Found, "writes of any scope that wait");
    }
    store::look(memory, target, &mut report).await?;
    around(target, places, policy, &mut report, false);
    Ok(report)
}

async fn steps(
    memory: &Memory,
    target: &EraseTarget,
    places: &Places,
    policy: ForgetPolicy,
    run: Option<&RunContext>,
) -> Result<ForgetReport> {
    let mut report = ForgetReport::new(target);
    // What waits goes first: it would be written to the store after that has forgotten.
    #[cfg(feature = "sqlite")]
    for journal in places.journals.iter().filter(|journal| journal.is_file()) {
        match crate::fallback::erase_journaled(journal, target) {
            Ok(writes) => report.done("journal", Some(journal), writes),
            Err(error) => report.failed("journal", Some(journal), &error),
        }
    }
    store::step(memory, target, &mut report).await?;
    store::facts(memory, target, run, &mut report).await;
    around(target, places, policy, &mut report, true);
    Ok(report)
}

/// What lies beside the store, and beside the fallback of a pair.
fn around(
    target: &EraseTarget,
    places: &Places,
    policy: ForgetPolicy,
    report: &mut ForgetReport,
    changes: bool,
) {
    for root in places.drift_backups.iter().chain(&places.fallback_backups) {
        backups(target, root, report, changes);
    }
    for ledger in places.ledger.iter().chain(&places.fallback_ledgers) {
        snapshots::step(target, ledger, policy.snapshots, report, changes);
    }
    audits(target, places, policy.audit, report, changes);
    for file in places.definitions.iter().filter(|file| target.scope().is_none() && file.exists()) {
        let why = "it is configuration, and definitions of the tenant are kept in it under its name: retire them \
                   (`memory backend retire`), and delete the file where no other tenant needs it";
        report.add("definitions", Some(file), 0, StepOutcome::Kept, why);
    }
}

/// FGT-32.
fn backups(target: &EraseTarget, root: &PathBuf, report: &mut ForgetReport, changes: bool) {
    let backups = Backups::new(root);
    let holding = match backups.holding(target) {
        Ok(holding) => holding,
        Err(error) => return report.failed("drift_backups", Some(root), &error),
    };
    let mut reached = 0;
    let mut reach = |path: &PathBuf, done: Result<()>| match done {
        Ok(()) => reached += 1,
        Err(error) => report.failed("drift_backups", Some(path), &error),
    };
    for path in &holding.going {
        reach(path, if changes { Backups::remove(path) } else { Ok(()) });
    }
    for path in &holding.smaller {
        reach(path, if changes { backups.without(path, target) } else { Ok(()) });
    }
    match changes {
        true => report.done("drift_backups", Some(root), reached),
        false => report.found("drift_backups", Some(root), reached),
    }
    for path in &holding.unknown {
        let why =
            "nothing in the folder says whose it is; look into it, and remove it where it is the target's";
        report.add("drift_backups", Some(path), 0, StepOutcome::OutOfReach, why);
    }
}

/// FGT-35.
fn audits(
    target: &EraseTarget,
    places: &Places,
    policy: AuditPolicy,
    report: &mut ForgetReport,
    redacts: bool,
) {
    for file in &places.audit_files {
        let audit::Files { plain, compressed, alike } = match audit::files(file) {
            Ok(files) => files,
            Err(error) => {
                report.failed("audit", Some(file), &error);
                continue;
            }
        };
        for path in &plain {
            let keeps = policy == AuditPolicy::Keep;
            let done =
                if redacts && !keeps { audit::redact(path, target) } else { audit::count(path, target) };
            match done {
                Ok(records) if keeps && records > 0 => {
                    report.add(
                        "audit",
                        Some(path),
                        records,
                        StepOutcome::Kept,
                        "the policy keeps audit records",
                    );
                }
                Ok(records) if redacts => report.done("audit", Some(path), records),
                Ok(records) => report.found("audit", Some(path), records),
                Err(error) => report.failed("audit", Some(path), &error),
            }
        }
        if policy == AuditPolicy::Redact {
            for path in &compressed {
                let why = "it is compressed; unpack it and forget again, or delete it";
                report.add("audit", Some(path), 0, StepOutcome::OutOfReach, why);
            }
            for path in &alike {
                let why = "by its name it may be a rotated audit file, and it has the target: name it as the audit file, \
                           with an ending after it, and forget again, or delete it";
                match audit::count(path, target) {
                    Ok(0) => {}
                    Ok(records) => report.add("audit", Some(path), records, StepOutcome::OutOfReach, why),
                    Err(error) => report.failed("audit", Some(path), &error),
                }
            }
        }
    }
}
