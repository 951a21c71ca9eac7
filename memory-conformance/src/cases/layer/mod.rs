//! LAY: the conversational layer.

mod adding;
mod again;
mod concurrency;
mod confirmations;
mod content;
mod context;
mod corrections;
mod events;
mod forgetting;
mod isolation;
mod limits;
mod listing;
mod recalling;

use crate::case::Case;

/// Every case about the conversational layer.
pub(super) fn cases() -> Vec<Case> {
    [
        adding::CASES,
        again::CASES,
        corrections::CASES,
        confirmations::CASES,
        content::CASES,
        context::CASES,
        recalling::CASES,
        events::CASES,
        forgetting::CASES,
        listing::CASES,
        isolation::CASES,
        limits::CASES,
        concurrency::CASES,
    ]
    .concat()
}
