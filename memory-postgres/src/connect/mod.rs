//! Connections: URLs with several hosts, TLS, a pool, shared readers, and a timeout for every wait.

mod address;
mod hosts;
mod password;
mod pool;
mod session;
mod tls;

pub use address::is_connection_parameter;

pub(crate) use address::{Address, Password, percent_decoded, split_query};
pub(crate) use pool::{Connections, Owned};
pub(crate) use session::{Connection, Parameters, Transaction, is_transient};
pub(crate) use tls::Tls;
