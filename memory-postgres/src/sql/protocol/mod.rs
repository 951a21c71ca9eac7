//! Sessions with the server, in PostgreSQL's extended query protocol.
//!
//! Agents' statements bypass the driver, which looks up types in catalogs that a scope's role must not read. Here every
//! value is transferred as the text that the engine prints, and no type is looked up. `postgres-protocol` encodes and
//! decodes the messages; limits, timeouts and names are decided here.

mod connect;
pub(crate) mod deadline;
pub(crate) mod exchange;
mod messages;
mod prepared;
pub(crate) mod results;
mod session;

pub(crate) use connect::{Opened, cancel, connect};
pub(crate) use messages::{Column, Fault, Reply, Row};
pub(crate) use postgres_protocol::Oid;
pub(crate) use prepared::LONGEST as LONGEST_KEPT;
pub(crate) use session::{Ending, FORGET, Lost, Session};
