//! Memory for agents of the framework [rig](https://docs.rs/rig-core).
//!
//! - [`AgentTool`]: the Memory tool as a tool of rig, behind the operator's policy;
//! - [`MemoryIndex`]: the entries of a scope as a vector store: searched, given as context, written;
//! - [`RigEmbedder`]: an embedding model of rig, with which a store is opened;
//! - `History` (feature `history`): conversations that outlive the process.
//!
//! ```
//! use memory::{Policy, RunContext, ScopeKind};
//! use memory_rig::AgentTool;
//! use rig_agent::{Agent, AgentBuilder};
//! use rig_core::{DynModel, operation::Completion};
//!
//! async fn agent(model: DynModel<Completion>) -> memory::Result<Agent> {
//!     let memory = memory::open("sqlite:agent.db").await?;
//!     let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
//!     let run = RunContext::new("acme".parse()?, "planner".parse()?, "run-1".parse()?);
//!     let tool = AgentTool::new(memory::MemoryTool::new(memory, policy, run)?);
//!     Ok(AgentBuilder::new(model).tool(tool).default_max_turns(5).build())
//! }
//! ```

mod embedder;
mod filter;
#[cfg(feature = "history")]
mod history;
mod index;
mod insert;
mod tool;

pub use memory;

pub use embedder::RigEmbedder;
#[cfg(feature = "history")]
pub use history::History;
pub use index::MemoryIndex;
pub use tool::AgentTool;
