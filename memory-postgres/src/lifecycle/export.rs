//! Export of a scope.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use memory_core::{EmbeddingModel, Error, ListQuery, Record, RecordStream, RecordVector, Result, Stream};
use tokio::sync::mpsc;
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::Type;

use crate::connect::Transaction;
use crate::error::malformed;
use crate::kv::snapshot::Snapshot;
use crate::kv::{read, row};
use crate::store::Store;
use crate::store::columns::column;
use crate::store::parameters::Values;
use crate::store::scope_ref::ScopeRef;

/// Records per page of an export.
const PAGE: usize = 128;
/// How long a reader may leave a page unread: an open transaction delays the server's vacuum.
const PATIENCE: Duration = Duration::from_secs(60);

type Page = Result<Vec<Record>>;

/// EXP-1: exports a scope. All pages come from one snapshot, over a dedicated connection.
pub(crate) fn export(store: &Arc<Store>, target: ScopeRef, at: Option<Snapshot>) -> RecordStream {
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

/// The stream of records.
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
    target: &ScopeRef,
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
        let sql = read::page(store, target, &query, after.as_deref(), PAGE as u64, &mut values);
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
            // The reader is gone.
            Ok(Err(_)) => return Ok(()),
            Err(_) => {
                return Err(Error::timeout(
                    "the export was not read for a minute and has ended; start it again",
                ));
            }
        }
    }
}

async fn add_vectors(
    store: &Store,
    target: &ScopeRef,
    snapshot: &Transaction<'_>,
    records: &mut [Record],
) -> Result<()> {
    let keys: Vec<&str> = records.iter().map(|record| record.entry.key.as_str()).collect();
    let values = target.parameters([(&keys, Type::TEXT_ARRAY)]);
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
