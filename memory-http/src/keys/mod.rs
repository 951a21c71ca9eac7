//! Keys: their sources, the choice for a call, and patterns that name one per tenant.

pub(crate) mod keyring;
pub(crate) mod options;
pub(crate) mod secret;
pub(crate) mod tenancy;
