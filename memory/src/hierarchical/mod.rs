//! Sessions and a knowledge graph per agent (feature `hierarchical`): `docs/hierarchical.md`.

mod open;
pub(crate) mod tenants;

pub use memory_hierarchical::*;
/// Graphs in files of the graph engine (feature `ladybug`).
#[cfg(feature = "ladybug")]
pub use memory_ladybug as ladybug;
pub use open::{memory_of, open, sessions};
