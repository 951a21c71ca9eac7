//! The store that a snapshot or another store is copied into: what it holds, what it has forgotten, and what is done to it.

pub(super) mod apply;
pub(super) mod last_use;
pub(super) mod only_in_target;
pub(super) mod streams;
pub(super) mod tombstones;
