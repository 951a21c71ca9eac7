//! From candidates to hits: similarity, fusion, rank, threshold, near-duplicates. Pure functions shared by all
//! backends, so that every backend gives the same results.
//!
//! `rank_score = α·S + β·2^(−age / half_life) + γ·source_weight[source] + δ·ln(1 + access_count)`. The age counts from
//! `updated_at`. S is the similarity used for ordering: `max(0, cosine)` for vectors, BM25 over the query's ceiling for
//! words, and the fusion of both for hybrid. Ties break by key.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::embed::cosine;
use crate::entry::Source;
use crate::error::{Error, Result};
use crate::limits::{HYBRID_POOL, RANK_POOL};
use crate::scope::Key;
use crate::time::Timestamp;

/// How [`Backend::search`](crate::Backend::search) finds candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// Hybrid if the provider embeds, lexical otherwise.
    #[default]
    Auto,
    /// By words.
    Lexical,
    /// By vectors.
    Vector,
    /// By both.
    Hybrid,
}

/// How hybrid search combines two similarities. Its candidates are the best [`HYBRID_POOL`] by cosine and the best
/// [`HYBRID_POOL`] by words.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fusion {
    /// `vector·c + (1 − vector)·l`, where c and l are cosine and BM25, each scaled to [0, 1] between its minimum and
    /// maximum over the candidates. `vector` is in [0, 1].
    Weighted {
        /// Weight of the vector side.
        vector: f64,
    },
    /// Reciprocal-rank fusion: `Σ 1/(k + rank)`, rank from 1, over the lists that contain the candidate, divided by
    /// `2/(k + 1)` so that the best possible is 1. Cormack, Clarke and Büttcher, SIGIR 2009; their k is 60.
    ReciprocalRank {
        /// Damping constant, 1 to 1,000.
        k: u32,
    },
}

impl Default for Fusion {
    fn default() -> Self {
        Self::Weighted { vector: 0.5 }
    }
}

/// Weights of the ranking formula. Default: similarity alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RankOptions {
    /// α, the weight of similarity: 0 to 100. Default 1.
    pub similarity: f64,
    /// β, the weight of recency: 0 to 100. Default 0.
    pub recency: f64,
    /// Age at which recency is one half, in seconds: over 0, to 100 years. Default 30 days.
    pub half_life_seconds: f64,
    /// γ, the weight of the source: 0 to 100. Default 0.
    pub source: f64,
    /// Weight by source label, −100 to 100; others weigh 0.
    pub source_weights: BTreeMap<String, f64>,
    /// δ, the weight of access frequency: 0 to 100. Default 0.
    pub frequency: f64,
    /// The fusion of hybrid search.
    pub fusion: Fusion,
}

impl Default for RankOptions {
    fn default() -> Self {
        Self {
            similarity: 1.0,
            recency: 0.0,
            half_life_seconds: 30.0 * 86_400.0,
            source: 0.0,
            source_weights: BTreeMap::new(),
            frequency: 0.0,
            fusion: Fusion::default(),
        }
    }
}

impl RankOptions {
    /// Checks the ranges of the fields.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field.
    pub fn check(&self) -> Result<()> {
        let in_range = |name: &str, value: f64, low: f64, high: f64| {
            if value.is_finite() && value >= low && value <= high {
                Ok(())
            } else {
                Err(Error::invalid(format!("rank.{name} must be {low} to {high}")))
            }
        };
        in_range("similarity", self.similarity, 0.0, 100.0)?;
        in_range("recency", self.recency, 0.0, 100.0)?;
        in_range("source", self.source, 0.0, 100.0)?;
        in_range("frequency", self.frequency, 0.0, 100.0)?;
        in_range("half_life_seconds", self.half_life_seconds, 0.001, 100.0 * 365.0 * 86_400.0)?;
        if self.source_weights.len() > 1_000 {
            return Err(Error::too_large("rank.source_weights", self.source_weights.len(), 1_000, "labels"));
        }
        for weight in self.source_weights.values() {
            in_range("source_weights", *weight, -100.0, 100.0)?;
        }
        match self.fusion {
            Fusion::Weighted { vector } => in_range("fusion.weighted.vector", vector, 0.0, 1.0),
            Fusion::ReciprocalRank { k } => in_range("fusion.reciprocal_rank.k", f64::from(k), 1.0, 1_000.0),
        }
    }

    /// Whether the order depends only on similarity, so that a backend may trim early.
    #[must_use]
    pub fn is_similarity_only(&self) -> bool {
        self.similarity > 0.0 && self.recency == 0.0 && self.source == 0.0 && self.frequency == 0.0
    }
}

/// What ranking needs to know about a candidate.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// Its key; breaks ties.
    pub key: &'a Key,
    /// BM25 over the query's ceiling, in [0, 1]; `None` if no query word occurs.
    pub lexical: Option<f64>,
    /// Cosine; `None` if it has no vector of the query's model.
    pub cosine: Option<f64>,
    /// Time of the last write.
    pub updated_at: Timestamp,
    /// Source label.
    pub source: Option<&'a Source>,
    /// Accesses so far, not counting this search.
    pub access_count: u64,
}

/// A candidate with its scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Position in the slice of candidates.
    pub index: usize,
    /// Absolute similarity in [0, 1].
    pub score: f64,
    /// The value to order by.
    pub rank_score: f64,
}

/// `2^(−age / half_life)` in (0, 1]; 1 for an entry from the future.
#[must_use]
pub fn recency(updated_at: Timestamp, now: Timestamp, half_life_seconds: f64) -> f64 {
    let age: Duration = now.saturating_since(updated_at);
    (-age.as_secs_f64() / half_life_seconds).exp2()
}

/// Scores, filters by threshold and orders candidates, best first.
///
/// `mode` must not be `Auto` (which counts as hybrid). Candidates without the similarity that the mode needs are left
/// out. Hybrid takes the best [`HYBRID_POOL`] by cosine and the best [`HYBRID_POOL`] by words (ties by key), each with
/// both similarities, so a backend may pass any superset of these. If there are more than [`RANK_POOL`] candidates,
/// only the best by S (ties by key) are ranked.
#[must_use]
pub fn rank(
    mode: SearchMode,
    candidates: &[Candidate<'_>],
    threshold: Option<f64>,
    options: &RankOptions,
    now: Timestamp,
) -> Vec<Ranked> {
    let hybrid = matches!(mode, SearchMode::Hybrid | SearchMode::Auto);
    let pool = (hybrid && candidates.len() > HYBRID_POOL).then(|| hybrid_pool(candidates));
    let pooled: Vec<Candidate<'_>>;
    let considered = match &pool {
        Some(pool) => {
            pooled = pool.iter().filter_map(|&index| candidates.get(index)).cloned().collect();
            pooled.as_slice()
        }
        None => candidates,
    };
    let index_of = |place: usize| pool.as_ref().and_then(|pool| pool.get(place)).copied().unwrap_or(place);
    let mut scored: Vec<(Ranked, &Candidate<'_>)> = similarities(mode, considered, options.fusion)
        .into_iter()
        .zip(considered)
        .enumerate()
        .map(|(place, scored)| (index_of(place), scored))
        .filter_map(|(index, (similarity, candidate))| {
            let (score, s) = similarity?;
            (threshold.is_none_or(|threshold| score >= threshold))
                .then_some((Ranked { index, score, rank_score: s }, candidate))
        })
        .collect();
    scored.sort_by(by_rank);
    scored.truncate(RANK_POOL);
    for (ranked, candidate) in &mut scored {
        let source_weight = candidate
            .source
            .and_then(|source| options.source_weights.get(source.as_str()))
            .copied()
            .unwrap_or(0.0);
        #[allow(clippy::cast_precision_loss, reason = "a logarithm of a count")]
        let accesses = candidate.access_count as f64;
        let mut rank_score = options.similarity * ranked.rank_score;
        if options.recency != 0.0 {
            rank_score += options.recency * recency(candidate.updated_at, now, options.half_life_seconds);
        }
        rank_score += options.source * source_weight + options.frequency * accesses.ln_1p();
        ranked.rank_score = rank_score;
    }
    scored.sort_by(by_rank);
    scored.into_iter().map(|(ranked, _)| ranked).collect()
}

/// Indices of the candidates that are among the best of either side, ascending.
fn hybrid_pool(candidates: &[Candidate<'_>]) -> Vec<usize> {
    let mut chosen = vec![false; candidates.len()];
    for value in [|c: &Candidate<'_>| c.cosine, |c: &Candidate<'_>| c.lexical] {
        let mut side: Vec<(usize, f64, &Key)> = candidates
            .iter()
            .enumerate()
            .filter_map(|(index, candidate)| Some((index, value(candidate)?, candidate.key)))
            .collect();
        let best_first =
            |a: &(usize, f64, &Key), b: &(usize, f64, &Key)| b.1.total_cmp(&a.1).then_with(|| a.2.cmp(b.2));
        if side.len() > HYBRID_POOL {
            side.select_nth_unstable_by(HYBRID_POOL - 1, best_first);
            side.truncate(HYBRID_POOL);
        }
        for (index, ..) in side {
            if let Some(chosen) = chosen.get_mut(index) {
                *chosen = true;
            }
        }
    }
    chosen.iter().enumerate().filter_map(|(index, chosen)| chosen.then_some(index)).collect()
}

fn by_rank(a: &(Ranked, &Candidate<'_>), b: &(Ranked, &Candidate<'_>)) -> Ordering {
    b.0.rank_score.total_cmp(&a.0.rank_score).then_with(|| a.1.key.cmp(b.1.key))
}

/// For each candidate its absolute score and its similarity S for ordering; `None` if it is not a candidate in this
/// mode.
fn similarities(mode: SearchMode, candidates: &[Candidate<'_>], fusion: Fusion) -> Vec<Option<(f64, f64)>> {
    let vector = |candidate: &Candidate<'_>| candidate.cosine.map(|cosine| cosine.clamp(0.0, 1.0));
    let lexical = |candidate: &Candidate<'_>| candidate.lexical.map(|score| score.clamp(0.0, 1.0));
    match mode {
        SearchMode::Lexical => candidates.iter().map(|c| lexical(c).map(|s| (s, s))).collect(),
        SearchMode::Vector => candidates.iter().map(|c| vector(c).map(|s| (s, s))).collect(),
        SearchMode::Hybrid | SearchMode::Auto => {
            let weight = match fusion {
                Fusion::Weighted { vector } => vector,
                Fusion::ReciprocalRank { .. } => 0.5,
            };
            let absolute = |c: &Candidate<'_>| {
                let (v, l) = (vector(c), lexical(c));
                (v.is_some() || l.is_some())
                    .then(|| weight * v.unwrap_or(0.0) + (1.0 - weight) * l.unwrap_or(0.0))
            };
            let fused = match fusion {
                Fusion::Weighted { vector: weight } => {
                    let v = scaled(candidates.iter().map(|c| c.cosine));
                    let l = scaled(candidates.iter().map(|c| c.lexical));
                    v.into_iter().zip(l).map(|(v, l)| weight * v + (1.0 - weight) * l).collect::<Vec<_>>()
                }
                Fusion::ReciprocalRank { k } => {
                    let v = reciprocal_ranks(candidates, k, |c| c.cosine);
                    let l = reciprocal_ranks(candidates, k, |c| c.lexical);
                    let best = 2.0 / (f64::from(k) + 1.0);
                    v.into_iter().zip(l).map(|(v, l)| (v + l) / best).collect()
                }
            };
            candidates.iter().zip(fused).map(|(c, s)| absolute(c).map(|score| (score, s))).collect()
        }
    }
}

/// Min-max scaling over the values present. Absent values become 0; if all values are equal, they become 1.
fn scaled(values: impl Iterator<Item = Option<f64>> + Clone) -> Vec<f64> {
    let (low, high) = values
        .clone()
        .flatten()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let span = high - low;
    values
        .map(|value| match value {
            None => 0.0,
            Some(value) if span > 0.0 => (value - low) / span,
            Some(_) => 1.0,
        })
        .collect()
}

fn reciprocal_ranks(
    candidates: &[Candidate<'_>],
    k: u32,
    value: impl Fn(&Candidate<'_>) -> Option<f64>,
) -> Vec<f64> {
    let mut order: Vec<(usize, f64, &Key)> = candidates
        .iter()
        .enumerate()
        .filter_map(|(index, candidate)| Some((index, value(candidate)?, candidate.key)))
        .collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.2.cmp(b.2)));
    let mut parts = vec![0.0; candidates.len()];
    let mut rank = f64::from(k);
    for (index, _, _) in order {
        rank += 1.0;
        if let Some(part) = parts.get_mut(index) {
            *part = 1.0 / rank;
        }
    }
    parts
}

/// What to do with a hit that nearly equals a better one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DedupPolicy {
    /// Leave it out.
    #[default]
    Drop,
    /// Leave it out, and list its key in the better hit's `merged`.
    Merge,
    /// Keep it, and only count it.
    Keep,
}

/// Treatment of near-duplicates, after ranking and before trimming.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Dedup {
    /// Cosine similarity from which two hits count as duplicates: 0 to 1. Default 0.92.
    pub threshold: f64,
    /// What to do with the lesser one.
    pub policy: DedupPolicy,
}

impl Default for Dedup {
    fn default() -> Self {
        Self { threshold: 0.92, policy: DedupPolicy::Drop }
    }
}

impl Dedup {
    /// Checks the threshold's range.
    ///
    /// # Errors
    /// `invalid_argument` outside 0 to 1.
    pub fn check(&self) -> Result<()> {
        if (0.0..=1.0).contains(&self.threshold) {
            Ok(())
        } else {
            Err(Error::invalid("dedup.threshold must be 0 to 1"))
        }
    }
}

/// A hit that survived deduplication, with those folded into it.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The ranked candidate.
    pub ranked: Ranked,
    /// Candidates folded into it, as indices into the slice given to [`rank`].
    pub merged: Vec<usize>,
}

/// Folds near-duplicates and trims to `top_k`; returns the kept hits and the number of duplicates found.
///
/// A candidate is a duplicate of the first better one that is not itself a duplicate and whose cosine is at least the
/// threshold; candidates without a vector always pass. `vector_of` returns a candidate's vector by its index in the
/// slice given to [`rank`]. The search for duplicates stops once `top_k` are kept and the next candidate is not a
/// duplicate.
pub fn dedup<'a>(
    ranked: &[Ranked],
    top_k: usize,
    options: Option<&Dedup>,
    vector_of: impl Fn(usize) -> Option<&'a [f32]>,
) -> (Vec<Kept>, usize) {
    let mut kept: Vec<Kept> = Vec::new();
    let Some(options) = options else {
        kept.extend(ranked.iter().take(top_k).map(|ranked| Kept { ranked: *ranked, merged: Vec::new() }));
        return (kept, 0);
    };
    // Indices in `kept` of the hits that later candidates may duplicate.
    let mut anchors: Vec<(usize, &[f32])> = Vec::new();
    let mut duplicates = 0;
    for candidate in ranked {
        let vector = vector_of(candidate.index);
        let anchor = vector.and_then(|vector| {
            anchors.iter().find(|(_, other)| cosine(vector, other) >= options.threshold).map(|(at, _)| *at)
        });
        match anchor {
            None if kept.len() >= top_k => break,
            None => {
                if let Some(vector) = vector {
                    anchors.push((kept.len(), vector));
                }
                kept.push(Kept { ranked: *candidate, merged: Vec::new() });
            }
            Some(at) => {
                duplicates += 1;
                match options.policy {
                    DedupPolicy::Drop => {}
                    DedupPolicy::Merge => {
                        if let Some(anchor) = kept.get_mut(at) {
                            anchor.merged.push(candidate.index);
                        }
                    }
                    DedupPolicy::Keep if kept.len() >= top_k => break,
                    DedupPolicy::Keep => kept.push(Kept { ranked: *candidate, merged: Vec::new() }),
                }
            }
        }
    }
    (kept, duplicates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| Key::new(*name).unwrap()).collect()
    }

    fn candidate(key: &Key, lexical: Option<f64>, cosine: Option<f64>) -> Candidate<'_> {
        Candidate { key, lexical, cosine, updated_at: Timestamp::EPOCH, source: None, access_count: 0 }
    }

    fn order(ranked: &[Ranked]) -> Vec<usize> {
        ranked.iter().map(|ranked| ranked.index).collect()
    }

    #[test]
    fn by_default_similarity_orders_and_ties_break_by_key() {
        let keys = keys(&["b", "a", "c"]);
        let candidates = [
            candidate(&keys[0], Some(0.4), None),
            candidate(&keys[1], Some(0.4), None),
            candidate(&keys[2], Some(0.9), None),
        ];
        let ranked = rank(SearchMode::Lexical, &candidates, None, &RankOptions::default(), Timestamp::EPOCH);
        assert_eq!(order(&ranked), [2, 1, 0]);
        assert_eq!(ranked[0].score, 0.9);
    }

    #[test]
    fn the_threshold_applies_to_the_score_and_not_to_the_rank() {
        let keys = keys(&["a", "b"]);
        let mut candidates = [candidate(&keys[0], Some(0.4), None), candidate(&keys[1], Some(0.6), None)];
        candidates[0].access_count = 1_000_000;
        let options = RankOptions { frequency: 10.0, ..RankOptions::default() };
        let ranked = rank(SearchMode::Lexical, &candidates, Some(0.5), &options, Timestamp::EPOCH);
        assert_eq!(order(&ranked), [1]);
    }

    #[test]
    fn recency_halves_at_the_half_life() {
        let then = Timestamp::from_millis(1_000_000).unwrap();
        let now = Timestamp::from_millis(1_060_000).unwrap();
        assert!((recency(then, now, 60.0) - 0.5).abs() < 1e-12);
        assert_eq!(recency(now, then, 60.0), 1.0);
    }

    #[test]
    fn weights_shift_the_order() {
        let keys = keys(&["old", "new"]);
        let mut candidates = [candidate(&keys[0], Some(0.5), None), candidate(&keys[1], Some(0.4), None)];
        candidates[1].updated_at = Timestamp::from_millis(86_400_000).unwrap();
        let now = Timestamp::from_millis(86_400_000).unwrap();
        let options = RankOptions { recency: 1.0, half_life_seconds: 3_600.0, ..RankOptions::default() };
        assert_eq!(order(&rank(SearchMode::Lexical, &candidates, None, &options, now)), [1, 0]);

        let source = Source::new("boss").unwrap();
        candidates[0].source = Some(&source);
        let options = RankOptions {
            source: 1.0,
            source_weights: BTreeMap::from([("boss".to_owned(), 3.0)]),
            ..options
        };
        assert_eq!(order(&rank(SearchMode::Lexical, &candidates, None, &options, now)), [0, 1]);
    }

    #[test]
    fn hybrid_scales_each_side_over_the_candidates() {
        let keys = keys(&["a", "b", "c"]);
        let candidates = [
            candidate(&keys[0], Some(0.10), Some(0.50)),
            candidate(&keys[1], None, Some(0.60)),
            candidate(&keys[2], Some(0.30), None),
        ];
        let ranked = rank(SearchMode::Hybrid, &candidates, None, &RankOptions::default(), Timestamp::EPOCH);
        // a: 0 + 0; b: .5·1 + 0; c: 0 + .5·1; b and c tie, so key order.
        assert_eq!(order(&ranked), [1, 2, 0]);
        assert!((ranked[0].score - 0.30).abs() < 1e-12);
        assert!((ranked[0].rank_score - 0.5).abs() < 1e-12);
    }

    #[test]
    fn hybrid_takes_the_best_of_each_side_and_no_others() {
        let count = HYBRID_POOL + 10;
        let names: Vec<Key> = (0..2 * count).map(|n| Key::new(format!("k{n:05}")).unwrap()).collect();
        // The first half has only words, the second only vectors; later ones are worse.
        let candidates: Vec<Candidate<'_>> = names
            .iter()
            .enumerate()
            .map(|(n, key)| {
                let value = Some(1.0 - 0.0001 * (n % count) as f64);
                if n < count { candidate(key, value, None) } else { candidate(key, None, value) }
            })
            .collect();
        let ranked = rank(SearchMode::Hybrid, &candidates, None, &RankOptions::default(), Timestamp::EPOCH);
        let mut indexes = order(&ranked);
        indexes.sort_unstable();
        let expected: Vec<usize> = (0..HYBRID_POOL).chain(count..count + HYBRID_POOL).collect();
        assert_eq!(indexes, expected);
    }

    #[test]
    fn reciprocal_ranks_are_one_for_the_best_of_both() {
        let keys = keys(&["a", "b"]);
        let candidates =
            [candidate(&keys[0], Some(0.9), Some(0.9)), candidate(&keys[1], Some(0.1), Some(0.1))];
        let options = RankOptions { fusion: Fusion::ReciprocalRank { k: 60 }, ..RankOptions::default() };
        let ranked = rank(SearchMode::Hybrid, &candidates, None, &options, Timestamp::EPOCH);
        assert!((ranked[0].rank_score - 1.0).abs() < 1e-12);
        assert!((ranked[1].rank_score - 61.0 / 62.0).abs() < 1e-12);
    }

    #[test]
    fn duplicates_are_dropped_merged_or_counted_and_vectorless_pass() {
        let vectors: [Option<&[f32]>; 4] = [Some(&[1.0, 0.0]), Some(&[1.0, 0.01]), None, Some(&[0.0, 1.0])];
        let ranked: Vec<Ranked> = (0..4).map(|index| Ranked { index, score: 1.0, rank_score: 1.0 }).collect();
        let run = |policy, top_k| {
            let (kept, duplicates) =
                dedup(&ranked, top_k, Some(&Dedup { threshold: 0.9, policy }), |index| vectors[index]);
            let merged = kept[0].merged.clone();
            (kept.iter().map(|kept| kept.ranked.index).collect::<Vec<_>>(), merged, duplicates)
        };
        assert_eq!(run(DedupPolicy::Drop, 10), (vec![0, 2, 3], vec![], 1));
        assert_eq!(run(DedupPolicy::Merge, 10), (vec![0, 2, 3], vec![1], 1));
        assert_eq!(run(DedupPolicy::Keep, 10), (vec![0, 1, 2, 3], vec![], 1));
        assert_eq!(run(DedupPolicy::Drop, 2), (vec![0, 2], vec![], 1));
    }

    #[test]
    fn options_out_of_range_are_refused() {
        for bad in [
            RankOptions { similarity: f64::NAN, ..RankOptions::default() },
            RankOptions { recency: -1.0, ..RankOptions::default() },
            RankOptions { half_life_seconds: 0.0, ..RankOptions::default() },
            RankOptions { fusion: Fusion::Weighted { vector: 1.5 }, ..RankOptions::default() },
        ] {
            assert!(bad.check().is_err());
        }
    }
}
