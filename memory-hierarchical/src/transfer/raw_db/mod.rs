//! A graph as an SQLite database of the original's layout: six tables, one file for one agent.

mod copied;
mod foreign;
mod path;
mod read;
mod refusals;
mod write;

pub use copied::PrivateFolder;
pub use foreign::Foreign;
pub use read::{read_raw_db, read_raw_db_rows};
pub use refusals::{Refusal, Why};
pub use write::{Held, hold_raw_db, write_raw_db};

pub(crate) use foreign::{Cells, columns};
pub(crate) use read::{Found, is_graph, read_rows};
pub(crate) use refusals::Refusals;
