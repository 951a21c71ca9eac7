//! LST: pages, prefixes, cursors.

use memory_core::{Cursor, GetOptions, Next, Page, Reply, Request, Result};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{everything, kv};

mutants! {
    |memory, request, next|
    "list.prefix-is-like": ["LST-2"], "`%` and `_` in a prefix are wildcards"
        => around(matching(request, next, |prefix, key| {
            like(&prefix.chars().collect::<Vec<_>>(), &key.chars().collect::<Vec<_>>())
        }).await);
    "list.prefix-ignores-case": ["LST-2"], "a prefix matches without regard to case"
        => around(matching(request, next, |prefix, key| key.to_lowercase().starts_with(&prefix.to_lowercase())).await);
    "list.prefix-whole-graphemes": ["LST-2"], "a prefix does not end inside a grapheme"
        => around(matching(request, next, |prefix, key| {
            key.strip_prefix(prefix)
                .is_some_and(|rest| !rest.starts_with(|c: char| ('\u{300}'..='\u{36f}').contains(&c)))
        }).await);
    "list.prefix-is-path": ["LST-2"], "a prefix matches only whole path segments"
        => around(matching(request, next, |prefix, key| {
            key.strip_prefix(prefix)
                .is_some_and(|rest| prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
        }).await);
    "list.order-ignores-case": ["LST-1"], "keys are ordered without regard to case"
        => around(reordered(request, next, |page| {
            page.entries.sort_by_cached_key(|entry| entry.key.as_str().to_lowercase());
        }).await);
    "list.order-by-length": ["LST-1"], "short keys come first"
        => around(reordered(request, next, |page| page.entries.sort_by_key(|entry| entry.key.as_str().len())).await);
    "list.newest-first": ["LST-1"], "entries come in write order"
        => around(reordered(request, next, |page| page.entries.sort_by_key(|entry| entry.version)).await);
    "list.limit-overflows": ["LST-3"], "a page holds one entry too many"
        => ask(Request::List { query, .. } => query.limit += 1);
    "list.no-cursor": ["LST-3", "LST-4"], "a full page has no cursor"
        => answer(Reply::List(page) => page.next = None);
    "list.cursor-at-the-end": ["LST-3"], "the last page has a cursor too"
        => over(Request::List { scope, query } => {
            let prefix = query.prefix.clone();
            let mut page = kv(&next)?.list(&scope, query).await?;
            if let Some(last) = page.entries.last() {
                page.next = Some(Cursor::after_key(&scope, &prefix, &last.key));
            }
            Ok(Reply::List(page))
        });
    "list.cursor-skips": ["LST-4"], "the first entry of a page is skipped"
        => over(Request::List { scope, query } => {
            let skips = query.cursor.is_some();
            let mut page = kv(&next)?.list(&scope, query).await?;
            if skips && !page.entries.is_empty() {
                page.entries.remove(0);
            }
            Ok(Reply::List(page))
        });
    "list.cursor-repeats": ["LST-4"], "the last entry of a page is repeated"
        => over(Request::List { scope, query } => {
            let prefix = query.prefix.clone();
            let mut page = kv(&next)?.list(&scope, query).await?;
            // Only if paging still ends.
            if page.next.is_some()
                && let Some(last_but_one) = page.entries.iter().rev().nth(1)
            {
                page.next = Some(Cursor::after_key(&scope, &prefix, &last_but_one.key));
            }
            Ok(Reply::List(page))
        });
    "list.cursor-is-offset": ["LST-5"], "a cursor is a number of entries" => around(cursor_is_offset);
    "list.cursor-may-be-cut": ["LST-7"], "a cursor that lost its end is read as far as it goes" => around_ahead(cursor_cut);
    "list.filter-after-limit": ["LST-8"], "a page is cut before it is filtered"
        => over(Request::List { scope, mut query } => {
            let filter = query.filter.take();
            let mut page = kv(&next)?.list(&scope, query).await?;
            page.entries.retain(|entry| filter.as_ref().is_none_or(|filter| filter.matches(entry)));
            Ok(Reply::List(page))
        });
    "list.page-of-any-size": ["LST-9"], "a page does not end at 8 MiB" => around(any_size);
    "list.counts": ["LST-10"], "listing raises access counts" => over(Request::List { scope, query } => {
        let page = kv(&next)?.list(&scope, query).await?;
        let keys: Vec<_> = page.entries.iter().map(|entry| entry.key.clone()).collect();
        kv(&next)?.get_many(&scope, &keys, GetOptions::default()).await?;
        Ok(Reply::List(page))
    });
    "list.limit-zero-is-default": ["LST-6"], "a limit of 0 means the default"
        => ask_ahead(Request::List { query, .. } if query.limit == 0 => query.limit = memory_core::limits::DEFAULT_PAGE);
    "list.prefix-is-cut": ["LST-2"], "a prefix over its limit is silently cut"
        => ask_ahead(Request::List { query, .. } => {
            let limit = memory_core::limits::MAX_KEY_BYTES.min(query.prefix.len());
            let end = (0..=limit).rev().find(|end| query.prefix.is_char_boundary(*end)).unwrap_or(0);
            query.prefix.truncate(end);
        });
    "list.limit-clamped": ["LST-6"], "a limit over 1,000 is silently lowered"
        => ask_ahead(Request::List { query, .. } => query.limit = query.limit.min(memory_core::limits::MAX_PAGE));
}

/// Lists with a custom prefix match.
async fn matching(request: Request, next: Next<'_>, is_match: fn(&str, &str) -> bool) -> Result<Reply> {
    let Request::List { scope, query } = request else { return next.run(request).await };
    if query.prefix.is_empty() || query.cursor.is_some() || query.filter.is_some() {
        return Ok(Reply::List(kv(&next)?.list(&scope, query).await?));
    }
    let mut entries = everything(&next, &scope).await?;
    entries.retain(|entry| is_match(&query.prefix, entry.key.as_str()));
    let more = entries.len() > query.limit;
    entries.truncate(query.limit);
    let last =
        entries.last().filter(|_| more).map(|last| Cursor::after_key(&scope, &query.prefix, &last.key));
    Ok(Reply::List(Page::new(entries, last)))
}

/// SQL's LIKE with the pattern `prefix%`, case kept.
fn like(pattern: &[char], text: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, _) => true,
        (Some(('%', rest)), _) => {
            (0..=text.len()).any(|from| like(rest, text.get(from..).unwrap_or_default()))
        }
        (Some(('_', rest)), Some((_, text))) => like(rest, text),
        (Some((p, rest)), Some((t, text))) => p == t && like(rest, text),
        (Some(_), None) => false,
    }
}

async fn reordered(request: Request, next: Next<'_>, sort: fn(&mut Page)) -> Result<Reply> {
    match next.run(request).await? {
        Reply::List(mut page) => {
            sort(&mut page);
            Ok(Reply::List(page))
        }
        reply => Ok(reply),
    }
}

async fn cursor_is_offset(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::List { scope, query } = request else { return next.run(request).await };
    let known =
        query.cursor.as_ref().and_then(|cursor| memory.lock().positions.get(cursor.as_str()).copied());
    let (Some(offset), None) = (known.or(query.cursor.is_none().then_some(0)), &query.filter) else {
        return Ok(Reply::List(kv(&next)?.list(&scope, query).await?));
    };
    let mut entries = everything(&next, &scope).await?;
    entries.retain(|entry| entry.key.as_str().starts_with(&query.prefix));
    let more = entries.len() > offset + query.limit;
    let page: Vec<_> = entries.into_iter().skip(offset).take(query.limit).collect();
    let cursor = page.last().filter(|_| more).map(|last| Cursor::after_key(&scope, &query.prefix, &last.key));
    if let Some(cursor) = &cursor {
        memory.lock().positions.insert(cursor.as_str().to_owned(), offset + page.len());
    }
    Ok(Reply::List(Page::new(page, cursor)))
}

async fn cursor_cut(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::List { scope, mut query } = request else { return next.run(request).await };
    if let Some(cursor) = &mut query.cursor
        // What authenticates the listing is still whole.
        && cursor.as_str().len() > 11
        && let Some(whole) = memory.lock().positions.keys().find(|whole| whole.starts_with(cursor.as_str()))
    {
        *cursor = Cursor::from_text(whole.as_str());
    }
    let page = kv(&next)?.list(&scope, query).await?;
    if let Some(cursor) = &page.next {
        memory.lock().positions.insert(cursor.as_str().to_owned(), page.entries.len());
    }
    Ok(Reply::List(page))
}

async fn any_size(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::List { scope, query } = request else { return next.run(request).await };
    let mut page = kv(&next)?.list(&scope, query.clone()).await?;
    while page.entries.len() < query.limit {
        let Some(cursor) = page.next.take() else { break };
        let left = query.limit - page.entries.len();
        let rest = query.clone().with_cursor(Some(cursor)).with_limit(left);
        let more = kv(&next)?.list(&scope, rest).await?;
        page.entries.extend(more.entries);
        page.next = more.next;
    }
    Ok(Reply::List(page))
}
