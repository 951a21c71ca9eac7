//! The walks: one for each grammar's tree. What a walk does not know it refuses.

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
