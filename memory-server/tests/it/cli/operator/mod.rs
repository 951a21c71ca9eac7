//! An operator's commands.

mod backends;
mod begin;
mod config;
mod drift;
mod gc;
mod postgres;
mod snapshot;
