//! How a write becomes durable: operations queue up, share a transaction, and are answered after its commit. Readers
//! have their own connections.

pub(crate) mod background;
pub(crate) mod batch;
pub(crate) mod checkpoint;
mod combining;
pub(crate) mod feed;
pub(crate) mod pipe;
pub(crate) mod readers;
pub(crate) mod scope;
pub(crate) mod scope_cache;
pub(crate) mod store;
pub(crate) mod threads;
pub(crate) mod uses;
pub(crate) mod waits;
pub(crate) mod writer;

/// The primitives of [`combining`]. Its model check replaces them with its own.
mod sync {
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}
