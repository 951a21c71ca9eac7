//! The database file: checked before it is touched, opened, migrated, repaired, and watched for other programs.

pub(crate) mod column;
pub(crate) mod counts;
mod differences;
pub(crate) mod location;
mod migrations;
pub(crate) mod open;
pub(crate) mod repair;
pub(crate) mod schema;
pub(crate) mod watch;
