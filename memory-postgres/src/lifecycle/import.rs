//! Import into a scope.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use memory_core::backend::check_vectors;
use memory_core::{
    Atomicity, Error, Expect, ImportOptions, ImportOutcome, OnExisting, Record, RecordStream, RecordVector,
    Result, Stream, Taken, Ttl,
};
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::Type;

use crate::connect::Transaction;
use crate::error::malformed;
use crate::kv::batch::Columns;
use crate::kv::draft::{lexicon, size_of};
use crate::kv::row::encode_metadata;
use crate::kv::terms::IndexTerms;
use crate::kv::write_result::{WriteContext, WriteResult};
use crate::lifecycle::tombstones::ScopeTombstones;
use crate::store::Store;
use crate::store::columns::{column, signed, unsigned};
use crate::store::parameters::{Expected, Value, limits, literal};
use crate::store::scope_ref::ScopeRef;
use crate::store::statements::SPACE;
use crate::vector::numbers::Numbers;

/// Records, and their bytes, imported per transaction.
const STEP_RECORDS: usize = 256;

const STEP_BYTES: usize = 4 << 20;

/// How long to wait for the next record: an open transaction delays the server's vacuum.
const PATIENCE: Duration = Duration::from_secs(60);

/// EXP-4, EXP-12, EXP-15: imports records, a few per transaction or all in one.
pub(crate) async fn import(
    store: &Store,
    target: &ScopeRef,
    records: RecordStream,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    match options.atomicity {
        Atomicity::Record => steps(store, target, records, options, None, None).await,
        _ => whole(store, target, records, options).await,
    }
}

/// Imports in one transaction, which locks the scope's row. The stream can be read only once, so a conflict with
/// another transaction is an error.
async fn whole(
    store: &Store,
    target: &ScopeRef,
    records: RecordStream,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    let mut connection = store.connections.take().await?;
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    let judge = match options.taken {
        Taken::New => None,
        _ => Some(ScopeTombstones::over(store, &target.scope, &transaction).await?),
    };
    if options.atomicity == Atomicity::Replacement {
        // The versions of a run go on too.
        let (now, keeps_versions) = (store.time.parameter(), true);
        let values = target.parameters([(&now, Type::INT8), (&keeps_versions, Type::BOOL)]);
        transaction.query(&store.statements.drop, &values).await?;
    }
    let keys = Arc::new(Mutex::new(Keys::default()));
    let mirrors = options.atomicity == Atomicity::Mirror;
    let records: RecordStream = match mirrors {
        true => Box::pin(Noting { records, keys: Arc::clone(&keys) }),
        false => records,
    };
    let mut stored = steps(store, target, records, options, Some(&transaction), judge.as_ref()).await;
    if mirrors && stored.is_ok() {
        let keys = std::mem::take(&mut *keys.lock().unwrap_or_else(PoisonError::into_inner));
        stored = remove_others(store, target, &transaction, &keys).await.and(stored);
    }
    match stored {
        Ok(outcome) => transaction.commit().await.map(|()| outcome),
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

/// Records the keys of a stream, and when the records expire.
struct Noting {
    records: RecordStream,
    keys: Arc<Mutex<Keys>>,
}

type Keys = (Vec<String>, Vec<Option<i64>>);

impl Stream for Noting {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.records.as_mut().poll_next(context);
        if let Poll::Ready(Some(Ok(record))) = &next {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.0.push(record.entry.key.as_str().to_owned());
            keys.1.push(record.entry.expires_at.map(|at| at.as_millis()));
        }
        next
    }
}

/// EXP-15: removes every entry whose key is not among these, or has expired there, as deletes do.
async fn remove_others(
    store: &Store,
    target: &ScopeRef,
    transaction: &Transaction<'_>,
    (keys, expires): &Keys,
) -> Result<()> {
    // A set operation, which sorts or hashes. With a join the planner might compare each entry with all keys.
    let sql = store.named(&format!(
        "SELECT e.key FROM @schema@.entry e WHERE e.tenant = $1 AND e.space = {SPACE} \
         EXCEPT SELECT r.key FROM unnest($4::text[], $5::bigint[]) r (key, expires) \
         WHERE r.expires IS NULL OR r.expires > coalesce($6, @schema@.now_ms())"
    ));
    let (now, any) = (store.time.parameter(), Expected::from(Expect::Any));
    let given =
        target.parameters([(keys, Type::TEXT_ARRAY), (expires, Type::INT8_ARRAY), (&now, Type::INT8)]);
    let others = transaction.query(&sql, &given).await?;
    for other in &others {
        let key: &str = column(other, 0, "key")?;
        let values = target.parameters([
            (&now, Type::INT8),
            (&key, Type::TEXT),
            (&any.kind, Type::INT2),
            (&any.version, Type::INT8),
            (&any.sha256, Type::BYTEA),
        ]);
        transaction.query(&store.statements.delete, &values).await?;
    }
    Ok(())
}

async fn steps(
    store: &Store,
    target: &ScopeRef,
    mut records: RecordStream,
    options: ImportOptions,
    within: Option<&Transaction<'_>>,
    judge: Option<&ScopeTombstones>,
) -> Result<ImportOutcome> {
    let mut outcome = ImportOutcome::default();
    let mut index = 0_u64;
    loop {
        let (step, end) = match within {
            None => next_step(&mut records).await,
            // Others wait for the scope during this.
            Some(_) => tokio::time::timeout(PATIENCE, next_step(&mut records)).await.map_err(|_| {
                Error::timeout(
                    "the import was abandoned, and nothing of it is stored: its next record did not arrive in time",
                )
            })?,
        };
        let first = index;
        index += step.len() as u64;
        if !step.is_empty() {
            let (step, numbers) = match judge {
                Some(judge) => judge.take(step, options.taken),
                None => (step, Vec::new()),
            };
            let (stored, refused) = match (within, options.taken) {
                (None, Taken::At(_) | Taken::Undated) => {
                    judged_step(store, target, step, options, &mut outcome).await?
                }
                _ if step.is_empty() => (ImportOutcome::default(), None),
                _ => import_step(store, target, &step, options, within).await?,
            };
            if judge.is_some() {
                outcome.forgotten += index - first - numbers.len() as u64;
            }
            let refused = refused.map(|(at, error)| {
                let number = usize::try_from(at).ok().and_then(|at| numbers.get(at).copied());
                (number.unwrap_or(at), error)
            });
            outcome.created += stored.created;
            outcome.replaced += stored.replaced;
            outcome.skipped += stored.skipped;
            outcome.expired += stored.expired;
            if let Some((at, error)) = refused {
                return Err(error.with_detail("index", first + at));
            }
        }
        match end {
            None => {}
            Some(None) => return Ok(outcome),
            Some(Some(error)) if error.details().contains_key("index") => return Err(error),
            Some(Some(error)) => return Err(error.with_detail("index", index)),
        }
    }
}

/// Imports one step in its own transaction, which checks tombstones.
async fn judged_step(
    store: &Store,
    target: &ScopeRef,
    step: Vec<Record>,
    options: ImportOptions,
    outcome: &mut ImportOutcome,
) -> Result<(ImportOutcome, Option<(u64, Error)>)> {
    let mut connection = store.connections.take().await?;
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    let judge = ScopeTombstones::over(store, &target.scope, &transaction).await?;
    let given = step.len() as u64;
    let (step, numbers) = judge.take(step, options.taken);
    outcome.forgotten += given - numbers.len() as u64;
    if step.is_empty() {
        transaction.commit().await?;
        return Ok((ImportOutcome::default(), None));
    }
    match import_step(store, target, &step, options, Some(&transaction)).await {
        // Records before the refused one are kept.
        Ok((stored, refused)) => {
            transaction.commit().await?;
            let numbered = refused.map(|(at, error)| {
                let number = usize::try_from(at).ok().and_then(|at| numbers.get(at).copied());
                (number.unwrap_or(at), error)
            });
            Ok((stored, numbered))
        }
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

/// Takes the next records off the stream. The second value is the stream's end, with its error; a malformed record ends
/// it.
async fn next_step(records: &mut RecordStream) -> (Vec<Record>, Option<Option<Error>>) {
    let (mut step, mut bytes) = (Vec::new(), 0_usize);
    while step.len() < STEP_RECORDS && bytes < STEP_BYTES {
        match std::future::poll_fn(|context| records.as_mut().poll_next(context)).await {
            Some(Ok(record)) => {
                if let Err(error) = check(&record) {
                    return (step, Some(Some(error)));
                }
                bytes = bytes.saturating_add(record_bytes(&record));
                step.push(record);
            }
            Some(Err(error)) => return (step, Some(Some(error))),
            None => return (step, Some(None)),
        }
    }
    (step, None)
}

fn check(record: &Record) -> Result<()> {
    check_vectors(&record.vectors)?;
    if record.vectors.iter().any(|vector| vector.text.as_ref().is_some_and(|text| text.contains('\0'))) {
        return Err(Error::invalid("the text of a record's vector has a NUL character; remove it"));
    }
    Ok(())
}

/// Approximate memory of a record.
fn record_bytes(record: &Record) -> usize {
    let of_vector =
        |vector: &RecordVector| vector.vector.len() * 4 + vector.text.as_ref().map_or(0, String::len);
    let vectors = record.vectors.iter().map(of_vector).sum::<usize>();
    usize::try_from(record.entry.size_bytes()).unwrap_or(usize::MAX).saturating_add(vectors)
}

/// The vectors of records, as columns.
#[derive(Default)]
struct VectorColumns<'a> {
    at: Vec<i32>,
    providers: Vec<&'a str>,
    models: Vec<&'a str>,
    dimensions: Vec<i32>,
    texts: Vec<Option<&'a str>>,
    embeddings: Vec<Option<String>>,
    exacts: Vec<Option<String>>,
}

impl<'a> VectorColumns<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut columns = Self::default();
        for (record, at) in records.iter().zip(1_i32..) {
            for RecordVector { model, vector, text } in &record.vectors {
                let numbers = Numbers::of(vector);
                columns.at.push(at);
                columns.providers.push(&model.provider);
                columns.models.push(&model.model);
                columns.dimensions.push(i32::try_from(model.dimensions).unwrap_or(i32::MAX));
                columns.texts.push(text.as_deref());
                columns.embeddings.push(numbers.embedding);
                columns.exacts.push(numbers.exact);
            }
        }
        columns
    }

    fn parameters(&self) -> [Value<'_>; 7] {
        [
            (&self.at, Type::INT4_ARRAY),
            (&self.providers, Type::TEXT_ARRAY),
            (&self.models, Type::TEXT_ARRAY),
            (&self.dimensions, Type::INT4_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
            (&self.embeddings, Type::TEXT_ARRAY),
            (&self.exacts, Type::TEXT_ARRAY),
        ]
    }
}

/// The result of one transaction of an import, and the record that ended it.
async fn import_step(
    store: &Store,
    target: &ScopeRef,
    records: &[Record],
    options: ImportOptions,
    within: Option<&Transaction<'_>>,
) -> Result<(ImportOutcome, Option<(u64, Error)>)> {
    let (now, lexicon, (max_entries, max_bytes)) =
        (store.time.parameter(), lexicon(), limits(&options.quota));
    let existing = match options.on_existing {
        OnExisting::Skip => 0_i16,
        OnExisting::Replace => 1,
        OnExisting::Fail => 2,
    };
    let metadata: Vec<Option<String>> =
        records.iter().map(|record| encode_metadata(&record.entry.metadata)).collect();
    let mut columns = Columns::default();
    for (Record { entry, .. }, metadata) in records.iter().zip(&metadata) {
        let marks =
            IndexTerms::of(&target.digest, &entry.search_text(), &entry.metadata, entry.source.as_ref());
        columns.keys.push(entry.key.as_str());
        columns.values.push(entry.value.as_str());
        columns.metadata.push(metadata.as_deref());
        columns.sources.push(entry.source.as_ref().map(memory_core::Source::as_str));
        columns.texts.push(entry.text.as_deref());
        columns.sizes.push(size_of(entry.size_bytes()));
        columns.tokens.push(marks.tokens);
        columns.marks.push(literal(&marks.marks));
        columns.counts.push(literal(&marks.counts));
    }
    let entries = || records.iter().map(|record| &record.entry);
    let versions: Vec<i64> = entries().map(|entry| signed(entry.version)).collect();
    let created: Vec<i64> = entries().map(|entry| entry.created_at.as_millis()).collect();
    let updated: Vec<i64> = entries().map(|entry| entry.updated_at.as_millis()).collect();
    let expires: Vec<Option<i64>> =
        entries().map(|entry| entry.expires_at.map(|at| at.as_millis())).collect();
    let accesses: Vec<i64> = entries().map(|entry| signed(entry.access_count)).collect();
    let vectors = VectorColumns::of(records);
    let mut values = target.parameters([(&now, Type::INT8), (&existing, Type::INT2), (&lexicon, Type::INT2)]);
    values.extend(columns.parameters());
    let own: [Value<'_>; 7] = [
        (&versions, Type::INT8_ARRAY),
        (&created, Type::INT8_ARRAY),
        (&updated, Type::INT8_ARRAY),
        (&expires, Type::INT8_ARRAY),
        (&accesses, Type::INT8_ARRAY),
        (&max_entries, Type::INT8),
        (&max_bytes, Type::INT8),
    ];
    values.extend(own);
    values.extend(vectors.parameters());
    let row = match within {
        None => store.write(&store.statements.import, &values).await?,
        Some(transaction) => {
            let rows = transaction.query(&store.statements.import, &values).await?;
            rows.into_iter().next().ok_or_else(|| malformed("outcome"))?
        }
    };
    let written = WriteResult::read(&row)?;
    let at = u64::try_from(column::<i32>(&row, 8, "outcome")?).map_err(|_| malformed("outcome"))?;
    let mut outcome = ImportOutcome::default();
    outcome.created = unsigned(&row, 9, "count")?;
    outcome.replaced = unsigned(&row, 10, "count")?;
    outcome.skipped = unsigned(&row, 11, "count")?;
    outcome.expired = unsigned(&row, 12, "count")?;
    let refused = match at.checked_sub(1) {
        Some(index) => written
            .judge(WriteContext { ttl: Ttl::Keep, quota: &options.quota, model: None })
            .err()
            .map(|error| (index, error)),
        None => None,
    };
    Ok((outcome, refused))
}
