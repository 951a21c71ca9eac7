//! Files under `/memories`: the commands `view`, `create`, `str_replace`, `insert`, `delete` and `rename` of the tool
//! that Anthropic's models know as `memory_20250818`, over the entries of a scope. `docs/files.md` describes it.

mod input;
mod path;
mod refused;
mod store;
mod text;
mod tool;

pub use path::{ROOT, file_key};
pub use tool::{FilesAnswer, FilesTool, files_description, files_schema};

/// The name under which a runtime offers this tool next to the Memory tool.
pub const FILES_TOOL_NAME: &str = "memory_files";
