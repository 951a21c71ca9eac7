//! The target of a restore or migration: its content, its tombstones, and the changes to it.

pub(super) mod apply;
pub(super) mod last_use;
pub(super) mod only_in_target;
pub(super) mod streams;
pub(super) mod tombstones;
