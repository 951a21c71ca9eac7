//! Writes turns into a store in batches of one transaction each, skipping those already there. So an interrupted import
//! can be resumed by running it again.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;

use clap::ValueEnum;
use memory_core::checked::check_entry;
use memory_core::{
    Backend, BulkOptions, Capabilities, Embedding, Entry, Error, ErrorKind, Expect, GetOptions, Json, Key,
    Metadata, NewEntry, Result, Scope, Source, Timestamp,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::problems::Problems;
use super::readers::Place;

/// Entries per transaction.
pub(crate) const BATCH: usize = 500;
/// About how many bytes per transaction.
const BATCH_BYTES: u64 = 8 << 20;
/// Most turns waiting for their transaction, across all scopes.
const PENDING: usize = 4 * BATCH;
/// How often a batch is retried after a conflict with another writer.
const ATTEMPTS: usize = 10;

/// What to do with a key whose stored value differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDifferent {
    /// Keep what is stored
    #[default]
    Skip,
    /// Store what is imported
    Replace,
    /// Stop
    Fail,
}

/// What an import did with its turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    /// Stored under a new key.
    pub(crate) created: u64,
    /// Stored over something different.
    pub(crate) replaced: u64,
    /// Already stored, and equal.
    pub(crate) unchanged: u64,
    /// Kept although it differs.
    pub(crate) kept: u64,
    /// Entries stored without a vector because the embedder failed.
    pub(crate) without_vector: u64,
}

impl Totals {
    /// Adds others.
    pub(crate) fn add(&mut self, more: &Self) {
        self.created += more.created;
        self.replaced += more.replaced;
        self.unchanged += more.unchanged;
        self.kept += more.kept;
        self.without_vector += more.without_vector;
    }

    /// How many turns were decided.
    pub(crate) fn decided(&self) -> u64 {
        self.created + self.replaced + self.unchanged + self.kept
    }
}

struct Waiting {
    file: String,
    place: Place,
    entry: NewEntry,
}

impl Waiting {
    fn conflict(&self) -> Error {
        let Self { file, place, entry } = self;
        let text = format!(
            "{file}, {place}: the key `{}` holds a different value; \
             keep it with --on-different skip or overwrite it with --on-different replace",
            entry.key
        );
        Error::new(ErrorKind::Conflict, text).with_detail("key", entry.key.as_str())
    }

    /// Records that something else is kept under its key.
    fn keep_out(&self, kept: &mut Problems) {
        let why = format!("something else is stored under its key, `{}`", self.entry.key);
        kept.add(&self.file, self.place.clone(), why);
    }
}

#[derive(Default)]
struct Batch {
    entries: BTreeMap<Key, Waiting>,
    bytes: u64,
}

/// Writes turns into any number of scopes of one backend.
pub(crate) struct Store<'a> {
    backend: &'a dyn Backend,
    capabilities: Capabilities,
    on_different: OnDifferent,
    /// In a dry run, what would have been written.
    pub(crate) planned: Option<Planned>,
    pending: BTreeMap<Scope, Batch>,
    waiting: usize,
    /// The totals so far, by scope.
    pub(crate) totals: BTreeMap<Scope, Totals>,
    /// What could not be stored.
    pub(crate) problems: Problems,
    /// What was not stored because something else is there.
    pub(crate) kept: Problems,
    /// The embedder's first failure.
    pub(crate) embedder_failure: Option<String>,
}

impl<'a> Store<'a> {
    pub(crate) fn new(
        backend: &'a dyn Backend,
        capabilities: &Capabilities,
        on_different: OnDifferent,
    ) -> Self {
        Self {
            backend,
            capabilities: capabilities.clone(),
            on_different,
            planned: None,
            pending: BTreeMap::new(),
            waiting: 0,
            totals: BTreeMap::new(),
            problems: Problems::default(),
            kept: Problems::default(),
            embedder_failure: None,
        }
    }

    /// Writes nothing, and counts what would be written.
    pub(crate) fn dry(mut self, dry: bool) -> Self {
        self.planned = dry.then(Planned::default);
        self
    }

    /// Sum over all scopes.
    pub(crate) fn total(&self) -> Totals {
        let mut sum = Totals::default();
        self.totals.values().for_each(|one| sum.add(one));
        sum
    }

    /// Queues one entry; writes a batch once enough are queued.
    pub(crate) async fn push(
        &mut self,
        scope: Scope,
        file: &str,
        place: Place,
        entry: NewEntry,
    ) -> Result<()> {
        if let Err(error) = check_entry(&entry.key, &entry.value, &entry.options, &self.capabilities) {
            self.problems.add(file, place, error.message());
            return Ok(());
        }
        let batch = self.pending.entry(scope.clone()).or_default();
        let options = &entry.options;
        batch.bytes += memory_core::entry::size_bytes(
            &entry.key,
            &entry.value,
            &options.metadata,
            options.source.as_ref(),
            options.text.as_deref(),
        );
        match batch.entries.entry(entry.key.clone()) {
            Slot::Vacant(slot) => {
                slot.insert(Waiting { file: file.to_owned(), place, entry });
                self.waiting += 1;
            }
            Slot::Occupied(mut slot) => {
                // A duplicate within one input, as when a resumed session repeats an earlier one.
                let totals = self.totals.entry(scope.clone()).or_default();
                let twice = Waiting { file: file.to_owned(), place, entry };
                match self.on_different {
                    _ if slot.get().entry == twice.entry => totals.unchanged += 1,
                    OnDifferent::Skip => {
                        totals.kept += 1;
                        twice.keep_out(&mut self.kept);
                    }
                    OnDifferent::Replace => {
                        totals.replaced += 1;
                        slot.insert(twice);
                    }
                    OnDifferent::Fail => return Err(twice.conflict()),
                }
            }
        }
        if batch.entries.len() >= BATCH || batch.bytes >= BATCH_BYTES {
            self.write(&scope).await?;
        } else if self.waiting >= PENDING {
            self.finish().await?;
        }
        Ok(())
    }

    /// Writes every queued entry.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        while let Some(scope) = self.pending.keys().next().cloned() {
            self.write(&scope).await?;
        }
        Ok(())
    }

    async fn write(&mut self, scope: &Scope) -> Result<()> {
        let Some(batch) = self.pending.remove(scope) else { return Ok(()) };
        self.waiting -= batch.entries.len();
        let mut waiting: Vec<Waiting> = batch.entries.into_values().collect();
        let mut attempts = 0;
        loop {
            let Decided { write, kept, mut totals, replaced } = self.decide(scope, &waiting).await?;
            let items: Vec<NewEntry> = write.iter().map(|(_, item)| item.clone()).collect();
            if let Some(planned) = &mut self.planned {
                totals.replaced += replaced;
                totals.created += items.len() as u64 - replaced;
                items.iter().for_each(|item| planned.put(scope, &item.key, digest_of(item)));
            }
            if items.is_empty() || self.planned.is_some() {
                self.count(scope, &totals);
                self.kept.extend(kept);
                return Ok(());
            }
            match self.backend.bulk_insert(scope, items, BulkOptions::default()).await {
                Ok(outcomes) => {
                    for outcome in outcomes {
                        match (outcome.written, outcome.created) {
                            (false, _) => totals.unchanged += 1,
                            (true, true) => totals.created += 1,
                            (true, false) => totals.replaced += 1,
                        }
                        if let Embedding::Failed(reason) = outcome.embedding {
                            totals.without_vector += 1;
                            self.embedder_failure.get_or_insert(reason);
                        }
                    }
                    self.count(scope, &totals);
                    self.kept.extend(kept);
                    return Ok(());
                }
                // Another writer came between the read and the write.
                Err(error) if error.kind() == ErrorKind::Conflict && attempts < ATTEMPTS => attempts += 1,
                // One refused entry must not keep the others out.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge) => {
                    let index = error.details().get("index").and_then(serde_json::Value::as_u64);
                    let index = index.and_then(|index| usize::try_from(index).ok());
                    match index.and_then(|index| write.get(index)).map(|(position, _)| *position) {
                        Some(position) if position < waiting.len() => {
                            let refused = waiting.remove(position);
                            self.problems.add(&refused.file, refused.place, error.message());
                        }
                        _ => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds to the totals of a scope.
    pub(crate) fn count(&mut self, scope: &Scope, totals: &Totals) {
        self.totals.entry(scope.clone()).or_default().add(totals);
    }

    /// Splits a batch into entries to write, with their positions, and entries that need no write.
    async fn decide(&self, scope: &Scope, waiting: &[Waiting]) -> Result<Decided> {
        let keys: Vec<Key> = waiting.iter().map(|waiting| waiting.entry.key.clone()).collect();
        let stored = self.backend.get_many(scope, &keys, GetOptions::uncounted()).await?;
        let mut decided = Decided::default();
        for (position, (waiting, stored)) in waiting.iter().zip(&stored).enumerate() {
            let planned = self.planned.as_ref().and_then(|planned| planned.get(scope, &waiting.entry.key));
            let (version, is_same) = match (planned, stored) {
                (Some(planned), _) => (Some(1), planned == digest_of(&waiting.entry)),
                (None, Some(stored)) => (Some(stored.version), same(stored, &waiting.entry)),
                (None, None) => (None, false),
            };
            let expect = match (version, self.on_different) {
                (None, _) => Expect::Absent,
                (Some(_), _) if is_same => {
                    decided.totals.unchanged += 1;
                    continue;
                }
                (Some(_), OnDifferent::Skip) => {
                    decided.totals.kept += 1;
                    waiting.keep_out(&mut decided.kept);
                    continue;
                }
                (Some(version), OnDifferent::Replace) => {
                    decided.replaced += 1;
                    Expect::Version(version)
                }
                (Some(version), OnDifferent::Fail) => {
                    return Err(waiting.conflict().with_detail("current_version", version));
                }
            };
            let mut item = waiting.entry.clone();
            // Without preconditions, another writer's entry may be overwritten.
            if self.capabilities.compare_and_set {
                item.options.expect = expect;
            }
            decided.write.push((position, item));
        }
        Ok(decided)
    }
}

/// The decisions for a batch.
#[derive(Default)]
struct Decided {
    /// With their positions.
    write: Vec<(usize, NewEntry)>,
    kept: Problems,
    totals: Totals,
    /// How many of those to write replace another.
    replaced: u64,
}

/// What a dry run would have stored so far, as a digest of each entry.
#[derive(Default)]
pub(crate) struct Planned(BTreeMap<Scope, BTreeMap<Key, [u8; 32]>>);

impl Planned {
    pub(crate) fn put(&mut self, scope: &Scope, key: &Key, digest: [u8; 32]) {
        self.0.entry(scope.clone()).or_default().insert(key.clone(), digest);
    }

    pub(crate) fn get(&self, scope: &Scope, key: &Key) -> Option<[u8; 32]> {
        self.0.get(scope)?.get(key).copied()
    }
}

/// A digest of the parts that [`same`] compares.
fn digest_of(entry: &NewEntry) -> [u8; 32] {
    let options = &entry.options;
    digest(&entry.value, &options.metadata, options.source.as_ref(), options.text.as_deref(), &[])
}

/// A digest of the parts that [`Entry::is_copy_of`] compares.
pub(crate) fn digest_of_record(entry: &Entry) -> [u8; 32] {
    let times = [Some(entry.created_at), Some(entry.updated_at), entry.expires_at];
    digest(&entry.value, &entry.metadata, entry.source.as_ref(), entry.text.as_deref(), &times)
}

fn digest(
    value: &Json,
    metadata: &Metadata,
    source: Option<&Source>,
    text: Option<&str>,
    times: &[Option<Timestamp>],
) -> [u8; 32] {
    let parts = format!("{:?}", (value.as_str(), metadata, source, text, times));
    Sha256::digest(parts).into()
}

fn same(stored: &Entry, wanted: &NewEntry) -> bool {
    stored.value == wanted.value
        && stored.metadata == wanted.options.metadata
        && stored.source == wanted.options.source
        && stored.text == wanted.options.text
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory_conformance::{EmbedFault, Reference, TestClock, TestEmbedder};
    use memory_core::Provider as _;

    use super::*;

    #[tokio::test]
    async fn what_is_stored_without_a_vector_is_counted_with_the_first_reason() {
        let embedder = Arc::new(TestEmbedder::new());
        embedder.fail_always(Some(EmbedFault::Error(ErrorKind::RateLimited)));
        let reference = Reference::new(Arc::new(TestClock::new())).with_embedder(embedder);
        let capabilities = reference.capabilities();
        let mut store = Store::new(reference.backend().unwrap(), &capabilities, OnDifferent::Skip);
        let scope = Scope::user("acme", "ada").unwrap();
        for n in 0..3 {
            let entry =
                NewEntry::new(Key::new(format!("k{n}")).unwrap(), Json::parse(r#""some words""#).unwrap());
            store.push(scope.clone(), "chat.jsonl", Place::Line(n), entry).await.unwrap();
        }
        store.finish().await.unwrap();
        let expected = Totals { created: 3, without_vector: 3, ..Totals::default() };
        assert_eq!(store.total(), expected);
        assert_eq!(store.problems.count, 0);
        assert!(store.embedder_failure.is_some());
    }
}
