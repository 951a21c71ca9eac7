//! memrust, in the process. Entries have the vectors of its own embedder, which hashes their words.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use memrust::engine::MemoryEngine;
use memrust::types::{MemoryFilter, RecallRequest, RecallStrategy, RememberRequest};

use crate::{timed, Measured, Result, Work, TOP};

pub fn measure(work: Work, folder: &Path) -> Result<Measured> {
    let mut entries = MemoryEngine::open(&folder.join("entries"))?;
    let mut rows = BTreeMap::new();
    let request = |value: &String| RememberRequest { text: value.clone(), ..RememberRequest::default() };
    let (mut ids, put) = timed(&work.values, |value| Ok(entries.remember(request(value))?.id))?;
    rows.insert("put", put);
    // What there was no time to measure.
    let rest = entries.remember_batch(work.values[ids.len()..].iter().map(request).collect())?;
    ids.extend(rest.iter().map(|record| record.id));
    let (_, get) = timed(work.gets.iter().copied(), |at| {
        let found = entries.get(&ids[at]).map(|record| record.text.clone());
        if found.as_ref() == Some(&work.values[at]) {
            Ok(())
        } else {
            Err("a get returned something else than what was put".into())
        }
    })?;
    rows.insert("get", get);
    let (lists, list) = timed(0..100, |_| Ok(entries.list_memories(0, 100).1.len()))?;
    if lists.iter().any(|length| *length != ids.len().min(100)) {
        return Err("a list of 100 has another length".into());
    }
    rows.insert("list", list);
    let number: HashMap<_, _> = ids.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    let (found, words) = timed(&work.words, |words| {
        let hits = entries.recall(&RecallRequest {
            query: words.text.clone(),
            top_k: Some(TOP),
            strategy: RecallStrategy::Lexical,
            ..RecallRequest::default()
        });
        Ok(hits.iter().filter_map(|hit| number.get(&hit.record.id).copied()).collect::<Vec<_>>())
    })?;
    rows.insert("words", words.words(&work, &found));

    let mut vectors = MemoryEngine::open(&folder.join("vectors"))?;
    let session = |group: usize| Some(group.to_string());
    let request = |at: usize| RememberRequest {
        text: at.to_string(),
        session_id: session(at % work.groups),
        embedding: Some(work.vectors[at].clone()),
        ..RememberRequest::default()
    };
    let (done, put) = timed(0..work.vectors.len(), |at| Ok(vectors.remember(request(at)).map(drop)?))?;
    rows.insert("put_vector", put);
    vectors.remember_batch((done.len()..work.vectors.len()).map(request).collect())?;
    let (found, near) = timed(&work.near, |near| {
        let hits = vectors.recall(&RecallRequest {
            top_k: Some(TOP),
            strategy: RecallStrategy::Semantic,
            filter: MemoryFilter { session_id: session(near.group), ..MemoryFilter::default() },
            query_embedding: Some(work.queries[near.query].clone()),
            ..RecallRequest::default()
        });
        Ok(hits.iter().filter_map(|hit| hit.record.text.parse().ok()).collect::<Vec<usize>>())
    })?;
    rows.insert("near", near.near(&work, &found));
    Ok(Measured { durability: "its default: each write is synced", rows, notes: BTreeMap::new() })
}
