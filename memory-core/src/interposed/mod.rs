//! Wraps a provider: every call becomes a [`Request`], every result a [`Reply`].

mod failure;
pub mod frames;
mod hook;
mod next;
mod operations;
#[cfg(feature = "schema")]
mod schema;
mod wire;
mod wrapper;

pub use failure::Failure;
pub use hook::Hook;
pub use next::Next;
pub use operations::{Op, Reply, Request};
pub use wrapper::{Exchange, Interposed, Proxy};
