//! Writes of one entry.

use memory_core::ContentDigest;
use memory_core::reduce::{Reduced, Reducer, reduce};
use memory_core::{
    DeleteOptions, DeleteOutcome, DropOutcome, Embed, EmbeddingModel, Entry, Error, IncrementOutcome, Json,
    Key, Result, Retry, Scope, SetOutcome, Timestamp, UpdateOptions, UpdateOutcome,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::malformed;
use crate::kv::draft::{Draft, lexicon, size_of};
use crate::kv::drift::{Comparison, Item, Sight, reason};
use crate::kv::read;
use crate::kv::terms::IndexTerms;
use crate::kv::write_result::{WriteContext, WriteResult};
use crate::store::Store;
use crate::store::columns::{column, signed, unsigned};
use crate::store::parameters::{Expected, ModelValues, limits, ttl};
use crate::store::scope_ref::ScopeRef;

/// SET, VER, TTL, QUO: sets one entry. `model` is the embedder's, if there is one.
pub(crate) async fn set(
    store: &Store,
    target: &ScopeRef,
    draft: &Draft,
    model: Option<&EmbeddingModel>,
) -> Result<SetOutcome> {
    let options = &draft.options;
    let model = model.filter(|_| options.embed != Embed::Never);
    let model_values = ModelValues::from(model);
    let (now, ttl, lexicon) = (store.time.parameter(), ttl(options.ttl), lexicon());
    let expected = Expected::from(options.expect);
    let (max_entries, max_bytes) = limits(&options.quota);
    let (key, value, source) = (draft.key.as_str(), draft.value.as_str(), draft.source());
    let mut values = target.parameters([
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
    ]);
    values.extend(model_values.values());
    let check = &options.drift;
    let (comparison, sight) = (Comparison::of(&store.guard, check), Sight::of(check, options.expect));
    let row = if check.compares() {
        values.extend(comparison.of_one(&sight));
        let item = Item { key: &draft.key, seen: check.seen() };
        let statement = &store.statements.set_checked;
        store.write_checked(target, &[item], comparison.is_strict(), statement, &values).await?
    } else {
        store.write(&store.statements.set, &values).await?
    };
    let written = WriteResult::read(&row)?;
    if let Some(reason) = written.drifted() {
        return Err(reason.refusal(store.guard.tokens(&row, 8)?.0));
    }
    let wrote = written.judge(WriteContext { ttl: options.ttl, quota: &options.quota, model })?;
    let mut outcome = SetOutcome::new(written.version()?, written.created(), wrote, written.expires_at);
    outcome.drift = store.guard.token_change(check, &row, 8, || Some(draft.digest(written.expires_at)))?;
    Ok(outcome)
}

/// DEL: deletes one entry.
pub(crate) async fn delete(
    store: &Store,
    target: &ScopeRef,
    key: &Key,
    options: DeleteOptions,
) -> Result<DeleteOutcome> {
    let (now, name, expected) = (store.time.parameter(), key.as_str(), Expected::from(options.expect));
    let mut values = target.parameters([
        (&now, Type::INT8),
        (&name, Type::TEXT),
        (&expected.kind, Type::INT2),
        (&expected.version, Type::INT8),
        (&expected.sha256, Type::BYTEA),
    ]);
    let check = &options.drift;
    let (comparison, sight) = (Comparison::of(&store.guard, check), Sight::of(check, options.expect));
    let row = if check.compares() {
        values.extend(comparison.of_one(&sight));
        let item = Item { key, seen: check.seen() };
        let statement = &store.statements.delete_checked;
        store.write_checked(target, &[item], comparison.is_strict(), statement, &values).await?
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
            deleted.drift = store.guard.token_change(check, &row, 2, || None)?;
            Ok(deleted)
        }
        2 => Err(Error::conflict(
            column::<Option<i64>>(&row, 1, "version")?.and_then(|v| u64::try_from(v).ok()),
        )),
        _ => Err(malformed("outcome")),
    }
}

/// INC: increments a number. If given an embedder's model, also returns the text to embed.
pub(crate) async fn increment(
    store: &Store,
    target: &ScopeRef,
    key: &Key,
    delta: i64,
    options: UpdateOptions,
    model: Option<&EmbeddingModel>,
) -> Result<(IncrementOutcome, Option<String>)> {
    let model_values = ModelValues::from(model);
    let (now, key, lexicon, life) = (store.time.parameter(), key.as_str(), lexicon(), ttl(options.ttl));
    let digest = target.digest.as_bytes().as_slice();
    let (max_entries, max_bytes) = limits(&options.quota);
    let mut values = target.parameters([
        (&now, Type::INT8),
        (&digest, Type::BYTEA),
        (&key, Type::TEXT),
        (&delta, Type::INT8),
        (&lexicon, Type::INT2),
        (&life, Type::INT8),
        (&max_entries, Type::INT8),
        (&max_bytes, Type::INT8),
    ]);
    values.extend(model_values.values());
    let statements = &store.statements;
    let statement = if options.drift.tells() { &statements.increment_told } else { &statements.increment };
    let row = store.write(statement, &values).await?;
    let written = WriteResult::read(&row)?;
    written.judge(WriteContext { ttl: options.ttl, quota: &options.quota, model })?;
    let value: i64 = column(&row, 8, "value")?;
    let mut outcome = IncrementOutcome::new(value, written.version()?, written.expires_at);
    // The rest of the entry was not read, so there is no digest.
    outcome.drift = store.guard.token_change(&options.drift, &row, 10, || None)?;
    Ok((outcome, column(&row, 9, "text")?))
}

/// How often a reducer is applied again because of a concurrent write.
const CONTENTIONS: usize = 200;

/// UPD: applies a reducer. If given an embedder's model, also returns the text to embed.
///
/// The reducer runs here, and its result is stored only if the entry is unchanged: one round trip each, without a lock
/// in between. In every round, one of several concurrent writers succeeds.
pub(crate) async fn update(
    store: &Store,
    target: &ScopeRef,
    key: &Key,
    reducer: &Reducer,
    options: UpdateOptions,
    model: Option<&EmbeddingModel>,
) -> Result<(UpdateOutcome, Option<String>)> {
    for _ in 0..CONTENTIONS {
        let stored = read::entry(store, target, key).await?;
        let reduced = reduce(stored.as_ref().map(|entry| &entry.value), reducer)?;
        let limit = store.config.max_value_bytes;
        if reduced.value.len_bytes() > limit {
            return Err(Error::too_large("value", reduced.value.len_bytes(), limit, "bytes"));
        }
        let version = stored.as_ref().map(|entry| entry.version);
        let mut entry = stored.unwrap_or_else(|| Entry::new(key.clone(), Json::null(), 1, Timestamp::EPOCH));
        entry.value = reduced.value.clone();
        let row = replace(store, target, &entry, version, options, model).await?;
        let written = WriteResult::read(&row)?;
        if written.is_conflict() {
            continue;
        }
        written.judge(WriteContext { ttl: options.ttl, quota: &options.quota, model })?;
        let Reduced { value, appended, dropped, .. } = reduced;
        let mut outcome = UpdateOutcome::new(value, written.version()?, written.expires_at);
        outcome.appended = appended;
        outcome.dropped = dropped;
        entry.expires_at = outcome.expires_at;
        let digest = || Some(ContentDigest::of_entry(&entry));
        outcome.drift = store.guard.token_change(&options.drift, &row, 8, digest)?;
        let text = model.map(|_| entry.search_text().into_owned());
        return Ok((outcome, text));
    }
    Err(Error::unavailable(
        "many writers change this key at the same time and nothing was written; try again",
    )
    .with_retry(Retry::Now))
}

/// Replaces the value of `entry` if its key still has that version (`None`: is absent).
async fn replace(
    store: &Store,
    target: &ScopeRef,
    entry: &Entry,
    version: Option<u64>,
    options: UpdateOptions,
    model: Option<&EmbeddingModel>,
) -> Result<Row> {
    let model_values = ModelValues::from(model);
    let (now, lexicon, life) = (store.time.parameter(), lexicon(), ttl(options.ttl));
    let (key, value, version) = (entry.key.as_str(), entry.value.as_str(), version.map(signed));
    let size = size_of(entry.size_bytes());
    let marks = IndexTerms::of(&target.digest, &entry.search_text(), &entry.metadata, entry.source.as_ref());
    let (max_entries, max_bytes) = limits(&options.quota);
    let mut values = target.parameters([
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
    ]);
    values.extend(model_values.values());
    let statements = &store.statements;
    let statement = if options.drift.tells() { &statements.replace_told } else { &statements.replace };
    store.write(statement, &values).await
}

/// SCO-4: drops a scope.
pub(crate) async fn drop_scope(store: &Store, scope: &Scope) -> Result<DropOutcome> {
    let target = ScopeRef::of(scope);
    let (now, durable) = (store.time.parameter(), scope.kind.is_durable());
    let values = target.parameters([(&now, Type::INT8), (&durable, Type::BOOL)]);
    let row = store.write(&store.statements.drop, &values).await?;
    Ok(DropOutcome::new(unsigned(&row, 0, "count")?))
}
