//! How much a scope's database holds, and statements that would exceed its quota.

pub(crate) mod usage;
pub(crate) mod watch;
