//! The administrator's role: creates and drops the scopes' schemas and roles, and sets up the database.

pub(crate) mod administrator;
pub(crate) mod setup;
