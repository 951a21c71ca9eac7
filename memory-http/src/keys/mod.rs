//! Keys: where they are, whose a call carries, and the patterns that name one for each tenant.

pub(crate) mod keyring;
pub(crate) mod options;
pub(crate) mod secret;
pub(crate) mod tenancy;
