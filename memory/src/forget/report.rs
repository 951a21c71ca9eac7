//! The result of forgetting.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use memory_core::{EraseTarget, Error, NameDigest, TombstoneId};
use serde::Serialize;

/// The outcome at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepOutcome {
    /// The target's data there was removed.
    Done,
    /// There was nothing.
    Nothing,
    /// Data was found but not changed, because this is a dry run.
    Found,
    /// It was left, as the policy says.
    Kept,
    /// No reader can see it any more, but something remains for a while.
    Remains,
    /// It could not be reached.
    OutOfReach,
}

/// One place, and the outcome there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ForgetStep {
    /// `journal`, `store`, `facts`, `drift_backups`, `snapshots`, `audit` or `definitions`.
    pub place: &'static str,
    /// The file or folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The outcome.
    pub outcome: StepOutcome,
    /// How many items of the target: writes, entries, facts, files, records.
    pub count: u64,
    /// The reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
}

/// What forgetting did, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ForgetReport {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// `tenant`, `scope` or `key`.
    pub target: &'static str,
    /// The digest that identifies the target from now on.
    pub digest: NameDigest,
    /// Scopes removed from the store.
    pub scopes: u64,
    /// Entries removed from the store.
    pub entries: u64,
    /// SQL databases removed from the store.
    pub databases: u64,
    /// Each place.
    pub steps: Vec<ForgetStep>,
}

impl ForgetReport {
    pub(super) fn new(target: &EraseTarget) -> Self {
        Self {
            dry_run: false,
            target: target.kind(),
            digest: TombstoneId::of(target).digest(),
            scopes: 0,
            entries: 0,
            databases: 0,
            steps: Vec::new(),
        }
    }

    /// Number of places that could not be reached or where something remains.
    #[must_use]
    pub fn left(&self) -> u64 {
        let left =
            |step: &&ForgetStep| matches!(step.outcome, StepOutcome::OutOfReach | StepOutcome::Remains);
        self.steps.iter().filter(left).count() as u64
    }

    /// Whether nothing is left except what the policy keeps.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left() == 0
    }

    pub(super) fn add(
        &mut self,
        place: &'static str,
        path: Option<&PathBuf>,
        count: u64,
        outcome: StepOutcome,
        reason: impl Into<Cow<'static, str>>,
    ) {
        let reason = Some(reason.into()).filter(|reason| !reason.is_empty());
        self.steps.push(ForgetStep { place, path: path.cloned(), outcome, count, reason });
    }

    pub(super) fn done(&mut self, place: &'static str, path: Option<&PathBuf>, count: u64) {
        let outcome = if count == 0 { StepOutcome::Nothing } else { StepOutcome::Done };
        self.add(place, path, count, outcome, "");
    }

    pub(super) fn found(&mut self, place: &'static str, path: Option<&PathBuf>, count: u64) {
        let outcome = if count == 0 { StepOutcome::Nothing } else { StepOutcome::Found };
        self.add(place, path, count, outcome, "");
    }

    pub(super) fn failed(&mut self, place: &'static str, path: Option<impl AsRef<Path>>, error: &Error) {
        let path = path.map(|path| path.as_ref().to_path_buf());
        self.add(place, path.as_ref(), 0, StepOutcome::OutOfReach, error.message().to_owned());
    }
}
