//! Thousands of writes with known near-duplicates: what a search folds, and the cost.
//!
//! Groups of entries are written by single sets and by bulk inserts; the members of a group reorder the first one's
//! words, or add or replace one. Searches must fold exactly these, however many entries there are, and also after
//! overwrites, deletes, expiries and failed embeddings. A case runs it with a few hundred writes; [`run`] takes any
//! number.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use memory_core::embed::cosine;
use memory_core::rank::{Candidate, dedup, rank};
use memory_core::{
    Dedup, DedupPolicy, Embedding, ErrorKind, Json, Key, NewEntry, RankOptions, Scope, SearchMode,
    SearchQuery, SearchResults, SetOptions, Ttl,
};

use crate::check::{CaseResult, Stop, check, expect_eq};
use crate::cx::{Cx, Store, key, ms};
use crate::harness::Harness;
use crate::harness::embedder::EmbedFault;
use crate::harness::fixture::Fixture;
use crate::random::Random;

/// Texts with at least this cosine are near-duplicates.
const THRESHOLD: f64 = 0.8;
/// Members of a group are more similar by this margin, so that rounding does not matter.
const MARGIN: f64 = 0.005;
/// Words of a text, and of the vocabulary.
const WORDS: usize = 12;
const VOCABULARY: u64 = 4_000;
const MAX_MEMBERS: u64 = 24;
/// Items of a bulk insert.
const BULK: usize = 250;

/// What a run did; every answer was as expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Entries written at first.
    pub writes: u64,
    /// Groups of near-duplicates.
    pub groups: u64,
    /// Entries later overwritten, deleted or expired.
    pub changes: u64,
    /// Searches made.
    pub searches: u64,
    /// Hits that searches dropped.
    pub dropped: u64,
    /// Hits that searches merged into better ones.
    pub merged: u64,
    /// Calls to the embedder.
    pub calls: u64,
    /// Texts embedded.
    pub texts: u64,
}

/// Opens a store and performs `writes` writes on it; equal seeds do the same. Blocks.
///
/// # Errors
/// What was expected and what came; also if the provider has no vectors, or its own embedder.
pub fn run(harness: &Arc<dyn Harness>, writes: usize, seed: u64) -> Result<Tally, String> {
    let mut result = None;
    harness.block_on(Box::pin(async {
        result = Some(
            async {
                let fixture = Fixture::new(format!("dedup-{writes}-{seed}"));
                let store = Store::open(Arc::clone(harness), fixture).await?;
                let capabilities = store.provider().capabilities();
                if !capabilities.vector_search {
                    return Err(Stop::skipped("the provider does not serve vectors"));
                }
                let cx = Cx::new(store, "dedup.suite", u32::try_from(seed % 1_000_000).unwrap_or(0))?;
                near_duplicates(&cx, writes, seed).await
            }
            .await,
        );
    }));
    match result {
        Some(Ok(tally)) => Ok(tally),
        Some(Err(Stop::Failed(why) | Stop::Skipped(why))) => Err(why),
        None => Err("the harness's block_on returned before the future ended".to_owned()),
    }
}

/// The stored vectors, as known to the suite.
#[derive(Default)]
struct Known(BTreeMap<Key, Vec<f32>>);

impl Known {
    /// The expected answer of a search by vectors: hits with the keys merged into them, and duplicates.
    fn due(
        &self,
        query: &[f32],
        prefix: &str,
        top_k: usize,
        options: &Dedup,
    ) -> (Vec<(String, Vec<String>)>, usize) {
        let matching: Vec<(&Key, &[f32])> = self
            .0
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(|(key, _)| key.as_str().starts_with(prefix))
            .map(|(key, vector)| (key, vector.as_slice()))
            .collect();
        let candidates: Vec<Candidate<'_>> = matching
            .iter()
            .map(|(key, vector)| Candidate {
                key,
                lexical: None,
                cosine: Some(cosine(vector, query)),
                updated_at: memory_core::Timestamp::EPOCH,
                source: None,
                access_count: 0,
            })
            .collect();
        let now = memory_core::Timestamp::EPOCH;
        let ranked = rank(SearchMode::Vector, &candidates, None, &RankOptions::default(), now);
        let (kept, duplicates) =
            dedup(&ranked, top_k, Some(options), |index| matching.get(index).map(|(_, vector)| *vector));
        let name =
            |index: usize| matching.get(index).map(|(key, _)| key.as_str().to_owned()).unwrap_or_default();
        let hits = kept
            .into_iter()
            .map(|kept| (name(kept.ranked.index), kept.merged.into_iter().map(name).collect()));
        (hits.collect(), duplicates)
    }
}

fn shown(results: &SearchResults) -> Vec<(String, Vec<String>)> {
    let text = |key: &Key| key.as_str().to_owned();
    results.hits.iter().map(|hit| (text(&hit.entry.key), hit.merged.iter().map(text).collect())).collect()
}

/// A group as created: its prefix, the text of its first member, and its size.
struct Group {
    prefix: String,
    text: String,
    members: usize,
}

struct Run<'a> {
    cx: &'a Cx,
    scope: Scope,
    random: Random,
    known: Known,
    tally: Tally,
    /// The embedder's counts before the run.
    before: (u64, u64),
}

/// Runs the suite in the context of a case.
pub(crate) async fn near_duplicates(cx: &Cx, writes: usize, seed: u64) -> CaseResult<Tally> {
    crate::cx::vectors::owned(cx)?;
    let mut run = Run {
        cx,
        scope: cx.scope()?,
        random: Random::new(seed),
        known: Known::default(),
        tally: Tally::default(),
        before: (cx.embedder().calls(), cx.embedder().texts()),
    };
    let groups = run.write(writes).await?;
    run.folds(&groups).await?;
    run.whole_scope(&groups).await?;
    run.change(&groups).await?;
    run.whole_scope(&groups).await?;
    run.fail_and_repair(&groups).await?;
    run.whole_scope(&groups).await?;
    let asked = run.asked();
    (run.tally.calls, run.tally.texts) = asked;
    Ok(run.tally)
}

impl Run<'_> {
    fn asked(&self) -> (u64, u64) {
        let embedder = self.cx.embedder();
        (embedder.calls() - self.before.0, embedder.texts() - self.before.1)
    }

    fn words(&mut self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        while words.len() < WORDS {
            let word = format!("w{}", self.random.below(VOCABULARY));
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words
    }

    /// A near-duplicate of a text.
    fn variant(&mut self, text: &str) -> String {
        let original = self.cx.embedder().vector(text);
        loop {
            let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let other = format!("w{}", self.random.below(VOCABULARY));
            match self.random.below(3) {
                0 => self.random.shuffle(&mut words),
                1 => words.push(other),
                _ => {
                    let at = self.random.index(words.len());
                    if let Some(word) = words.get_mut(at) {
                        *word = other;
                    }
                }
            }
            let variant =
                if self.random.one_in(2) { words.join(", ").to_uppercase() } else { words.join(" ") };
            if cosine(&original, &self.cx.embedder().vector(&variant)) > THRESHOLD + MARGIN {
                return variant;
            }
        }
    }

    /// Writes all members in one random order, half by sets and half by bulk inserts.
    async fn write(&mut self, writes: usize) -> CaseResult<Vec<Group>> {
        let mut groups: Vec<Group> = Vec::new();
        let mut texts: Vec<(Key, String)> = Vec::new();
        while texts.len() < writes {
            let text = self.words().join(" ");
            let prefix = format!("group/{:05}/", groups.len());
            let most = usize::try_from(1 + self.random.below(MAX_MEMBERS)).unwrap_or(1);
            let members = most.min(writes - texts.len());
            texts.push((key(&format!("{prefix}00"))?, text.clone()));
            for member in 1..members {
                texts.push((key(&format!("{prefix}{member:02}"))?, self.variant(&text)));
            }
            groups.push(Group { prefix, text, members });
        }
        self.random.shuffle(&mut texts);
        let (one_by_one, together) = texts.split_at(writes / 2);
        for (key, text) in one_by_one {
            let set = self.cx.kv().set(&self.scope, key, Json::string(text), SetOptions::default()).await?;
            expect_eq!(set.embedding, Embedding::Stored, "the embedding of a set");
        }
        expect_eq!(
            self.asked(),
            (one_by_one.len() as u64, one_by_one.len() as u64),
            "calls and texts of the sets"
        );
        for chunk in together.chunks(BULK) {
            let items =
                chunk.iter().map(|(key, text)| NewEntry::new(key.clone(), Json::string(text))).collect();
            let outcomes = self.cx.bulk(&self.scope, items).await?;
            let stored = outcomes.iter().filter(|outcome| outcome.embedding == Embedding::Stored).count();
            expect_eq!(stored, chunk.len(), "items of a bulk insert that were embedded");
        }
        let (calls, given) = self.asked();
        expect_eq!(given, writes as u64, "texts given to the embedder for {writes} writes");
        check!(calls <= writes as u64, "{writes} writes made {calls} calls to the embedder");
        for (key, text) in texts {
            let vector = self.cx.embedder().vector(&text);
            self.known.0.insert(key, vector);
        }
        (self.tally.writes, self.tally.groups) = (writes as u64, groups.len() as u64);
        Ok(groups)
    }

    /// Searches by vectors and compares the answer with the expected one.
    async fn search(
        &mut self,
        text: &str,
        prefix: &str,
        top_k: usize,
        policy: DedupPolicy,
    ) -> CaseResult<SearchResults> {
        let options = Dedup { threshold: THRESHOLD, policy };
        let query = SearchQuery::new(text).with_mode(SearchMode::Vector).with_prefix(prefix);
        let query = query.with_top_k(top_k).with_dedup(options);
        let calls = self.cx.embedder().calls();
        let results = self.cx.kv().search(&self.scope, query).await?;
        expect_eq!(self.cx.embedder().calls() - calls, 1, "calls to the embedder of a search");
        let (hits, duplicates) = self.known.due(&self.cx.embedder().vector(text), prefix, top_k, &options);
        expect_eq!(
            shown(&results),
            hits,
            "hits under `{prefix}` with {policy:?}, and what was merged into each"
        );
        expect_eq!(results.duplicates, duplicates, "duplicates under `{prefix}` with {policy:?}");
        self.tally.searches += 1;
        match policy {
            DedupPolicy::Drop => self.tally.dropped += duplicates as u64,
            DedupPolicy::Merge => self.tally.merged += duplicates as u64,
            DedupPolicy::Keep => {}
        }
        Ok(results)
    }

    /// Each group folds into its first member, and the others are counted.
    async fn folds(&mut self, groups: &[Group]) -> CaseResult {
        for (at, group) in groups.iter().enumerate() {
            let policy = match at % 3 {
                0 => DedupPolicy::Drop,
                1 => DedupPolicy::Merge,
                _ => DedupPolicy::Keep,
            };
            let results = self.search(&group.text, &group.prefix, 100, policy).await?;
            let (hits, merged) = match policy {
                DedupPolicy::Drop => (1, 0),
                DedupPolicy::Merge => (1, group.members - 1),
                DedupPolicy::Keep => (group.members, 0),
            };
            expect_eq!(
                results.hits.len(),
                hits,
                "hits among {} near-duplicates, with {policy:?}",
                group.members
            );
            expect_eq!(
                results.duplicates,
                group.members - 1,
                "duplicates among {} near-duplicates",
                group.members
            );
            let first = results.hits.first().map(|hit| (hit.entry.key.as_str().to_owned(), hit.merged.len()));
            expect_eq!(
                first,
                Some((format!("{}00", group.prefix), merged)),
                "the best hit, and how many were merged into it"
            );
        }
        Ok(())
    }

    /// Searches among all entries.
    async fn whole_scope(&mut self, groups: &[Group]) -> CaseResult {
        let max = self.cx.capabilities().max_top_k;
        for at in 0..4 {
            let Some(text) = self.random.pick(groups).map(|group| group.text.clone()) else { continue };
            let policy = if at % 2 == 0 { DedupPolicy::Drop } else { DedupPolicy::Merge };
            let found = self.search(&text, "", 50.min(max), policy).await?;
            check!(!found.hits.is_empty(), "nothing is found among {} entries", self.known.0.len());
        }
        Ok(())
    }

    /// Overwrites some entries, deletes some, lets some expire; their old vectors no longer fold.
    async fn change(&mut self, groups: &[Group]) -> CaseResult {
        let keys: Vec<Key> = self.known.0.keys().cloned().collect();
        let mut changed: Vec<Key> = Vec::new();
        for _ in 0..keys.len() / 10 {
            let Some(key) = self.random.pick(&keys).filter(|key| !changed.contains(key)).cloned() else {
                continue;
            };
            changed.push(key.clone());
            let text = self.words().join(" ");
            match self.random.below(3) {
                0 => {
                    self.cx.delete(&self.scope, key.as_str()).await?;
                    self.known.0.remove(&key);
                }
                1 => {
                    let vector = self.cx.embedder().vector(&text);
                    self.cx.say(&self.scope, key.as_str(), &text).await?;
                    self.known.0.insert(key, vector);
                }
                _ => {
                    let options = SetOptions::default().with_ttl(Ttl::After(ms(5)));
                    self.cx.kv().set(&self.scope, &key, Json::string(&text), options).await?;
                    self.known.0.remove(&key);
                }
            }
        }
        self.cx.advance_ms(5);
        self.tally.changes = changed.len() as u64;
        for group in
            groups.iter().filter(|group| changed.iter().any(|key| key.as_str().starts_with(&group.prefix)))
        {
            self.search(&group.text, &group.prefix, 100, DedupPolicy::Drop).await?;
        }
        Ok(())
    }

    /// Overwrites a group while the embedder fails: it is not found until it is embedded again.
    async fn fail_and_repair(&mut self, groups: &[Group]) -> CaseResult {
        let Some(group) = groups.iter().max_by_key(|group| group.members) else { return Ok(()) };
        let members: Vec<(Key, String)> = (0..group.members)
            .map(|member| Ok((key(&format!("{}{member:02}", group.prefix))?, self.variant(&group.text))))
            .collect::<memory_core::Result<_>>()?;
        self.cx.embedder().fail_always(Some(EmbedFault::Error(ErrorKind::Unavailable)));
        let items =
            members.iter().map(|(key, text)| NewEntry::new(key.clone(), Json::string(text))).collect();
        let outcomes = self.cx.bulk(&self.scope, items).await;
        self.cx.embedder().fail_always(None);
        let failed = outcomes?.iter().filter(|of| matches!(of.embedding, Embedding::Failed(_))).count();
        expect_eq!(failed, group.members, "items whose embedding failed");
        for (key, _) in &members {
            self.known.0.remove(key);
        }
        self.search(&group.text, &group.prefix, 100, DedupPolicy::Drop).await?;
        let texts = self.cx.embedder().texts();
        let repair = self.cx.reembed(&self.scope, 10_000).await?;
        let due = group.members as u64;
        expect_eq!((repair.embedded, repair.remaining), (due, 0), "embedded and remaining by the repair");
        expect_eq!(self.cx.embedder().texts() - texts, due, "texts given to the embedder by the repair");
        for (key, text) in members {
            let vector = self.cx.embedder().vector(&text);
            self.known.0.insert(key, vector);
        }
        self.search(&group.text, &group.prefix, 100, DedupPolicy::Merge).await?;
        Ok(())
    }
}
