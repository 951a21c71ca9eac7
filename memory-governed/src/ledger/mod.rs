//! The ledger: events that are never changed, each bound to the one before it by a hash.

mod event;
mod rebuild;
mod verify;

pub(crate) use event::{COLUMNS, read_event};
pub use event::{Event, SourceRef};
pub use rebuild::Rebuilt;
pub(crate) use rebuild::{fold, fold_row};
pub(crate) use verify::head;
pub use verify::{Anchor, Verified};

use crate::store::Space;

/// The events of a space: proving them, and rebuilding the tables from them.
#[derive(Clone, Debug)]
pub struct Ledger(Space);

impl Ledger {
    /// The ledger of this space.
    #[must_use]
    pub fn new(space: &Space) -> Self {
        Self(space.clone())
    }
}
