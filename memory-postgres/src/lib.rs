//! Memory for AI agents on PostgreSQL, for runtimes of many processes on many machines.
//!
//! [`PostgresProvider`] keeps no state between two calls: any replica can serve any call. It needs a tokio runtime.
//!
//! - Writes are one round trip each, atomic on the server, and decided by the server's clock.
//! - Connections are reopened automatically after a failover; a write whose answer was lost is `outcome_unknown`.
//! - With `prepared = off` no call relies on session state, as poolers in transaction mode require.
//! - Tables are created and updated when the provider is opened, or by an operator beforehand.

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

/// Switching off layers of the SQL facet. Never for production.
#[cfg(feature = "lab")]
pub mod lab {
    pub use memory_validator::Stages;

    pub use crate::sql::lab::{dump_text, load_script, names_of, resting_connections};
}

pub use config::{PostgresConfig, Prepared};
pub use connect::is_connection_parameter;
pub use provider::PostgresProvider;
pub use sql::{Exposure, SqlConfig};
