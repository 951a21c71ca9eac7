//! Memory for AI agents behind one seam: what the author of a runtime depends on.
//!
//! - [`open`] and [`Registry`]: a backend by URL, always behind [`Checked`];
//! - [`embedders`]: what gives entries vectors;
//! - [`config`]: `memory.toml` with named backends, agents and limits;
//! - `definitions` (feature `sqlite`): backends that are defined at run time;
//! - `fallback` (feature `sqlite`): a store in the place of one that cannot be reached;
//! - [`audit`]: a record of every operation;
//! - [`gc`]: scopes that nobody uses are let go;
//! - [`drift`]: writes that would destroy what somebody else changed are refused;
//! - [`Policy`]: what the operator lets an agent do; nothing unless it says so;
//! - [`MemoryTool`]: the one tool a runtime hands its model;
//! - [`snapshot`]: a store in a file, restoring it, and moving between stores;
//! - [`system`]: the real clock and ids;
//! - `workers` (feature `sql-workers`): SQL in processes of its own.
//!
//! Everything of `memory-core` is exported here too. Cargo features choose backends, `sqlite` (on by
//! default), `postgres`, `mem0` and `mem9`, and embedders, `embed-static` and `embed-openai`. Without features there is no database at
//! all, and [`Registry::register`] takes yours.

pub mod audit;
pub mod config;
#[cfg(feature = "sqlite")]
pub mod definitions;
pub mod drift;
pub mod embedders;
#[cfg(feature = "sqlite")]
pub mod fallback;
pub mod forget;
pub mod gc;
#[cfg(feature = "mem0")]
pub mod mem0;
#[cfg(feature = "mem9")]
pub mod mem9;
mod memory;
pub mod policy;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod registry;
#[cfg(any(feature = "mem0", feature = "mem9"))]
mod remote;
pub mod snapshot;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod system;
pub mod tool;
pub mod url;
#[cfg(feature = "sql-workers")]
pub mod workers;

pub use memory_core::*;

pub use crate::config::Config;
pub use crate::memory::Memory;
pub use crate::policy::Policy;
pub use crate::registry::{Factory, OpenContext, Registry, open};
pub use crate::tool::{MemoryTool, ToolOp, tool_description, tool_schema};
pub use crate::url::BackendUrl;
