//! The size of a scope's database, and vacuuming when dead rows fill it.

use std::sync::Arc;

use memory_core::sql::SqlUsage;
use memory_core::{ErrorKind, Result, Scope};
use tokio::time::Instant;
use tokio_postgres::types::Type;

use crate::sql::engine::Engine;
use crate::sql::errors;
use crate::sql::pool::{Leased, ScopeState};
use crate::sql::protocol::FORGET;
use crate::sql::protocol::deadline::limits;
use crate::sql::protocol::exchange::{Exchange, never};
use crate::sql::protocol::results::Sink;
use crate::sql::statement::execute::Asked;
use crate::sql::statement::run::Ran;

/// The size of a scope's database, according to the registry.
pub(crate) struct StoredUsage {
    pub(crate) written: bool,
    pub(crate) crowded: bool,
    pub(crate) bytes: u64,
}

impl Engine {
    pub(crate) async fn usage(self: &Arc<Self>, scope: &Scope) -> Result<SqlUsage> {
        self.wake()?;
        let state = self.pool.scope(scope);
        self.settled(&state).await?;
        let bytes = match self.filled(&state).await? {
            Some(filled) if filled.written => self.bytes(&state, &filled).await?,
            _ => 0,
        };
        Ok(SqlUsage::new(bytes, self.config.quota_bytes))
    }

    async fn filled(&self, state: &ScopeState) -> Result<Option<StoredUsage>> {
        let rows = self
            .admin
            .look(
                "SELECT written, crowded, mem_sql.bytes_of(hex) FROM mem_sql.scopes WHERE hex = $1",
                &[(&state.hex.as_str(), Type::TEXT)],
            )
            .await?;
        Ok(rows.first().map(|row| StoredUsage {
            written: row.get(0),
            crowded: row.get(1),
            bytes: u64::try_from(row.get::<_, i64>(2)).unwrap_or_default(),
        }))
    }

    /// The bytes that count: those of its files, or, if dead rows make the files larger than the quota, those of live
    /// rows.
    pub(crate) async fn bytes(
        self: &Arc<Self>,
        state: &Arc<ScopeState>,
        filled: &StoredUsage,
    ) -> Result<u64> {
        if !filled.crowded {
            return Ok(filled.bytes);
        }
        let rows = self.ask(state, "SELECT mem_sql.my_living_bytes()").await?;
        Ok(rows
            .first()
            .and_then(|row| row.first())
            .and_then(|bytes| bytes.parse().ok())
            .unwrap_or(filled.bytes))
    }

    /// The result of the runtime's own query, run with the scope's rights.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        state: &Arc<ScopeState>,
        sql: &str,
    ) -> Result<Vec<Vec<String>>> {
        let deadline = self.deadline(None);
        let mut leased = self.session(state, deadline).await?;
        let words = format!("BEGIN READ ONLY; {}", limits(deadline));
        let asked = ask(&mut leased, &[words.as_str(), sql, "ROLLBACK"], 1, deadline).await;
        self.after(leased, asked)
    }

    fn after(&self, mut leased: Leased, asked: Result<Vec<Vec<String>>>) -> Result<Vec<Vec<String>>> {
        let sound = asked.is_ok();
        if sound {
            leased.session.query(FORGET);
            // Sent with the next statement.
            leased.session.unread += 1;
            self.pool.rest(leased);
        } else {
            self.pool.retire(leased);
        }
        asked
    }

    /// Removes dead rows when a statement exceeded the quota or freed space, so that they no longer count.
    pub(crate) async fn settle_quota(
        self: &Arc<Self>,
        state: &Arc<ScopeState>,
        asked: &Asked,
        done: &Result<Ran>,
    ) {
        let Some((quota, room)) = asked.quota_check.and_then(|room| Some((room.quota?, room))) else {
            return;
        };
        let found_none = matches!(done, Err(error) if error.kind() == ErrorKind::QuotaExceeded);
        if found_none {
            // What it wrote is dead now, but still in the files.
            let noted = self
                .admin
                .change(
                    "UPDATE mem_sql.scopes SET crowded = true WHERE hex = $1 AND written AND NOT crowded",
                    &[(&state.hex.as_str(), Type::TEXT)],
                )
                .await;
            if let Err(error) = noted {
                tracing::warn!(%error, "the size of a scope could not be recorded");
            }
        }
        if found_none || (room.frees && done.is_ok()) {
            let (engine, state) = (Arc::clone(self), Arc::clone(state));
            tokio::spawn(async move {
                if let Err(error) = engine.tidy(&state, quota).await {
                    tracing::debug!(%error, "dead rows of a scope could not be vacuumed; autovacuum will do it");
                }
            });
        }
    }

    async fn tidy(self: &Arc<Self>, state: &Arc<ScopeState>, quota: u64) -> Result<()> {
        match self.filled(state).await? {
            Some(filled) if filled.crowded || filled.bytes > quota => {}
            _ => return Ok(()),
        }
        let deadline = self.deadline(None);
        let tables = self.ask(state, "SELECT name FROM mem_sql.my_relations() WHERE kind <> 'S'").await?;
        let tables: Vec<String> = tables.into_iter().flatten().collect();
        if tables.is_empty() {
            return Ok(());
        }
        let mut leased = self.session(state, deadline).await?;
        let left = deadline.saturating_duration_since(Instant::now()).as_millis().max(1);
        let timeout = format!("SET statement_timeout = {left}");
        let vacuum = format!("VACUUM (SKIP_LOCKED) {}", tables.join(", "));
        let ease = format!("SELECT mem_sql.ease({})", i64::try_from(quota).unwrap_or(i64::MAX));
        let asked = ask(&mut leased, &[timeout.as_str(), vacuum.as_str(), ease.as_str()], 2, deadline).await;
        self.after(leased, asked).map(drop)
    }
}

/// Runs the runtime's own statements one after another; returns the rows of one of them.
async fn ask(
    leased: &mut Leased,
    words: &[&str],
    wanted: usize,
    deadline: Instant,
) -> Result<Vec<Vec<String>>> {
    let mut exchange = Exchange::new(&mut leased.session, never(), deadline);
    words.iter().for_each(|one| exchange.session.query(one));
    exchange.send().await.map_err(errors::broken)?;
    let mut answer = Vec::new();
    for at in 0..words.len() {
        let mut sink = Sink::texts();
        let heard = exchange.receive(&mut sink).await.map_err(errors::broken)?;
        if let Some(refused) = heard.fault {
            return Err(errors::statement(&refused));
        }
        if at == wanted {
            answer = sink.into_texts();
        }
    }
    Ok(answer)
}
