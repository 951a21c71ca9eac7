//! Memory for AI agents on PostgreSQL, for runtimes of many processes on many machines.
//!
//! [`PostgresProvider`] keeps nothing of its own between two calls: any replica serves any call. It runs on a tokio
//! runtime.
//!
//! - Writes are one round trip each, atomic on the server, and decided by the server's clock.
//! - Connections are made again by themselves after a failover; a write whose answer was lost is `outcome_unknown`.
//! - With `prepared = off` no call relies on the state of a session, as poolers in transaction mode need it.
//! - Tables are created and brought up to date when the provider is opened, or by an operator beforehand.

mod config;
mod connect;
mod error;
mod kv;
mod lifecycle;
pub mod operator;
mod provider;
mod schema;
mod search;
mod sql;
mod store;
mod vector;

/// Taking the SQL facet apart. Never for production.
#[cfg(feature = "lab")]
pub mod lab {
    pub use memory_validator::Stages;

    pub use crate::sql::lab::{dump_text, load_script, names_of, resting_connections};
}

pub use config::{PostgresConfig, Prepared};
pub use connect::is_connection_parameter;
pub use provider::PostgresProvider;
pub use sql::{Exposure, SqlConfig};
