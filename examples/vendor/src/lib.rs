//! A memory backend over redb: key/value entries in one file. It advertises no more, and [`Checked`] refuses the rest.

use std::path::Path;
use std::sync::Arc;

use memory_core::*;
use redb::Durability::{self, Immediate};
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

/// Rows `TENANT\0KIND\0ID\0KEY`, each an entry as JSON. No id and no key has a NUL.
const ENTRIES: TableDefinition<&str, &[u8]> = TableDefinition::new("entries");
/// The last version under each of these names, which outlives the entry: no version is ever given twice.
const VERSIONS: TableDefinition<&str, u64> = TableDefinition::new("versions");

/// The name of a row, and its entry.
type Row = (String, Entry);

/// One file. Calls block while they wait for the disk; a server would run them on threads of their own.
#[derive(Debug)]
pub struct RedbMemory {
    database: Database,
    clock: Arc<dyn Clock>,
}

impl RedbMemory {
    /// Opens the file, or makes it.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Checked<Self>> {
        let database = Database::create(path).map_err(failed)?;
        let setup = database.begin_write().map_err(failed)?;
        setup.open_table(ENTRIES).map_err(failed)?;
        setup.open_table(VERSIONS).map_err(failed)?;
        setup.commit().map_err(failed)?;
        Checked::new(Self { database, clock })
    }

    /// Runs `work` on a scope in one transaction; what fails has changed nothing.
    fn write<T>(
        &self,
        scope: &Scope,
        sync: Durability,
        work: impl FnOnce(&mut Shelf) -> Result<T>,
    ) -> Result<T> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(sync).map_err(failed)?;
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

    /// The live entries of one moment whose rows begin with `prefix`, from `start` behind it on, with the names of their rows.
    fn read(&self, prefix: String, start: &str) -> Result<impl Iterator<Item = Result<Row>> + use<>> {
        let now = self.clock.now();
        let table = self.database.begin_read().map_err(failed)?.open_table(ENTRIES).map_err(failed)?;
        let rows = table.range(format!("{prefix}{start}").as_str()..).map_err(failed)?.map(|row| {
            let (name, bytes) = row.map_err(failed)?;
            Ok((name.value().to_owned(), parsed(bytes.value())?))
        });
        let inside = move |row: &Result<Row>| row.as_ref().map_or(true, |row| row.0.starts_with(&prefix));
        let live = move |row: &Result<Row>| row.as_ref().map_or(true, |row| !row.1.is_expired(now));
        Ok(rows.take_while(inside).filter(live))
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

    fn store(&mut self, entry: Entry) -> Result<()> {
        let bytes = serde_json::to_vec(&entry)
            .map_err(|error| Error::internal("an entry has no JSON form").with_source(error))?;
        let row = self.row(&entry.key);
        self.entries.insert(row.as_str(), bytes.as_slice()).map_err(failed)?;
        self.versions.insert(row.as_str(), entry.version).map_err(failed)?;
        Ok(())
    }

    fn put(&mut self, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        let (live, version) = (self.live(key)?, self.next_version(key)?);
        let (outcome, entry) = options.apply(live.as_ref(), key, value, version, self.now)?;
        entry.map_or(Ok(()), |entry| self.store(entry))?;
        Ok(outcome)
    }
}

#[async_trait]
impl Provider for RedbMemory {
    fn name(&self) -> &str {
        "redb"
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
        self.database.begin_read().map_err(failed)?;
        Ok(Health::new(HealthStatus::Ok, "the file is open"))
    }
}

#[async_trait]
impl Backend for RedbMemory {
    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
        // A count of accesses need not survive a crash.
        self.write(scope, Durability::None, |shelf| {
            let read = |key| {
                let entry = shelf.live(key)?;
                if let Some(mut counted) = entry.clone().filter(|_| options.count_access) {
                    counted.access_count += 1;
                    shelf.store(counted)?;
                }
                Ok(entry)
            };
            keys.iter().map(read).collect()
        })
    }

    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        self.write(scope, Immediate, |shelf| shelf.put(key, value, options))
    }

    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
        self.write(scope, Immediate, |shelf| {
            let Some(live) = shelf.live(key)? else { return Ok(DeleteOutcome::new(false)) };
            if !options.expect.holds(Some((live.version, &live.value))) {
                return Err(Error::conflict(Some(live.version)));
            }
            shelf.entries.remove(shelf.row(key).as_str()).map_err(failed)?;
            Ok(DeleteOutcome::new(true))
        })
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        let found = self.read(prefix(scope), &query.start(scope)?)?;
        Page::of(scope, &query, found.map(|row| Ok(row?.1)))
    }

    async fn bulk_insert(
        &self,
        scope: &Scope,
        items: Vec<NewEntry>,
        _: BulkOptions,
    ) -> Result<Vec<SetOutcome>> {
        self.write(scope, Immediate, |shelf| {
            let put = |(index, item): (usize, NewEntry)| {
                let outcome = shelf.put(&item.key, item.value, item.options);
                outcome.map_err(|error| error.with_detail("index", index))
            };
            items.into_iter().enumerate().map(put).collect()
        })
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        let found = self.read(format!("{tenant}\0"), "")?.map(|row| {
            let (name, entry) = row?;
            let mut parts = name.split('\0').skip(1);
            let (kind, id) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            Ok((Scope::new(tenant.clone(), kind.parse()?, id.parse()?), entry.size_bytes()))
        });
        ScopePage::of(tenant, &query, found)
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        self.write(scope, Immediate, |shelf| {
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
        let found = self.read(prefix(scope), "")?;
        Ok(record_stream(found.map(|row| Ok(Record::from(row?.1)))))
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
            self.write(scope, Immediate, |shelf| {
                let (live, version) = (shelf.live(&record.key)?, shelf.next_version(&record.key)?);
                let stored = options.apply(live.as_ref(), record, version, shelf.now, &mut outcome)?;
                stored.map_or(Ok(()), |entry| shelf.store(entry))
            })?;
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
