//! Turns matches into hits: reads, ranks, folds duplicates, counts accesses.

use std::cell::{OnceCell, RefCell};

use memory_core::rank::{Candidate, Kept, dedup, rank};
use memory_core::{
    Dedup, DedupPolicy, Error, Hit, Key, Result, ScopeDigest, SearchQuery, SearchResults, Source, Timestamp,
};
use rusqlite::{Connection, params};

use super::caches::Caches;
use super::matches::Match;
use crate::commit::store::Store;
use crate::error::{Unreadable, malformed};
use crate::file::column::{time, unsigned};
use crate::kv::row::{self, Sql, StoredEntry};
use crate::vector::nearest::numbers;

static SELECT_ENTRY: Sql = Sql::new(
    "SELECT {columns} FROM entry e LEFT JOIN body b ON b.id = e.body \
     WHERE e.space = ?1 AND e.key = ?2 AND (e.expires_at IS NULL OR e.expires_at > ?3)",
);

/// What ranking needs to know about an entry.
struct Summary {
    version: u64,
    born: i64,
    updated_at: Timestamp,
    accesses: u64,
    source: Option<Source>,
}

/// A match that is being ranked.
struct Found {
    found: Match,
    key: Key,
    /// `None` if similarity alone decides the order, so that only the hits are read.
    summary: Option<Summary>,
    /// Read on first use.
    numbers: OnceCell<Option<Vec<f32>>>,
}

impl Found {
    fn new(found: Match, summary: Option<Summary>) -> Result<Self> {
        let key = Key::new(found.key.as_str()).map_err(|_| malformed("key"))?;
        Ok(Self { found, key, summary, numbers: OnceCell::new() })
    }
}

enum Answered {
    Hits(SearchResults),
    /// Duplicates have used up the matches.
    TooFew,
    /// A vector does not belong to its entry's current version.
    Outdated,
}

/// The last step of a search.
pub(super) struct Answer<'a> {
    pub(super) store: &'a Store,
    pub(super) caches: &'a Caches,
    pub(super) snapshot: &'a Connection,
    pub(super) digest: &'a ScopeDigest,
    pub(super) space: i64,
    /// The number of the embedder's model, whose vectors identify duplicates; `None` if it has no vectors.
    pub(super) model: Option<i64>,
    pub(super) query: &'a SearchQuery,
    pub(super) now: Timestamp,
}

impl Answer<'_> {
    /// The hits among the matches. `None` if near-duplicates have used up all of them and there may be more.
    pub(super) fn of(self, matches: &[Match], more: bool) -> Result<Option<SearchResults>, Unreadable> {
        if self.query.rank.is_similarity_only() {
            let found =
                matches.iter().map(|found| Found::new(found.clone(), None)).collect::<Result<Vec<_>>>()?;
            match self.rank(&found, more)? {
                Answered::Hits(results) => return Ok(Some(results)),
                Answered::TooFew => return Ok(None),
                Answered::Outdated => {}
            }
        }
        match self.rank(&self.live(matches)?, more)? {
            Answered::Hits(results) => Ok(Some(results)),
            Answered::TooFew => Ok(None),
            Answered::Outdated => Err(malformed("vector").into()),
        }
    }

    fn rank(&self, found: &[Found], more: bool) -> Result<Answered, Unreadable> {
        let query = self.query;
        let candidates: Vec<Candidate<'_>> = {
            let counts = self.store.accesses.look();
            let accesses = |one: &Found, summary: &Summary| {
                counts.total(self.space, &one.found.key, summary.born, summary.accesses)
            };
            let candidates = found.iter().map(|one| Candidate {
                key: &one.key,
                lexical: one.found.lexical,
                cosine: one.found.near.as_ref().map(|near| near.cosine),
                updated_at: one.summary.as_ref().map_or(Timestamp::EPOCH, |summary| summary.updated_at),
                source: one.summary.as_ref().and_then(|summary| summary.source.as_ref()),
                access_count: one.summary.as_ref().map_or(0, |summary| accesses(one, summary)),
            });
            candidates.collect()
        };
        let ranked = rank(query.mode, &candidates, query.threshold, &query.rank, self.now);
        let failed = RefCell::new(None);
        let (kept, duplicates) = dedup(&ranked, query.top_k, query.dedup.as_ref(), |index| {
            let (one, model) = (found.get(index)?, self.model?);
            let numbers = one.numbers.get_or_init(|| {
                numbers(self.snapshot, self.space, &one.found.key, model).unwrap_or_else(|error| {
                    failed.borrow_mut().get_or_insert(error);
                    None
                })
            });
            numbers.as_deref()
        });
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        let folded = match query.dedup {
            Some(Dedup { policy: DedupPolicy::Keep, .. }) | None => 0,
            Some(_) => duplicates,
        };
        if more && query.dedup.is_some() && kept.len() + folded >= ranked.len() {
            return Ok(Answered::TooFew);
        }
        self.hits(found, kept, duplicates)
    }

    /// Reads the hits, and counts accesses once all are read.
    fn hits(&self, found: &[Found], kept: Vec<Kept>, duplicates: usize) -> Result<Answered, Unreadable> {
        let mut hits = Vec::with_capacity(kept.len());
        for kept in kept {
            let Some(one) = found.get(kept.ranked.index) else { continue };
            let stored = self.entry(&one.found.key)?;
            self.check_index(&one.found, stored.as_ref().map(|stored| stored.entry.version))?;
            let Some(StoredEntry { entry, born }) = stored else { return Ok(Answered::Outdated) };
            if one.found.near.as_ref().is_some_and(|near| near.version != entry.version) {
                return Ok(Answered::Outdated);
            }
            let mut hit = Hit::new(entry, kept.ranked.score, kept.ranked.rank_score);
            let merged = kept.merged.into_iter();
            hit.merged = merged.filter_map(|index| found.get(index).map(|one| one.key.clone())).collect();
            hits.push((hit, born));
        }
        let mut counts = self.store.accesses.look();
        let counted = hits.into_iter().map(|(mut hit, born)| {
            let entry = &mut hit.entry;
            let (before, full) = counts.access(self.space, entry.key.as_str(), born, entry.access_count);
            entry.access_count = before;
            if full {
                self.store.signal.accesses();
            }
            hit
        });
        let mut results = SearchResults::new(counted.collect(), self.query.mode);
        results.duplicates = duplicates;
        Ok(Answered::Hits(results))
    }

    /// Never returns a stale hit: an index that disagrees with its own snapshot is a bug.
    fn check_index(&self, found: &Match, version: Option<u64>) -> Result<()> {
        let agrees = version.is_some_and(|version| found.indexed.is_none_or(|indexed| indexed == version));
        if found.lexical.is_none() || agrees {
            return Ok(());
        }
        self.caches.indexes.forget(self.digest);
        Err(Error::internal("a text index disagrees with the database; it was dropped, search again")
            .with_retry(memory_core::Retry::Now))
    }

    /// The live matches, with what ranking needs.
    fn live(&self, matches: &[Match]) -> Result<Vec<Found>, Unreadable> {
        let mut live = Vec::with_capacity(matches.len());
        for found in matches {
            let summary = self.summary(&found.key)?;
            self.check_index(found, summary.as_ref().map(|summary| summary.version))?;
            let Some(summary) = summary else { continue };
            let mut found = found.clone();
            // Another program may leave a vector that outlived its text, which says nothing about the entry.
            found.near = found.near.filter(|near| near.version == summary.version);
            if found.lexical.is_some() || found.near.is_some() {
                live.push(Found::new(found, Some(summary))?);
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
            version: unsigned(row.get(0)?, "version")?,
            born: row.get(1)?,
            updated_at: time(row.get(2)?)?,
            accesses: unsigned(row.get(3)?, "access count")?,
            source: source.map(row::source).transpose()?,
        }))
    }

    fn entry(&self, key: &str) -> Result<Option<StoredEntry>, Unreadable> {
        let mut statement = self.snapshot.prepare_cached(SELECT_ENTRY.get())?;
        let mut rows = statement.query(params![self.space, key, self.now.as_millis()])?;
        rows.next()?.map(row::read).transpose()
    }
}
