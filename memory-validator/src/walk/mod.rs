//! The walks, one per grammar. A walk refuses everything it does not know.

pub(crate) mod judge;
pub(crate) mod portable;
mod portable_nodes;
#[cfg(feature = "pg-grammar")]
pub(crate) mod postgres;
#[cfg(feature = "pg-grammar")]
mod postgres_nodes;
#[cfg(feature = "sqlite-grammar")]
pub(crate) mod sqlite;
#[cfg(feature = "sqlite-grammar")]
mod sqlite_define;
#[cfg(feature = "sqlite-grammar")]
mod sqlite_expr;
#[cfg(feature = "sqlite-grammar")]
mod sqlite_names;
#[cfg(feature = "sqlite-grammar")]
mod sqlite_select;
