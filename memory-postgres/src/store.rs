//! What every operation shares.

use std::sync::Arc;

use memory_core::access::AccessCounts;
use memory_core::{Clock, Result};
use tokio::sync::{Mutex, Notify};

use crate::config::PostgresConfig;
use crate::connect::Connections;
use crate::kv::drift::Guard;
use crate::kv::statements::Statements;
use crate::kv::uses::Uses;
use crate::schema;

/// Whose "now" decides.
#[derive(Clone, Debug)]
pub(crate) enum Time {
    /// The server's, read in the statement that decides.
    Server,
    /// A clock that was handed over.
    Given(Arc<dyn Clock>),
}

impl Time {
    /// The parameter `$n bigint` of a statement that computes its time as
    /// `coalesce($n, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)`.
    pub(crate) fn parameter(&self) -> Option<i64> {
        match self {
            Self::Server => None,
            Self::Given(clock) => Some(clock.now().as_millis()),
        }
    }
}

/// Keys whose access counts are held in memory before they are written.
const HELD_ACCESSES: usize = 10_000;

/// An opened database.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: PostgresConfig,
    pub(crate) connections: Connections,
    pub(crate) time: Time,
    /// The schema that pgvector is installed in, quoted; `None`: it is not.
    pub(crate) vector: Option<String>,
    pub(crate) statements: Statements,
    pub(crate) guard: Guard,
    pub(crate) accesses: AccessCounts,
    pub(crate) uses: Uses,
    /// Held while access counts are written.
    pub(crate) flushing: Mutex<()>,
    /// Told when many access counts are held.
    pub(crate) full: Arc<Notify>,
}

impl Store {
    /// Connects, and brings the tables up to date where the configuration says so.
    ///
    /// # Errors
    /// `invalid_argument` for a configuration out of range; as connecting and [`schema::prepare`] fail.
    pub(crate) async fn open(config: PostgresConfig, time: Time) -> Result<Arc<Self>> {
        config.check()?;
        let connections = Connections::new(&config)?;
        let prepared = schema::prepare(&connections, &config).await?;
        let statements = Statements::new(&config.schema, prepared.vector.as_deref());
        let guard = Guard::read(&connections, &config.schema).await?;
        let uses = Uses::new(config.use_granularity_ms);
        Ok(Arc::new(Self {
            config,
            connections,
            time,
            vector: prepared.vector,
            statements,
            guard,
            accesses: AccessCounts::new(HELD_ACCESSES),
            uses,
            flushing: Mutex::default(),
            full: Arc::default(),
        }))
    }

    /// Puts the names into the text of a statement: see [`schema::named`].
    pub(crate) fn named(&self, template: &str) -> String {
        schema::named(template, &self.config.schema, self.vector.as_deref())
    }
}
