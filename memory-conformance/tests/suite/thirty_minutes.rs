//! A complete backend: key/value in memory. It serves neither search nor preconditions nor quotas,
//! says so, and refuses them.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use memory_conformance::{Fixture, Harness};
use memory_core::limits::MAX_PAGE_BYTES;
use memory_core::{reduce::reduce, *};

/// What one scope holds. Versions outlive their entries, so none is ever given twice.
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

    fn put(&mut self, now: Timestamp, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        let live = self.live(key, now);
        let created = live.is_none();
        let mut entry = Entry::new(key.clone(), value, self.versions.get(key).unwrap_or(&0) + 1, now);
        entry.expires_at = options.ttl.expiry(now, live.and_then(|live| live.expires_at))?;
        if let Some(live) = live {
            (entry.created_at, entry.access_count) = (live.created_at, live.access_count);
        }
        (entry.metadata, entry.source, entry.text) = (options.metadata, options.source, options.text);
        let outcome = SetOutcome::new(entry.version, created, true, entry.expires_at);
        self.store(entry);
        Ok(outcome)
    }

    fn store(&mut self, entry: Entry) {
        self.versions.insert(entry.key.clone(), entry.version);
        self.entries.insert(entry.key.clone(), entry);
    }

    /// Everything but the value stays, with the lifetime that the caller asks for.
    fn kept(&self, key: &Key, now: Timestamp, ttl: Ttl) -> SetOptions {
        let mut options = SetOptions::default().with_ttl(ttl);
        if let Some(live) = self.live(key, now).cloned() {
            (options.metadata, options.source, options.text) = (live.metadata, live.source, live.text);
        }
        options
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

    /// Runs `work` on a scope; what fails has changed nothing.
    fn with<T>(&self, scope: &Scope, work: impl FnOnce(&mut Contents, Timestamp) -> Result<T>) -> Result<T> {
        work(self.lock().entry(scope.clone()).or_default(), self.clock.now())
    }

    fn refuse<T>(&self, op: Op) -> Result<T> {
        Err(Error::unsupported(op.as_str(), self.name()))
    }

    fn no_vectors(&self, op: Op) -> Error {
        Error::new(ErrorKind::VectorUnsupported, "a shelf has no vectors; read by key")
            .with_detail("operation", op.as_str())
            .with_detail("provider", self.name())
    }

    /// What is not advertised is refused here too, not only by `Checked`.
    fn check(&self, options: &SetOptions, op: Op) -> Result<()> {
        if options.expect != Expect::Any || !options.quota.is_unlimited() {
            return self.refuse(op);
        }
        if options.embed == Embed::Always { Err(self.no_vectors(op)) } else { Ok(()) }
    }

    fn check_quota(&self, quota: Quota, op: Op) -> Result<()> {
        if quota.is_unlimited() { Ok(()) } else { self.refuse(op) }
    }
}

#[async_trait]
impl Provider for Shelf {
    fn name(&self) -> &str {
        "shelf"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        capabilities.kv = true;
        capabilities
    }

    fn backend(&self) -> Option<&dyn Backend> {
        Some(self)
    }

    async fn health(&self) -> Result<Health> {
        Ok(Health::new(HealthStatus::Ok, "in memory"))
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.lock().remove(&Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone()));
        Ok(())
    }
}

#[async_trait]
impl Backend for Shelf {
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
        let entries = self.get_many(scope, std::slice::from_ref(key), options).await?;
        Ok(entries.into_iter().next().flatten())
    }

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
        self.check(&options, Op::Set)?;
        self.with(scope, |contents, now| contents.put(now, key, value, options))
    }

    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
        if options.expect != Expect::Any {
            return self.refuse(Op::Delete);
        }
        self.with(scope, |contents, now| {
            let deleted = contents.live(key, now).is_some();
            contents.entries.remove(key);
            Ok(DeleteOutcome::new(deleted))
        })
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        let after = query.cursor.map(|cursor| cursor.key(scope, &query.prefix)).transpose()?;
        self.with(scope, |contents, now| {
            let mut matching = contents
                .all_live(now)
                .filter(|entry| after.as_ref().is_none_or(|after| entry.key > *after))
                .filter(|entry| entry.key.as_str().starts_with(&query.prefix))
                .filter(|entry| query.filter.as_ref().is_none_or(|filter| filter.matches(*entry)))
                .peekable();
            let (mut page, mut bytes) = (Page::new(Vec::new(), None), 0);
            while let Some(entry) =
                matching.next_if(|_| page.entries.len() < query.limit && bytes < MAX_PAGE_BYTES as u64)
            {
                bytes += entry.size_bytes();
                page.entries.push(entry.clone());
            }
            if let (Some(_), Some(last)) = (matching.peek(), page.entries.last()) {
                page.next = Some(Cursor::after_key(scope, &query.prefix, &last.key));
            }
            Ok(page)
        })
    }

    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        self.check_quota(options.quota, Op::Increment)?;
        self.with(scope, |contents, now| {
            let before = match contents.live(key, now).map(|entry| entry.value.as_i64_exact()) {
                None => 0,
                Some(Some(number)) => number,
                Some(None) => {
                    return Err(Error::new(ErrorKind::WrongType, "not an integer; set one first"));
                }
            };
            let sum = before
                .checked_add(delta)
                .ok_or_else(|| Error::invalid("the sum does not fit 64 bits; use a smaller delta"))?;
            let kept = contents.kept(key, now, options.ttl);
            let set = contents.put(now, key, Json::from(sum), kept)?;
            Ok(IncrementOutcome::new(sum, set.version, set.expires_at))
        })
    }

    async fn update(
        &self,
        scope: &Scope,
        key: &Key,
        reducer: Reducer,
        options: UpdateOptions,
    ) -> Result<UpdateOutcome> {
        self.check_quota(options.quota, Op::Update)?;
        let limit = self.capabilities().max_value_bytes;
        self.with(scope, |contents, now| {
            let reduced = reduce(contents.live(key, now).map(|entry| &entry.value), &reducer)?;
            if reduced.value.len_bytes() > limit {
                return Err(Error::too_large("value", reduced.value.len_bytes(), limit, "bytes"));
            }
            let kept = contents.kept(key, now, options.ttl);
            let set = contents.put(now, key, reduced.value.clone(), kept)?;
            let mut outcome = UpdateOutcome::new(reduced.value, set.version, set.expires_at);
            (outcome.appended, outcome.dropped) = (reduced.appended, reduced.dropped);
            Ok(outcome)
        })
    }

    async fn bulk_insert(
        &self,
        scope: &Scope,
        items: Vec<NewEntry>,
        options: BulkOptions,
    ) -> Result<Vec<SetOutcome>> {
        self.check_quota(options.quota, Op::BulkInsert)?;
        for (index, item) in items.iter().enumerate() {
            self.check(&item.options, Op::BulkInsert).map_err(|error| error.with_detail("index", index))?;
        }
        self.with(scope, |contents, now| {
            // All or none: a copy takes the items and replaces the scope at the end.
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

    async fn search(&self, _: &Scope, query: SearchQuery) -> Result<SearchResults> {
        match query.mode {
            SearchMode::Vector | SearchMode::Hybrid => Err(self.no_vectors(Op::Search)),
            SearchMode::Auto | SearchMode::Lexical => self.refuse(Op::Search),
        }
    }

    async fn stats(&self, _: &Scope) -> Result<ScopeStats> {
        self.refuse(Op::Stats)
    }

    async fn reembed(&self, _: &Scope, _: ReembedOptions) -> Result<ReembedOutcome> {
        Err(self.no_vectors(Op::Reembed))
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        let now = self.clock.now();
        let start = match query.cursor.map(|cursor| cursor.scope(tenant)).transpose()? {
            Some((kind, id)) => Excluded(Scope::new(tenant.clone(), kind, id)),
            None => Unbounded,
        };
        let scopes = self.lock();
        let mut infos = scopes
            .range((start, Unbounded))
            .filter(|(scope, _)| scope.tenant == *tenant && query.kind.is_none_or(|kind| kind == scope.kind))
            .map(|(scope, contents)| {
                let count = contents.all_live(now).count() as u64;
                ScopeInfo::new(scope.clone(), count, contents.all_live(now).map(Entry::size_bytes).sum())
            })
            .filter(|info| info.entries > 0)
            .peekable();
        let page: Vec<ScopeInfo> = infos.by_ref().take(query.limit).collect();
        let last = infos.peek().and(page.last()).map(|last| &last.scope);
        let next = last.map(|scope| Cursor::after_scope(tenant, scope.kind, &scope.id));
        Ok(ScopePage::new(page, next))
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        self.with(scope, |contents, now| {
            let live = contents.all_live(now).count() as u64;
            contents.entries.clear();
            Ok(DropOutcome::new(live))
        })
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        let records = self.with(scope, |contents, now| {
            Ok(contents.all_live(now).cloned().map(Record::from).collect::<Vec<_>>())
        })?;
        Ok(Box::pin(Records(records.into_iter())))
    }

    async fn import_scope(
        &self,
        scope: &Scope,
        mut records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome> {
        self.check_quota(options.quota, Op::ImportScope)?;
        if options.atomicity != Atomicity::Record {
            return self.refuse(Op::ImportScope);
        }
        let (mut outcome, mut index) = (ImportOutcome::default(), 0_u64);
        while let Some(record) = std::future::poll_fn(|context| records.as_mut().poll_next(context)).await {
            let mut entry = record?.entry;
            self.with(scope, |contents, now| {
                if entry.is_expired(now) {
                    outcome.expired += 1;
                    return Ok(());
                }
                match (contents.live(&entry.key, now), options.on_existing) {
                    (None, _) => outcome.created += 1,
                    (Some(live), OnExisting::Fail) => {
                        return Err(Error::conflict(Some(live.version)).with_detail("index", index));
                    }
                    (Some(live), OnExisting::Replace) if !is_same(live, &entry) => outcome.replaced += 1,
                    (Some(_), _) => {
                        outcome.skipped += 1;
                        return Ok(());
                    }
                }
                entry.version = entry.version.max(contents.versions.get(&entry.key).unwrap_or(&0) + 1);
                contents.store(entry);
                Ok(())
            })?;
            index += 1;
        }
        Ok(outcome)
    }
}

/// The same but for the version, which importing changes, and the accesses, which reading counts.
fn is_same(live: &Entry, record: &Entry) -> bool {
    let mut record = record.clone();
    (record.version, record.access_count) = (live.version, live.access_count);
    *live == record
}

struct Records(std::vec::IntoIter<Record>);

impl Stream for Records {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().map(Ok))
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
        Ok(Box::new(Shelf { clock: fixture.clock, scopes: Mutex::default() }))
    }
}

/// The suite opens it beside other configurations; a crate of its own says `conformance_tests!(Shelves)`.
pub(super) fn harness() -> impl Harness {
    Shelves
}
