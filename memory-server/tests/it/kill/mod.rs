//! A command killed at any moment leaves nothing half done, and is completed by running it again.

mod forget;
mod gc;
mod graph;
mod import;
mod restore;
mod snapshot;
