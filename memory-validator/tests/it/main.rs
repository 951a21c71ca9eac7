//! The validator seen from outside.
#![allow(missing_docs)]

#[path = "../support/mod.rs"]
mod support;

mod hostile;
mod postgres_corpus;
mod postgres_portable;
#[cfg(feature = "sqlite-grammar")]
mod sqlite_classes;
#[cfg(feature = "sqlite-grammar")]
mod sqlite_corpus;
#[cfg(feature = "sqlite-grammar")]
mod sqlite_laws;
mod sqlite_portable;
