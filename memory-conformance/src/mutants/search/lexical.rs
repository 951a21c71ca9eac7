//! SRC: lexical hits.

use std::collections::BTreeSet;

use memory_core::lexical::{query_terms, tokens};
use memory_core::{
    Entry, Error, GetOptions, Hit, Next, Reply, Request, Result, SearchMode, SearchQuery, SearchResults,
};

use super::stale_index;
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{kv, peek};
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "search.small-caches-lose-a-hit": ["SRC-15"], "where an index does not fit into memory, the last hit is missing"
        => around(with_small_caches(memory, request, next, |hits| drop(hits.pop())).await);
    "search.small-caches-score-lower": ["SRC-15"], "where an index does not fit into memory, scores are rounded"
        => around(with_small_caches(memory, request, next, |hits| {
            for hit in hits {
                hit.score = (hit.score * 1_000.0).round() / 1_000.0;
            }
        }).await);
    "search.stale-text": ["SRC-2", "SET-2"], "an overwritten text is still found" => around({
        let Request::Set { scope, key, value, options } = request else {
            return stale_index::search(memory, request, next, finds).await;
        };
        let old = peek(&next, &scope, &key).await?;
        let outcome = kv(&next)?.set(&scope, &key, value, options).await?;
        if let Some(old) = old {
            memory.lock().entries.insert((scope, key), old);
        }
        Ok(Reply::Set(outcome))
    });
    "search.deleted-found": ["DEL-4", "SRC-2"], "a deleted entry is still found" => around(stale_index::deleted(memory, request, next, finds).await);
    "search.dropped-found": ["SCO-4", "SRC-2"], "entries of a dropped scope are still found" => around(stale_index::dropped(memory, request, next, finds).await);
    "search.lags": ["SRC-2"], "the latest write is not found" => around(lags);
    "search.all-words": ["SRC-1"], "only entries with all words are found" => hits(|query, entry| {
        let words: BTreeSet<String> = tokens(&entry.search_text()).into_iter().collect();
        query_terms(&query.text).iter().all(|term| words.contains(term))
    });
    "search.case-matters": ["SRC-3"], "words match only in the same case" => hits(|query, entry| {
        let text = entry.search_text();
        // Only if they differ by case alone.
        occurs(&query.text, &text, str::to_owned) || !occurs(&query.text, &text, str::to_lowercase)
    });
    "search.accents-matter": ["SRC-3"], "words match only with the same diacritics" => hits(|query, entry| {
        let text = entry.search_text();
        let plain = query.text.is_ascii() && text.is_ascii();
        plain || occurs(&query.text, &text, str::to_lowercase)
    });
    "search.text-ignored": ["SRC-1"], "the explicit text is not searched"
        => hits(|query, entry| entry.text.is_none() || shares_word(&query.text, &entry.value.search_text(usize::MAX)));
    "search.value-searched-too": ["SRC-1"], "the value is searched along with the explicit text" => around(value_searched_too);
    "search.numbers-not-indexed": ["SRC-1"], "numbers in values are not found" => hits(|query, entry| {
        let text: Vec<String> =
            tokens(&entry.search_text()).into_iter().filter(|t| t.parse::<f64>().is_err()).collect();
        query.mode != SearchMode::Lexical || shares_word(&query.text, &text.join(" "))
    });
    "search.names-not-indexed": ["SRC-1"], "member names are not found" => hits(|query, entry| {
        let value = entry.value.as_str();
        let named = query_terms(&query.text).iter().any(|term| value.contains(&format!("\"{term}\":")));
        !named
    });
    "search.ids-not-split": ["SRC-3"], "ids are found only as a whole" => hits(|query, entry| {
        let text = entry.search_text().to_lowercase();
        let ids = text.split_whitespace().filter(|word| word.contains(['-', '_', '/', '.', ':']));
        let asked = query.text.to_lowercase();
        let part_of_id = ids
            .map(|id| id.trim_matches(|c: char| !c.is_alphanumeric()))
            .filter(|id| id.contains(['-', '_', '/', '.', ':']))
            .any(|id| asked.split_whitespace().any(|word| id.contains(word) && id != word));
        !part_of_id
    });
    "search.no-parts-of-ideographs": ["SRC-3"], "text without spaces is found only as a whole"
        => hits(|query, entry| {
            let text = entry.search_text();
            let scripted = |text: &str| text.chars().any(|c| c >= '\u{3040}');
            !scripted(&query.text) || occurs(&query.text, &text, str::to_owned)
        });
    "search.minus-excludes": ["SRC-14"], "a word after a minus is excluded" => query(|query| {
        if query.text.contains(" -") {
            let words: Vec<&str> = query.text.split_whitespace().filter(|word| !word.starts_with('-')).collect();
            query.text = words.join(" ");
        }
    });
    "search.quotes-are-phrases": ["SRC-14"], "quoted words match as a phrase"
        => around(kept(request, next, |query, entry| {
            let phrase = query.text.split('"').nth(1).filter(|_| query.text.matches('"').count() >= 2);
            phrase.is_none_or(|phrase| entry.search_text().to_lowercase().contains(&phrase.to_lowercase()))
        }).await);
    "search.star-fails": ["SRC-14"], "`*`, quotes and parentheses are syntax errors"
        => instead(Request::Search { query, .. } if query.text.contains(['*', '"', '(', ')'])
            => Err(Error::invalid("the query has a syntax error; close what you opened")));
    "search.colon-is-column": ["SRC-14"], "a word with a colon names a column" => query(colon_is_column);
    "search.filter-after-top-k": ["SRC-9"], "hits are cut before they are filtered" => around(filter_after);
    "search.filter-ignored": ["SRC-9"], "the filter is ignored" => query(|query| query.filter = None);
    "search.statistics-of-matches": ["SRC-9"], "word statistics cover only the matching entries" => fault(Fault::StatisticsOfMatches);
    "search.prefix-ignored": ["SRC-8"], "the prefix is ignored" => query(|query| query.prefix.clear());
    "search.prefix-ignores-case": ["SRC-8"], "the prefix matches without regard to case" => around(prefix_ignores_case);
    "search.prefix-after-top-k": ["SRC-8"], "hits are cut before the prefix is applied"
        => around(by_prefix(request, next, |prefix, key| key.starts_with(prefix), false).await);
    "search.one-hit-more": ["SRC-7"], "one hit too many is returned" => query(|query| query.top_k += 1);
    "search.top-k-clamped": ["SRC-7"], "a top_k over the limit is lowered in silence" => around_ahead(top_k_clamped);
    "search.top-k-zero-is-default": ["SRC-7"], "a top_k of 0 is taken for the default"
        => query_ahead(|query| if query.top_k == 0 { query.top_k = memory_core::limits::DEFAULT_TOP_K; });
    "search.blank-finds-nothing": ["SRC-11"], "a blank query finds nothing, without an error"
        => instead_ahead(Request::Search { query, .. } if query.text.trim().is_empty()
            => Ok(Reply::Search(SearchResults::new(Vec::new(), SearchMode::Lexical))));
    "search.long-query-is-cut": ["SRC-11"], "a query over 64 KiB is cut in silence" => query_ahead(long_query_cut);
    "search.no-words-fails": ["SRC-11"], "a query without any word is an error"
        => instead(Request::Search { query, .. } if query_terms(&query.text).is_empty()
            => Err(Error::invalid("the query has no word; give one")));
    "search.not-counted": ["SRC-13"], "hits are no accesses" => fault(Fault::SearchDoesNotCount);
    "search.counts-twice": ["SRC-13"], "a hit is two accesses" => around(counts_twice);
    "search.counts-what-is-cut": ["SRC-13"], "entries cut by top_k are accessed too" => around(counts_what_is_cut);
    "search.shows-count-after": ["SRC-13"], "a hit shows the count after itself"
        => results(|_, results| results.hits.iter_mut().for_each(|hit| hit.entry.access_count += 1));
    "search.mode-untold": ["SRC-12"], "the answer says `auto`" => results(|_, results| results.mode = SearchMode::Auto);
}

/// Keeps the hits that satisfy `is_kept`.
async fn kept(
    request: Request,
    next: Next<'_>,
    is_kept: impl Fn(&SearchQuery, &Entry) -> bool + Send,
) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    let mut results = kv(&next)?.search(&scope, query.clone()).await?;
    results.hits.retain(|hit| is_kept(&query, &hit.entry));
    Ok(Reply::Search(results))
}

fn shares_word(query: &str, text: &str) -> bool {
    let words: BTreeSet<String> = tokens(text).into_iter().collect();
    query_terms(query).iter().any(|term| words.contains(term))
}

/// Whether a lexical search finds an entry in a stale index.
fn finds(query: &SearchQuery, entry: &Entry) -> bool {
    query.mode != SearchMode::Vector && shares_word(&query.text, &entry.search_text())
}

async fn lags(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match request {
        Request::Set { scope, key, value, options } => {
            let outcome = kv(&next)?.set(&scope, &key, value, options).await?;
            if let Some(entry) = peek(&next, &scope, &key).await? {
                let mut memory = memory.lock();
                memory.entries.clear();
                memory.entries.insert((scope, key), entry);
            }
            Ok(Reply::Set(outcome))
        }
        Request::Search { scope, query } => {
            let mut results = kv(&next)?.search(&scope, query).await?;
            let memory = memory.lock();
            results.hits.retain(|hit| !memory.entries.contains_key(&(scope.clone(), hit.entry.key.clone())));
            Ok(Reply::Search(results))
        }
        request => next.run(request).await,
    }
}

/// Whether a word of the query occurs unchanged after `fold`.
fn occurs(query: &str, text: &str, fold: fn(&str) -> String) -> bool {
    let words = |text: &str| -> BTreeSet<String> {
        fold(text)
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    !words(query).is_disjoint(&words(text))
}

async fn value_searched_too(_: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Search { scope, query } = &request
        && query.mode == SearchMode::Lexical
    {
        let mut results = kv(&next)?.search(scope, query.clone()).await?;
        for entry in crate::mutants::requests::everything(&next, scope).await? {
            let in_value =
                entry.text.is_some() && shares_word(&query.text, &entry.value.search_text(usize::MAX));
            if in_value && results.hits.iter().all(|hit| hit.entry.key != entry.key) {
                results.hits.push(Hit::new(entry, 0.01, 0.01));
            }
        }
        return Ok(Reply::Search(results));
    }
    if let Request::Search { query, .. } = &mut request {
        query.top_k = query.top_k.max(1);
    }
    next.run(request).await
}

fn colon_is_column(query: &mut SearchQuery) {
    if query.text.contains(':') {
        let words: Vec<&str> = query
            .text
            .split_whitespace()
            .map(|word| word.split_once(':').map_or(word, |(_, rest)| rest))
            .collect();
        query.text = words.join(" ");
        if query.text.trim().is_empty() {
            query.text = "\u{2014}".to_owned();
        }
    }
}

async fn filter_after(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Search { scope, mut query } = request else { return next.run(request).await };
    let filter = query.filter.take();
    let mut results = kv(&next)?.search(&scope, query).await?;
    results.hits.retain(|hit| filter.as_ref().is_none_or(|filter| filter.matches(&hit.entry)));
    Ok(Reply::Search(results))
}

async fn by_prefix(
    request: Request,
    next: Next<'_>,
    is_match: fn(&str, &str) -> bool,
    all: bool,
) -> Result<Reply> {
    let Request::Search { scope, mut query } = request else { return next.run(request).await };
    let prefix = std::mem::take(&mut query.prefix);
    let top_k = query.top_k;
    if all {
        query.top_k = next.provider().capabilities().max_top_k;
    }
    let mut results = kv(&next)?.search(&scope, query).await?;
    results.hits.retain(|hit| is_match(&prefix, hit.entry.key.as_str()));
    results.hits.truncate(top_k);
    Ok(Reply::Search(results))
}

async fn prefix_ignores_case(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    by_prefix(request, next, |prefix, key| key.to_lowercase().starts_with(&prefix.to_lowercase()), true).await
}

async fn top_k_clamped(_: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    let max = next.provider().capabilities().max_top_k;
    if let Request::Search { query, .. } = &mut request {
        query.top_k = query.top_k.min(max);
    }
    next.run(request).await
}

fn long_query_cut(query: &mut SearchQuery) {
    let limit = memory_core::limits::MAX_QUERY_BYTES.min(query.text.len());
    let end = (0..=limit).rev().find(|end| query.text.is_char_boundary(*end)).unwrap_or(0);
    query.text.truncate(end);
}

async fn counts_twice(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Search { scope, query } = request else { return next.run(request).await };
    let results = kv(&next)?.search(&scope, query).await?;
    let keys: Vec<_> = results.hits.iter().map(|hit| hit.entry.key.clone()).collect();
    kv(&next)?.get_many(&scope, &keys, GetOptions::default()).await?;
    Ok(Reply::Search(results))
}

async fn counts_what_is_cut(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Search { scope, mut query } = request else { return next.run(request).await };
    let top_k = query.top_k;
    query.top_k = next.provider().capabilities().max_top_k;
    let mut results = kv(&next)?.search(&scope, query).await?;
    results.hits.truncate(top_k);
    Ok(Reply::Search(results))
}

/// Changes the hits of a handle that was opened with the smallest possible caches.
async fn with_small_caches(
    memory: &Memory,
    request: Request,
    next: Next<'_>,
    change: fn(&mut Vec<Hit>),
) -> Result<Reply> {
    let mut reply = next.run(request).await?;
    if let Reply::Search(results) = &mut reply
        && memory.has_small_caches()
    {
        change(&mut results.hits);
    }
    Ok(reply)
}
