//! A session with the server in the words of its protocol.
//!
//! Agents' statements do not pass through the driver, which looks up types by reading the catalogs: those a scope's role
//! must not read. Here every value comes as the text that the engine prints, and no type is looked up.

mod connect;
mod message;
mod named;
mod session;

pub(crate) use connect::{Opened, cancel, connect};
pub(crate) use message::{Column, Fault, Reply, Row};
pub(crate) use named::LONGEST as LONGEST_KEPT;
pub(crate) use session::{Ending, FORGET, Lost, Session};

/// A type's number in the catalogs.
pub(crate) type Oid = u32;
