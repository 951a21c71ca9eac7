//! The conversation in stored form: keys, records and digests.

pub(crate) mod digest;
pub(crate) mod forgotten;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod progress;
pub(crate) mod record;
pub(crate) mod vector;
