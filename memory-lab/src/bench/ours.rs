//! The product, as a user calls it: opened by URL, through `Checked` and trait objects, with keys and values parsed from
//! text in every call.

use std::path::PathBuf;
use std::sync::Arc;

use memory::Memory;
use memory_core::{
    Backend, BulkOptions, Error, GetOptions, Json, Key, ListQuery, NewEntry, Provider as _, Result, Scope,
    SetOptions, UpdateOptions,
};

use super::measure::Slice;
use super::workload::{BATCH, GROUP, Random, Work, Workload};

/// Calls between two reads of the clock.
const STRIDE: u32 = 8;

/// How many operations a call counts as: a listing is one, other calls one per entry.
pub(super) fn operations(work: Work) -> u64 {
    match work {
        Work::List => 1,
        _ => u64::try_from(work.entries()).unwrap_or(u64::MAX),
    }
}

/// Repeats `work` until the slice ends; returns how often, in [`operations`].
pub(super) fn repeat(work: Work, slice: Slice<'_>, mut once: impl FnMut() -> Result<u64>) -> Result<u64> {
    let mut done = 0;
    while slice.goes_on(done)? {
        for _ in 0..if work.entries() == 1 { STRIDE } else { 1 } {
            done += once()?;
        }
    }
    Ok(done)
}

#[derive(Clone)]
pub(super) struct Ours {
    memory: Memory,
    scope: Scope,
    bulk_scope: Scope,
    workload: Arc<Workload>,
}

impl Ours {
    pub(super) async fn open(url: &str, workload: Arc<Workload>) -> Result<Self> {
        Ok(Self {
            memory: memory::open(url).await?,
            scope: Scope::agent("bench", "kv")?,
            bulk_scope: Scope::agent("bench", "bulk")?,
            workload,
        })
    }

    fn backend(&self) -> Result<&dyn Backend> {
        self.memory.backend().ok_or_else(|| Error::unsupported("get", self.memory.name()))
    }

    /// Closes the store, and waits until what it held back is stored.
    pub(super) async fn close(&self) -> Result<()> {
        self.memory.close().await
    }

    /// Stores every key.
    pub(super) async fn load(&self) -> Result<()> {
        let mut random = Random::new(1);
        for keys in self.workload.keys.chunks(BATCH) {
            let items = keys
                .iter()
                .map(|key| {
                    Ok(NewEntry::new(Key::new(key)?, Json::parse(random.pick(&self.workload.values))?))
                })
                .collect::<Result<_>>()?;
            self.backend()?.bulk_insert(&self.scope, items, BulkOptions::default()).await?;
        }
        Ok(())
    }

    /// Repeats `work` until the slice ends, on keys that `random` chooses.
    pub(super) async fn run(&self, work: Work, mut random: Random, slice: Slice<'_>) -> Result<u64> {
        let mut done = 0;
        let mut inserted = 0;
        while slice.goes_on(done)? {
            for _ in 0..if work.entries() == 1 { STRIDE } else { 1 } {
                let entries = self.once(work, &mut random, &mut inserted).await?;
                if entries != work.entries() {
                    return Err(Error::internal(format!(
                        "{work:?} found {entries} entries, not {}; the figures would be meaningless",
                        work.entries()
                    )));
                }
                done += operations(work);
            }
        }
        Ok(done)
    }

    async fn once(&self, work: Work, random: &mut Random, inserted: &mut usize) -> Result<usize> {
        let (backend, scope, workload) = (self.backend()?, &self.scope, &self.workload);
        match work {
            Work::Get => {
                let key = Key::new(random.pick(&workload.keys))?;
                Ok(usize::from(backend.get(scope, &key, GetOptions::default()).await?.is_some()))
            }
            Work::GetMany => {
                let keys =
                    (0..GROUP).map(|_| Key::new(random.pick(&workload.keys))).collect::<Result<Vec<_>>>()?;
                let entries = backend.get_many(scope, &keys, GetOptions::default()).await?;
                Ok(entries.iter().flatten().count())
            }
            Work::List => {
                let query = ListQuery::prefix(random.pick(&workload.prefixes)).with_limit(GROUP);
                Ok(backend.list(scope, query).await?.entries.len())
            }
            Work::Increment => {
                let key = Key::new(random.pick(&workload.counters))?;
                backend.increment(scope, &key, 1, UpdateOptions::default()).await?;
                Ok(1)
            }
            Work::Set => {
                let key = Key::new(random.pick(&workload.keys))?;
                let value = Json::parse(random.pick(&workload.values))?;
                backend.set(scope, &key, value, SetOptions::default()).await?;
                Ok(1)
            }
            Work::Bulk => {
                let items = (0..BATCH)
                    .map(|n| {
                        let key = Key::new(format!("batch/{:09}", *inserted + n))?;
                        Ok(NewEntry::new(key, Json::parse(random.pick(&workload.values))?))
                    })
                    .collect::<Result<_>>()?;
                *inserted += BATCH;
                Ok(backend.bulk_insert(&self.bulk_scope, items, BulkOptions::default()).await?.len())
            }
        }
    }

    /// Empties the scope of bulk inserts.
    pub(super) async fn clear_bulk(&self) -> Result<()> {
        self.backend()?.drop_scope(&self.bulk_scope).await.map(drop)
    }
}

/// The URL of a file, with special characters escaped.
pub(super) fn url(path: &std::path::Path, durability: &str) -> Result<String> {
    let path: &str = path
        .to_str()
        .ok_or_else(|| Error::invalid("the folder's name is not UTF-8; choose another folder with --dir"))?;
    let escaped = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    Ok(format!("sqlite:{escaped}?durability={durability}"))
}

/// Path of the product's file.
pub(super) fn file(dir: &std::path::Path) -> PathBuf {
    dir.join("product").join("memory.db")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_escaped_into_the_url() {
        let url = url(std::path::Path::new("/tmp/50% #1?/m.db"), "full").unwrap();
        assert_eq!(url, "sqlite:/tmp/50%25 %231%3F/m.db?durability=full");
    }
}
