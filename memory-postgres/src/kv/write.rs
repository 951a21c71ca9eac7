//! Writes of one entry.

use memory_core::drift::ContentDigest;
use memory_core::entry::size_bytes;
use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::reduce::{Reduced, Reducer, reduce};
use memory_core::{
    DeleteOptions, DeleteOutcome, DropOutcome, Embed, EmbeddingModel, Entry, Error, ErrorKind,
    IncrementOutcome, Json, Key, NewEntry, Quota, Result, Retry, Scope, ScopeDigest, SetOptions, SetOutcome,
    Timestamp, UpdateOptions, UpdateOutcome,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::malformed;
use crate::kv::drift::{Comparison, Item, Sight, reason};
use crate::kv::marks::Marks;
use crate::kv::outcome::{Given, Written};
use crate::kv::row::{column, encode_metadata, signed};
use crate::kv::target::{Expected, ModelValues, Target, Value, ttl};
use crate::store::Store;

/// The version of the words in `marks`, so that a later analyzer knows which rows are older.
pub(crate) fn lexicon() -> i16 {
    i16::try_from(memory_core::lexical::ANALYZER_VERSION).unwrap_or(i16::MAX)
}

/// A set, with everything computed that needs no database.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) key: Key,
    pub(crate) value: Json,
    pub(crate) options: SetOptions,
    pub(crate) metadata: Option<String>,
    pub(crate) size: i32,
    pub(crate) marks: Marks,
}

impl Draft {
    pub(crate) fn new(digest: &ScopeDigest, key: Key, value: Json, options: SetOptions) -> Self {
        let size =
            size_bytes(&key, &value, &options.metadata, options.source.as_ref(), options.text.as_deref());
        let metadata = encode_metadata(&options.metadata);
        let derived;
        let text = match &options.text {
            Some(text) => text.as_str(),
            None => {
                derived = value.search_text(MAX_TEXT_BYTES);
                &derived
            }
        };
        let marks = Marks::of(digest, text, &options.metadata, options.source.as_ref());
        Self { size: size_of(size), marks, key, value, options, metadata }
    }

    pub(crate) fn of(digest: &ScopeDigest, item: NewEntry) -> Self {
        Self::new(digest, item.key, item.value, item.options)
    }

    /// What is embedded of it.
    pub(crate) fn search_text(&self) -> String {
        match &self.options.text {
            Some(text) => text.clone(),
            None => self.value.search_text(MAX_TEXT_BYTES),
        }
    }

    /// What the entry says once it is stored.
    pub(crate) fn digest(&self, expires_at: Option<Timestamp>) -> ContentDigest {
        let SetOptions { metadata, source, text, .. } = &self.options;
        ContentDigest::of(&self.value, metadata, source.as_ref(), text.as_deref(), expires_at)
    }

    pub(crate) fn source(&self) -> Option<&str> {
        self.options.source.as_ref().map(memory_core::Source::as_str)
    }
}

/// The parts of an entry are far below 2 GiB together.
pub(crate) fn size_of(bytes: u64) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// A quota as the functions take it.
pub(crate) fn limits(quota: &Quota) -> (Option<i64>, Option<i64>) {
    (quota.max_entries.map(signed), quota.max_bytes.map(signed))
}

/// SET, VER, TTL, QUO. `model` is the embedder's, where there is one.
pub(crate) async fn set(
    store: &Store,
    target: &Target,
    draft: &Draft,
    model: Option<&EmbeddingModel>,
) -> Result<SetOutcome> {
    let options = &draft.options;
    let model = model.filter(|_| options.embed != Embed::Never);
    let (texts, model_values) = (target.texts(), ModelValues::from(model));
    let (now, ttl, lexicon) = (store.time.parameter(), ttl(options.ttl), lexicon());
    let expected = Expected::from(options.expect);
    let (max_entries, max_bytes) = limits(&options.quota);
    let (key, value, source) = (draft.key.as_str(), draft.value.as_str(), draft.source());
    let mut values = Vec::with_capacity(30);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 17] = [
        (&now, Type::INT8),
        (&key, Type::TEXT),
        (&value, Type::TEXT),
        (&draft.metadata, Type::TEXT),
        (&source, Type::TEXT),
        (&options.text, Type::TEXT),
        (&draft.size, Type::INT4),
        (&draft.marks.tokens, Type::INT4),
        (&lexicon, Type::INT2),
        (&draft.marks.marks, Type::INT8_ARRAY),
        (&draft.marks.counts, Type::INT4_ARRAY),
        (&ttl, Type::INT8),
        (&expected.kind, Type::INT2),
        (&expected.version, Type::INT8),
        (&expected.sha256, Type::BYTEA),
        (&max_entries, Type::INT8),
        (&max_bytes, Type::INT8),
    ];
    values.extend(own);
    values.extend(model_values.values());
    let check = &options.drift;
    let (comparison, sight) = (Comparison::of(&store.guard, check), Sight::of(check, options.expect));
    let row = if check.compares() {
        values.extend(comparison.of_one(&sight));
        let item = Item { key: &draft.key, seen: check.seen() };
        let statement = &store.statements.set_checked;
        store.write_checked(target, &[item], comparison.is_of_the_scope(), statement, &values).await?
    } else {
        store.write(&store.statements.set, &values).await?
    };
    let written = Written::read(&row)?;
    if let Some(reason) = written.drifted() {
        return Err(reason.refusal(store.guard.tokens(&row, 8)?.0));
    }
    let wrote = written.judge(Given { ttl: options.ttl, quota: &options.quota, model })?;
    let mut outcome = SetOutcome::new(written.version()?, written.created(), wrote, written.expires_at);
    outcome.drift = store.guard.told(check, &row, 8, || Some(draft.digest(written.expires_at)))?;
    Ok(outcome)
}

/// DEL.
pub(crate) async fn delete(
    store: &Store,
    target: &Target,
    key: &Key,
    options: DeleteOptions,
) -> Result<DeleteOutcome> {
    let texts = target.texts();
    let (now, name, expected) = (store.time.parameter(), key.as_str(), Expected::from(options.expect));
    let mut values = Vec::with_capacity(15);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 5] = [
        (&now, Type::INT8),
        (&name, Type::TEXT),
        (&expected.kind, Type::INT2),
        (&expected.version, Type::INT8),
        (&expected.sha256, Type::BYTEA),
    ];
    values.extend(own);
    let check = &options.drift;
    let (comparison, sight) = (Comparison::of(&store.guard, check), Sight::of(check, options.expect));
    let row = if check.compares() {
        values.extend(comparison.of_one(&sight));
        let item = Item { key, seen: check.seen() };
        let statement = &store.statements.delete_checked;
        store.write_checked(target, &[item], comparison.is_of_the_scope(), statement, &values).await?
    } else {
        store.write(&store.statements.delete, &values).await?
    };
    let outcome = column::<i16>(&row, 0, "outcome")?;
    if let Some(reason) = reason(outcome) {
        return Err(reason.refusal(store.guard.tokens(&row, 2)?.0));
    }
    match outcome {
        0 | 1 => {
            let mut deleted = DeleteOutcome::new(outcome == 0);
            deleted.drift = store.guard.told(check, &row, 2, || None)?;
            Ok(deleted)
        }
        2 => Err(Error::conflict(
            column::<Option<i64>>(&row, 1, "version")?.and_then(|v| u64::try_from(v).ok()),
        )),
        _ => Err(malformed("outcome")),
    }
}

/// INC. With an embedder's model, also what is to be embedded.
pub(crate) async fn increment(
    store: &Store,
    target: &Target,
    key: &Key,
    delta: i64,
    options: UpdateOptions,
    model: Option<&EmbeddingModel>,
) -> Result<(IncrementOutcome, Option<String>)> {
    let (texts, model_values) = (target.texts(), ModelValues::from(model));
    let (now, key, lexicon, life) = (store.time.parameter(), key.as_str(), lexicon(), ttl(options.ttl));
    let digest = target.digest.as_bytes().as_slice();
    let (max_entries, max_bytes) = limits(&options.quota);
    let mut values = Vec::with_capacity(14);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 8] = [
        (&now, Type::INT8),
        (&digest, Type::BYTEA),
        (&key, Type::TEXT),
        (&delta, Type::INT8),
        (&lexicon, Type::INT2),
        (&life, Type::INT8),
        (&max_entries, Type::INT8),
        (&max_bytes, Type::INT8),
    ];
    values.extend(own);
    values.extend(model_values.values());
    let statements = &store.statements;
    let statement = if options.drift.tells() { &statements.increment_told } else { &statements.increment };
    let row = store.write(statement, &values).await?;
    let written = Written::read(&row)?;
    written.judge(Given { ttl: options.ttl, quota: &options.quota, model })?;
    let value: i64 = column(&row, 8, "value")?;
    let mut outcome = IncrementOutcome::new(value, written.version()?, written.expires_at);
    // What it says beside the number was not read.
    outcome.drift = store.guard.told(&options.drift, &row, 10, || None)?;
    Ok((outcome, column(&row, 9, "text")?))
}

/// How often a reducer is applied anew because another writer came between.
const CONTENTIONS: usize = 200;

/// UPD. With an embedder's model, also what is to be embedded.
///
/// The reducer runs here, and its result is stored only where the entry is still the one that was read: a round trip
/// each, and no lock between. Of writers that meet, one succeeds in every round.
pub(crate) async fn update(
    store: &Store,
    target: &Target,
    key: &Key,
    reducer: &Reducer,
    options: UpdateOptions,
    model: Option<&EmbeddingModel>,
) -> Result<(UpdateOutcome, Option<String>)> {
    for _ in 0..CONTENTIONS {
        let stored = crate::kv::read::entry(store, target, key).await?;
        let reduced = reduce(stored.as_ref().map(|entry| &entry.value), reducer)?;
        let limit = store.config.max_value_bytes;
        if reduced.value.len_bytes() > limit {
            return Err(Error::too_large("value", reduced.value.len_bytes(), limit, "bytes"));
        }
        let version = stored.as_ref().map(|entry| entry.version);
        let mut entry =
            stored.unwrap_or_else(|| Entry::new(key.clone(), Json::null(), 1, memory_core::Timestamp::EPOCH));
        entry.value = reduced.value.clone();
        let row = replace(store, target, &entry, version, options, model).await?;
        let written = Written::read(&row)?;
        if written.is_conflict() {
            continue;
        }
        written.judge(Given { ttl: options.ttl, quota: &options.quota, model })?;
        let Reduced { value, appended, dropped, .. } = reduced;
        let mut outcome = UpdateOutcome::new(value, written.version()?, written.expires_at);
        outcome.appended = appended;
        outcome.dropped = dropped;
        entry.expires_at = outcome.expires_at;
        let digest = || Some(ContentDigest::of_entry(&entry));
        outcome.drift = store.guard.told(&options.drift, &row, 8, digest)?;
        let text = model.map(|_| entry.search_text().into_owned());
        return Ok((outcome, text));
    }
    Err(Error::new(
        ErrorKind::Unavailable,
        "many writers change this key at the same time and nothing was written; try again",
    )
    .with_retry(Retry::Now))
}

/// Stores the value of `entry` where its key still has that version (`None`: is absent).
async fn replace(
    store: &Store,
    target: &Target,
    entry: &Entry,
    version: Option<u64>,
    options: UpdateOptions,
    model: Option<&EmbeddingModel>,
) -> Result<Row> {
    let (texts, model_values) = (target.texts(), ModelValues::from(model));
    let (now, lexicon, life) = (store.time.parameter(), lexicon(), ttl(options.ttl));
    let (key, value, version) = (entry.key.as_str(), entry.value.as_str(), version.map(signed));
    let size = size_of(entry.size_bytes());
    let marks = Marks::of(&target.digest, &entry.search_text(), &entry.metadata, entry.source.as_ref());
    let (max_entries, max_bytes) = limits(&options.quota);
    let mut values = Vec::with_capacity(18);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 12] = [
        (&now, Type::INT8),
        (&key, Type::TEXT),
        (&version, Type::INT8),
        (&value, Type::TEXT),
        (&size, Type::INT4),
        (&marks.tokens, Type::INT4),
        (&lexicon, Type::INT2),
        (&marks.marks, Type::INT8_ARRAY),
        (&marks.counts, Type::INT4_ARRAY),
        (&life, Type::INT8),
        (&max_entries, Type::INT8),
        (&max_bytes, Type::INT8),
    ];
    values.extend(own);
    values.extend(model_values.values());
    let statements = &store.statements;
    let statement = if options.drift.tells() { &statements.replace_told } else { &statements.replace };
    store.write(statement, &values).await
}

/// SCO-4.
pub(crate) async fn drop_scope(store: &Store, scope: &Scope) -> Result<DropOutcome> {
    let target = Target::of(scope);
    let texts = target.texts();
    let (now, durable) = (store.time.parameter(), scope.kind.is_durable());
    let mut values = Vec::with_capacity(5);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 2] = [(&now, Type::INT8), (&durable, Type::BOOL)];
    values.extend(own);
    let row = store.write(&store.statements.drop, &values).await?;
    Ok(DropOutcome::new(crate::kv::row::unsigned(&row, 0, "count")?))
}
