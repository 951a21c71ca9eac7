//! The cases about whole scopes: contents, quotas, transfer and end.

mod atomic_import;
mod closing;
mod eviction;
mod forget;
mod full_disk;
mod quotas;
mod scopes;
mod snapshot;
mod stats;
mod transfer;

use crate::case::Case;

/// Every case about whole scopes.
pub(super) fn cases() -> Vec<Case> {
    [
        stats::CASES,
        scopes::CASES,
        closing::CASES,
        eviction::CASES,
        quotas::CASES,
        full_disk::CASES,
        transfer::CASES,
        atomic_import::CASES,
        snapshot::CASES,
        forget::CASES,
    ]
    .concat()
}
