//! The cases about searches, by words, by vectors and by both, and about embedding.

mod dedup;
mod embedding;
mod hybrid;
mod lexical;
mod models;
mod query_options;
mod ranking;
mod reembed;
mod slow_embedder;
mod small_caches;
mod vector_transfer;
mod vectors;
mod write_histories;

use crate::case::Case;

/// Every case about searches and embedding.
pub(super) fn cases() -> Vec<Case> {
    [
        lexical::cases(),
        query_options::cases(),
        vectors::cases(),
        hybrid::cases(),
        write_histories::cases(),
        ranking::cases(),
        dedup::cases(),
        embedding::cases(),
        slow_embedder::cases(),
        vector_transfer::cases(),
        reembed::cases(),
        models::cases(),
        small_caches::cases(),
    ]
    .concat()
}
