//! From matches to hits: read, rank, fold duplicates, count.

use std::cell::{OnceCell, RefCell};

use memory_core::rank::{Candidate, dedup, rank};
use memory_core::{
    Error, Hit, Key, Result, ScopeDigest, SearchMode, SearchQuery, SearchResults, Source, Timestamp,
};
use rusqlite::{Connection, params};

use super::Match;
use crate::batch::Sql;
use crate::error::malformed;
use crate::row::{self, StoredEntry, Unreadable};
use crate::store::Store;
use crate::vector::search::numbers;

static SELECT_ENTRY: Sql = Sql::new(
    "SELECT {columns} FROM entry e LEFT JOIN body b ON b.id = e.body \
     WHERE e.space = ?1 AND e.key = ?2 AND (e.expires_at IS NULL OR e.expires_at > ?3)",
);

/// What ranking needs of an entry.
struct Summary {
    key: Key,
    version: u64,
    born: i64,
    updated_at: Timestamp,
    accesses: u64,
    source: Option<Source>,
}

/// A match that is live, with what ranking needs.
struct Found {
    found: Match,
    summary: Summary,
    /// Read once it is asked for.
    numbers: OnceCell<Option<Vec<f32>>>,
}

/// The last part of a search.
pub(super) struct Answer<'a> {
    pub(super) store: &'a Store,
    pub(super) snapshot: &'a Connection,
    pub(super) digest: &'a ScopeDigest,
    pub(super) space: i64,
    /// The number of the embedder's model, by whose vectors duplicates are told; `None`: there are none of it.
    pub(super) model: Option<i64>,
    pub(super) query: &'a SearchQuery,
    pub(super) now: Timestamp,
}

impl Answer<'_> {
    pub(super) fn of(self, matches: Vec<Match>) -> Result<SearchResults, Unreadable> {
        let query = self.query;
        let found = self.live(matches)?;
        let candidates: Vec<Candidate<'_>> = {
            let counts = self.store.accesses.look();
            found
                .iter()
                .map(|Found { found, summary, .. }| Candidate {
                    key: &summary.key,
                    lexical: found.lexical,
                    cosine: found.near.as_ref().map(|near| near.cosine),
                    updated_at: summary.updated_at,
                    source: summary.source.as_ref(),
                    access_count: counts.total(self.space, &found.key, summary.born, summary.accesses),
                })
                .collect()
        };
        let ranked = rank(query.mode, &candidates, query.threshold, &query.rank, self.now);
        let failed = RefCell::new(None);
        let (kept, duplicates) = dedup(&ranked, query.top_k, query.dedup.as_ref(), |index| {
            let (one, model) = (found.get(index)?, self.model?);
            let numbers = one.numbers.get_or_init(|| {
                let version = one.summary.version;
                numbers(self.snapshot, self.space, &one.found.key, version, model).unwrap_or_else(|error| {
                    failed.borrow_mut().get_or_insert(error);
                    None
                })
            });
            numbers.as_deref()
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let mut hits = Vec::with_capacity(kept.len());
        for kept in kept {
            let Some(Found { found: of, summary, .. }) = found.get(kept.ranked.index) else { continue };
            let Some(StoredEntry { mut entry, .. }) = self.entry(&of.key)? else { continue };
            let mut counts = self.store.accesses.look();
            let (before, full) = counts.access(self.space, &of.key, summary.born, summary.accesses);
            drop(counts);
            if full {
                self.store.signal.accesses();
            }
            entry.access_count = before;
            let mut hit = Hit::new(entry, kept.ranked.score, kept.ranked.rank_score);
            let merged = kept.merged.into_iter();
            hit.merged =
                merged.filter_map(|index| found.get(index).map(|found| found.summary.key.clone())).collect();
            hits.push(hit);
        }
        let mut results = SearchResults::new(hits, query.mode);
        results.duplicates = duplicates;
        Ok(results)
    }

    /// The matches with what ranking needs of them.
    fn live(&self, matches: Vec<Match>) -> Result<Vec<Found>, Unreadable> {
        let threshold = self.query.threshold.unwrap_or(0.0);
        let mut live = Vec::with_capacity(matches.len());
        for mut found in matches {
            if self.query.mode == SearchMode::Lexical && found.lexical.is_none_or(|score| score < threshold) {
                continue;
            }
            let summary = self.summary(&found.key)?;
            let as_indexed =
                |summary: &Summary| found.indexed.is_none_or(|version| version == summary.version);
            if found.lexical.is_some() && !summary.as_ref().is_some_and(as_indexed) {
                // Never a stale hit: an index that disagrees with its own snapshot is a bug.
                self.store.indexes.forget(self.digest);
                return Err(Error::internal(
                    "a text index disagrees with the database; it was dropped, search again",
                )
                .with_retry(memory_core::Retry::Now)
                .into());
            }
            let Some(summary) = summary else { continue };
            // A vector that outlived its text, as another program could leave it, says nothing of the entry.
            found.near = found.near.filter(|near| near.version == summary.version);
            if found.lexical.is_some() || found.near.is_some() {
                live.push(Found { found, summary, numbers: OnceCell::new() });
            }
        }
        Ok(live)
    }

    fn summary(&self, key: &str) -> Result<Option<Summary>, Unreadable> {
        let mut statement = self.snapshot.prepare_cached(
            "SELECT version, born, updated_at, accesses, source FROM entry \
             WHERE space = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3)",
        )?;
        let mut rows = statement.query(params![self.space, key, self.now.as_millis()])?;
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

    fn entry(&self, key: &str) -> Result<Option<StoredEntry>, Unreadable> {
        let mut statement = self.snapshot.prepare_cached(SELECT_ENTRY.get())?;
        let mut rows = statement.query(params![self.space, key, self.now.as_millis()])?;
        rows.next()?.map(row::read).transpose()
    }
}
