//! The doctor's report.

use memory_core::Error;
use serde::Serialize;

use crate::sql::Exposure;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Status {
    /// As it should be.
    Ok,
    /// It works; something could be better, or is worth knowing.
    Warning,
    /// It does not work, or not as promised.
    Problem,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The name of the check, which never changes.
    pub check: &'static str,
    /// How bad it is.
    pub status: Status,
    /// What was found, and what to do.
    pub message: String,
}

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// In order of the checks.
    pub findings: Vec<Finding>,
    /// What scopes' roles can read about each other in the database for agents' SQL without the validator, because the
    /// server does not let its administrator hide it. Empty if there is nothing, or no SQL is configured.
    pub exposures: Vec<Exposure>,
    /// Whether pgvector exists and may be used, so that an embedder is possible.
    pub vectors: bool,
}

impl Report {
    /// The worst status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.findings.iter().map(|finding| finding.status).max().unwrap_or(Status::Ok)
    }

    pub(super) fn say(&mut self, check: &'static str, status: Status, message: impl Into<String>) {
        self.findings.push(Finding { check, status, message: message.into() });
    }

    pub(super) fn ok(&mut self, check: &'static str, message: impl Into<String>) {
        self.say(check, Status::Ok, message);
    }

    pub(super) fn warn(&mut self, check: &'static str, message: impl Into<String>) {
        self.say(check, Status::Warning, message);
    }

    pub(super) fn problem(&mut self, check: &'static str, message: impl Into<String>) {
        self.say(check, Status::Problem, message);
    }

    /// Reports `good`, or otherwise what to do.
    pub(super) fn warn_unless(
        &mut self,
        check: &'static str,
        holds: bool,
        good: impl Into<String>,
        bad: impl Into<String>,
    ) {
        if holds { self.ok(check, good) } else { self.warn(check, bad) }
    }

    /// Like [`Report::warn_unless`], for what does not work otherwise.
    pub(super) fn problem_unless(
        &mut self,
        check: &'static str,
        holds: bool,
        good: impl Into<String>,
        bad: impl Into<String>,
    ) {
        if holds { self.ok(check, good) } else { self.problem(check, bad) }
    }
}

pub(super) fn why(error: &Error) -> String {
    // The cause contains a SQLSTATE, a host's refusal, or a TLS error, none of which is secret.
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
