//! `forget`: the result of a deletion that may have been interrupted.

use std::time::Duration;

use memory_core::layer::{FactId, ForgetOutcome};
use memory_core::{Error, ErrorKind, Result};

use crate::service::owner::Service;

/// Counts facts while they are deleted one by one.
#[derive(Debug)]
pub struct Forgetting {
    service: Service,
    forgotten: u64,
    not_found: Vec<FactId>,
}

impl Forgetting {
    /// A new count of zero.
    #[must_use]
    pub fn new(service: Service) -> Self {
        Self { service, forgotten: 0, not_found: Vec::new() }
    }

    /// The number of facts deleted so far.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Counts the result for one fact: whether it existed.
    ///
    /// # Errors
    /// As [`Forgetting::failed`].
    pub fn note(&mut self, id: &FactId, was_there: Result<bool>) -> Result<()> {
        match was_there {
            Ok(true) => self.add(1),
            Ok(false) => self.not_found.push(id.clone()),
            Err(error) => return Err(self.failed(error)),
        }
        Ok(())
    }

    /// Counts more deleted facts.
    pub fn add(&mut self, forgotten: u64) {
        self.forgotten = self.forgotten.saturating_add(forgotten);
    }

    /// The final error: the original one if nothing was deleted before it, else `outcome_unknown`.
    #[must_use]
    pub fn failed(&self, error: Error) -> Error {
        if self.forgotten == 0 && error.kind() != ErrorKind::OutcomeUnknown {
            return error;
        }
        some_may_remain(self.service, Some(self.forgotten)).with_source(error)
    }

    /// The outcome of a complete deletion.
    #[must_use]
    pub fn outcome(self) -> ForgetOutcome {
        let mut outcome = ForgetOutcome::new(Some(self.forgotten));
        outcome.not_found = self.not_found;
        outcome
    }
}

/// Deletes within a deadline.
///
/// # Errors
/// As `work`; `outcome_unknown` at the deadline.
pub async fn forget_within(
    service: Service,
    deadline: Duration,
    work: impl Future<Output = Result<ForgetOutcome>> + Send,
) -> Result<ForgetOutcome> {
    match tokio::time::timeout(deadline, work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(some_may_remain(service, None)),
    }
}

/// The error of a call that deletes: `outcome_unknown` where the service may have deleted, or may go on deleting, all the
/// same; a refusal stays as it is.
#[must_use]
pub fn may_have_forgotten(service: Service, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Timeout | ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => {
            some_may_remain(service, None).with_source(error)
        }
        _ => error,
    }
}

/// `outcome_unknown`: not everything that was to be forgotten is known to be gone.
#[must_use]
pub fn some_may_remain(service: Service, forgotten: Option<u64>) -> Error {
    let error = Error::new(
        ErrorKind::OutcomeUnknown,
        format!(
            "{} did not confirm every deletion; list the facts, and forget the remaining ones again",
            service.name
        ),
    );
    match forgotten {
        Some(forgotten) => error.with_detail("forgotten", forgotten),
        None => error,
    }
}
