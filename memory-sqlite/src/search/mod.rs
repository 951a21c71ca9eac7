//! Search in one scope and one snapshot: by words, by vectors, or both.

mod answer;
pub(crate) mod cache;
mod caches;
mod index;
mod matches;
mod run;
mod scan;
pub(crate) mod store_index;

pub(crate) use caches::Caches;
pub(crate) use run::search;
