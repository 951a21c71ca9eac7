//! Text search over one scope, in one snapshot.

pub(crate) mod cache;
mod scan;

use memory_core::filter::FilterView;
use memory_core::limits::RANK_POOL;
use memory_core::rank::{Candidate, dedup, rank};
use memory_core::{
    Error, Filter, Hit, Key, Result, ScopeDigest, SearchMode, SearchQuery, SearchResults, Timestamp,
};
use rusqlite::{Connection, params};

use self::cache::{IndexCache, ScopeState};
use crate::access::AccessCounts;
use crate::batch::Sql;
use crate::error::malformed;
use crate::row::{self, StoredEntry, Unreadable};

static SELECT_ENTRY: Sql = Sql::new(
    "SELECT {columns} FROM entry e LEFT JOIN body b ON b.id = e.body \
     WHERE e.space = ?1 AND e.key = ?2 AND (e.expires_at IS NULL OR e.expires_at > ?3)",
);

/// A key with its similarity, and the version the index had of it.
struct Match {
    key: String,
    score: f64,
    version: Option<u64>,
}

/// Runs a search on a connection that no transaction is open on.
pub(crate) fn search(
    connection: &Connection,
    indexes: &IndexCache,
    accesses: &AccessCounts,
    digest: &ScopeDigest,
    query: &SearchQuery,
    now: Timestamp,
) -> Result<SearchResults, Unreadable> {
    let size = match ScopeState::read(connection, digest)? {
        Some(state) if state.entries > 0 => state.bytes,
        _ => return Ok(SearchResults::new(Vec::new(), SearchMode::Lexical)),
    };
    let cached = indexes.open(digest, size);
    // Before the snapshot, so that the index is never ahead of it.
    let mut index = cached.as_ref().map(|cached| cached.index());
    let snapshot = connection.unchecked_transaction()?;
    let Some(state) = ScopeState::read(&snapshot, digest)? else {
        return Ok(SearchResults::new(Vec::new(), SearchMode::Lexical));
    };
    let mut usable = false;
    if let (Some(cached), Some(index)) = (&cached, &mut index) {
        usable = indexes.catch_up(digest, cached, index, &snapshot, state, now)?;
    }
    let index = index.filter(|_| usable);

    // All that may be hits where the order does not follow from similarity alone; its weight may round two
    // similarities into one, and then the tie is another.
    let by_similarity = query.rank.is_similarity_only() && query.rank.similarity == 1.0;
    let limit = if by_similarity { query.top_k } else { RANK_POOL };
    let mut screen = Screen { connection: &snapshot, space: state.space, query };
    let matches = match index {
        Some(index) => {
            let mut failed = None;
            let hits = index.documents.search(
                &query.text,
                |key| {
                    failed.is_none()
                        && screen.passes(key).unwrap_or_else(|error| {
                            failed = Some(error);
                            false
                        })
                },
                limit,
            );
            if let Some(error) = failed {
                return Err(error);
            }
            hits.into_iter()
                .map(|hit| Match {
                    version: index.version(&hit.key),
                    key: hit.key.to_string(),
                    score: hit.score,
                })
                .collect()
        }
        None => scan::search(&snapshot, state.space, now, &query.text, |key| screen.passes(key), limit)?
            .into_iter()
            .map(|found| Match { key: found.key, score: found.score, version: None })
            .collect::<Vec<_>>(),
    };
    answer(&snapshot, indexes, accesses, digest, state, query, matches, now)
}

/// Which documents may be hits.
struct Screen<'a> {
    connection: &'a Connection,
    space: i64,
    query: &'a SearchQuery,
}

impl Screen<'_> {
    fn passes(&mut self, key: &str) -> Result<bool, Unreadable> {
        if !key.starts_with(&self.query.prefix) {
            return Ok(false);
        }
        match &self.query.filter {
            Some(filter) => matches(self.connection, self.space, key, filter),
            None => Ok(true),
        }
    }
}

/// Whether the filter holds for a stored entry, without reading its value.
fn matches(connection: &Connection, space: i64, key: &str, filter: &Filter) -> Result<bool, Unreadable> {
    let mut statement = connection.prepare_cached(
        "SELECT e.created_at, e.updated_at, e.expires_at, e.source, coalesce(e.metadata, b.metadata) \
         FROM entry e LEFT JOIN body b ON b.id = e.body WHERE e.space = ?1 AND e.key = ?2",
    )?;
    let mut rows = statement.query(params![space, key])?;
    let Some(row) = rows.next()? else { return Ok(false) };
    let text = |index: usize| -> Result<Option<&str>, Unreadable> {
        row.get_ref(index)?.as_str_or_null().map_err(|_| malformed("text").into())
    };
    let metadata = text(4)?.map(row::decode_metadata).transpose()?.unwrap_or_default();
    let source = text(3)?.map(row::source).transpose()?;
    Ok(filter.matches(FilterView {
        metadata: &metadata,
        source: source.as_ref(),
        created_at: row::time(row.get(0)?)?,
        updated_at: row::time(row.get(1)?)?,
        expires_at: row.get::<_, Option<i64>>(2)?.map(row::time).transpose()?,
    }))
}

/// Reads, ranks and counts the hits.
#[allow(clippy::too_many_arguments, reason = "one search's facts, used once")]
fn answer(
    connection: &Connection,
    indexes: &IndexCache,
    accesses: &AccessCounts,
    digest: &ScopeDigest,
    state: ScopeState,
    query: &SearchQuery,
    matches: Vec<Match>,
    now: Timestamp,
) -> Result<SearchResults, Unreadable> {
    let threshold = query.threshold.unwrap_or(0.0);
    let mut found = Vec::with_capacity(matches.len());
    for hit in matches {
        if hit.score < threshold {
            continue;
        }
        let summary = summary(connection, state.space, &hit.key, now)?;
        let Some(summary) =
            summary.filter(|summary| hit.version.is_none_or(|version| version == summary.version))
        else {
            // Never a stale hit: an index that disagrees with its own snapshot is a bug.
            indexes.forget(digest);
            return Err(Error::internal(
                "a text index disagrees with the database; it was dropped, search again",
            )
            .with_retry(memory_core::Retry::Now)
            .into());
        };
        found.push((hit, summary));
    }
    let candidates: Vec<Candidate<'_>> = {
        let counts = accesses.look();
        found
            .iter()
            .map(|(hit, summary)| Candidate {
                key: &summary.key,
                lexical: Some(hit.score),
                cosine: None,
                updated_at: summary.updated_at,
                source: summary.source.as_ref(),
                access_count: counts.total(state.space, &hit.key, summary.born, summary.accesses),
            })
            .collect()
    };
    let ranked = rank(SearchMode::Lexical, &candidates, query.threshold, &query.rank, now);
    let (kept, duplicates) = dedup(&ranked, query.top_k, query.dedup.as_ref(), |_| None);
    let mut hits = Vec::with_capacity(kept.len());
    for kept in kept {
        let Some((hit, summary)) = found.get(kept.ranked.index) else { continue };
        let Some(StoredEntry { mut entry, .. }) = self::entry(connection, state.space, &hit.key, now)? else {
            continue;
        };
        let (before, _) = accesses.look().access(state.space, &hit.key, summary.born, summary.accesses);
        entry.access_count = before;
        hits.push(Hit::new(entry, kept.ranked.score, kept.ranked.rank_score));
    }
    let mut results = SearchResults::new(hits, SearchMode::Lexical);
    results.duplicates = duplicates;
    Ok(results)
}

/// What ranking needs of an entry.
struct Summary {
    key: Key,
    version: u64,
    born: i64,
    updated_at: Timestamp,
    accesses: u64,
    source: Option<memory_core::Source>,
}

fn summary(
    connection: &Connection,
    space: i64,
    key: &str,
    now: Timestamp,
) -> Result<Option<Summary>, Unreadable> {
    let mut statement = connection.prepare_cached(
        "SELECT version, born, updated_at, accesses, source FROM entry \
         WHERE space = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3)",
    )?;
    let mut rows = statement.query(params![space, key, now.as_millis()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let source = row.get_ref(4)?.as_str_or_null().map_err(|_| malformed("source"))?;
    Ok(Some(Summary {
        key: Key::new(key)?,
        version: row::unsigned(row.get(0)?, "version")?,
        born: row.get(1)?,
        updated_at: row::time(row.get(2)?)?,
        accesses: row::unsigned(row.get(3)?, "access count")?,
        source: source.map(row::source).transpose()?,
    }))
}

fn entry(
    connection: &Connection,
    space: i64,
    key: &str,
    now: Timestamp,
) -> Result<Option<StoredEntry>, Unreadable> {
    let mut statement = connection.prepare_cached(SELECT_ENTRY.get())?;
    let mut rows = statement.query(params![space, key, now.as_millis()])?;
    rows.next()?.map(row::read).transpose()
}
