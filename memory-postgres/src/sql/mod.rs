//! The SQL facet: a schema and a login role of its own for each scope, in a database apart from the entries'.
//!
//! - Agents' statements run as the scope's role and as nobody else; see [`engine`]. What a role may do is in
//!   `install.sql` and `harden.sql`; see [`admin`].
//! - `memory-validator` judges every text, then it is sent by the extended protocol; see [`protocol`].
//! - One statement at a time writes to a scope, over all replicas: a lock on the server that ends with its transaction.

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
