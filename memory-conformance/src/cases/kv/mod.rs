//! The cases about keys and values.

mod bulk;
mod delete;
mod drift;
mod entries;
mod filters;
mod increment;
mod keys;
mod lifetime;
mod list;
mod update;
mod values;
mod versions;

use crate::case::Case;

/// Every case about keys and values.
pub(super) fn cases() -> Vec<Case> {
    [
        keys::cases(),
        values::cases(),
        entries::cases(),
        lifetime::cases(),
        versions::cases(),
        drift::cases(),
        delete::cases(),
        list::cases(),
        filters::cases(),
        increment::cases(),
        update::cases(),
        bulk::cases(),
    ]
    .concat()
}
