//! A fallback store. The sentences are those of `docs/spec/fallback.md`.

mod config;
mod erase;
mod journal;
mod kill;
mod layer;
mod model;
mod reads;
mod reported;
mod support;
