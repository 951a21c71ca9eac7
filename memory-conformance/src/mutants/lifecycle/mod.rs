//! Mutants of whole scopes: quotas, transfer and end.

mod closing;
mod eviction;
mod forget;
mod quotas;
mod scopes;
mod transfer;

use super::mutant::Mutant;

/// Every mutant about whole scopes.
pub(super) fn mutants() -> Vec<Mutant> {
    [
        quotas::MUTANTS,
        scopes::MUTANTS,
        closing::MUTANTS,
        eviction::MUTANTS,
        transfer::MUTANTS,
        forget::MUTANTS,
    ]
    .concat()
}
