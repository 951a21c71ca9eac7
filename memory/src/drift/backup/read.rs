//! Reading, comparing and restoring backups. Contents are untrusted until their checksums match.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use memory_core::{
    Atomicity, Backend, Capabilities, DeleteOptions, DriftToken, Entry, Error, ImportOptions, ImportOutcome,
    Key, ListQuery, OnExisting, Record, Result, Retry, Scope, Taken, Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::error::io_error;
use super::file::open_plain;
use super::format::{Header, header_of};
use crate::hex::hex;
use crate::stream;

/// Longest backup that is read, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// A backup with valid checksums.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Backup {
    /// When it was made.
    pub timestamp: Timestamp,
    /// The token that the session last saw.
    pub generation_observed: Option<DriftToken>,
    /// The token that the refused write found.
    pub generation_actual: Option<DriftToken>,
    /// The token just before the entries were read.
    pub generation_snapshot: DriftToken,
    /// The scope of the entries.
    pub scope: Scope,
    /// The entries.
    pub records: Vec<Record>,
}

/// How a scope differs from a backup of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Difference {
    /// Keys with different entries.
    pub changed: Vec<Key>,
    /// Keys of the backup that are gone.
    pub vanished: Vec<Key>,
    /// Keys that the backup lacks.
    pub appeared: Vec<Key>,
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Restored {
    /// The outcome for its records.
    #[serde(flatten)]
    pub imported: ImportOutcome,
    /// How many entries were deleted because the backup lacks them.
    pub deleted: u64,
}

impl Backup {
    /// Reads a backup and verifies its checksums. Opens a copy of its database, if it has one.
    ///
    /// # Errors
    /// `corrupt` for an invalid or modified backup; `too_large` over 1 GiB; errors of reading the file.
    pub async fn load(path: &Path) -> Result<Self> {
        let Parsed { header, entries, count } = parse(path)?;
        let records = match entries {
            Entries::Here(records) => records,
            Entries::Beside { name, sha256 } => database(path, &name, &header.scope, &sha256).await?,
        };
        if u64::try_from(records.len()).ok() != Some(count) {
            return Err(damaged(OTHER_COUNT));
        }
        Ok(Self::of(header, records))
    }

    /// The backup with this header.
    pub(super) fn of(header: Header, records: Vec<Record>) -> Self {
        let Header { timestamp, generation_observed, generation_actual, generation_snapshot, scope, .. } =
            header;
        Self { timestamp, generation_observed, generation_actual, generation_snapshot, scope, records }
    }

    /// Compares it with the current contents of the scope.
    ///
    /// # Errors
    /// As listing fails.
    pub async fn difference(&self, backend: &dyn Backend) -> Result<Difference> {
        let mut difference = Difference::default();
        let mut saved: BTreeMap<&Key, &Entry> =
            self.records.iter().map(|record| (&record.entry.key, &record.entry)).collect();
        let mut cursor = None;
        loop {
            let page = backend.list(&self.scope, ListQuery::default().with_cursor(cursor)).await?;
            for entry in page.entries {
                match saved.remove(&entry.key) {
                    None => difference.appeared.push(entry.key),
                    Some(before) if !says_the_same(before, &entry) => difference.changed.push(entry.key),
                    Some(_) => {}
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                difference.vanished = saved.into_keys().cloned().collect();
                return Ok(difference);
            }
        }
    }

    /// Restores the backup's contents: its entries replace differing ones, and others are deleted. Equal entries keep
    /// their versions and vectors; restored ones get their old vectors back.
    ///
    /// If the store imports atomically ([`Capabilities::atomic_import`]), this is one transaction: readers see all of
    /// it or nothing, even if the process is killed. Writes made between the comparison and that transaction are
    /// overwritten. Otherwise each entry is an ordinary write, a few to a transaction; if it fails midway, restore
    /// again to complete it.
    ///
    /// If the store knows tombstones ([`Capabilities::erase`]), entries forgotten since the backup was made are left
    /// out and counted.
    ///
    /// # Errors
    /// As the writes fail.
    pub async fn restore(self, backend: &dyn Backend, capabilities: &Capabilities) -> Result<Restored> {
        let taken = if capabilities.erase { Taken::At(self.timestamp) } else { Taken::New };
        let options = ImportOptions::default().with_on_existing(OnExisting::Replace).with_taken(taken);
        if capabilities.atomic_import {
            self.restore_whole(backend, options.with_atomicity(Atomicity::Mirror)).await
        } else {
            self.restore_in_steps(backend, options).await
        }
    }

    async fn restore_whole(self, backend: &dyn Backend, options: ImportOptions) -> Result<Restored> {
        let mut saved: BTreeMap<Key, Record> =
            self.records.into_iter().map(|record| (record.entry.key.clone(), record)).collect();
        let (mut records, mut deleted) = (Vec::with_capacity(saved.len()), 0);
        let mut held = backend.export_scope(&self.scope).await?;
        while let Some(record) = stream::next(&mut held).await {
            let record = record?;
            match saved.remove(&record.entry.key) {
                None => deleted += 1,
                // As stored, with its times and vectors.
                Some(before) if says_the_same(&before.entry, &record.entry) => records.push(Ok(record)),
                Some(before) => records.push(Ok(before)),
            }
        }
        records.extend(saved.into_values().map(Ok));
        let imported = backend.import_scope(&self.scope, stream::of(records), options).await?;
        Ok(Restored { imported, deleted })
    }

    async fn restore_in_steps(self, backend: &dyn Backend, options: ImportOptions) -> Result<Restored> {
        let difference = self.difference(backend).await?;
        let changed: BTreeSet<Key> = difference.changed.into_iter().collect();
        let vanished: BTreeSet<Key> = difference.vanished.into_iter().collect();
        let (mut records, mut may_be_over) = (Vec::new(), Vec::new());
        for record in self.records {
            let key = &record.entry.key;
            if record.entry.expires_at.is_some() && changed.contains(key) {
                may_be_over.push(record);
            } else if changed.contains(key) || vanished.contains(key) {
                records.push(Ok(record));
            }
        }
        let mut imported = backend.import_scope(&self.scope, stream::of(records), options).await?;
        for record in may_be_over {
            let key = record.entry.key.clone();
            let one = backend.import_scope(&self.scope, stream::of(vec![Ok(record)]), options).await?;
            // The store's clock decides what has expired; an entry that it leaves out must not leave the current one in
            // place.
            if one.expired > 0 {
                backend.delete(&self.scope, &key, DeleteOptions::default()).await?;
            }
            imported.add(one);
        }
        let mut restored = Restored { imported, deleted: 0 };
        for key in difference.appeared {
            let deleted = backend.delete(&self.scope, &key, DeleteOptions::default()).await?.deleted;
            restored.deleted += u64::from(deleted);
        }
        Ok(restored)
    }
}

const OTHER_COUNT: &str = "its number of entries is wrong";

/// The text of a backup, with a valid checksum of its inline entries.
pub(super) struct Parsed {
    pub(super) header: Header,
    pub(super) entries: Entries,
    count: u64,
}

/// Where the entries of a backup are.
pub(super) enum Entries {
    Here(Vec<Record>),
    /// In a database with this name and checksum.
    Beside {
        name: String,
        sha256: String,
    },
}

/// Reads the text of a backup.
pub(super) fn parse(path: &Path) -> Result<Parsed> {
    let failed = io_error("the backup cannot be read");
    let mut file = open_plain(path).map_err(&failed)?;
    let bytes = file.metadata().map_err(&failed)?.len();
    if bytes > MAX_BYTES {
        let whole = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        return Err(Error::too_large("backup", whole(bytes), whole(MAX_BYTES), "bytes"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|_| damaged("it is not UTF-8"))?;
    let (first, _) = text.split_once('\n').ok_or_else(|| damaged("it has no first line"))?;
    let header = header_of(first).ok_or_else(|| damaged("its first line is not one of a backup"))?;
    let rest: Rest<'_> = serde_json::from_str(&text).map_err(|_| damaged("it is not JSON to its end"))?;
    let (count, sha256) = (rest.count, rest.sha256);
    if let Some(name) = header.database.clone() {
        return Ok(Parsed { header, entries: Entries::Beside { name, sha256 }, count });
    }
    let inner = rest.entries.get();
    let inner = inner.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    // The line break before the closing bracket does not belong to the entries.
    let inner = inner.map(|inner| inner.strip_suffix('\n').unwrap_or(inner));
    let mut hash = Sha256::new();
    hash.update(inner.ok_or_else(|| damaged("its entries are not a list"))?.as_bytes());
    if hex(hash) != sha256 {
        return Err(damaged("the checksum of its entries is wrong"));
    }
    let records: Vec<Record> =
        serde_json::from_str(rest.entries.get()).map_err(|_| damaged("an entry is malformed"))?;
    if u64::try_from(records.len()).ok() != Some(count) {
        return Err(damaged(OTHER_COUNT));
    }
    Ok(Parsed { header, entries: Entries::Here(records), count })
}

/// What follows the first line.
#[derive(Deserialize)]
struct Rest<'a> {
    #[serde(borrow)]
    entries: &'a RawValue,
    count: u64,
    sha256: String,
}

fn says_the_same(one: &Entry, other: &Entry) -> bool {
    use memory_core::ContentDigest;
    ContentDigest::of_entry(one) == ContentDigest::of_entry(other)
}

fn damaged(why: &'static str) -> Error {
    Error::corrupt(format!("the file is not a valid backup of a scope: {why}; use another one"))
        .with_retry(Retry::Never)
}

/// The entries in the database of a backup.
#[cfg(feature = "sqlite")]
async fn database(path: &Path, name: &str, scope: &Scope, sum: &str) -> Result<Vec<Record>> {
    let beside = super::file::database_of(path);
    if beside.file_name().and_then(|beside| beside.to_str()) != Some(name) {
        return Err(damaged("it names another backup's database"));
    }
    let failed = io_error("the database of a backup cannot be read");
    let copy = Copied::of(&beside)?;
    let mut hash = Sha256::new();
    let mut file = std::fs::File::open(&copy.0).map_err(&failed)?;
    std::io::copy(&mut file, &mut super::write::Hashing(&mut hash)).map_err(&failed)?;
    drop(file);
    if hex(hash) != sum {
        return Err(damaged("the checksum of its database is wrong"));
    }
    let store = super::database::Store::open(&copy.0)?;
    let mut exported = store.export(scope).await?;
    let mut records = Vec::new();
    while let Some(record) = stream::next(&mut exported).await {
        records.push(record?);
    }
    drop(exported);
    store.close().await?;
    Ok(records)
}

#[cfg(not(feature = "sqlite"))]
async fn database(_: &Path, _: &str, _: &Scope, _: &str) -> Result<Vec<Record>> {
    Err(Error::unsupported("a backup as a database", "this build without the feature `sqlite`"))
}

/// A copy of a file in the same folder, removed when dropped.
#[cfg(feature = "sqlite")]
struct Copied(std::path::PathBuf);

#[cfg(feature = "sqlite")]
impl Copied {
    fn of(path: &Path) -> Result<Self> {
        let failed = io_error("the database of a backup cannot be read");
        let mut source = open_plain(path).map_err(&failed)?;
        let (name, mut target) = super::file::Folder::of(path).open_temporary()?;
        let copied = Self(name);
        std::io::copy(&mut source, &mut target).map_err(&failed)?;
        Ok(copied)
    }
}

#[cfg(feature = "sqlite")]
impl Drop for Copied {
    fn drop(&mut self) {
        super::database::remove(&self.0);
    }
}
