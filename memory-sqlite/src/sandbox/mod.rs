//! The sandbox: connections on which agents' SQL runs.
//!
//! An agent may write any statement. No statement may see or change anything outside the scope's database, and each
//! ends within its time, memory and quota. The authorizer is the boundary; everything else is defence in depth:
//! `docs/sql.md`, "Layers".

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
mod virtual_table;

pub(crate) use connection::{Place, Sandbox};
pub(crate) use entries::{EntryPool, EntrySource};
#[cfg(feature = "lab")]
pub use lab::ScratchDatabase;
#[cfg_attr(not(feature = "lab"), allow(unreachable_pub))]
pub use limits::Layers;
pub(crate) use limits::{SandboxConfig, SharedFile, heap};
pub(crate) use maintenance::{Layout, SchemaObject};
#[cfg(feature = "lab")]
pub(crate) use run::LAST_PEAK;
pub(crate) use statement::{Cancel, Ran, Statement};
pub(crate) use virtual_table::{Content, content, has_made};

pub(crate) use crate::file::open::Role;

#[cfg(test)]
mod tests;
