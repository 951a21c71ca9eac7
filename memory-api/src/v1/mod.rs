//! The API `/v1`: every operation of the three facets that can cross a connection, and those on shared state and
//! graphs, as JSON over HTTP. `docs/http-api.md` is for users; `docs/spec/http.md` specifies it.

mod access;
mod api;
mod batch;
mod body;
mod calls;
mod entries;
mod idempotency;
mod router;
mod state;
mod tools;

#[cfg(test)]
mod document;
#[cfg(test)]
mod replies;

pub use router::V1;
pub use router::unguarded;
pub use tools::{OnState, Tools};
