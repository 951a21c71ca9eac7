//! DED, EMB: near-duplicates and embedding.

use memory_core::{
    Dedup, DedupPolicy, Embedding, Error, ErrorKind, Next, Reply, Request, Result, SearchMode, SearchQuery,
};

use super::bend::{Memory, kv, mutants};
use crate::reference::fault::Fault;
use crate::stream;

mutants! {
    "dedup.ignored": ["DED-1", "DED-2"], "duplicates come all the same" => ask(ignored);
    "dedup.after-trim": ["DED-4"], "duplicates are dropped after the trim" => around(after_trim);
    "dedup.keep-drops": ["DED-2"], "`keep` drops" => ask(keep_drops);
    "dedup.merge-untold": ["DED-2"], "`merge` names no keys" => answer(merge_untold);
    "dedup.count-untold": ["DED-2"], "duplicates are not counted" => answer(count_untold);
    "dedup.threshold-ignored": ["DED-1"], "the threshold is always 0.92" => ask(threshold_ignored);
    "dedup.threshold-clamped": ["DED-5"], "a threshold outside [0, 1] is clamped in silence" => door_ask(threshold_clamped);
    "dedup.drops-without-vector": ["DED-3"], "entries without vectors count as duplicates" => around(drops_without_vector);
    "embed.failure-fails-the-write": ["EMB-1"], "a failed embedding fails the write" => around(failure_fails);
    "embed.failure-untold": ["EMB-1"], "a failed embedding is told as stored" => answer(failure_untold);
    "embed.stale-vector-stays": ["EMB-3"], "overwriting keeps the vector of the old text" => fault(Fault::StaleVectorStays);
    "embed.reembed-ignores-limit": ["EMB-4"], "reembed does everything in one step" => ask(reembed_ignores_limit);
    "embed.reembed-dry-run-writes": ["EMB-4"], "a dry run writes" => ask(dry_run_writes);
    "vector.mode-is-lexical": ["SRC-12"], "a vector search looks for words" => ask(mode_is_lexical);
}

fn change(request: &mut Request, change: fn(&mut SearchQuery)) {
    if let Request::Search { query, .. } = request {
        change(query);
    }
}

fn ignored(request: &mut Request) {
    change(request, |query| query.dedup = None);
}

fn keep_drops(request: &mut Request) {
    change(request, |query| {
        if let Some(dedup) = query.dedup.as_mut().filter(|dedup| dedup.policy == DedupPolicy::Keep) {
            dedup.policy = DedupPolicy::Drop;
        }
    });
}

fn threshold_ignored(request: &mut Request) {
    change(request, |query| {
        query.dedup = query.dedup.map(|dedup| Dedup { policy: dedup.policy, ..Dedup::default() });
    });
}

fn threshold_clamped(request: &mut Request) {
    change(request, |query| {
        if let Some(dedup) = query.dedup.as_mut().filter(|dedup| dedup.check().is_err()) {
            dedup.threshold = Dedup::default().threshold;
        }
    });
}

async fn after_trim(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    let mut plain = query.clone();
    plain.dedup = None;
    let trimmed = kv(&next)?.search(&scope, plain).await?;
    let mut results = kv(&next)?.search(&scope, query).await?;
    results.hits.retain(|hit| trimmed.hits.iter().any(|other| other.entry.key == hit.entry.key));
    Ok(Reply::Search(results))
}

fn merge_untold(reply: &mut Reply) {
    if let Reply::Search(results) = reply {
        results.hits.iter_mut().for_each(|hit| hit.merged.clear());
    }
}

fn count_untold(reply: &mut Reply) {
    if let Reply::Search(results) = reply {
        results.duplicates = 0;
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

async fn failure_fails(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match next.run(request).await? {
        Reply::Set(outcome) if matches!(outcome.embedding, Embedding::Failed(_)) => {
            Err(Error::new(ErrorKind::Unavailable, "the embedder failed; set again later"))
        }
        reply => Ok(reply),
    }
}

fn failure_untold(reply: &mut Reply) {
    if let Reply::Set(outcome) = reply
        && matches!(outcome.embedding, Embedding::Failed(_))
    {
        outcome.embedding = Embedding::Stored;
    }
}

fn reembed_ignores_limit(request: &mut Request) {
    if let Request::Reembed { options, .. } = request {
        options.limit = 10_000;
    }
}

fn dry_run_writes(request: &mut Request) {
    if let Request::Reembed { options, .. } = request {
        options.dry_run = false;
    }
}

fn mode_is_lexical(request: &mut Request) {
    change(request, |query| {
        if query.mode == SearchMode::Vector {
            query.mode = SearchMode::Lexical;
        }
    });
}
