//! Memory for AI agents: the crate that a runtime depends on.
//!
//! - [`open`] and [`Registry`]: a backend by URL, always behind [`Checked`];
//! - [`embedders`]: compute vectors for entries;
//! - [`conversations`]: `add` and `recall` on stores of entries (feature `recall`);
//! - [`config`]: `memory.toml` with named backends, agents and limits;
//! - `definitions` (feature `sqlite`): backends defined at run time;
//! - `fallback` (feature `sqlite`): a store that answers while another cannot be reached;
//! - [`audit`]: a record of every operation;
//! - [`gc`]: evicts unused scopes;
//! - [`drift`]: refuses writes that would overwrite someone else's change;
//! - `governed` (feature `governed`): shared state of several agents;
//! - `hierarchical` (feature `hierarchical`): sessions and a knowledge graph per agent;
//! - [`models`]: the language model of `memory.toml` (feature `chat-openai`);
//! - [`Policy`]: what the operator allows an agent, by default nothing;
//! - [`MemoryTool`]: the one tool that a runtime gives its model;
//! - [`FilesTool`]: the same memory as files, for models that know such a tool;
//! - [`schemas`]: tools in the form that each model provider expects;
//! - [`snapshot`]: saving a store to a file, restoring it, and migrating between stores;
//! - [`system`]: the real clock and ids;
//! - `workers` (feature `sql-workers`): SQL in worker processes.
//!
//! Everything in `memory-core` is re-exported. Cargo features select the backends `sqlite` (on by default), `postgres`,
//! `mem0`, `mem9` and `remote`; `sql`, with which SQLite also serves SQL to agents; `recall` (on by default), with
//! which stores of entries also serve conversations; the embedders `embed-static` and `embed-openai`; and
//! `chat-openai`, a language model. Without features there is no database; [`Registry::register`] adds your own.

pub mod audit;
mod backends;
pub mod config;
pub mod conversations;
#[cfg(feature = "sqlite")]
pub mod definitions;
pub mod drift;
pub mod embedders;
mod factory;
#[cfg(feature = "sqlite")]
pub mod fallback;
pub mod files;
pub mod forget;
pub mod gc;
#[cfg(feature = "governed")]
pub mod governed;
mod hex;
#[cfg(feature = "hierarchical")]
pub mod hierarchical;
mod memory;
pub mod models;
pub mod policy;
mod private;
pub mod registry;
pub mod schemas;
pub mod snapshot;
mod stream;
pub mod system;
pub mod tool;
pub mod url;
#[cfg(feature = "sql-workers")]
pub mod workers;

pub use memory_core::*;

#[cfg(feature = "mem0")]
pub use crate::backends::mem0;
#[cfg(feature = "mem9")]
pub use crate::backends::mem9;
#[cfg(feature = "postgres")]
pub use crate::backends::postgres;
#[cfg(feature = "remote")]
pub use crate::backends::server;
#[cfg(feature = "sqlite")]
pub use crate::backends::sqlite;

pub use crate::config::Config;
pub use crate::factory::{Access, Factory, OpenContext};
pub use crate::files::FilesTool;
pub use crate::memory::Memory;
pub use crate::policy::{GraphAccess, OfferedTool, Policy, SharedAccess};
pub use crate::registry::{Registry, open};
#[cfg(all(feature = "governed", feature = "hierarchical"))]
pub use crate::tool::StateOp;
pub use crate::tool::{MemoryTool, ToolOp, tool_description, tool_schema};
pub use crate::url::BackendUrl;
