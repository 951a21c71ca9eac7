//! A complete backend: in-memory key/value. It serves neither search nor quotas and says so, and [`Checked`] refuses
//! them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_conformance::{Fixture, Harness};
use memory_core::*;

/// The contents of one scope. Versions outlive their entries, so none is ever reused.
#[derive(Clone, Debug, Default)]
struct Contents {
    entries: BTreeMap<Key, Entry>,
    versions: BTreeMap<Key, u64>,
}

impl Contents {
    fn live(&self, key: &Key, now: Timestamp) -> Option<&Entry> {
        self.entries.get(key).filter(|entry| !entry.is_expired(now))
    }

    fn all_live(&self, now: Timestamp) -> impl Iterator<Item = &Entry> {
        self.entries.values().filter(move |entry| !entry.is_expired(now))
    }

    fn next_version(&self, key: &Key) -> u64 {
        self.versions.get(key).unwrap_or(&0) + 1
    }

    fn put(&mut self, now: Timestamp, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        let (live, version) = (self.live(key, now), self.next_version(key));
        let (outcome, entry) = options.apply(live, key, value, version, now)?;
        entry.into_iter().for_each(|entry| self.store(entry));
        Ok(outcome)
    }

    fn store(&mut self, entry: Entry) {
        self.versions.insert(entry.key.clone(), entry.version);
        self.entries.insert(entry.key.clone(), entry);
    }
}

#[derive(Debug)]
struct Shelf {
    clock: Arc<dyn Clock>,
    scopes: Mutex<BTreeMap<Scope, Contents>>,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Scope, Contents>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` on a scope; a failure changes nothing.
    fn with<T>(&self, scope: &Scope, work: impl FnOnce(&mut Contents, Timestamp) -> Result<T>) -> Result<T> {
        work(self.lock().entry(scope.clone()).or_default(), self.clock.now())
    }
}

#[async_trait]
impl Provider for Shelf {
    fn name(&self) -> &str {
        "shelf"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        (capabilities.kv, capabilities.compare_and_set) = (true, true);
        capabilities
    }

    fn backend(&self) -> Option<&dyn Backend> {
        Some(self)
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health::new(HealthStatus::Ok, "in memory"))
    }
}

#[async_trait]
impl Backend for Shelf {
    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
        self.with(scope, |contents, now| {
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                found.push(contents.live(key, now).cloned());
                if let Some(stored) = contents.entries.get_mut(key).filter(|_| options.count_access) {
                    stored.access_count += 1;
                }
            }
            Ok(found)
        })
    }

    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        self.with(scope, |contents, now| contents.put(now, key, value, options))
    }

    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
        self.with(scope, |contents, now| {
            let Some(live) = contents.live(key, now) else { return Ok(DeleteOutcome::new(false)) };
            if !options.expect.holds(Some((live.version, &live.value))) {
                return Err(Error::conflict(Some(live.version)));
            }
            contents.entries.remove(key);
            Ok(DeleteOutcome::new(true))
        })
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        let start = query.start(scope)?;
        self.with(scope, |contents, now| {
            let from = contents.all_live(now).filter(|entry| entry.key.as_str() >= start.as_str());
            Page::of(scope, &query, from.cloned().map(Ok))
        })
    }

    async fn bulk_insert(
        &self,
        scope: &Scope,
        items: Vec<NewEntry>,
        _: BulkOptions,
    ) -> Result<Vec<SetOutcome>> {
        self.with(scope, |contents, now| {
            // All or none: a copy takes the items, and replaces the scope at the end.
            let mut copy = contents.clone();
            let put = |(index, item): (usize, NewEntry)| {
                let outcome = copy.put(now, &item.key, item.value, item.options);
                outcome.map_err(|error| error.with_detail("index", index))
            };
            let outcomes = items.into_iter().enumerate().map(put).collect::<Result<_>>()?;
            *contents = copy;
            Ok(outcomes)
        })
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        let now = self.clock.now();
        let scopes = self.lock();
        let own = scopes.iter().filter(|(scope, _)| scope.tenant == *tenant);
        let entries = own.flat_map(|(scope, contents)| {
            contents.all_live(now).map(|entry| Ok((scope.clone(), entry.size_bytes())))
        });
        ScopePage::of(tenant, &query, entries)
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        self.with(scope, |contents, now| {
            let live = contents.all_live(now).count() as u64;
            contents.entries.clear();
            Ok(DropOutcome::new(live))
        })
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        let entries =
            self.with(scope, |contents, now| Ok(contents.all_live(now).cloned().collect::<Vec<_>>()))?;
        Ok(record_stream(entries.into_iter().map(|entry| Ok(Record::from(entry)))))
    }

    async fn import_scope(
        &self,
        scope: &Scope,
        mut records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome> {
        let mut outcome = ImportOutcome::default();
        while let Some(record) = std::future::poll_fn(|context| records.as_mut().poll_next(context)).await {
            let record = record?.entry;
            self.with(scope, |contents, now| {
                let (live, version) = (contents.live(&record.key, now), contents.next_version(&record.key));
                let stored = options.apply(live, record, version, now, &mut outcome)?;
                stored.into_iter().for_each(|entry| contents.store(entry));
                Ok(())
            })?;
        }
        Ok(outcome)
    }
}

/// How the suite opens it.
struct Shelves;

#[async_trait]
impl Harness for Shelves {
    fn name(&self) -> &str {
        "shelf"
    }

    async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
        Ok(Box::new(Checked::new(Shelf { clock: fixture.clock, scopes: Mutex::default() })?))
    }
}

/// The suite opens it next to other configurations; a crate of its own would use `conformance_tests!(Shelves)`.
pub(super) fn harness() -> impl Harness {
    Shelves
}
