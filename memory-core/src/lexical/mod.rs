//! Text search, defined once: every backend uses the same tokens and the same scores.
//!
//! - [`Analyzer`] turns text into tokens.
//! - [`Bm25`] weighs a token in a document; a hit's [`score`](LexicalHit::score) is BM25 as a share of the query's
//!   maximum, so it lies in `[0, 1]` and a threshold means the same in every scope.
//! - [`LexicalIndex`] indexes one scope's documents in memory, maintained by a backend; [`SegmentedIndex`] does so in a
//!   fraction of the memory, in [`Segment`]s that a backend can store.
//! - [`rank`] reads every document: slow, but obviously correct. The index is tested against it.
//!
//! Statistics (number of documents, document frequencies, mean length) are always those of one scope's live
//! documents: no scope influences the scores of another.

mod best;
mod bm25;
mod index;
mod query;
mod segment;
mod segmented;
mod stem;
mod tokenizer;

pub use bm25::{B, Bm25, K1, idf};
pub use index::LexicalIndex;
pub use query::{LexicalHit, MAX_QUERY_TERMS, TermCounts, query_terms, rank};
pub use segment::Segment;
pub use segmented::{Comparison, DocumentHit, SegmentedIndex};
pub use tokenizer::{ANALYZER_VERSION, Analyzer, MAX_TOKEN_CHARS, MAX_TOKENS, analyze, tokens};

#[cfg(test)]
mod tests;
