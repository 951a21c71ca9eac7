//! LAY: the conversational layer.

mod adding;
mod again;
mod concurrency;
mod content;
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
        adding::cases(),
        again::cases(),
        corrections::cases(),
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
