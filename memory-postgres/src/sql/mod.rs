//! The SQL facet: a schema and a login role of its own for each scope, in a database apart from the entries'.
//!
//! - Agents' statements run as the scope's role and as nobody else; see [`engine`]. What a role may do is in
//!   `install.sql` and `harden.sql`; see [`setup`].
//! - Every text is judged by `memory-validator`, then sent by the extended protocol; see [`wire`].
//! - One statement at a time writes to a scope, over all replicas: a lock on the server that ends with its transaction.

mod admin;
mod arguments;
mod config;
mod definitions;
mod dump;
mod dump_format;
mod engine;
mod facet;
mod fault;
#[cfg(feature = "lab")]
pub(crate) mod lab;
mod leaving;
mod levels;
mod names;
mod plans;
mod pool;
mod restore;
mod room;
mod scopes;
mod setup;
mod statements;
mod step;
mod talk;
mod transactions;
mod two_ages;
mod values;
mod verdicts;
mod watch;
mod wire;

pub use config::SqlConfig;
pub(crate) use engine::{Engine, administrator};
pub(crate) use names::Hex;
pub use setup::Exposure;
pub(crate) use setup::look;
