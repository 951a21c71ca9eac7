//! LAY: the conversational layer.

mod adding;
mod concurrency;
mod content;
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
        adding::cases(),
        content::cases(),
        recalling::cases(),
        events::cases(),
        forgetting::cases(),
        listing::cases(),
        isolation::cases(),
        limits::cases(),
        concurrency::cases(),
    ]
    .concat()
}
