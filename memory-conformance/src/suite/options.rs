//! What a run does, and what it tells meanwhile.

use std::thread;
use std::time::Duration;

use crate::case::Case;
use crate::cases;
#[cfg(feature = "mutants")]
use crate::mutants::MutantOutcome;
use crate::suite::runner::{DEFAULT_TIMEOUT, Outcome};

/// What [`run`](crate::run) runs, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Only cases whose id contains this.
    pub filter: Option<String>,
    /// Whether the mutants run too, each against all cases. With a filter, only the mutants run that break
    /// a sentence which one of the remaining cases proves.
    #[cfg(feature = "mutants")]
    pub mutants: bool,
    /// How long one case may take. Default 30 s.
    pub timeout: Duration,
    /// How many cases run at the same time. Default: as many as the machine has processors.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(2, usize::from);
        Self {
            filter: None,
            #[cfg(feature = "mutants")]
            mutants: false,
            timeout: DEFAULT_TIMEOUT,
            threads,
        }
    }
}

impl Options {
    /// Sets the filter.
    #[must_use]
    pub fn with_filter(mut self, filter: impl Into<String>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    /// Sets whether the mutants run.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn with_mutants(mut self, mutants: bool) -> Self {
        self.mutants = mutants;
        self
    }

    /// Sets the time limit of one case.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many cases run at the same time.
    #[must_use]
    pub fn with_threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The cases that the filter leaves.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let mut cases = cases::all();
        if let Some(filter) = &self.filter {
            cases.retain(|case| case.id.contains(filter.as_str()));
        }
        cases
    }
}

/// What happened in a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// This many cases are going to run.
    Cases(usize),
    /// A case ended.
    Case(&'a Outcome),
    /// This many mutants are going to run.
    #[cfg(feature = "mutants")]
    Mutants(usize),
    /// A mutant was run.
    #[cfg(feature = "mutants")]
    Mutant(&'a MutantOutcome),
}
