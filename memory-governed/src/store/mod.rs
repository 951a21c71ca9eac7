//! The tables of one shared space, and transactions over them.

mod schema;
mod session;
mod space;

pub(crate) use session::{Cells, Session, int, maybe, text};
pub use space::{Options, Space};
