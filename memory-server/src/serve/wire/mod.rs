//! The messages of the protocol, one per line.

pub(crate) mod answer;
pub(crate) mod frame;
pub(crate) mod line;
mod stray_id;
pub(super) mod transport;
