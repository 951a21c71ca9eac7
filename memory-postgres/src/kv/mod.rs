//! Entries: reading and writing them, their index terms, expiry and access counts.

pub(crate) mod access;
pub(crate) mod batch;
pub(crate) mod bulk;
pub(crate) mod draft;
pub(crate) mod drift;
pub(crate) mod expiry;
pub(crate) mod filter;
pub(crate) mod read;
pub(crate) mod row;
pub(crate) mod snapshot;
pub(crate) mod terms;
pub(crate) mod write;
pub(crate) mod write_result;
