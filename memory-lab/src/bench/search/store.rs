//! The filled store of the product, opened by URL, through `Checked` and trait objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::{Memory, Registry};
use memory_core::{
    Backend, BulkOptions, Embedding, Error, Field, Filter, Json, Key, Metadata, NewEntry, Result, Scalar,
    Scope, SearchMode, SearchQuery, SetOptions,
};

use super::table::Table;
use crate::bench::ours;
use crate::bench::workload::{Random, push_word};

/// Entries of a bulk insert.
const BATCH: usize = 2_000;
/// Words of an entry's sentence.
const WORDS: usize = 12;

/// The search of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SearchKind {
    pub(super) mode: SearchMode,
    /// One in this many entries passes the filter; 1 means no filter.
    pub(super) one_in: usize,
}

impl SearchKind {
    pub(super) fn passes(self, index: usize) -> bool {
        self.one_in == 1 || index.is_multiple_of(self.one_in)
    }
}

/// An open store.
#[derive(Clone)]
pub(super) struct Store {
    memory: Memory,
    scope: Scope,
}

pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("search.db")
}

impl Store {
    pub(super) async fn open(dir: &Path, table: Table) -> Result<Self> {
        let registry = Registry::default().with_embedder(Arc::new(table));
        let memory = registry.open(&ours::url(&file(dir), "normal")?).await?;
        Ok(Self { memory, scope: Scope::agent("bench", "search")? })
    }

    fn backend(&self) -> Result<&dyn Backend> {
        self.memory.backend().ok_or_else(|| Error::unsupported("search", self.memory.name()))
    }

    /// Stores `count` entries: a sentence that begins with the entry's number, and metadata to filter by. `so_far` is
    /// called with the number stored so far, and may stop it with an error.
    pub(super) async fn load(&self, count: usize, mut so_far: impl FnMut(usize) -> Result<()>) -> Result<()> {
        for start in (0..count).step_by(BATCH) {
            let end = count.min(start + BATCH);
            let items = (start..end).map(entry).collect::<Result<_>>()?;
            let outcomes = self.backend()?.bulk_insert(&self.scope, items, BulkOptions::default()).await?;
            if let Some(failed) = outcomes.iter().find(|outcome| outcome.embedding != Embedding::Stored) {
                return Err(Error::internal(format!(
                    "a vector of the benchmark was not stored: {:?}",
                    failed.embedding
                )));
            }
            so_far(end)?;
        }
        Ok(())
    }

    /// The numbers of the hits, best first.
    pub(super) async fn search(&self, kind: SearchKind, query: usize, top_k: usize) -> Result<Vec<usize>> {
        let mut question = SearchQuery::new(sentence(query)).with_mode(kind.mode).with_top_k(top_k);
        if kind.one_in > 1 {
            let field = Field::Metadata(field(kind.one_in).to_owned());
            question = question.with_filter(Filter::Eq(field, Scalar::Int(0)));
        }
        let found = self.backend()?.search(&self.scope, question).await?;
        found
            .hits
            .iter()
            .map(|hit| {
                let number = hit.entry.key.as_str().trim_start_matches("note/").parse();
                number.map_err(|_| Error::internal("a hit has a key that the benchmark never stored"))
            })
            .collect()
    }
}

fn field(one_in: usize) -> &'static str {
    if one_in == 100 { "percent" } else { "tenth" }
}

fn entry(number: usize) -> Result<NewEntry> {
    // The words need no escaping.
    let value = Json::parse(format!("\"{}\"", sentence(number)))?;
    let rest = |one_in| i64::try_from(number % one_in).unwrap_or(0);
    let metadata = Metadata::new().with(field(100), rest(100)).with(field(10), rest(10));
    let mut item = NewEntry::new(Key::new(format!("note/{number:08}"))?, value);
    item.options = SetOptions::default().with_metadata(metadata);
    Ok(item)
}

/// The number and a dozen words.
fn sentence(number: usize) -> String {
    let mut random = Random::new(number as u64);
    let mut text = format!("{number} ");
    for _ in 0..WORDS {
        push_word(&mut text, &mut random);
        text.push(' ');
    }
    text
}
