//! Snapshots of SQLite stores, restores, and migrations (`docs/spec/snapshot.md`).

mod files;
mod forgotten;
#[cfg(feature = "governed")]
mod governed;
mod hostile;
mod moving;
#[cfg(all(feature = "postgres", unix))]
mod postgres;
#[cfg(all(feature = "postgres", unix))]
pub(crate) mod postgres_place;
mod property;
mod random;
mod restoring;
mod support;
mod writing;
