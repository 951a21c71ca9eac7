//! Messages of the protocol, a line each.

pub(crate) mod answer;
pub(crate) mod frame;
pub(crate) mod line;
mod stray_id;
pub(super) mod transport;
