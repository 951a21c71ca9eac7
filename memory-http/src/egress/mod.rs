//! Egress control: addresses, origins, names, and the paths below a base URL.

pub(crate) mod address;
pub(crate) mod endpoint;
pub(crate) mod origin;
pub(crate) mod policy;
pub(crate) mod resolve;
