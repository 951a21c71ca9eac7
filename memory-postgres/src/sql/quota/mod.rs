//! The size of a scope's database, and statements that exceed its quota.

pub(crate) mod usage;
pub(crate) mod watch;
