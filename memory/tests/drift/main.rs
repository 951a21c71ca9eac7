//! The drift guard on SQLite, scenario by scenario: `docs/spec/drift.md` has the sentences. A name's number is that of
//! the list of what such guards are known to get wrong; those of PostgreSQL are in `drift_postgres`.
#![cfg(feature = "sqlite")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]
#![allow(missing_docs)]

mod backups;
mod foreign;
mod forgotten;
#[cfg(unix)]
mod full_disk;
mod hands;
mod meanwhile;
mod own;
mod races;
#[cfg(unix)]
mod read_only;
mod restore;
mod sessions;
mod strict;
mod support;
mod tool;
