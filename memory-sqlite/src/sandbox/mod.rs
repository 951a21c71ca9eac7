//! The sandbox: connections on which agents' SQL runs.
//!
//! The agent writes what it likes; what must hold is that no statement sees or changes anything outside the scope's
//! database, and that each ends within its time, its memory and its quota. The authorizer is the boundary, everything else
//! is depth: `docs/sql.md`, "Layers".

mod authorizer;
mod connection;
mod describe;
mod entries;
mod functions;
mod inline;
#[cfg(feature = "lab")]
mod lab;
mod limits;
mod lock;
mod maintenance;
mod refusal;
mod run;
mod statement;
mod transaction;
mod value;

pub(crate) use connection::{Place, Sandbox};
pub(crate) use entries::{EntryPool, EntrySource};
#[cfg(feature = "lab")]
pub use lab::Trial;
#[cfg_attr(not(feature = "lab"), allow(unreachable_pub))]
pub use limits::Layers;
pub(crate) use limits::{SandboxConfig, SharedFile, heap};
pub(crate) use maintenance::{Layout, Made};
#[cfg(feature = "lab")]
pub(crate) use run::LAST_PEAK;
pub(crate) use statement::{Cancel, Ran, Statement};

pub(crate) use crate::file::open::Role;

#[cfg(test)]
mod tests;
