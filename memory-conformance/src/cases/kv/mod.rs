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
        keys::CASES,
        values::CASES,
        entries::CASES,
        lifetime::CASES,
        versions::CASES,
        drift::CASES,
        delete::CASES,
        list::CASES,
        filters::CASES,
        increment::CASES,
        update::CASES,
        bulk::CASES,
    ]
    .concat()
}
