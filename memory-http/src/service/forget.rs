//! `forget`: the result of a deletion that may have been interrupted.

use std::time::Duration;

use memory_core::layer::{FactId, Forget, ForgetOutcome};
use memory_core::{Error, ErrorKind, Op, Result, Retry, Scope, ScopeId, ScopeKind, Secret, TenantId};

use crate::keys::keyring::Keyring;
use crate::service::owner::{Owner, Service};

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

    /// The final error: the original one if nothing was deleted before it, otherwise `outcome_unknown`.
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

/// What `forget` needs from a session with a service: deleting the owner's facts, and nothing else.
pub trait Forgets: Sync {
    /// The service.
    const SERVICE: Service;

    /// Deletes one fact; returns whether it existed. Another owner's counts as absent.
    ///
    /// # Errors
    /// The service's errors; `outcome_unknown` if it may have been deleted.
    fn forget_one(&self, id: &FactId) -> impl Future<Output = Result<bool>> + Send;

    /// Deletes every fact.
    ///
    /// # Errors
    /// As [`Forgets::forget_one`].
    fn forget_all(&self) -> impl Future<Output = Result<ForgetOutcome>> + Send;

    /// Deletes within a deadline. Ids that are not the owner's are reported as not found and left alone.
    ///
    /// # Errors
    /// Those of the deletions; `outcome_unknown` at the deadline.
    fn forget(&self, what: Forget, deadline: Duration) -> impl Future<Output = Result<ForgetOutcome>> + Send {
        let work = async move {
            match what {
                Forget::Ids(ids) => {
                    let mut forgetting = Forgetting::new(Self::SERVICE);
                    for id in &ids {
                        forgetting.note(id, self.forget_one(id).await)?;
                    }
                    Ok(forgetting.outcome())
                }
                Forget::All => self.forget_all().await,
                _ => Err(Error::unsupported(Op::Forget.as_str(), Self::SERVICE.name)),
            }
        };
        async move {
            match tokio::time::timeout(deadline, work).await {
                Ok(outcome) => outcome,
                Err(_) => Err(some_may_remain(Self::SERVICE, None)),
            }
        }
    }
}

/// Forgets everything about an ended run, in the session that `session` makes from its key and owner. Without a key,
/// nothing can exist.
///
/// # Errors
/// Those of [`Forgets::forget`]; after an unknown outcome it may be retried at once.
pub async fn end_run<S: Forgets>(
    keys: &Keyring,
    tenant: &TenantId,
    root_run: &ScopeId,
    deadline: Duration,
    session: impl FnOnce(Secret, Owner) -> S,
) -> Result<()> {
    let scope = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
    let Some(key) = keys.of_ended_run(tenant, root_run) else { return Ok(()) };
    let session = session(key, S::SERVICE.owner(keys, &scope)?);
    session.forget(Forget::All, deadline).await.map_err(|error| match error.kind() {
        ErrorKind::OutcomeUnknown => error.with_retry(Retry::Now),
        _ => error,
    })?;
    keys.forget_run(tenant, root_run);
    Ok(())
}

/// The error of a call that deletes: `outcome_unknown` if the service may have deleted anyway, or may still be
/// deleting; a refusal stays as it is.
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
    let error = Error::outcome_unknown(format!(
        "{} did not confirm every deletion; list the facts, and forget the remaining ones again",
        service.name
    ));
    match forgotten {
        Some(forgotten) => error.with_detail("forgotten", forgotten),
        None => error,
    }
}
