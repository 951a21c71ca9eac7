//! LAY: the conversational layer.

use crate::case::Case;

mod adding;
mod company;
mod events;
mod forgetting;
mod limits;
mod listing;
mod own;
mod recalling;
mod words;

/// The cases of every part.
pub(crate) fn cases() -> Vec<Case> {
    [
        adding::cases(),
        words::cases(),
        recalling::cases(),
        events::cases(),
        forgetting::cases(),
        listing::cases(),
        own::cases(),
        limits::cases(),
        company::cases(),
    ]
    .concat()
}
