//! The administrator's role: it makes and drops the scopes' schemas and roles, and sets the database up.

pub(crate) mod administrator;
pub(crate) mod setup;
