//! cel-memory-sqlite, in the process. The model: a text names its vector. Its table takes vectors of 384 numbers: the rest is zeros,
//! which changes no distance.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use cel_memory::{
    CallerScope, ChunkKind, ChunkSource, Embedder, EmbedderResult, MemoryProvider as _, MemoryQuery,
    NewMemoryChunk, RetrievalProfile,
};
use cel_memory_sqlite::SqliteMemoryProvider;

use crate::{timed, Measured, Result, Work, TOP};

const DIMENSIONS: usize = 384;

struct Table(HashMap<String, Vec<f32>>);

#[async_trait::async_trait]
impl Embedder for Table {
    fn dim(&self) -> usize {
        DIMENSIONS
    }

    fn model_name(&self) -> &str {
        "table"
    }

    async fn embed(&self, text: &str) -> EmbedderResult<Vec<f32>> {
        let mut vector = self.0.get(text).cloned().unwrap_or_default();
        vector.resize(DIMENSIONS, 0.0);
        Ok(vector)
    }
}

pub fn measure(mut work: Work, folder: &Path) -> Result<Measured> {
    let name = |query: usize| format!("q{query}");
    let stored = work.values.iter().cloned().zip(std::mem::take(&mut work.vectors));
    let asked = std::mem::take(&mut work.queries).into_iter().enumerate();
    let table = stored.chain(asked.map(|(at, vector)| (name(at), vector))).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let file = folder.join("memory.db");
    let store = runtime.block_on(SqliteMemoryProvider::open(&file, Arc::new(Table(table))))?;

    let chunk = |at: usize| NewMemoryChunk {
        kind: ChunkKind::Observation,
        source: ChunkSource::Embedded,
        session_id: None,
        project_root: None,
        caller_id: (at % work.groups).to_string(),
        content: work.values[at].clone(),
        metadata: serde_json::Value::Null,
        importance: None,
        shareable: false,
        pinned: false,
    };
    let mut rows = BTreeMap::new();
    let (mut ids, put) = timed(0..work.values.len(), |at| Ok(runtime.block_on(store.write(chunk(at)))?.id))?;
    rows.insert("put_vector", put);
    let rest = runtime.block_on(store.write_batch((ids.len()..work.values.len()).map(chunk).collect()))?;
    ids.extend(rest.into_iter().map(|chunk| chunk.id));

    let (_, get) = timed(work.gets.iter().copied(), |at| {
        let found = runtime.block_on(store.get(&ids[at]))?;
        if found.is_some_and(|chunk| chunk.content == work.values[at]) {
            Ok(())
        } else {
            Err("a get returned something else than what was put".into())
        }
    })?;
    rows.insert("get", get);

    let number: HashMap<_, _> = ids.iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
    let find = |text: String, caller: usize, caller_scope| -> Result<Vec<usize>> {
        let found = runtime.block_on(store.retrieve(MemoryQuery {
            text,
            kinds: None,
            since: None,
            until: None,
            session_id: None,
            caller_scope,
            project_root_prefix: None,
            k: TOP,
            include_rollups: true,
            min_importance: None,
            profile: RetrievalProfile::UserSearch,
            caller_id: caller.to_string(),
        }))?;
        Ok(found.iter().filter_map(|chunk| number.get(chunk.id.as_str()).copied()).collect())
    };
    let (found, near) = timed(&work.near, |near| find(name(near.query), near.group, CallerScope::Own))?;
    rows.insert("near", near.near(&work, &found));
    let (found, words) = timed(&work.words, |words| find(words.text.clone(), 0, CallerScope::Global))?;
    rows.insert("words", words.words(&work, &found));
    let notes = BTreeMap::from([("put", "each needs a vector"), ("list", "only an export of everything")]);
    Ok(Measured { durability: "wal, synchronous=1: commits are not synced", rows, notes })
}
