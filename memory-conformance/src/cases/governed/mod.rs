//! GOV: shared state of several agents, over the provider's tables of the host. One case per hazard, and forgetting.

mod authority;
mod buckets;
mod faults;
mod forget;
mod ledger;
mod limits;
mod model;
mod names;
mod pending;
mod race;
mod speech;
mod words;

use crate::case::Case;

/// Every case about shared state.
pub(super) fn cases() -> Vec<Case> {
    [
        buckets::CASES,
        names::CASES,
        words::CASES,
        speech::CASES,
        authority::CASES,
        limits::CASES,
        faults::CASES,
        ledger::CASES,
        forget::CASES,
        pending::CASES,
        race::CASES,
        model::CASES,
    ]
    .concat()
}
