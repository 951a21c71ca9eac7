//! The cases about whole scopes: contents, quotas, transfer and end.

mod atomic_import;
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
        stats::cases(),
        scopes::cases(),
        eviction::cases(),
        quotas::cases(),
        full_disk::cases(),
        transfer::cases(),
        atomic_import::cases(),
        snapshot::cases(),
        forget::cases(),
    ]
    .concat()
}
