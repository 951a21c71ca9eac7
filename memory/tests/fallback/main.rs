//! A store in the place of another. The sentences are those of `docs/spec/fallback.md`.

#![cfg(feature = "sqlite")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    reason = "tests stop at what they did not expect"
)]

mod config;
mod erase;
mod journal;
mod kill;
mod layer;
mod model;
mod reads;
mod support;
mod told;
