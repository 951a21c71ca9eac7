//! Mutants of the conversational layer, including the known flaws of remote services.

mod adding;
mod again;
mod concurrency;
mod events;
mod forgetting;
mod isolation;
mod limits;
mod listing;
mod recalling;
mod requests;

use super::mutant::Mutant;

/// Every mutant about the layer.
pub(super) fn mutants() -> Vec<Mutant> {
    [
        adding::MUTANTS,
        again::MUTANTS,
        recalling::MUTANTS,
        events::MUTANTS,
        forgetting::MUTANTS,
        listing::MUTANTS,
        isolation::MUTANTS,
        limits::MUTANTS,
        concurrency::MUTANTS,
    ]
    .concat()
}
