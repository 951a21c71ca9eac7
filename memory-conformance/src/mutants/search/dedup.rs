//! DED, EMB: near-duplicates, and reported embeddings.

use memory_core::embed::cosine;
use memory_core::{
    Dedup, DedupPolicy, Embedding, Error, ErrorKind, GetOptions, Hit, Key, Next, Record, Reply, Request,
    Result, Scope, SearchMode, SearchQuery,
};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::kv;
use crate::reference::fault::Fault;
use crate::stream;

mutants! {
    |memory, request, next|
    "dedup.ignored": ["DED-1", "DED-2"], "duplicates are not dropped"
        => ask(|request| change(request, |query| query.dedup = None));
    "dedup.after-trim": ["DED-4"], "duplicates are dropped after the cut to top_k"
        => over(Request::Search { scope, query } => {
            let best = query.top_k;
            among_best(&next, &scope, query, best).await
        });
    "dedup.among-the-best-fifty": ["DED-4"], "only the best fifty make room"
        => over(Request::Search { scope, query } => among_best(&next, &scope, query, 50).await);
    "dedup.keep-drops": ["DED-2"], "`keep` drops" => query(|query| {
        if let Some(dedup) = query.dedup.as_mut().filter(|dedup| dedup.policy == DedupPolicy::Keep) {
            dedup.policy = DedupPolicy::Drop;
        }
    });
    "dedup.merge-untold": ["DED-2"], "`merge` names no keys" => results(|_, results| results.hits.iter_mut().for_each(|hit| hit.merged.clear()));
    "dedup.count-untold": ["DED-2"], "duplicates are not counted" => results(|_, results| results.duplicates = 0);
    "dedup.threshold-ignored": ["DED-1"], "the threshold is always 0.92"
        => query(|query| query.dedup = query.dedup.map(|dedup| Dedup { policy: dedup.policy, ..Dedup::default() }));
    "dedup.threshold-clamped": ["DED-5"], "a threshold outside [0, 1] is silently clamped"
        => query_ahead(|query| {
            if let Some(dedup) = query.dedup.as_mut().filter(|dedup| dedup.check().is_err()) {
                dedup.threshold = Dedup::default().threshold;
            }
        });
    "dedup.drops-without-vector": ["DED-3"], "entries without vectors count as duplicates" => around(drops_without_vector);
    "dedup.across-models": ["DED-6"], "vectors of different models are compared" => fault(Fault::DedupAcrossModels);
    "dedup.not-by-words": ["DED-6"], "duplicates stay in a lexical search"
        => query(|query| if query.mode == SearchMode::Lexical { query.dedup = None; });
    "dedup.not-by-vectors": ["DED-1"], "duplicates stay in a vector search"
        => query(|query| if query.mode == SearchMode::Vector { query.dedup = None; });
    "dedup.chains": ["DED-7"], "entries similar to a duplicate are duplicates too"
        => around(folded(request, next, |seen, resembles| seen.iter().position(|(hit, _)| resembles(hit))).await);
    "dedup.merged-backwards": ["DED-8"], "`merged` lists the worst first"
        => results(|_, results| results.hits.iter_mut().for_each(|hit| hit.merged.reverse()));
    "dedup.merged-into-last": ["DED-1", "DED-8"], "a duplicate merges into the worst similar hit"
        => around(folded(request, next, |seen, resembles| seen.iter().rposition(|(hit, folded)| !folded && resembles(hit)))
            .await);
    "dedup.threshold-exclusive": ["DED-9", "DED-1"], "equal vectors are not duplicates" => query(|query| {
        if let Some(dedup) = &mut query.dedup {
            dedup.threshold += 1e-9;
        }
    });
    "dedup.zero-is-off": ["DED-9"], "a threshold of 0 drops nothing"
        => query(|query| query.dedup = query.dedup.filter(|dedup| dedup.threshold > 0.0));
    "dedup.counts-folded": ["SRC-13"], "dropped duplicates count as accessed"
        => over(Request::Search { scope, query } => {
            let results = kv(&next)?.search(&scope, query).await?;
            let keys: Vec<Key> = results.hits.iter().flat_map(|hit| hit.merged.iter().cloned()).collect();
            kv(&next)?.get_many(&scope, &keys, GetOptions::default()).await?;
            Ok(Reply::Search(results))
        });
    "dedup.keep-overflows": ["SRC-7", "DED-2"], "kept duplicates come in addition to top_k"
        => over(Request::Search { scope, mut query } => {
            if query.dedup.is_some_and(|dedup| dedup.policy == DedupPolicy::Keep) {
                query.top_k += 1;
            }
            Ok(Reply::Search(kv(&next)?.search(&scope, query).await?))
        });
    "embed.failure-fails-the-write": ["EMB-1"], "a failed embedding fails the write" => answer(Reply::Set(outcome) if matches!(outcome.embedding, Embedding::Failed(_))
            => return Err(Error::new(ErrorKind::Unavailable, "the embedder failed; set again later")));
    "embed.failure-untold": ["EMB-1"], "a failed embedding is reported as stored"
        => answer(Reply::Set(outcome) if matches!(outcome.embedding, Embedding::Failed(_))
            => outcome.embedding = Embedding::Stored);
    "embed.stale-vector-stays": ["EMB-3"], "overwriting keeps the old vector" => fault(Fault::StaleVectorStays);
    "embed.reembed-ignores-limit": ["EMB-4"], "reembed ignores its limit"
        => ask(Request::Reembed { options, .. } => options.limit = 10_000);
    "embed.reembed-dry-run-writes": ["EMB-4"], "a dry run writes"
        => ask(Request::Reembed { options, .. } => options.dry_run = false);
    "vector.mode-is-lexical": ["SRC-12"], "a vector search is done by words"
        => query(|query| if query.mode == SearchMode::Vector { query.mode = SearchMode::Lexical; });
}

/// The hits that are among the best without folding.
async fn among_best(next: &Next<'_>, scope: &Scope, query: SearchQuery, best: usize) -> Result<Reply> {
    let mut plain = query.clone();
    (plain.dedup, plain.top_k) = (None, best);
    let seen = kv(next)?.search(scope, plain).await?;
    let mut results = kv(next)?.search(scope, query).await?;
    results.hits.retain(|hit| seen.hits.iter().any(|other| other.entry.key == hit.entry.key));
    Ok(Reply::Search(results))
}

fn change(request: &mut Request, change: fn(&mut SearchQuery)) {
    if let Request::Search { query, .. } = request {
        change(query);
    }
}

async fn drops_without_vector(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    let dedups = query.dedup.is_some();
    let mut results = kv(&next)?.search(&scope, query).await?;
    if dedups {
        let records = stream::collect(kv(&next)?.export_scope(&scope).await?).await?;
        let mut seen = false;
        results.hits.retain(|hit| {
            let bare =
                records.iter().any(|record| record.entry.key == hit.entry.key && record.vectors.is_empty());
            !(bare && std::mem::replace(&mut seen, true))
        });
    }
    Ok(Reply::Search(results))
}

/// The cosine of two entries among records.
fn alike(records: &[Record], one: &Key, other: &Key) -> f64 {
    let vector = |key: &Key| {
        let record = records.iter().find(|record| record.entry.key == *key)?;
        record.vectors.first().map(|vector| vector.vector.as_slice())
    };
    match (vector(one), vector(other)) {
        (Some(one), Some(other)) => cosine(one, other),
        _ => -1.0,
    }
}

/// Which of the earlier hits (best first, each with whether it was folded) the next one folds into.
type Anchor = fn(&[(Hit, bool)], &dyn Fn(&Hit) -> bool) -> Option<usize>;

/// Folds by a custom rule.
async fn folded(request: Request, next: Next<'_>, anchor: Anchor) -> Result<Reply> {
    let Request::Search { scope, mut query } = request else { return next.run(request).await };
    let Some(dedup) = query.dedup.take().filter(|dedup| dedup.policy != DedupPolicy::Keep) else {
        return next.run(Request::Search { scope, query }).await;
    };
    let top_k = query.top_k;
    query.top_k = next.provider().capabilities().max_top_k;
    let mut results = kv(&next)?.search(&scope, query).await?;
    let records = stream::collect(kv(&next)?.export_scope(&scope).await?).await?;
    let mut seen: Vec<(Hit, bool)> = Vec::new();
    for hit in results.hits {
        let resembles = |other: &Hit| alike(&records, &hit.entry.key, &other.entry.key) >= dedup.threshold;
        let at = anchor(&seen, &resembles);
        if let Some((anchor, _)) = at.and_then(|at| seen.get_mut(at)) {
            results.duplicates += 1;
            if dedup.policy == DedupPolicy::Merge {
                anchor.merged.push(hit.entry.key.clone());
            }
        }
        seen.push((hit, at.is_some()));
    }
    results.hits = seen.into_iter().filter(|(_, folded)| !folded).map(|(hit, _)| hit).take(top_k).collect();
    Ok(Reply::Search(results))
}
