//! This product, as a Rust program uses it: opened by URL, one call after the other.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory::{Memory, Registry};
use memory_core::{
    Backend, Error, Field, Filter, GetOptions, Json, Key, ListQuery, Metadata, Result, Scalar, Scope,
    SearchMode, SearchQuery, SetOptions,
};
use memory_server::terminal::sqlite_url;

use super::table::{Measured, Took};
use super::work::{GROUPS, TOP, Work};
use crate::bench::search::table::Table;

/// A store of its own in a folder.
pub(super) fn file(folder: &Path, durability: &str) -> Result<String> {
    Ok(format!("{}?durability={durability}", sqlite_url(&folder.join("memory.db"))?))
}

/// Opens a store whose texts name their vectors: `7` is the seventh.
pub(super) async fn open(url: &str, work: &Work) -> Result<Memory> {
    let table = Table::new(work.stored.clone(), work.asked.clone());
    Registry::default().with_embedder(Arc::new(table)).open(url).await
}

/// Does the work.
pub(super) async fn measure(url: &str, work: &Work, durability: &str) -> Result<Measured> {
    // Entries have no vectors in the first part.
    let plain = memory::open(url).await?;
    let with_vectors = open(url, work).await?;
    let (entries, vectors) = (Scope::agent("compare", "entries")?, Scope::agent("compare", "vectors")?);
    let mut rows = BTreeMap::new();
    let store = facet(&plain)?;

    let mut timed = Timed::default();
    for (key, value) in work.keys.iter().zip(&work.values) {
        timed
            .call(async {
                store
                    .set(&entries, &Key::new(key)?, Json::parse(value.as_str())?, SetOptions::default())
                    .await
            })
            .await?;
    }
    rows.insert("put", timed.took(None));

    let mut timed = Timed::default();
    for at in &work.gets {
        let key = work.keys.get(*at).map_or("", String::as_str);
        let found =
            timed.call(async { store.get(&entries, &Key::new(key)?, GetOptions::default()).await }).await?;
        if found.map(|entry| entry.value.as_str().to_owned()).as_ref() != work.values.get(*at) {
            return Err(Error::internal("a get returned something else than what was put"));
        }
    }
    rows.insert("get", timed.took(None));

    let mut timed = Timed::default();
    for _ in 0..100 {
        timed.call(store.list(&entries, ListQuery::prefix("").with_limit(100))).await?;
    }
    rows.insert("list", timed.took(None));

    let (mut timed, mut found) = (Timed::default(), 0);
    for words in &work.words {
        let query = SearchQuery::new(words.text.as_str()).with_mode(SearchMode::Lexical).with_top_k(TOP);
        let hits = timed.call(store.search(&entries, query)).await?.hits;
        found += usize::from(hits.iter().any(|hit| hit.entry.key.as_str() == words.key));
    }
    rows.insert("words", timed.took(Some(share(found, work.words.len()))));

    let store = facet(&with_vectors)?;
    let mut timed = Timed::default();
    for at in 0..work.stored.len() {
        let group = i64::try_from(at % GROUPS).unwrap_or(0);
        let options = SetOptions::default().with_metadata(Metadata::new().with("group", group));
        timed
            .call(async {
                store.set(&vectors, &Key::new(at.to_string())?, Json::string(&at.to_string()), options).await
            })
            .await?;
    }
    rows.insert("put_vector", timed.took(None));

    let (mut timed, mut found) = (Timed::default(), 0);
    for near in &work.near {
        let group = Scalar::Int(i64::try_from(near.group).unwrap_or(0));
        let query = SearchQuery::new(near.query.to_string())
            .with_mode(SearchMode::Vector)
            .with_top_k(TOP)
            .with_filter(Filter::Eq(Field::Metadata("group".to_owned()), group));
        let hits = timed.call(store.search(&vectors, query)).await?.hits;
        let is_near = |key: &str| near.nearest.iter().any(|at| at.to_string() == key);
        found += hits.iter().filter(|hit| is_near(hit.entry.key.as_str())).count();
    }
    rows.insert("near", timed.took(Some(share(found, work.near.len() * TOP))));
    plain.close().await?;
    with_vectors.close().await?;
    Ok(Measured {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        durability: match durability {
            "full" => "its default: each commit is synced".to_owned(),
            "normal" => "durability=normal: commits are not synced".to_owned(),
            other => other.to_owned(),
        },
        rows: rows.into_iter().map(|(name, took)| (name.to_owned(), took)).collect(),
        notes: BTreeMap::new(),
    })
}

fn facet(memory: &Memory) -> Result<&dyn Backend> {
    memory.backend().ok_or_else(|| Error::unsupported("set", memory.name()))
}

#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

/// Calls one after the other.
#[derive(Default)]
struct Timed(Vec<Duration>);

impl Timed {
    async fn call<T>(&mut self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let begun = Instant::now();
        let answer = call.await;
        self.0.push(begun.elapsed());
        answer
    }

    fn took(mut self, exact: Option<f64>) -> Took {
        self.0.sort_unstable();
        let median = self.0.get(self.0.len() / 2).copied().unwrap_or_default();
        Took {
            count: self.0.len(),
            seconds: self.0.iter().sum::<Duration>().as_secs_f64(),
            p50_us: median.as_secs_f64() * 1e6,
            exact,
        }
    }
}
