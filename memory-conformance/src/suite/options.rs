//! The options of a run, and its progress events.

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
    /// Whether the mutants run too, each against all cases. With a filter, only mutants run that break a sentence
    /// proved by one of the remaining cases.
    #[cfg(feature = "mutants")]
    pub mutants: bool,
    /// Time limit per case. Default 60 s.
    pub timeout: Duration,
    /// Cases that run at the same time. Default: the number of processors.
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

/// A progress event of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// This many cases will run.
    Cases(usize),
    /// A case ended.
    Case(&'a Outcome),
    /// This many mutants will run.
    #[cfg(feature = "mutants")]
    Mutants(usize),
    /// A mutant was run.
    #[cfg(feature = "mutants")]
    Mutant(&'a MutantOutcome),
}
