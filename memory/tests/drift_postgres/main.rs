//! The drift guard on a PostgreSQL server, scenario by scenario, as `drift` has them for SQLite: what needs no SQL of a
//! stranger is the same text. Without a server each says so.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]
#![allow(missing_docs)]

#[path = "../drift/backups.rs"]
mod backups;
mod foreign;
#[path = "../drift/hands.rs"]
mod hands;
mod housekeeping;
mod past;
mod races;
#[cfg(unix)]
#[path = "../drift/read_only.rs"]
mod read_only;
#[path = "../drift/restore.rs"]
mod restore;
#[path = "../drift/sessions.rs"]
mod sessions;
#[path = "../drift/strict.rs"]
mod strict;
mod support;
