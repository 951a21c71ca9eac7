//! The SQL facet: a schema and a login role for each scope, in a database separate from the entries'.
//!
//! - Agents' statements run only as the scope's role; see [`engine`]. `install.sql` and `harden.sql` define what a role
//!   may do; see [`admin`].
//! - `memory-validator` checks every statement, which is then sent by the extended protocol; see [`protocol`].
//! - Each scope has one writer at a time, over all replicas: a lock on the server that ends with its transaction.

mod admin;
mod config;
mod dump;
mod engine;
mod errors;
mod eviction;
mod facet;
#[cfg(feature = "lab")]
pub(crate) mod lab;
mod names;
mod pool;
mod protocol;
mod quota;
mod scopes;
mod statement;
mod transaction;

pub use admin::setup::Exposure;
pub(crate) use admin::setup::look;
pub use config::SqlConfig;
pub(crate) use engine::{Engine, administrator};
