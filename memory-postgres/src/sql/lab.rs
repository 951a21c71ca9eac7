//! Access beyond the facet, for the corpus runner and the tests of single layers.

use std::fmt::Write as _;
use std::future::poll_fn;

use memory_core::{Result, Scope};
use memory_validator::Stages;
use tokio_postgres::types::Type;

use crate::provider::PostgresProvider;
use crate::sql::errors;
use crate::sql::protocol::deadline::{COMMIT_PATIENCE, limits};
use crate::sql::protocol::exchange::run_own;
use crate::sql::protocol::results::Sink;

impl PostgresProvider {
    /// Switches some of the validator's stages off. Call before the first statement.
    #[must_use]
    pub fn with_stages(self, stages: Stages) -> Self {
        if let Some(engine) = &self.sql {
            engine.set_stages(stages);
        }
        self
    }
}

/// Runs a script in a scope's database as its role, without the validator.
///
/// # Errors
/// The engine's errors.
pub async fn load_script(provider: &PostgresProvider, scope: &Scope, sql: &str) -> Result<()> {
    let engine = provider.engine()?;
    engine.wake()?;
    let deadline = engine.deadline(None);
    let state = engine.pool.scope(scope);
    let guard = engine.lock(&state, deadline).await?;
    let mut leased = engine.session(&state, deadline).await?;
    let begin = format!("BEGIN; {}; SELECT mem_sql.enter({})", limits(deadline), leased.session.generation);
    let deadline = tokio::time::Instant::now() + COMMIT_PATIENCE;
    let mut done = Ok(());
    for words in [begin.as_str(), sql, "SELECT mem_sql.settle(NULL, true)", "COMMIT"] {
        let heard = run_own(&mut leased.session, words, deadline, &mut Sink::default()).await;
        if let Some(refused) = heard.map_err(errors::broken)?.fault {
            done = Err(errors::statement(&refused));
            break;
        }
    }
    engine.pool.retire(leased);
    drop(guard);
    done
}

/// The contents of a scope's database as text to compare: definitions, rows, positions of sequences, and the role's
/// settings.
///
/// # Errors
/// The engine's errors.
pub async fn dump_text(provider: &PostgresProvider, scope: &Scope) -> Result<String> {
    let engine = provider.engine()?;
    let mut dump = engine.dump(scope).await?;
    let mut text = String::new();
    while let Some(line) = poll_fn(|context| dump.as_mut().poll_next(context)).await {
        let _ = writeln!(text, "{}", String::from_utf8_lossy(&line?));
    }
    let role = engine.pool.scope(scope).hex.role();
    let settings = engine
        .admin
        .look(
            "SELECT s.setdatabase = 0, s.setconfig FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase \
             WHERE s.setrole = to_regrole($1) AND coalesce(d.datname, current_database()) = current_database() ORDER BY 1",
            &[(&role, Type::TEXT)],
        )
        .await?;
    for row in settings {
        let _ = writeln!(text, "{:?} {:?}", row.get::<_, bool>(0), row.get::<_, Vec<String>>(1));
    }
    Ok(text)
}

/// Number of idle connections.
#[must_use]
pub fn resting_connections(provider: &PostgresProvider) -> usize {
    provider.sql.as_ref().map_or(0, |engine| engine.pool.count_resting())
}

/// The role and the schema of a scope.
#[must_use]
pub fn names_of(scope: &Scope) -> (String, String) {
    let hex = crate::store::hex::Hex::of(scope);
    (hex.role(), hex.schema())
}
