//! Conversations on stores of entries, kept apart from the other entries.

use std::sync::Arc;

use memory_core::layer::Fact;
use memory_core::{Backend, Embedder, ListQuery, Page, Provider, Result, Scope, SearchQuery, SearchResults};
#[cfg(feature = "recall")]
use memory_core::{Cursor, Error, Field, Filter, Key, Scalar};

use crate::factory::OpenContext;

/// Facts extracted from conversations by a language model.
#[cfg(feature = "recall")]
pub use memory_recall::extract;
#[cfg(feature = "recall")]
pub use memory_recall::rank::{Bm25, Signal, Weights};
#[cfg(feature = "recall")]
pub use memory_recall::{
    AddPlan, ConversationEntry, ConversationHead, KnownFact, RESERVED_PREFIX, TurnVectorStats, TurnVectors,
    fact_of_message, known_facts,
};

/// What embeds turns: the store's embedder, or else the bundled model.
pub(crate) fn embedder(provider: &dyn Provider, context: &OpenContext) -> Result<Option<Arc<dyn Embedder>>> {
    let capabilities = provider.capabilities();
    // The same condition by which `Recall` decides whether conversations are its own.
    if !cfg!(feature = "recall")
        || capabilities.memory_layer
        || !(capabilities.kv && capabilities.compare_and_set)
    {
        return Ok(None);
    }
    match &context.embedder {
        Some(embedder) => Ok(Some(Arc::clone(embedder))),
        #[cfg(feature = "model")]
        None => Ok(Some(Arc::new(memory_model::BundledEmbedder::new()?))),
        #[cfg(not(feature = "model"))]
        None => Ok(None),
    }
}

/// Gives a store of entries conversations, unless it keeps facts of its own.
#[cfg(feature = "recall")]
pub(crate) fn with_conversations(
    provider: Arc<dyn Provider>,
    context: &OpenContext,
    embedder: Option<Arc<dyn Embedder>>,
) -> Arc<dyn Provider> {
    use memory_recall::{Recall, RecallOptions};

    let mut options = RecallOptions::default().with_weights(context.weights.clone());
    options.embedder = embedder;
    Arc::new(Recall::new(provider, options, Arc::clone(&context.clock), Arc::clone(&context.ids)))
}

/// This build has none.
#[cfg(not(feature = "recall"))]
pub(crate) fn with_conversations(
    provider: Arc<dyn Provider>,
    _context: &OpenContext,
    _embedder: Option<Arc<dyn Embedder>>,
) -> Arc<dyn Provider> {
    provider
}

/// Memory for the conversations from which facts are extracted, in bytes, in addition to what recalls need.
#[cfg(feature = "recall")]
const EXTRACT_MEMORY_BYTES: usize = 64 << 20;

/// What waits for extraction in a store whose conversations this library manages, with the real clock and ids.
#[cfg(feature = "recall")]
#[must_use]
pub fn extraction_queue(
    memory: &crate::Memory,
    options: extract::ExtractOptions,
) -> extract::ExtractionQueue {
    let mut recall = memory_recall::RecallOptions::default().with_memory_bytes(EXTRACT_MEMORY_BYTES);
    recall.embedder = memory.conversation_embedder().cloned();
    let (clock, ids) = (Arc::new(crate::system::SystemClock), Arc::new(crate::system::RandomIds));
    extract::ExtractionQueue::new(Arc::new(memory.clone()), recall, options, clock, ids)
}

/// The vectors of turns in a store whose conversations this library manages, with the real clock and ids; `None` if
/// turns have none, or something else manages them.
#[cfg(feature = "recall")]
#[must_use]
pub fn turn_vectors(memory: &crate::Memory) -> Option<TurnVectors> {
    let embedder = Arc::clone(memory.conversation_embedder()?);
    let (clock, ids) = (Arc::new(crate::system::SystemClock), Arc::new(crate::system::RandomIds));
    Some(TurnVectors::new(Arc::new(memory.clone()), embedder, clock, ids))
}

/// Whether a key belongs to a conversation; only `add` and `forget` write those.
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    #[cfg(feature = "recall")]
    return memory_recall::is_reserved(key);
    #[cfg(not(feature = "recall"))]
    return {
        let _ = key;
        false
    };
}

/// Refuses to write a conversation's entry by its key.
///
/// # Errors
/// `invalid_argument` for a reserved key.
#[cfg(feature = "recall")]
pub fn check_writable(key: &Key) -> Result<()> {
    if is_reserved(key.as_str()) {
        return Err(Error::invalid(format!(
            "keys that begin with `{}` hold what was said; use `add` and `forget`, or choose another key",
            memory_recall::RESERVED_PREFIX
        )));
    }
    Ok(())
}

/// Refuses nothing: this build has no conversations.
///
/// # Errors
/// Never.
#[cfg(not(feature = "recall"))]
pub fn check_writable(_key: &memory_core::Key) -> Result<()> {
    Ok(())
}

/// Lists entries other than those of conversations, unless the prefix asks for them.
///
/// # Errors
/// As [`Backend::list`].
#[cfg(feature = "recall")]
pub async fn list_entries(backend: &dyn Backend, scope: &Scope, mut query: ListQuery) -> Result<Page> {
    let reserved = memory_recall::RESERVED_PREFIX;
    let (prefix, limit) = (query.prefix.clone(), query.limit);
    let mut page = backend.list(scope, query.clone()).await?;
    let asked_for = !reserved.starts_with(prefix.as_str()) || prefix.len() > 1;
    if asked_for || !page.entries.iter().any(|entry| is_reserved(entry.key.as_str())) {
        return Ok(page);
    }
    page.entries.retain(|entry| !is_reserved(entry.key.as_str()));
    if page.next.is_some() {
        // Skip past the last key of a conversation; those keys are all ASCII.
        let behind = Key::new(format!("{reserved}\u{7f}"))?;
        query.cursor = Some(Cursor::after_key(scope, &prefix, &behind));
        query.limit = limit.saturating_sub(page.entries.len()).max(1);
        let rest = backend.list(scope, query).await?;
        page.next = rest.next;
        page.entries.extend(rest.entries);
    }
    Ok(page)
}

/// Searches entries other than those of conversations, unless the prefix asks for them.
///
/// If conversations displace other hits, asks for more: at most `max_top_k`, and if all of those belong to
/// conversations, only for other sources.
///
/// # Errors
/// As [`Backend::search`].
#[cfg(feature = "recall")]
pub async fn search_entries(
    backend: &dyn Backend,
    scope: &Scope,
    query: SearchQuery,
    max_top_k: usize,
) -> Result<SearchResults> {
    let top_k = query.top_k;
    let mut results = backend.search(scope, query.clone()).await?;
    if asks_for_reserved(&query.prefix) {
        return Ok(results);
    }
    let (mut all, mut left) = own_hits(&mut results);
    // Search again only if that can find more.
    if left == all || left == top_k || all < top_k {
        return Ok(results);
    }
    let mut wider = query.clone();
    wider.top_k = max_top_k.max(top_k);
    results = backend.search(scope, wider).await?;
    (all, left) = own_hits(&mut results);
    if left < top_k && all >= max_top_k {
        let other = Filter::Ne(Field::Source, Scalar::from(memory_recall::SOURCE));
        let mut outside = query;
        outside.filter = Some(match outside.filter.take() {
            Some(filter) => Filter::And(vec![filter, other]),
            None => other,
        });
        if outside.filter.as_ref().is_none_or(|filter| filter.check().is_ok()) {
            let mut others = backend.search(scope, outside).await?;
            if own_hits(&mut others).1 > left {
                results = others;
            }
        }
    }
    results.hits.truncate(top_k);
    Ok(results)
}

/// Removes the hits of conversations; returns how many hits there were and how many are left.
#[cfg(feature = "recall")]
fn own_hits(results: &mut SearchResults) -> (usize, usize) {
    let all = results.hits.len();
    results.hits.retain(|hit| !is_reserved(hit.entry.key.as_str()));
    (all, results.hits.len())
}

/// Whether only keys of conversations can have this prefix.
#[cfg(feature = "recall")]
fn asks_for_reserved(prefix: &str) -> bool {
    let reserved = memory_recall::RESERVED_PREFIX;
    !prefix.is_empty() && (prefix.starts_with(reserved) || prefix.len() > 1 && reserved.starts_with(prefix))
}

/// Searches entries.
///
/// # Errors
/// As [`Backend::search`].
#[cfg(not(feature = "recall"))]
pub async fn search_entries(
    backend: &dyn Backend,
    scope: &Scope,
    query: SearchQuery,
    _max_top_k: usize,
) -> Result<SearchResults> {
    backend.search(scope, query).await
}

/// Lists entries.
///
/// # Errors
/// As [`Backend::list`].
#[cfg(not(feature = "recall"))]
pub async fn list_entries(backend: &dyn Backend, scope: &Scope, query: ListQuery) -> Result<Page> {
    backend.list(scope, query).await
}

/// Merges what several scopes recalled, each best first, into one answer of at most `top_k`, best first.
///
/// Facts are compared by their similarity to the question, which means the same in every scope, or else by their score.
/// Each scope keeps its own order.
#[must_use]
pub fn merged<T: Clone>(recalled: Vec<(T, Vec<Fact>)>, top_k: usize) -> Vec<(T, Fact)> {
    let near = |fact: &Fact| fact.similarity.or(fact.score).unwrap_or(0.0);
    let mut all: Vec<(f64, T, Fact)> = Vec::new();
    for (scope, facts) in recalled {
        // A fact counts as near as the nearest one after it, so that sorting keeps the scope's own order.
        let mut nearest = 0.0_f64;
        let counted = facts.into_iter().rev().map(|fact| {
            nearest = nearest.max(near(&fact));
            (nearest, scope.clone(), fact)
        });
        let counted: Vec<_> = counted.collect();
        all.extend(counted.into_iter().rev());
    }
    all.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
    all.truncate(top_k);
    all.into_iter().map(|(_, scope, fact)| (scope, fact)).collect()
}

#[cfg(test)]
mod tests {
    use memory_core::layer::FactId;

    use super::*;

    #[test]
    fn scopes_are_merged_by_similarity_and_keep_their_own_order() {
        let fact = |id: &str, similarity: f64| {
            let mut fact = Fact::new(FactId::new(id).unwrap(), id);
            fact.similarity = Some(similarity);
            fact
        };
        let recalled = vec![
            ("a", vec![fact("a1", 0.2), fact("a2", 0.9), fact("a3", 0.1)]),
            ("b", vec![fact("b1", 0.5), fact("b2", 0.4)]),
            ("c", Vec::new()),
        ];
        let merged: Vec<String> = merged(recalled, 4).into_iter().map(|(_, fact)| fact.memory).collect();
        assert_eq!(merged, ["a1", "a2", "b1", "b2"]);
    }
}
