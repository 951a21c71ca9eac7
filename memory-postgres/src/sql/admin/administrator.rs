//! The administrator's role: creates and drops the schemas and roles of scopes, and reads the registry. It never runs
//! an agent's statement, or anything defined by an agent.

use std::pin::Pin;
use std::time::Duration;

use memory_core::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::{Connections, Parameters};
use crate::error::{Effect, state_of};
use crate::sql::names::Key;
use crate::store::hex::Hex;

/// How often to try a change that conflicts with others.
const TRIES: u32 = 12;

/// A pending query.
type Asking<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>>> + Send + 'a>>;

/// Connections of the administrator's role.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) connections: Connections,
}

/// A scope to provision.
pub(crate) struct NewScope<'a> {
    pub(crate) hex: &'a Hex,
    pub(crate) tenant: &'a str,
    pub(crate) kind: i16,
    pub(crate) id: &'a str,
    pub(crate) settings: &'a [String],
    pub(crate) connections: i32,
}

/// A database that waits for the decision whether to remove it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) token: i64,
    pub(crate) bytes: u64,
}

/// The outcome of [`Admin::leave`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Leave {
    /// There is no database.
    Nothing,
    /// Somebody writes to the database.
    Busy,
    Waits(Left),
    /// It is waiting already, under this number.
    Asked(i64),
}

impl Admin {
    /// Rows of a read-only statement.
    pub(crate) fn look<'a>(&'a self, sql: &'a str, parameters: Parameters<'a>) -> Asking<'a> {
        Box::pin(async move { self.connections.read().await?.query(sql, parameters, Effect::None).await })
    }

    /// Rows of an idempotent change. It is tried again after a conflict, or if its outcome is unknown.
    pub(crate) fn change<'a>(&'a self, sql: &'a str, parameters: Parameters<'a>) -> Asking<'a> {
        Box::pin(self.change_now(sql, parameters))
    }

    async fn change_now(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>> {
        let mut tries = 0;
        loop {
            let connection = self.connections.take().await?;
            let error = match connection.query(sql, parameters, Effect::None).await {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            drop(connection);
            tries += 1;
            // Others created or dropped a role, changed the same row of a catalog, or hold a lock.
            let passes = matches!(
                state_of(&error),
                Some("40P01" | "40001" | "XX000" | "42710" | "23505" | "42P06" | "42704")
            );
            if !(passes && tries < TRIES) {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(u64::from(tries * tries))).await;
        }
    }

    /// The generation of a scope's database; `None` if it must be created or repaired.
    pub(crate) async fn find(&self, hex: &Hex) -> Result<Option<i64>> {
        let rows = self.look("SELECT mem_sql.find($1)", &[(&hex.as_str(), Type::TEXT)]).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    /// Creates a scope's schema and role, or the missing parts; returns the generation of its database.
    pub(crate) async fn provision(&self, new: &NewScope<'_>, key: &Key) -> Result<i64> {
        // Hashing takes some milliseconds.
        let (key, role) = (key.clone(), new.hex.role());
        let verifier = tokio::task::spawn_blocking(move || key.verifier(&role))
            .await
            .map_err(|error| Error::internal("a password could not be derived").with_source(error))?;
        let rows = self
            .change(
                "SELECT mem_sql.provision($1, $2, $3, $4, $5, $6, $7)",
                &[
                    (&new.hex.as_str(), Type::TEXT),
                    (&new.tenant, Type::TEXT),
                    (&new.kind, Type::INT2),
                    (&new.id, Type::TEXT),
                    (&verifier, Type::TEXT),
                    (&new.settings, Type::TEXT_ARRAY),
                    (&new.connections, Type::INT4),
                ],
            )
            .await?;
        rows.first()
            .and_then(|row| row.get::<_, Option<i64>>(0))
            .ok_or_else(|| Error::internal("a scope was created without a generation"))
    }

    /// Drops a scope's role and schema; returns whether anything had been committed there. With a token, only the
    /// database that waits under it. Waits for writers, then terminates them.
    pub(crate) async fn remove(&self, hex: &Hex, token: Option<i64>) -> Result<bool> {
        let values = [(&hex.as_str() as _, Type::TEXT), (&token as _, Type::INT8)];
        let rows = self.patiently(hex, "SELECT mem_sql.remove($1, $2)", &values).await?;
        Ok(rows.first().and_then(|row| row.get(0)).unwrap_or_default())
    }

    /// Marks a scope's database as waiting for the decision whether to remove it. With `waits`, waits for writers, then
    /// terminates them.
    pub(crate) async fn leave(&self, hex: &Hex, waits: bool) -> Result<Leave> {
        const LEAVE: &str = "SELECT * FROM mem_sql.leave($1, $2)";
        let values = [(&hex.as_str() as _, Type::TEXT), (&waits as _, Type::BOOL)];
        let rows = if waits {
            self.patiently(hex, LEAVE, &values).await?
        } else {
            self.change(LEAVE, &values).await?
        };
        let row = rows.first().ok_or_else(|| Error::internal("a function returned no row"))?;
        Ok(match row.get::<_, Option<i64>>(0) {
            _ if row.get::<_, bool>(2) => Leave::Busy,
            None => Leave::Nothing,
            Some(token) if row.get::<_, bool>(3) => Leave::Asked(token),
            Some(token) => {
                let bytes = row.get::<_, Option<i64>>(1).and_then(|bytes| u64::try_from(bytes).ok());
                Leave::Waits(Left { token, bytes: bytes.unwrap_or_default() })
            }
        })
    }

    /// Rows of a change that needs a scope exclusively. Waits for its users, then terminates them.
    async fn patiently(&self, hex: &Hex, sql: &str, values: Parameters<'_>) -> Result<Vec<Row>> {
        let role = hex.role();
        for patience in ["2s", "5s", "10s"] {
            let sessions: Vec<i32> = self.sessions_of(&role).await?;
            let mut connection = self.connections.take().await?;
            let transaction =
                connection.transaction(tokio_postgres::IsolationLevel::ReadCommitted, false).await?;
            let done = async {
                transaction.batch(&format!("SET LOCAL lock_timeout = '{patience}'")).await?;
                transaction.query(sql, values).await
            }
            .await;
            match done {
                Ok(rows) => {
                    transaction.commit().await?;
                    self.terminate(&sessions).await;
                    return Ok(rows);
                }
                Err(error) if matches!(state_of(&error), Some("55P03" | "40P01" | "XX000" | "57014")) => {
                    drop(transaction);
                    drop(connection);
                    self.terminate(&sessions).await;
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable(
            "others used the scope's database for too long; nothing was dropped, try again",
        ))
    }

    /// The role's sessions in this database. Another database of the server may have a scope of the same name, and so the
    /// same role.
    async fn sessions_of(&self, role: &str) -> Result<Vec<i32>> {
        const SESSIONS: &str =
            "SELECT pid FROM pg_stat_activity WHERE usename = $1::text AND datname = current_database()";
        let rows = self.look(SESSIONS, &[(&role, Type::TEXT)]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Terminates sessions. If the server refuses, they end once they are idle.
    pub(crate) async fn terminate(&self, sessions: &[i32]) {
        if sessions.is_empty() {
            return;
        }
        let ended = self
            .look(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE pid = ANY ($1) AND starts_with(usename::text, 'mem_r_') AND datname = current_database()",
                &[(&sessions, Type::INT4_ARRAY)],
            )
            .await;
        if let Err(error) = ended {
            tracing::debug!(%error, "sessions of a scope could not be ended");
        }
    }
}
