//! Turns matches into hits: ranks, folds duplicates, reads, counts accesses.

use std::collections::HashMap;

use memory_core::rank::{Candidate, Kept, Ranked, dedup, rank};
use memory_core::{Dedup, DedupPolicy, Hit, Key, Result, SearchQuery, SearchResults, Source, Timestamp};
use tokio_postgres::types::Type;

use crate::kv::row;
use crate::kv::row::StoredEntry;
use crate::search::context::{Reading, Searched};
use crate::search::nearest::Near;
use crate::store::Store;
use crate::store::columns::{column, time, unsigned};
use crate::store::parameters::Value;
use crate::store::scope_ref::ScopeRef;

/// A key with its similarities.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub(super) key: Key,
    pub(super) lexical: Option<f64>,
    pub(super) near: Option<Near>,
}

/// What ranking needs to know about an entry.
#[derive(Debug)]
struct Summary {
    updated_at: Timestamp,
    accesses: u64,
    source: Option<Source>,
}

/// The last step of a search.
pub(super) struct Answer<'a> {
    pub(super) store: &'a Store,
    pub(super) reading: Reading<'a>,
    pub(super) target: &'a ScopeRef,
    pub(super) searched: Searched,
    pub(super) query: &'a SearchQuery,
}

impl Answer<'_> {
    /// The hits among the matches. `entries` holds those already read. `None` if so many near-duplicates were dropped
    /// that more matches are needed or, outside a snapshot, if an entry read only now has changed since it matched.
    pub(super) async fn of(
        &self,
        matches: Vec<Match>,
        more: bool,
        entries: HashMap<Key, StoredEntry>,
    ) -> Result<Option<SearchResults>> {
        let query = self.query;
        let summaries = match query.rank.is_similarity_only() {
            // Only similarity decides the order.
            true => HashMap::new(),
            false => self.summaries(&matches).await?,
        };
        let ranked = self.ranked(&matches, &summaries);
        let vectors = self.vectors(&matches, &ranked).await?;
        let (kept, duplicates) = dedup(&ranked, query.top_k, query.dedup.as_ref(), |index| {
            let found = matches.get(index)?;
            let near = found.near.as_ref().map(|near| near.numbers.as_slice());
            near.or_else(|| vectors.get(&found.key).map(Vec::as_slice))
        });
        let folded = match query.dedup {
            Some(Dedup { policy: DedupPolicy::Keep, .. }) | None => 0,
            Some(_) => duplicates,
        };
        if more && query.dedup.is_some() && kept.len() + folded >= ranked.len() {
            return Ok(None);
        }
        let Some(hits) = self.hits(&matches, kept, entries).await? else { return Ok(None) };
        let mut results = SearchResults::new(hits, query.mode);
        results.duplicates = duplicates;
        Ok(Some(results))
    }

    fn ranked(&self, matches: &[Match], summaries: &HashMap<Key, Summary>) -> Vec<Ranked> {
        let candidates: Vec<Candidate<'_>> = matches
            .iter()
            .map(|found| {
                let summary = summaries.get(&found.key);
                Candidate {
                    key: &found.key,
                    lexical: found.lexical,
                    cosine: found.near.as_ref().map(|near| near.cosine),
                    updated_at: summary.map_or(Timestamp::EPOCH, |summary| summary.updated_at),
                    source: summary.and_then(|summary| summary.source.as_ref()),
                    access_count: summary.map_or(0, |summary| summary.accesses),
                }
            })
            .collect();
        rank(self.query.mode, &candidates, self.query.threshold, &self.query.rank, self.searched.now)
    }

    async fn summaries(&self, matches: &[Match]) -> Result<HashMap<Key, Summary>> {
        let keys: Vec<&str> = matches.iter().map(|found| found.key.as_str()).collect();
        let tenant = self.target.tenant();
        let values: [Value<'_>; 3] =
            [(&tenant, Type::TEXT), (&self.searched.space, Type::INT8), (&keys, Type::TEXT_ARRAY)];
        let rows = self.reading.query(&self.store.statements.summaries_of, &values).await?;
        let counts = self.store.accesses.look();
        let summaries = rows.iter().map(|found| {
            let key =
                Key::new(column::<&str>(found, 0, "key")?).map_err(|_| crate::error::malformed("key"))?;
            let born = column(found, 1, "version")?;
            let stored = unsigned(found, 3, "access count")?;
            let summary = Summary {
                updated_at: time(column(found, 2, "time")?)?,
                accesses: counts.total(self.searched.space, key.as_str(), born, stored),
                source: column::<Option<&str>>(found, 4, "source")?.map(row::source).transpose()?,
            };
            Ok((key, summary))
        });
        summaries.collect()
    }

    /// The vectors of ranked matches found only by words, to recognise duplicates.
    async fn vectors(&self, matches: &[Match], ranked: &[Ranked]) -> Result<HashMap<Key, Vec<f32>>> {
        let model = self.searched.model.filter(|_| self.query.dedup.is_some() && self.searched.vectors > 0);
        let lacking = ranked.iter().filter_map(|ranked| matches.get(ranked.index));
        let keys: Vec<&str> =
            lacking.filter(|found| found.near.is_none()).map(|found| found.key.as_str()).collect();
        let Some(model) = model.filter(|_| !keys.is_empty()) else { return Ok(HashMap::new()) };
        let tenant = self.target.tenant();
        let values: [Value<'_>; 4] = [
            (&tenant, Type::TEXT),
            (&self.searched.space, Type::INT8),
            (&model, Type::INT4),
            (&keys, Type::TEXT_ARRAY),
        ];
        let rows = self.reading.query(&self.store.statements.vectors_of, &values).await?;
        let vectors = rows.iter().map(|row| {
            let key = Key::new(column::<&str>(row, 0, "key")?).map_err(|_| crate::error::malformed("key"))?;
            Ok((key, column(row, 2, "vector")?))
        });
        vectors.collect()
    }

    /// Reads the entries of the hits and counts their accesses. `None` as for [`Self::of`].
    async fn hits(
        &self,
        matches: &[Match],
        kept: Vec<Kept>,
        mut entries: HashMap<Key, StoredEntry>,
    ) -> Result<Option<Vec<Hit>>> {
        let shown = kept.iter().filter_map(|kept| matches.get(kept.ranked.index));
        let lacking: Vec<&Match> = shown.filter(|found| !entries.contains_key(&found.key)).collect();
        if !lacking.is_empty() {
            let keys: Vec<&str> = lacking.iter().map(|found| found.key.as_str()).collect();
            entries.extend(self.entries(&keys).await?);
            let is_as_matched = |found: &&Match| {
                let stored = entries.get(&found.key).map(|stored| stored.entry.version);
                stored.is_some() && stored == found.near.as_ref().map(|near| near.version)
            };
            if matches!(self.reading, Reading::Connection(_)) && !lacking.iter().all(is_as_matched) {
                return Ok(None);
            }
        }
        let mut hits = Vec::with_capacity(kept.len());
        self.fill(matches, kept, entries, &mut hits);
        Ok(Some(hits))
    }

    async fn entries(&self, keys: &[&str]) -> Result<HashMap<Key, StoredEntry>> {
        let tenant = self.target.tenant();
        let values: [Value<'_>; 3] =
            [(&tenant, Type::TEXT), (&self.searched.space, Type::INT8), (&keys, Type::TEXT_ARRAY)];
        let rows = self.reading.query(&self.store.statements.entries_of, &values).await?;
        let entries = rows.iter().map(|found| {
            let stored = row::read(found)?;
            Ok((stored.entry.key.clone(), stored))
        });
        entries.collect()
    }

    /// Adds the hits in order, and counts each access.
    fn fill(
        &self,
        matches: &[Match],
        kept: Vec<Kept>,
        mut entries: HashMap<Key, StoredEntry>,
        hits: &mut Vec<Hit>,
    ) {
        for kept in kept {
            let Some(found) = matches.get(kept.ranked.index) else { continue };
            let Some(stored) = entries.remove(&found.key) else { continue };
            // Another program may leave a vector whose entry has another version, which says nothing about the entry.
            if found.near.as_ref().is_some_and(|near| near.version != stored.entry.version) {
                continue;
            }
            let entry = self.store.finish(stored, memory_core::GetOptions::default());
            let mut hit = Hit::new(entry, kept.ranked.score, kept.ranked.rank_score);
            let merged = kept.merged.into_iter();
            hit.merged =
                merged.filter_map(|index| matches.get(index).map(|found| found.key.clone())).collect();
            hits.push(hit);
        }
    }
}
