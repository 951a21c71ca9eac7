//! Queries and results of searches.

use serde::{Deserialize, Serialize};

use crate::entry::Entry;
use crate::filter::Filter;
use crate::limits::{DEFAULT_TOP_K, HYBRID_POOL, RANK_POOL};
use crate::rank::{Dedup, RankOptions, SearchMode};
use crate::scope::Key;

/// The query of [`Backend::search`](super::Backend::search).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SearchQuery {
    /// What to look for: at most 64 KiB.
    pub text: String,
    /// By words, vectors or both.
    #[serde(default)]
    pub mode: SearchMode,
    /// Only keys that begin with exactly these bytes; empty: all.
    #[serde(default)]
    pub prefix: String,
    /// Only entries that match. Applied before ranking, so a filtered search never under-returns.
    #[serde(default)]
    pub filter: Option<Filter>,
    /// Most hits: 1 to `Capabilities::max_top_k`. Default 10.
    #[serde(default = "default_top_k")]
    pub top_k: usize,
    /// Leaves out hits with a lower `score`: 0 to 1. Default: none.
    #[serde(default, deserialize_with = "crate::json::exact_f64_or_none")]
    pub threshold: Option<f64>,
    /// How hits are ordered.
    #[serde(default)]
    pub rank: RankOptions,
    /// How near-duplicates are treated.
    #[serde(default)]
    pub dedup: Option<Dedup>,
}

fn default_top_k() -> usize {
    DEFAULT_TOP_K
}

impl SearchQuery {
    /// Whether similarity alone decides the order of the hits.
    #[must_use]
    pub fn is_by_similarity(&self) -> bool {
        self.rank.is_similarity_only() && self.rank.similarity == 1.0
    }

    /// How many matches to consider at most. All of them, if similarity alone does not decide the order (a weight may
    /// round two similarities to the same value, which changes the tie) or if duplicates may be dropped.
    #[must_use]
    pub fn most_matches(&self) -> usize {
        match self.mode {
            SearchMode::Hybrid | SearchMode::Auto => HYBRID_POOL,
            _ if self.is_by_similarity() && self.dedup.is_none() => self.top_k,
            _ => RANK_POOL,
        }
    }

    /// How many matches to look at first; if too few remain, look at [`most_matches`](Self::most_matches).
    /// `has_vectors` is false where there are no vectors, since nothing is a duplicate then.
    #[must_use]
    pub fn first_matches(&self, has_vectors: bool) -> usize {
        let most = self.most_matches();
        let few_are_duplicates =
            self.dedup.is_some() && has_vectors && self.mode != SearchMode::Hybrid && self.is_by_similarity();
        if few_are_duplicates { self.top_k.saturating_mul(2).saturating_add(32).min(most) } else { most }
    }

    /// A query with defaults.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            mode: SearchMode::Auto,
            prefix: String::new(),
            filter: None,
            top_k: DEFAULT_TOP_K,
            threshold: None,
            rank: RankOptions::default(),
            dedup: None,
        }
    }

    /// Sets the key prefix.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    crate::setters! {
        with_mode(mode: SearchMode);
        with_filter(filter: Filter => Some(filter));
        with_top_k(top_k: usize);
        with_threshold(threshold: f64 => Some(threshold));
        with_rank(rank: RankOptions);
        with_dedup(dedup: Dedup => Some(dedup));
    }
}

/// One hit of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Hit {
    /// The entry.
    pub entry: Entry,
    /// Absolute similarity in [0, 1], on which the threshold works: `max(0, cosine)` by vectors;
    /// by words BM25 over the query's ceiling ([`crate::lexical`]); their weighted sum for hybrid.
    #[serde(deserialize_with = "crate::json::exact_f64")]
    pub score: f64,
    /// What orders the hits ([`crate::rank`]); comparable within one result only.
    #[serde(deserialize_with = "crate::json::exact_f64")]
    pub rank_score: f64,
    /// Keys of near-duplicates folded into this hit by [`DedupPolicy::Merge`](crate::rank::DedupPolicy::Merge).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<Key>,
}

impl Hit {
    /// A hit.
    #[must_use]
    pub fn new(entry: Entry, score: f64, rank_score: f64) -> Self {
        Self { entry, score, rank_score, merged: Vec::new() }
    }
}

/// The result of [`Backend::search`](super::Backend::search).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SearchResults {
    /// Hits by descending `rank_score`, ties by key.
    pub hits: Vec<Hit>,
    /// The mode that was used; never `Auto`.
    pub mode: SearchMode,
    /// Near-duplicates found before the last hit, whatever the policy did with them.
    pub duplicates: usize,
}

impl SearchResults {
    /// A result without duplicates.
    #[must_use]
    pub fn new(hits: Vec<Hit>, mode: SearchMode) -> Self {
        Self { hits, mode, duplicates: 0 }
    }
}
