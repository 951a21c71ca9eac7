//! A memory backend over redb: key/value entries in one file. It advertises no more, and refuses the rest.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use memory_core::limits::MAX_PAGE_BYTES;
use memory_core::{reduce::reduce, *};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, Table, TableDefinition};

/// Rows `TENANT\0KIND\0ID\0KEY`, each an entry as JSON. No id and no key has a NUL.
const ENTRIES: TableDefinition<&str, &[u8]> = TableDefinition::new("entries");
/// The last version under each of these names, which outlives the entry: no version is ever given twice.
const VERSIONS: TableDefinition<&str, u64> = TableDefinition::new("versions");

/// One file. Calls block while they wait for the disk; a server would run them on threads of their own.
#[derive(Debug)]
pub struct RedbMemory {
    database: Database,
    clock: Arc<dyn Clock>,
}

impl RedbMemory {
    /// Opens the file, or makes it.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        let database = Database::create(path).map_err(failed)?;
        let setup = database.begin_write().map_err(failed)?;
        setup.open_table(ENTRIES).map_err(failed)?;
        setup.open_table(VERSIONS).map_err(failed)?;
        setup.commit().map_err(failed)?;
        Ok(Self { database, clock })
    }

    /// Runs `work` on a scope in one transaction; what fails has changed nothing.
    fn write<T>(
        &self,
        scope: &Scope,
        durability: Durability,
        work: impl FnOnce(&mut Shelf<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(durability).map_err(failed)?;
        let done = work(&mut Shelf {
            prefix: prefix(scope),
            now: self.clock.now(),
            entries: transaction.open_table(ENTRIES).map_err(failed)?,
            versions: transaction.open_table(VERSIONS).map_err(failed)?,
        })?;
        transaction.commit().map_err(|error| {
            Error::new(ErrorKind::OutcomeUnknown, "the commit failed; read before you write again")
                .with_source(error)
        })?;
        Ok(done)
    }

    /// Passes live entries from `start` on to `each`, in order, while their rows begin with `prefix` and it asks for more.
    fn read(
        &self,
        prefix: &str,
        start: &str,
        mut each: impl FnMut(&str, Entry) -> Result<bool>,
    ) -> Result<()> {
        let now = self.clock.now();
        let transaction = self.database.begin_read().map_err(failed)?;
        for row in transaction.open_table(ENTRIES).map_err(failed)?.range(start..).map_err(failed)? {
            let (name, bytes) = row.map_err(failed)?;
            if !name.value().starts_with(prefix) {
                break;
            }
            let entry = parsed(bytes.value())?;
            if !entry.is_expired(now) && !each(name.value(), entry)? {
                break;
            }
        }
        Ok(())
    }

    fn refuse<T>(&self, op: Op) -> Result<T> {
        Err(Error::unsupported(op.as_str(), self.name()))
    }

    fn no_vectors(&self, op: Op) -> Error {
        Error::new(ErrorKind::VectorUnsupported, "there are no vectors here; read by key")
            .with_detail("operation", op.as_str())
            .with_detail("provider", self.name())
    }

    /// What is not advertised is refused here too, not only by `Checked`.
    fn check(&self, options: &SetOptions, op: Op) -> Result<()> {
        if options.expect != Expect::Any {
            return self.refuse(op);
        }
        self.check_quota(options.quota, op)?;
        if options.embed == Embed::Always { Err(self.no_vectors(op)) } else { Ok(()) }
    }

    fn check_quota(&self, quota: Quota, op: Op) -> Result<()> {
        if quota.is_unlimited() { Ok(()) } else { self.refuse(op) }
    }
}

/// A scope within a transaction.
struct Shelf<'t> {
    prefix: String,
    now: Timestamp,
    entries: Table<'t, &'static str, &'static [u8]>,
    versions: Table<'t, &'static str, u64>,
}

impl Shelf<'_> {
    fn row(&self, key: &Key) -> String {
        format!("{}{key}", self.prefix)
    }

    fn live(&self, key: &Key) -> Result<Option<Entry>> {
        let found = self.entries.get(self.row(key).as_str()).map_err(failed)?;
        let entry = found.map(|bytes| parsed(bytes.value())).transpose()?;
        Ok(entry.filter(|entry| !entry.is_expired(self.now)))
    }

    /// The version after the last one of this key.
    fn next_version(&self, key: &Key) -> Result<u64> {
        let last = self.versions.get(self.row(key).as_str()).map_err(failed)?;
        Ok(last.map_or(0, |version| version.value()) + 1)
    }

    fn store(&mut self, entry: &Entry) -> Result<()> {
        let bytes = serde_json::to_vec(entry)
            .map_err(|error| Error::internal("an entry has no JSON form").with_source(error))?;
        let row = self.row(&entry.key);
        self.entries.insert(row.as_str(), bytes.as_slice()).map_err(failed)?;
        self.versions.insert(row.as_str(), entry.version).map_err(failed)?;
        Ok(())
    }

    /// The one place that writes an entry. Creation time and access count carry over from a live one.
    fn put(&mut self, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        let live = self.live(key)?;
        let mut entry = Entry::new(key.clone(), value, self.next_version(key)?, self.now);
        entry.expires_at = options.ttl.expiry(self.now, live.as_ref().and_then(|live| live.expires_at))?;
        if let Some(live) = &live {
            (entry.created_at, entry.access_count) = (live.created_at, live.access_count);
        }
        (entry.metadata, entry.source, entry.text) = (options.metadata, options.source, options.text);
        self.store(&entry)?;
        Ok(SetOutcome::new(entry.version, live.is_none(), true, entry.expires_at))
    }

    /// Changes the value alone: everything else stays, with the lifetime that the caller asks for.
    fn change(&mut self, live: Option<Entry>, key: &Key, value: Json, ttl: Ttl) -> Result<SetOutcome> {
        let mut options = SetOptions::default().with_ttl(ttl);
        if let Some(live) = live {
            (options.metadata, options.source, options.text) = (live.metadata, live.source, live.text);
        }
        self.put(key, value, options)
    }
}

#[async_trait]
impl Provider for RedbMemory {
    fn name(&self) -> &str {
        "redb"
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
        self.database.begin_read().map_err(failed)?;
        Ok(Health::new(HealthStatus::Ok, "the file is open"))
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.drop_scope(&Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone())).await.map(drop)
    }
}

#[async_trait]
impl Backend for RedbMemory {
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
        Ok(self.get_many(scope, std::slice::from_ref(key), options).await?.pop().flatten())
    }

    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
        // A count of accesses need not survive a crash.
        self.write(scope, Durability::None, |shelf| {
            let mut found = Vec::with_capacity(keys.len());
            for key in keys {
                let entry = shelf.live(key)?;
                if let Some(mut counted) = entry.clone().filter(|_| options.count_access) {
                    counted.access_count += 1;
                    shelf.store(&counted)?;
                }
                found.push(entry);
            }
            Ok(found)
        })
    }

    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        self.check(&options, Op::Set)?;
        self.write(scope, Durability::Immediate, |shelf| shelf.put(key, value, options))
    }

    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
        if options.expect != Expect::Any {
            return self.refuse(Op::Delete);
        }
        self.write(scope, Durability::Immediate, |shelf| {
            let deleted = shelf.live(key)?.is_some();
            shelf.entries.remove(shelf.row(key).as_str()).map_err(failed)?;
            Ok(DeleteOutcome::new(deleted))
        })
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        let rows = prefix(scope);
        let from = format!("{rows}{}", query.prefix);
        let after = query.cursor.map(|cursor| cursor.key(scope, &query.prefix)).transpose()?;
        // The least text after a row is the row with a NUL.
        let start = after.map_or_else(|| from.clone(), |key| format!("{rows}{key}\0"));
        let (mut page, mut bytes) = (Page::new(Vec::new(), None), 0);
        self.read(&from, &start, |_, entry| {
            if query.filter.as_ref().is_some_and(|filter| !filter.matches(&entry)) {
                return Ok(true);
            }
            if page.entries.len() == query.limit || bytes >= MAX_PAGE_BYTES as u64 {
                page.next =
                    page.entries.last().map(|last| Cursor::after_key(scope, &query.prefix, &last.key));
                return Ok(false);
            }
            bytes += entry.size_bytes();
            page.entries.push(entry);
            Ok(true)
        })?;
        Ok(page)
    }

    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        self.check_quota(options.quota, Op::Increment)?;
        self.write(scope, Durability::Immediate, |shelf| {
            let live = shelf.live(key)?;
            let before = live.as_ref().map_or(Some(0), |entry| entry.value.as_i64_exact());
            let before =
                before.ok_or_else(|| Error::new(ErrorKind::WrongType, "not an integer; set one first"))?;
            let sum = before
                .checked_add(delta)
                .ok_or_else(|| Error::invalid("the sum does not fit 64 bits; use a smaller delta"))?;
            let set = shelf.change(live, key, Json::from(sum), options.ttl)?;
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
        self.write(scope, Durability::Immediate, |shelf| {
            let live = shelf.live(key)?;
            let reduced = reduce(live.as_ref().map(|entry| &entry.value), &reducer)?;
            if reduced.value.len_bytes() > limit {
                return Err(Error::too_large("value", reduced.value.len_bytes(), limit, "bytes"));
            }
            let set = shelf.change(live, key, reduced.value.clone(), options.ttl)?;
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
        self.write(scope, Durability::Immediate, |shelf| {
            let put = |(index, item): (usize, NewEntry)| {
                let checked = self.check(&item.options, Op::BulkInsert);
                let outcome = checked.and_then(|()| shelf.put(&item.key, item.value, item.options));
                outcome.map_err(|error| error.with_detail("index", index))
            };
            items.into_iter().enumerate().map(put).collect()
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
        let after = query.cursor.map(|cursor| cursor.scope(tenant)).transpose()?;
        let after = after.map(|(kind, id)| Scope::new(tenant.clone(), kind, id));
        let mut sizes = BTreeMap::<Scope, (u64, u64)>::new();
        let rows = format!("{tenant}\0");
        self.read(&rows, &rows, |row, entry| {
            let mut parts = row.split('\0').skip(1);
            let (kind, id) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let size = sizes.entry(Scope::new(tenant.clone(), kind.parse()?, id.parse()?)).or_default();
            *size = (size.0 + 1, size.1 + entry.size_bytes());
            Ok(true)
        })?;
        let wanted = |scope: &Scope| {
            query.kind.is_none_or(|kind| kind == scope.kind)
                && after.as_ref().is_none_or(|after| scope > after)
        };
        let mut infos = sizes
            .into_iter()
            .filter(|(scope, _)| wanted(scope))
            .map(|(scope, (entries, bytes))| ScopeInfo::new(scope, entries, bytes))
            .peekable();
        let page: Vec<ScopeInfo> = infos.by_ref().take(query.limit).collect();
        let last = infos.peek().and(page.last()).map(|last| &last.scope);
        let next = last.map(|scope| Cursor::after_scope(tenant, scope.kind, &scope.id));
        Ok(ScopePage::new(page, next))
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        self.write(scope, Durability::Immediate, |shelf| {
            let mut live = 0;
            let (from, to) = (shelf.prefix.as_str(), end(&shelf.prefix));
            for row in shelf.entries.extract_from_if(from..to.as_str(), |_, _| true).map_err(failed)? {
                let entry = parsed(row.map_err(failed)?.1.value())?;
                live += u64::from(!entry.is_expired(shelf.now));
            }
            Ok(DropOutcome::new(live))
        })
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        let (rows, mut records) = (prefix(scope), Vec::new());
        self.read(&rows, &rows, |_, entry| {
            records.push(Record::from(entry));
            Ok(true)
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
            self.write(scope, Durability::Immediate, |shelf| {
                if entry.is_expired(shelf.now) {
                    outcome.expired += 1;
                    return Ok(());
                }
                match (shelf.live(&entry.key)?, options.on_existing) {
                    (None, _) => outcome.created += 1,
                    (Some(live), OnExisting::Fail) => {
                        return Err(Error::conflict(Some(live.version)).with_detail("index", index));
                    }
                    (Some(live), OnExisting::Replace) if !is_same(&live, &entry) => outcome.replaced += 1,
                    (Some(_), _) => {
                        outcome.skipped += 1;
                        return Ok(());
                    }
                }
                entry.version = entry.version.max(shelf.next_version(&entry.key)?);
                shelf.store(&entry)
            })?;
            index += 1;
        }
        Ok(outcome)
    }
}

fn prefix(scope: &Scope) -> String {
    format!("{}\0{}\0{}\0", scope.tenant, scope.kind, scope.id)
}

/// The least text after every row that begins with this prefix.
fn end(prefix: &str) -> String {
    format!("{}\u{1}", prefix.trim_end_matches('\0'))
}

fn parsed(bytes: &[u8]) -> Result<Entry> {
    serde_json::from_slice(bytes).map_err(|error| {
        Error::new(ErrorKind::Corrupt, "a row is not an entry; restore a backup").with_source(error)
    })
}

fn failed(error: impl Into<redb::Error>) -> Error {
    Error::new(ErrorKind::Unavailable, "the file cannot be used now; try again").with_source(error.into())
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
