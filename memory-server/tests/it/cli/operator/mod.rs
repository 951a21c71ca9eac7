//! An operator's commands.

mod backends;
mod config;
mod drift;
mod gc;
mod postgres;
mod snapshot;
