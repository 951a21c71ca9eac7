//! Wrapping a provider: every call as a [`Request`], every result as a [`Reply`].

mod hook;
mod next;
mod operations;
mod wrapper;

pub use hook::Hook;
pub use next::Next;
pub use operations::{Op, Reply, Request};
pub use wrapper::Interposed;
