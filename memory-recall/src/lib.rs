//! Conversations on any key/value provider.

pub mod rank;
