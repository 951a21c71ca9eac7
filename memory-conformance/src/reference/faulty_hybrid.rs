//! Common mistakes in hybrid ranking.

use memory_core::limits::HYBRID_POOL;
use memory_core::rank::{Candidate, Ranked, rank};
use memory_core::{SearchMode, SearchQuery, Timestamp};

use super::fault::{Fault, Faults};

/// The faulty ranking; `None` if the store has no such defect or the mode differs.
pub(super) fn rank_hybrid(
    faults: Faults,
    query: &SearchQuery,
    candidates: &[Candidate<'_>],
    now: Timestamp,
) -> Option<Vec<Ranked>> {
    if query.mode != SearchMode::Hybrid {
        return None;
    }
    let ranked =
        |mode, candidates: &[Candidate<'_>], threshold| rank(mode, candidates, threshold, &query.rank, now);
    if faults.has(Fault::PoolOfHundred) {
        let (vectors, words) = (best(candidates, 100, |c| c.cosine), best(candidates, 100, |c| c.lexical));
        let mut pool: Vec<usize> = vectors.into_iter().chain(words).collect();
        pool.sort_unstable();
        pool.dedup();
        return Some(among(candidates, &pool, |pooled| ranked(SearchMode::Hybrid, pooled, query.threshold)));
    }
    if faults.has(Fault::PoolSidesAlone) {
        let (vectors, words) =
            (best(candidates, HYBRID_POOL, |c| c.cosine), best(candidates, HYBRID_POOL, |c| c.lexical));
        let bared = candidates.iter().enumerate().map(|(index, candidate)| Candidate {
            cosine: candidate.cosine.filter(|_| vectors.contains(&index)),
            lexical: candidate.lexical.filter(|_| words.contains(&index)),
            ..candidate.clone()
        });
        return Some(ranked(SearchMode::Hybrid, &bared.collect::<Vec<_>>(), query.threshold));
    }
    if faults.has(Fault::PoolOfAll) {
        // The ranking takes 2,000 candidates if only one side is searched.
        let one_sided = if candidates.iter().any(|c| c.cosine.is_some())
            && candidates.iter().all(|c| c.lexical.is_none())
        {
            SearchMode::Vector
        } else if candidates.iter().all(|c| c.cosine.is_none()) {
            SearchMode::Lexical
        } else {
            SearchMode::Hybrid
        };
        return Some(ranked(one_sided, candidates, query.threshold));
    }
    if faults.has(Fault::ScaledOverThreshold) {
        let passing: Vec<usize> = ranked(SearchMode::Hybrid, candidates, query.threshold)
            .into_iter()
            .map(|ranked| ranked.index)
            .collect();
        return Some(among(candidates, &passing, |passing| {
            ranked(SearchMode::Hybrid, passing, query.threshold)
        }));
    }
    None
}

fn best(
    candidates: &[Candidate<'_>],
    count: usize,
    value: impl Fn(&Candidate<'_>) -> Option<f64>,
) -> Vec<usize> {
    let mut side: Vec<(usize, f64)> = candidates
        .iter()
        .enumerate()
        .filter_map(|(index, candidate)| Some((index, value(candidate)?)))
        .collect();
    side.sort_by(|a, b| b.1.total_cmp(&a.1));
    side.into_iter().take(count).map(|(index, _)| index).collect()
}

/// Ranks some of the candidates; positions refer to all.
fn among(
    candidates: &[Candidate<'_>],
    chosen: &[usize],
    rank: impl Fn(&[Candidate<'_>]) -> Vec<Ranked>,
) -> Vec<Ranked> {
    let some: Vec<Candidate<'_>> =
        chosen.iter().filter_map(|&index| candidates.get(index)).cloned().collect();
    let mut ranked = rank(&some);
    for ranked in &mut ranked {
        ranked.index = chosen.get(ranked.index).copied().unwrap_or(ranked.index);
    }
    ranked
}
