//! Backends defined at run time: content-addressed, versioned, owned by a tenant, within what the operator allows under
//! `[definitions]` of `memory.toml`. `docs/backends.md` explains them to users; `docs/spec/definitions.md` numbers the
//! behaviours.

mod allowed;
mod content;
mod store;

pub(crate) use allowed::Allowed;
pub use content::{Definition, DefinitionId, DefinitionRef, MAX_DEFINITION_BYTES};
pub use store::{DefinitionStore, MAX_NAMES, MAX_VERSIONS, StoredDefinition};
