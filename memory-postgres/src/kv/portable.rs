//! Export and import of a scope.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use memory_core::backend::check_vectors;
use memory_core::{
    Atomicity, EmbeddingModel, Error, ErrorKind, Expect, ImportOptions, ImportOutcome, ListQuery, OnExisting,
    Record, RecordStream, RecordVector, Result, Stream, Taken, Ttl,
};
use tokio::sync::mpsc;
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::Type;

use crate::connect::Transaction;
use crate::error::malformed;
use crate::kv::bulk::{Columns, literal};
use crate::kv::embed::Numbers;
use crate::kv::erase::Judge;
use crate::kv::marks::Marks;
use crate::kv::moment::Snapshot;
use crate::kv::outcome::{Given, Written};
use crate::kv::read::page;
use crate::kv::row::{self, column, encode_metadata, signed, unsigned};
use crate::kv::target::{Expected, Target, Value};
use crate::kv::write::{lexicon, limits, size_of};
use crate::statement::Values;
use crate::store::Store;

/// Records of one page of an export.
const PAGE: usize = 128;
/// Records, and their bytes, that one transaction imports.
const STEP_RECORDS: usize = 256;
const STEP_BYTES: usize = 4 << 20;
/// How long a reader may leave a page lying: a transaction that is open holds up the server's vacuum.
const PATIENCE: Duration = Duration::from_secs(60);

type Page = Result<Vec<Record>>;

/// EXP-1. Pages come from one snapshot, over a connection of their own.
pub(crate) fn export(store: &Arc<Store>, target: Target, at: Option<Snapshot>) -> RecordStream {
    let (sender, pages) = mpsc::channel::<Page>(1);
    let store = Arc::clone(store);
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = send(&store, &target, at.as_ref(), &sender) => ended,
            () = sender.closed() => return,
        };
        if let Err(error) = ended {
            let _ = tokio::time::timeout(PATIENCE, sender.send(Err(error))).await;
        }
    });
    Box::pin(Pages { pages, page: Vec::new().into_iter() })
}

/// The records of pages.
struct Pages {
    pages: mpsc::Receiver<Page>,
    page: std::vec::IntoIter<Record>,
}

impl Stream for Pages {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Record>>> {
        loop {
            if let Some(record) = self.page.next() {
                return Poll::Ready(Some(Ok(record)));
            }
            match self.pages.poll_recv(context) {
                Poll::Ready(Some(Ok(page))) => self.page = page.into_iter(),
                Poll::Ready(Some(Err(error))) => {
                    self.pages.close();
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

async fn send(
    store: &Store,
    target: &Target,
    at: Option<&Snapshot>,
    pages: &mpsc::Sender<Page>,
) -> Result<()> {
    let mut connection = store.connections.take().await?;
    let snapshot = connection.transaction(IsolationLevel::RepeatableRead, true).await?;
    if let Some(at) = at {
        at.enter(&snapshot).await?;
    }
    let query = ListQuery::default();
    let mut after: Option<String> = None;
    loop {
        let mut values = Values::default();
        let sql = page(store, target, &query, after.as_deref(), PAGE as u64, &mut values);
        let rows = snapshot.query(&sql, &values.parameters()).await?;
        let mut records = Vec::with_capacity(rows.len());
        for found in &rows {
            let row::StoredEntry { mut entry, space, born } = row::read(found)?;
            entry.access_count =
                store.accesses.look().total(space, entry.key.as_str(), born, entry.access_count);
            records.push(Record::from(entry));
        }
        let Some(last) = records.last() else { return Ok(()) };
        after = Some(last.entry.key.as_str().to_owned());
        add_vectors(store, target, &snapshot, &mut records).await?;
        match tokio::time::timeout(PATIENCE, pages.send(Ok(records))).await {
            Ok(Ok(())) => {}
            // Nobody reads any more.
            Ok(Err(_)) => return Ok(()),
            Err(_) => {
                return Err(Error::new(
                    ErrorKind::Timeout,
                    "the export was not read for a minute and has ended; begin it again and read on",
                ));
            }
        }
    }
}

async fn add_vectors(
    store: &Store,
    target: &Target,
    snapshot: &Transaction<'_>,
    records: &mut [Record],
) -> Result<()> {
    let texts = target.texts();
    let keys: Vec<&str> = records.iter().map(|record| record.entry.key.as_str()).collect();
    let [tenant, kind, name] = target.values(&texts);
    let values: [Value<'_>; 4] = [tenant, kind, name, (&keys, Type::TEXT_ARRAY)];
    let rows = snapshot.query(&store.statements.record_vectors, &values).await?;
    let mut of_key: HashMap<&str, Vec<RecordVector>> = HashMap::new();
    for row in &rows {
        let vector: Vec<f32> = column(row, 5, "vector")?;
        let dimensions = usize::try_from(column::<i32>(row, 3, "model")?).map_err(|_| malformed("model"))?;
        let model = EmbeddingModel {
            provider: column(row, 1, "model")?,
            model: column(row, 2, "model")?,
            dimensions,
        };
        let vector = RecordVector { model, vector, text: column(row, 4, "text")? };
        of_key.entry(column(row, 0, "key")?).or_default().push(vector);
    }
    for record in records {
        if let Some(vectors) = of_key.remove(record.entry.key.as_str()) {
            record.vectors = vectors;
        }
    }
    Ok(())
}

/// EXP-4, EXP-12, EXP-15. A few records in a transaction, or all of them.
pub(crate) async fn import(
    store: &Store,
    target: &Target,
    records: RecordStream,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    match options.atomicity {
        Atomicity::Record => steps(store, target, records, options, None, None).await,
        _ => whole(store, target, records, options).await,
    }
}

/// One transaction, which holds the scope's row. The stream is read once, so what was in another's way is told.
async fn whole(
    store: &Store,
    target: &Target,
    records: RecordStream,
    options: ImportOptions,
) -> Result<ImportOutcome> {
    let mut connection = store.connections.take().await?;
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    let judge = match options.taken {
        Taken::New => None,
        _ => Some(Judge::over(store, &target.scope, &transaction).await?),
    };
    if options.atomicity == Atomicity::Replacement {
        let texts = target.texts();
        let (now, durable) = (store.time.parameter(), target.scope.kind.is_durable());
        let mut values = Vec::with_capacity(5);
        values.extend(target.values(&texts));
        let own: [Value<'_>; 2] = [(&now, Type::INT8), (&durable, Type::BOOL)];
        values.extend(own);
        transaction.query(&store.statements.drop, &values).await?;
    }
    let keys = Arc::new(Mutex::new(Vec::new()));
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

/// Notes the keys of records as they pass.
struct Noting {
    records: RecordStream,
    keys: Arc<Mutex<Vec<String>>>,
}

impl Stream for Noting {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.records.as_mut().poll_next(context);
        if let Poll::Ready(Some(Ok(record))) = &next {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.push(record.entry.key.as_str().to_owned());
        }
        next
    }
}

/// EXP-15: removes every entry whose key is not among these, as deletes do.
async fn remove_others(
    store: &Store,
    target: &Target,
    transaction: &Transaction<'_>,
    keys: &[String],
) -> Result<()> {
    let texts = target.texts();
    let sql = store.named(
        "SELECT e.key FROM @schema@.scope s JOIN @schema@.entry e ON e.tenant = s.tenant AND e.space = s.space \
         WHERE s.tenant = $1 AND s.kind = $2 AND s.name = $3 \
         AND NOT EXISTS (SELECT FROM unnest($4::text[]) n (key) WHERE n.key = e.key)",
    );
    let [tenant, kind, name] = target.values(&texts);
    let others = transaction.query(&sql, &[tenant, kind, name, (&keys, Type::TEXT_ARRAY)]).await?;
    let (now, any) = (store.time.parameter(), Expected::from(Expect::Any));
    for other in &others {
        let key: &str = column(other, 0, "key")?;
        let mut values = Vec::with_capacity(8);
        values.extend(target.values(&texts));
        let own: [Value<'_>; 5] = [
            (&now, Type::INT8),
            (&key, Type::TEXT),
            (&any.kind, Type::INT2),
            (&any.version, Type::INT8),
            (&any.sha256, Type::BYTEA),
        ];
        values.extend(own);
        transaction.query(&store.statements.delete, &values).await?;
    }
    Ok(())
}

async fn steps(
    store: &Store,
    target: &Target,
    mut records: RecordStream,
    options: ImportOptions,
    within: Option<&Transaction<'_>>,
    judge: Option<&Judge>,
) -> Result<ImportOutcome> {
    let mut outcome = ImportOutcome::default();
    let mut index = 0_u64;
    loop {
        let (step, end) = match within {
            None => next_step(&mut records).await,
            // Others wait for the scope meanwhile.
            Some(_) => tokio::time::timeout(PATIENCE, next_step(&mut records)).await.map_err(|_| {
                Error::new(
                    ErrorKind::Timeout,
                    "the import was given up, and nothing of it is stored: its next record did not come in time",
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

/// A step that is judged in a transaction of its own.
async fn judged_step(
    store: &Store,
    target: &Target,
    step: Vec<Record>,
    options: ImportOptions,
    outcome: &mut ImportOutcome,
) -> Result<(ImportOutcome, Option<(u64, Error)>)> {
    let mut connection = store.connections.take().await?;
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    let judge = Judge::over(store, &target.scope, &transaction).await?;
    let given = step.len() as u64;
    let (step, numbers) = judge.take(step, options.taken);
    outcome.forgotten += given - numbers.len() as u64;
    if step.is_empty() {
        transaction.commit().await?;
        return Ok((ImportOutcome::default(), None));
    }
    match import_step(store, target, &step, options, Some(&transaction)).await {
        // Records before a refused one stay.
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

/// Takes the next records off the stream; the second is its end, with its error. A malformed record is an end.
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
        return Err(Error::invalid("the text of a record's vector holds a NUL; remove it"));
    }
    Ok(())
}

/// Memory that a record takes, about.
fn record_bytes(record: &Record) -> usize {
    let of_vector =
        |vector: &RecordVector| vector.vector.len() * 4 + vector.text.as_ref().map_or(0, String::len);
    let vectors = record.vectors.iter().map(of_vector).sum::<usize>();
    usize::try_from(record.entry.size_bytes()).unwrap_or(usize::MAX).saturating_add(vectors)
}

/// The vectors of records, by columns.
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

/// What one transaction of an import did, and the record that ended it.
async fn import_step(
    store: &Store,
    target: &Target,
    records: &[Record],
    options: ImportOptions,
    within: Option<&Transaction<'_>>,
) -> Result<(ImportOutcome, Option<(u64, Error)>)> {
    let texts = target.texts();
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
        let marks = Marks::of(&target.digest, &entry.search_text(), &entry.metadata, entry.source.as_ref());
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
    let mut values = Vec::with_capacity(29);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 3] = [(&now, Type::INT8), (&existing, Type::INT2), (&lexicon, Type::INT2)];
    values.extend(own);
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
    let written = Written::read(&row)?;
    let at = u64::try_from(column::<i32>(&row, 8, "outcome")?).map_err(|_| malformed("outcome"))?;
    let mut outcome = ImportOutcome::default();
    outcome.created = unsigned(&row, 9, "count")?;
    outcome.replaced = unsigned(&row, 10, "count")?;
    outcome.skipped = unsigned(&row, 11, "count")?;
    outcome.expired = unsigned(&row, 12, "count")?;
    let refused = match at.checked_sub(1) {
        Some(index) => written
            .judge(Given { ttl: Ttl::Keep, quota: &options.quota, model: None })
            .err()
            .map(|error| (index, error)),
        None => None,
    };
    Ok((outcome, refused))
}
