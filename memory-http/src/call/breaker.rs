//! The circuit breaker: calls to a server that keeps failing are suspended. See [`BreakerPolicy`].

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::egress::origin::Origin;

/// Most origins with a circuit; those that failed most recently are kept.
const MAX_ORIGINS: usize = 1_024;

/// When calls to an origin stop, and for how long.
///
/// After `failures` consecutive attempts without a connection, a complete reply or a status below 500, calls to that
/// origin are refused immediately for `cooldown`. Then one call passes as a probe, which closes the circuit or opens it
/// again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Consecutive failures that open the circuit; 0 never opens it.
    pub failures: u32,
    /// How long it stays open.
    pub cooldown: Duration,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { failures: 5, cooldown: Duration::from_secs(10) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Closed, after this many consecutive failures.
    Closed(u32),
    /// Open until this time.
    Open(Duration),
    /// Half open: a probe is running.
    Probing,
}

/// The circuits of recently failed origins. An origin without one is closed.
#[derive(Debug)]
pub(crate) struct Breakers {
    policy: BreakerPolicy,
    circuits: Mutex<BTreeMap<Origin, State>>,
}

/// Permission for one attempt. If dropped without an outcome, for example on cancellation, it does not count.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    breakers: &'a Breakers,
    origin: &'a Origin,
    probe: bool,
    settled: bool,
}

impl Breakers {
    pub(crate) fn new(policy: BreakerPolicy) -> Self {
        Self { policy, circuits: Mutex::new(BTreeMap::new()) }
    }

    /// Lets an attempt through, or returns how long to wait.
    pub(crate) fn admit<'a>(&'a self, origin: &'a Origin, now: Duration) -> Result<Permit<'a>, Duration> {
        let mut circuits = self.lock();
        let probe = match circuits.get(origin) {
            None | Some(State::Closed(_)) => false,
            Some(State::Open(until)) if *until > now => return Err(until.saturating_sub(now)),
            Some(State::Open(_)) => {
                circuits.insert(origin.clone(), State::Probing);
                true
            }
            Some(State::Probing) => return Err(self.policy.cooldown),
        };
        Ok(Permit { breakers: self, origin, probe, settled: false })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Origin, State>> {
        // Every change is one insert or remove, so a poisoned map is intact.
        self.circuits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Records an answer from the origin.
    pub(crate) fn succeeded(mut self) {
        self.settled = true;
        self.breakers.lock().remove(self.origin);
    }

    /// Records that the origin did not answer, or reported a failure.
    pub(crate) fn failed(mut self, now: Duration) {
        self.settled = true;
        let policy = &self.breakers.policy;
        if policy.failures == 0 {
            return;
        }
        let mut circuits = self.breakers.lock();
        let failures = match circuits.get(self.origin) {
            Some(State::Closed(failures)) => failures.saturating_add(1),
            // Another attempt opened it in the meantime, or this was the probe.
            Some(State::Open(_) | State::Probing) => policy.failures,
            None => 1,
        };
        let state = if failures >= policy.failures {
            State::Open(now.saturating_add(policy.cooldown))
        } else {
            State::Closed(failures)
        };
        if circuits.len() >= MAX_ORIGINS && !circuits.contains_key(self.origin) {
            circuits.pop_first();
        }
        circuits.insert(self.origin.clone(), state);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.probe && !self.settled {
            // The next call becomes the probe.
            self.breakers.lock().insert(self.origin.clone(), State::Open(Duration::ZERO));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breakers() -> (Breakers, Origin) {
        let policy = BreakerPolicy { failures: 3, cooldown: SECOND * 10 };
        (Breakers::new(policy), Origin::of("https://api.example/").unwrap())
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_by_a_probe() {
        let (breakers, origin) = breakers();
        for _ in 0..2 {
            breakers.admit(&origin, SECOND).unwrap().failed(SECOND);
        }
        breakers.admit(&origin, SECOND).unwrap().succeeded();
        for _ in 0..3 {
            breakers.admit(&origin, SECOND).unwrap().failed(SECOND);
        }
        assert_eq!(breakers.admit(&origin, SECOND * 4).unwrap_err(), SECOND * 7);
        let probe = breakers.admit(&origin, SECOND * 11).unwrap();
        assert!(breakers.admit(&origin, SECOND * 11).is_err(), "one probe at a time");
        probe.failed(SECOND * 12);
        assert_eq!(breakers.admit(&origin, SECOND * 13).unwrap_err(), SECOND * 9);
        breakers.admit(&origin, SECOND * 22).unwrap().succeeded();
        assert!(breakers.lock().is_empty());
    }

    #[test]
    fn an_abandoned_probe_gives_its_place_to_the_next() {
        let (breakers, origin) = breakers();
        for _ in 0..3 {
            breakers.admit(&origin, SECOND).unwrap().failed(SECOND);
        }
        drop(breakers.admit(&origin, SECOND * 11).unwrap());
        assert!(breakers.admit(&origin, SECOND * 11).is_ok());
    }

    #[test]
    fn origins_do_not_share_a_circuit_and_their_number_is_bounded() {
        let (breakers, origin) = breakers();
        for _ in 0..3 {
            breakers.admit(&origin, SECOND).unwrap().failed(SECOND);
        }
        let other = Origin::of("https://api.example:8443/").unwrap();
        assert!(breakers.admit(&other, SECOND).is_ok());
        for port in 1..=2_000 {
            let origin = Origin::of(&format!("https://h{port}.example/")).unwrap();
            breakers.admit(&origin, SECOND).unwrap().failed(SECOND);
        }
        assert_eq!(breakers.lock().len(), MAX_ORIGINS);
    }
}
