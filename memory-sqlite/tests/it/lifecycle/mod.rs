//! Erasure and eviction.

mod erase;
#[cfg(unix)]
mod evict;
