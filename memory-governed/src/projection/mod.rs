//! Shared rows: what a bucket's table contains, how an event changes a row, and reading and writing rows.

mod machine;
mod row;
mod writer;

pub(crate) use machine::{Step, step};
pub use row::Row;
pub(crate) use row::is_live;
pub use writer::SharedMemoryWriter;
pub(crate) use writer::{Projected, all_rows, names_of, read, rows};
