//! The steps of forgetting, in order.

use std::path::{Path, PathBuf};

use memory_core::{EraseTarget, Error, ErrorKind, Result, RunContext, TombstoneId};

use super::intent::Intent;
use super::places::Places;
use super::policy::{AuditPolicy, ForgetPolicy};
use super::report::{ForgetReport, StepOutcome};
use super::{audit, intent, snapshots, store};
use crate::audit::AuditForget;
use crate::drift::Backups;
use crate::memory::Memory;

/// Forgets a target everywhere. `run` identifies the caller to a conversational layer.
///
/// # Behavior
/// - FGT-30: Each place is reported as done, nothing to do, left by policy, or out of reach with the reason.
/// - FGT-31: The target is recorded in a private file before the first step, until the last has ended or the store has
///   refused and nothing was done.
/// - FGT-32: Drift backups of the target are removed, and a backup that holds more is replaced by one without it.
/// - FGT-33: Snapshots that hold the target are rewritten, deleted or named, as the policy says.
/// - FGT-34: A snapshot that cannot be read or is being written is out of reach and named.
/// - FGT-35: Audit records of the target are redacted or kept, as the policy says.
/// - FGT-36: No byte of a journal's file contains writes of the target.
/// - FGT-37: Every forget is audited with the kind of its target, its digest and the result, but no name.
///
/// # Errors
/// `unavailable` if the forget cannot be recorded; the store's errors. If something was or may have been done, the
/// record stays, and the forget can be resumed.
pub async fn forget(
    memory: &Memory,
    target: &EraseTarget,
    places: &Places,
    policy: ForgetPolicy,
    run: Option<&RunContext>,
) -> Result<ForgetReport> {
    let is_new = match &places.intents {
        Some(folder) => intent::note(folder, &Intent { target: target.clone(), policy })?,
        None => false,
    };
    let mut report = ForgetReport::new(target);
    let done = steps(memory, target, places, policy, run, &mut report).await;
    if let Some(auditor) = &places.auditor {
        let report = done.is_ok().then_some(&report);
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
    if let Some(folder) = &places.intents
        && done.as_ref().err().is_none_or(|error| is_new && did_nothing(error, &report))
    {
        intent::end(folder, target)?;
    }
    done.map(|()| report)
}

/// Whether the store refused before anything was removed anywhere.
fn did_nothing(error: &Error, report: &ForgetReport) -> bool {
    use ErrorKind::{Corrupt, Internal, OutcomeUnknown};
    let removed = report.scopes > 0 || report.steps.iter().any(|step| step.count > 0);
    !removed && !matches!(error.kind(), Corrupt | Internal | OutcomeUnknown)
}

/// Completes the forgets that were started but not completed. Returns one report per target.
///
/// # Errors
/// Those of [`forget`]; `corrupt` for an invalid record.
pub async fn resume(memory: &Memory, places: &Places, run: Option<&RunContext>) -> Result<Vec<ForgetReport>> {
    let mut reports = Vec::new();
    for (target, policy) in interrupted(places)? {
        reports.push(forget(memory, &target, places, policy, run).await?);
    }
    Ok(reports)
}

/// The forgets that were started but not completed, which [`resume`] would complete.
///
/// # Errors
/// `unavailable` if they cannot be read; `corrupt` for an invalid record.
pub fn interrupted(places: &Places) -> Result<Vec<(EraseTarget, ForgetPolicy)>> {
    let Some(folder) = &places.intents else { return Ok(Vec::new()) };
    Ok(intent::pending(folder)?.into_iter().map(|intent| (intent.target, intent.policy)).collect())
}

/// Gives up the forgets that were started but not completed: what they removed stays removed, the rest stays. Returns
/// their targets.
///
/// # Errors
/// As [`interrupted`].
pub fn abandon(places: &Places) -> Result<Vec<EraseTarget>> {
    let Some(folder) = &places.intents else { return Ok(Vec::new()) };
    let targets = intent::pending(folder)?.into_iter().map(|intent| intent.target).collect::<Vec<_>>();
    for target in &targets {
        intent::end(folder, target)?;
    }
    Ok(targets)
}

/// How many forgets recorded in this folder ([`Places::intents`]) were started but not completed: their process died,
/// or is still running.
#[must_use]
pub fn unfinished(folder: &Path) -> usize {
    intent::count(folder)
}

/// Reports what exists of a target, without changing anything.
///
/// # Behavior
/// - FGT-39: A dry run changes nothing and reports what there is.
///
/// # Errors
/// The store's errors.
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
        report.add("journal", Some(journal), waiting, StepOutcome::Found, "queued writes of any scope");
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
    report: &mut ForgetReport,
) -> Result<()> {
    let _turn = places.intents.as_deref().map(intent::turn).transpose()?;
    // Queued writes go first; otherwise they would be replayed to the store after it has forgotten.
    #[cfg(feature = "sqlite")]
    for journal in places.journals.iter().filter(|journal| journal.is_file()) {
        match crate::fallback::erase_journaled(journal, target) {
            Ok(writes) => report.done("journal", Some(journal), writes),
            Err(error) => report.failed("journal", Some(journal), &error),
        }
    }
    store::step(memory, target, report).await?;
    store::facts(memory, target, run, report).await;
    around(target, places, policy, report, true);
    Ok(())
}

/// The places next to the store, and next to the fallback of a pair.
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
        let why = "it is configuration that stores the tenant's definitions under its name: retire them \
                   (`memory backend retire`), and delete the file if no other tenant needs it";
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
            "nothing in the folder identifies its owner; inspect it, and remove it if it is the target's";
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
                let why = "its name looks like a rotated audit file, and it contains the target: rename it to the audit file's name \
                           plus an ending, and forget again, or delete it";
                match audit::count(path, target) {
                    Ok(0) => {}
                    Ok(records) => report.add("audit", Some(path), records, StepOutcome::OutOfReach, why),
                    Err(error) => report.failed("audit", Some(path), &error),
                }
            }
        }
    }
}
