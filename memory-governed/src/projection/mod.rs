//! Shared rows: what a bucket's table holds, how an event changes a row, and reading and writing rows.

mod check;
mod columns;
mod machine;
mod row;
mod writer;

pub(crate) use check::{check, is_slug};
pub(crate) use columns::{Column, Kind, columns, id_column, main_text, rev_column, table};
pub(crate) use machine::{Step, step};
pub use row::Row;
pub use writer::SharedMemoryWriter;
pub(crate) use writer::{Projected, read, rows};
