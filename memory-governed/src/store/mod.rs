//! The tables of one shared space, and transactions on them.

mod schema;
mod space;

pub(crate) use memory_core::host::{Cells, Session, int, maybe, text};
pub(crate) use schema::FORGOTTEN;
pub use space::{Options, Space};
