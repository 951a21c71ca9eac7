//! Mutants of whole scopes: what they may hold, how they move and how they end.

mod eviction;
mod forget;
mod quotas;
mod scopes;
mod transfer;

use super::mutant::Mutant;

/// Every mutant about whole scopes.
pub(super) fn mutants() -> Vec<Mutant> {
    [quotas::mutants(), scopes::mutants(), eviction::mutants(), transfer::mutants(), forget::mutants()]
        .concat()
}
