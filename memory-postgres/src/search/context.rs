//! One search: its connection or snapshot, and the scope.

use memory_core::{EmbeddingModel, Result, SearchQuery, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::{Connection, Transaction};
use crate::error::Effect;
use crate::store::Store;
use crate::store::columns::{column, time, unsigned};
use crate::store::parameters::{ModelValues, Value};
use crate::store::scope_ref::ScopeRef;

/// The scope as of the snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Searched {
    pub(super) space: i64,
    /// Live entries, and the total number of their words.
    pub(super) entries: u64,
    pub(super) tokens: u64,
    /// Vectors of any model.
    pub(super) vectors: u64,
    pub(super) now: Timestamp,
    /// The number of the embedder's model; `None` if it has no vectors here.
    pub(super) model: Option<i32>,
    /// Whether the scope's vectors of that model are indexed.
    pub(super) indexed: bool,
    /// Whether there are vectors, and none of that model.
    pub(super) all_stale: bool,
}

/// Where a search reads: in one snapshot for all its statements, or one per statement.
#[derive(Clone, Copy)]
pub(super) enum Reading<'a> {
    Snapshot(&'a Transaction<'a>),
    Connection(&'a Connection),
}

impl Reading<'_> {
    pub(super) async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        match self {
            Self::Snapshot(snapshot) => snapshot.query(sql, values).await,
            Self::Connection(connection) => connection.query(sql, values, Effect::None).await,
        }
    }

    /// Runs a statement that is planned for these values and not cached.
    pub(super) async fn query_once(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        match self {
            Self::Snapshot(snapshot) => snapshot.query_once(sql, values).await,
            Self::Connection(connection) => connection.query_once(sql, values).await,
        }
    }

    /// Settings for later statements; without a transaction there are none.
    pub(super) async fn set(&self, settings: &str) -> Result<()> {
        match self {
            Self::Snapshot(snapshot) => snapshot.batch(settings).await,
            Self::Connection(_) => Ok(()),
        }
    }
}

/// One search.
pub(super) struct Search<'a> {
    pub(super) store: &'a Store,
    pub(super) reading: Reading<'a>,
    pub(super) target: &'a ScopeRef,
    pub(super) query: &'a SearchQuery,
    pub(super) model: Option<&'a EmbeddingModel>,
}

impl Search<'_> {
    /// The scope, and the length of its vectors of the same model if it differs.
    pub(super) async fn scope_and_mismatch(&self) -> Result<(Option<Searched>, Option<i32>)> {
        let model = ModelValues::from(self.model);
        let now = self.store.time.parameter();
        let [tenant, kind, name] = self.target.values();
        let [provider, model_name, dimensions] = model.values();
        let values: [Value<'_>; 7] =
            [tenant, kind, name, (&now, Type::INT8), provider, model_name, dimensions];
        let rows = self.reading.query(&self.store.statements.searched, &values).await?;
        let Some(row) = rows.first() else { return Ok((None, None)) };
        let searched = Searched {
            space: column(row, 0, "space")?,
            entries: unsigned(row, 1, "counter")?,
            tokens: unsigned(row, 2, "counter")?,
            vectors: unsigned(row, 3, "counter")?,
            now: time(column(row, 4, "time")?)?,
            model: column(row, 5, "model")?,
            indexed: column(row, 6, "index")?,
            all_stale: column(row, 8, "model")?,
        };
        Ok((Some(searched), column(row, 7, "model")?))
    }

    pub(super) async fn searched(&self) -> Result<Option<Searched>> {
        Ok(self.scope_and_mismatch().await?.0)
    }
}
