//! The Memory tool: one JSON object in, one JSON object out. `docs/tool.md` describes every operation, field and
//! answer.

mod answer;
mod call;
mod describe;
mod description;
#[cfg(feature = "governed")]
mod governed;
#[cfg(feature = "hierarchical")]
mod graph;
mod input;
mod kv;
mod layer;
mod memory_tool;
pub(crate) mod ops;
mod schema;
mod sql;
#[cfg(all(feature = "governed", feature = "hierarchical"))]
mod state;
mod suggest;
mod transaction;
mod unserved;

pub use answer::refusal;
pub(crate) use answer::without_paths;
pub use description::tool_description;
pub(crate) use input::fields::cut;
pub use memory_tool::MemoryTool;
pub(crate) use ops::whole;
pub use ops::{DEFAULT_SCOPE, ToolOp};
pub(crate) use schema::schema_of;
pub use schema::{op_schema, tool_schema};
#[cfg(all(feature = "governed", feature = "hierarchical"))]
pub use state::StateOp;

/// The name under which a runtime offers the tool.
pub const TOOL_NAME: &str = "memory";
