//! A graph as a file: JSON of format 1.1 or, with the feature `sqlite`, a database in the original's layout. The
//! section "Transfer" of `docs/hierarchical.md` says what is accepted and what is refused.
//!
//! Files are read and written as a whole, at most [`MAX_BYTES`]; a [`Graph`] is what passes between them and a
//! [`GraphStore`](crate::GraphStore).

mod check;
mod circles;
mod graph;
mod import;
mod json;
#[cfg(feature = "sqlite")]
mod raw_db;
mod tables;

pub use graph::{Graph, MAX_BYTES};
pub use import::{Imported, Mode, import};
#[doc(hidden)]
pub use json::has_long_integer;
pub use json::{Document, read_json, write_json};
#[cfg(feature = "sqlite")]
pub use raw_db::{
    Foreign, Held, PrivateFolder, Refusal, Why, hold_raw_db, read_raw_db, read_raw_db_rows, write_raw_db,
};
pub use tables::{Outcome, Tables};

#[cfg(feature = "sqlite")]
pub(crate) use import::import_rows;
#[cfg(feature = "sqlite")]
pub(crate) use raw_db::{Cells, Found, Refusals, columns, is_graph, read_rows};
