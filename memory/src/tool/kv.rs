//! The key/value operations.

use std::time::Duration;

use memory_core::json::JsonKind;
use memory_core::limits::{DEFAULT_PAGE, DEFAULT_TOP_K, MAX_PAGE, MAX_TTL_MILLIS};
use memory_core::{
    Backend, BulkOptions, Cursor, DeleteOptions, Error, Expect, GetOptions, Json, Key, ListQuery, NewEntry,
    Reducer, Result, SearchQuery, SetOptions, Source, Ttl, UpdateOptions,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::answer::{Budget, EntryAnswer, Row, text};
use super::memory_tool::MemoryTool;
use super::ops::{BulkInsert, BulkItem, Delete, Get, Incr, List, Search, Set, ToolOp, TtlWord, Update};
use crate::conversations::{check_writable, list_entries, search_entries};
use crate::drift::Guarded;

impl MemoryTool {
    /// The entries, guarded by what this run has seen.
    pub(crate) fn kv(&self, op: ToolOp) -> Result<Guarded<'_>> {
        let backend = self.memory.backend().ok_or_else(|| self.unsupported(op))?;
        Ok(self.drift.guard(backend))
    }

    pub(super) async fn get(&self, op: Get) -> Result<String> {
        #[derive(Serialize)]
        struct Found<T> {
            found: bool,
            #[serde(flatten)]
            entry: T,
        }
        #[derive(Serialize)]
        struct Missing {
            found: bool,
            value: (),
        }
        let scope = self.memory_scope(op.scope)?;
        let key = Key::new(op.key)?;
        let guarded = self.kv(ToolOp::Get)?;
        let reading = guarded.reading(&scope).await?;
        let found = guarded.backend().get(&scope, &key, GetOptions::default()).await?;
        let Some(entry) = &found else {
            reading.showed([(&key, None)]);
            return text(&Missing { found: false, value: () });
        };
        let shown = EntryAnswer::new(entry);
        let answer = text(&Found { found: true, entry: &shown })?;
        if answer.len() > self.policy.max_answer_bytes {
            return text(&Found { found: true, entry: shown.without_value(entry.size_bytes()) });
        }
        reading.showed([(&key, Some(entry))]);
        Ok(answer)
    }

    pub(super) async fn set(&self, op: Set) -> Result<String> {
        let scope = self.memory_scope(op.scope)?;
        let item = BulkItem {
            key: op.key,
            value: op.value,
            ttl_seconds: op.ttl_seconds,
            ttl: op.ttl,
            metadata: op.metadata,
            source: op.source,
            text: op.text,
            if_version: op.if_version,
            if_absent: op.if_absent,
        };
        let NewEntry { key, value, options } = new_entry(item)?;
        let options = options.with_quota(self.policy.quota);
        let mut outcome = self.kv(ToolOp::Set)?.set(&scope, &key, value, options).await?;
        outcome.drift = None;
        text(&outcome)
    }

    pub(super) async fn delete(&self, op: Delete) -> Result<String> {
        let scope = self.memory_scope(op.scope)?;
        let key = own_key(op.key)?;
        let options = DeleteOptions::expecting(expect(op.if_version, None)?);
        let mut outcome = self.kv(ToolOp::Delete)?.delete(&scope, &key, options).await?;
        outcome.drift = None;
        text(&outcome)
    }

    pub(super) async fn list(&self, op: List) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            entries: Vec<Box<RawValue>>,
            truncated: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            next: Option<Cursor>,
        }
        let scope = self.memory_scope(op.scope)?;
        let asked = op.limit.unwrap_or(DEFAULT_PAGE);
        check_count("limit", asked, MAX_PAGE, "rows")?;
        let prefix = op.prefix.unwrap_or_default();
        let mut query = ListQuery::prefix(prefix.clone())
            .with_limit(asked.min(self.policy.max_rows))
            .with_cursor(op.cursor.map(Cursor::from_text));
        query.filter = op.filter;
        let guarded = self.kv(ToolOp::List)?;
        let reading = guarded.reading(&scope).await?;
        let page = list_entries(guarded.backend(), &scope, query).await?;
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        let mut entries = Vec::new();
        let mut next = page.next;
        let mut last: Option<&Key> = None;
        let mut shown = Vec::new();
        for entry in &page.entries {
            let Row { text: row, whole } = EntryAnswer::new(entry).within(&budget, entry.size_bytes())?;
            if !budget.take(&row) {
                // The first row always fits, so a cut page has a position to continue from.
                next = last.map(|key| Cursor::after_key(&scope, &prefix, key));
                break;
            }
            entries.push(row);
            shown.extend(whole.then_some((&entry.key, Some(entry))));
            last = Some(&entry.key);
        }
        let answer = text(&Answer { entries, truncated: next.is_some(), next })?;
        reading.showed(shown);
        Ok(answer)
    }

    pub(super) async fn search(&self, op: Search) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            hits: Vec<Box<RawValue>>,
            mode: memory_core::SearchMode,
            duplicates: usize,
            truncated: bool,
        }
        let scope = self.memory_scope(op.scope)?;
        let asked = op.top_k.unwrap_or(DEFAULT_TOP_K);
        let most = self.memory.capabilities().max_top_k;
        check_count("top_k", asked, most, "rows")?;
        let top_k = asked.min(self.policy.max_rows);
        let mut query = SearchQuery::new(op.query)
            .with_mode(op.mode.unwrap_or_default())
            .with_prefix(op.prefix.unwrap_or_default())
            .with_top_k(top_k);
        query.filter = op.filter;
        query.threshold = op.threshold;
        query.rank = op.rank.unwrap_or_default();
        query.dedup = op.dedup;
        let guarded = self.kv(ToolOp::Search)?;
        let reading = guarded.reading(&scope).await?;
        let results = search_entries(guarded.backend(), &scope, query, most).await?;
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        let (mut hits, mut shown) = (Vec::new(), Vec::new());
        for hit in &results.hits {
            let Row { text: row, whole } = EntryAnswer::hit(hit).within(&budget, hit.entry.size_bytes())?;
            if !budget.take(&row) {
                break;
            }
            hits.push(row);
            shown.extend(whole.then_some((&hit.entry.key, Some(&hit.entry))));
        }
        let truncated = hits.len() < results.hits.len() || (top_k < asked && hits.len() == top_k);
        let answer = text(&Answer { hits, mode: results.mode, duplicates: results.duplicates, truncated })?;
        reading.showed(shown);
        Ok(answer)
    }

    pub(super) async fn incr(&self, op: Incr) -> Result<String> {
        let scope = self.memory_scope(op.scope)?;
        let key = own_key(op.key)?;
        let options = self.update_options(op.ttl_seconds, op.ttl)?;
        let by = op.by.unwrap_or(1);
        let mut outcome = self.kv(ToolOp::Incr)?.increment(&scope, &key, by, options).await?;
        outcome.drift = None;
        text(&outcome)
    }

    pub(super) async fn update(&self, op: Update) -> Result<String> {
        let scope = self.memory_scope(op.scope)?;
        let key = own_key(op.key)?;
        let options = self.update_options(op.ttl_seconds, op.ttl)?;
        let [merge, append, push] = only_one([op.merge, op.append, op.push]);
        let reducer = match (merge, append, push, op.limit) {
            (Some(patch), None, None, None) => Reducer::Merge(patch),
            (None, Some(item), None, None) => Reducer::AppendDedupe(item),
            (None, None, Some(item), Some(limit)) => Reducer::BoundedList { item, limit },
            (None, None, Some(_), None) => {
                return Err(Error::invalid(
                    "`push` of `update` needs `limit`: how many elements the list keeps",
                ));
            }
            (_, _, None, Some(_)) => {
                return Err(Error::invalid("`limit` of `update` goes with `push` only; leave it out"));
            }
            _ => return Err(Error::invalid("`update` takes exactly one of `merge`, `append`, `push`")),
        };
        let mut outcome = self.kv(ToolOp::Update)?.update(&scope, &key, reducer, options).await?;
        outcome.drift = None;
        let answer = text(&outcome)?;
        if answer.len() <= self.policy.max_answer_bytes {
            return Ok(answer);
        }
        // The write succeeded, so this is not a refusal.
        #[derive(Serialize)]
        struct Large {
            #[serde(flatten)]
            outcome: memory_core::UpdateOutcome,
            omitted_bytes: usize,
        }
        let omitted_bytes = outcome.value.len_bytes();
        outcome.value = memory_core::Json::null();
        text(&Large { outcome, omitted_bytes })
    }

    pub(super) async fn bulk_insert(&self, op: BulkInsert) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            count: usize,
            created: usize,
            written: usize,
            items: Vec<Box<RawValue>>,
            truncated: bool,
        }
        let scope = self.memory_scope(op.scope)?;
        let mut items = Vec::with_capacity(op.items.len());
        for (index, item) in op.items.into_iter().enumerate() {
            items.push(new_entry(item).map_err(|error| error.with_detail("index", index))?);
        }
        let options = BulkOptions::default().with_quota(self.policy.quota);
        let mut outcomes = self.kv(ToolOp::BulkInsert)?.bulk_insert(&scope, items, options).await?;
        outcomes.iter_mut().for_each(|outcome| outcome.drift = None);
        let rows = Budget::new(self.policy.max_answer_bytes).fit(&outcomes)?;
        text(&Answer {
            count: outcomes.len(),
            created: outcomes.iter().filter(|outcome| outcome.created).count(),
            written: outcomes.iter().filter(|outcome| outcome.written).count(),
            truncated: rows.len() < outcomes.len(),
            items: rows,
        })
    }

    fn update_options(&self, seconds: Option<f64>, word: Option<TtlWord>) -> Result<UpdateOptions> {
        Ok(UpdateOptions::default().with_ttl(ttl(seconds, word)?).with_quota(self.policy.quota))
    }
}

/// Drops the `null`s among several alternatives: in strict mode, a model sends `null` for what it leaves out.
fn only_one(mut values: [Option<Json>; 3]) -> [Option<Json>; 3] {
    if values.iter().flatten().count() > 1 {
        for value in &mut values {
            value.take_if(|value| value.kind() == JsonKind::Null);
        }
    }
    values
}

/// A key that an agent may write.
fn own_key(key: String) -> Result<Key> {
    let key = Key::new(key)?;
    check_writable(&key).map(|()| key)
}

fn new_entry(item: BulkItem) -> Result<NewEntry> {
    let mut options = SetOptions::default()
        .with_metadata(item.metadata.unwrap_or_default())
        .with_ttl(ttl(item.ttl_seconds, item.ttl)?)
        .with_expect(expect(item.if_version, item.if_absent)?);
    options.source = item.source.map(Source::new).transpose()?;
    options.text = item.text;
    let mut entry = NewEntry::new(own_key(item.key)?, item.value);
    entry.options = options;
    Ok(entry)
}

fn expect(version: Option<u64>, absent: Option<bool>) -> Result<Expect> {
    match (version, absent.unwrap_or_default()) {
        (None, false) => Ok(Expect::Any),
        (Some(version), false) => Ok(Expect::Version(version)),
        (None, true) => Ok(Expect::Absent),
        (Some(_), true) => {
            Err(Error::invalid("`if_version` and `if_absent` contradict each other; give one"))
        }
    }
}

pub(super) fn ttl(seconds: Option<f64>, word: Option<TtlWord>) -> Result<Ttl> {
    match (seconds, word) {
        (None, None | Some(TtlWord::Keep)) => Ok(Ttl::Keep),
        (None, Some(TtlWord::Never)) => Ok(Ttl::Never),
        (Some(_), Some(_)) => Err(Error::invalid("give `ttl_seconds` or `ttl`, not both")),
        (Some(seconds), None) => {
            let longest = Duration::from_millis(MAX_TTL_MILLIS);
            if !(seconds > 0.0 && seconds <= longest.as_secs_f64()) {
                return Err(Error::invalid(format!(
                    "`ttl_seconds` must be above 0 and at most {} (100 years); use `ttl`: \"never\" to clear an expiry",
                    longest.as_secs()
                )));
            }
            let ttl = Ttl::After(Duration::try_from_secs_f64(seconds).unwrap_or(longest));
            ttl.check().map(|()| ttl)
        }
    }
}

/// Refuses what the backend would refuse, before the policy lowers the number.
pub(super) fn check_count(name: &'static str, asked: usize, most: usize, unit: &'static str) -> Result<()> {
    match asked {
        0 => Err(Error::invalid(format!("`{name}` is 0; give 1 to {most}"))),
        asked if asked > most => Err(Error::too_large(name, asked, most, unit)),
        _ => Ok(()),
    }
}
