//! Sessions and a graph of knowledge per agent (feature `hierarchical`): `docs/hierarchical.md`.

mod open;
pub(crate) mod tenants;

pub use memory_hierarchical::*;
pub use open::{memory_of, open, sessions};
