//! An open database: what all operations share.

pub(crate) mod columns;
pub(crate) mod guard;
pub(crate) mod hex;
pub(crate) mod last_use;
pub(crate) mod parameters;
pub(crate) mod scope_ref;
pub(crate) mod statements;
mod time;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use memory_core::Result;
use memory_core::access::AccessCounts;
use tokio::sync::{Mutex, Notify};
use tokio_postgres::Row;

use crate::config::PostgresConfig;
use crate::connect::{Connections, is_transient};
use crate::error::Effect;
use crate::schema;
use crate::store::guard::Guard;
use crate::store::last_use::LastUses;
use crate::store::parameters::Value;
use crate::store::statements::Statements;

pub(crate) use time::Time;

/// How often to try a write that conflicts with other transactions.
pub(crate) const ATTEMPTS: usize = 5;

/// Keys whose access counts are held in memory before they are written.
const HELD_ACCESSES: usize = 10_000;

/// An open database.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: PostgresConfig,
    pub(crate) connections: Connections,
    pub(crate) time: Time,
    /// The schema of pgvector, quoted; `None` if not installed.
    pub(crate) vector: Option<String>,
    pub(crate) statements: Statements,
    pub(crate) guard: Guard,
    pub(crate) accesses: AccessCounts,
    pub(crate) uses: LastUses,
    /// Whether it was logged that entries were embedded by a model other than the current one.
    pub(crate) told_stale: AtomicBool,
    /// Held while access counts are written.
    pub(crate) flushing: Mutex<()>,
    /// Notified when many access counts are held in memory.
    pub(crate) full: Arc<Notify>,
}

impl Store {
    /// Connects, and migrates the tables if configured. Fails with `invalid_argument` for a configuration out of range;
    /// otherwise as connecting and [`schema::prepare`] do.
    pub(crate) async fn open(config: PostgresConfig, time: Time) -> Result<Arc<Self>> {
        config.check()?;
        let connections = Connections::new(&config)?;
        let prepared = schema::prepare(&connections, &config).await?;
        let statements = Statements::new(&config.schema, prepared.vector.as_deref());
        let guard = Guard::read(&connections, &config.schema).await?;
        let uses = LastUses::new(config.use_granularity_ms);
        Ok(Arc::new(Self {
            config,
            connections,
            time,
            vector: prepared.vector,
            statements,
            guard,
            accesses: AccessCounts::new(HELD_ACCESSES),
            uses,
            told_stale: AtomicBool::new(false),
            flushing: Mutex::default(),
            full: Arc::default(),
        }))
    }

    /// Substitutes this database's names in a statement: see [`schema::named`].
    pub(crate) fn named(&self, template: &str) -> String {
        schema::named(template, &self.config.schema, self.vector.as_deref())
    }
}

impl Store {
    /// Runs a statement that writes in its own transaction, and returns its row. Tries again after conflicts with other
    /// transactions.
    pub(crate) async fn write(&self, sql: &str, values: &[Value<'_>]) -> Result<Row> {
        let mut attempt = 1;
        loop {
            let connection = self.connections.take().await?;
            match connection.query_one(sql, values, Effect::Commits).await {
                Err(error) if attempt < ATTEMPTS && is_transient(&error) => attempt += 1,
                done => return done,
            }
        }
    }
}
