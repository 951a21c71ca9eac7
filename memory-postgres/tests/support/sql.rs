//! Two fresh databases, for entries and for agents' SQL, dropped with the value.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use memory_core::sql::{ExecOutcome, SqlFacet as _, StatementOptions};
use memory_core::{Result, RunContext, Scope, ScopeId};
use memory_postgres::{PostgresConfig, PostgresProvider, SqlConfig};
use tempfile::NamedTempFile;
use tokio_postgres::Client;

use crate::support::{Database, connect};

/// Databases for tests of agents' SQL.
#[derive(Debug)]
pub(crate) struct Place {
    entries: Database,
    agents: Database,
    key: NamedTempFile,
}

/// A run of an agent's, which may use this scope.
pub(crate) fn run_of(scope: &Scope) -> RunContext {
    RunContext::new(scope.tenant.clone(), ScopeId::new("a").unwrap(), ScopeId::new("r").unwrap())
}

/// Runs a statement with the default options.
pub(crate) async fn exec(provider: &PostgresProvider, scope: &Scope, sql: &str) -> Result<ExecOutcome> {
    provider.exec(&run_of(scope), scope, sql, &[], StatementOptions::default()).await
}

/// Runs a query with the default options; its rows as JSON.
pub(crate) async fn rows(provider: &PostgresProvider, scope: &Scope, sql: &str) -> Result<String> {
    let rows = provider.query(&run_of(scope), scope, sql, &[], StatementOptions::default()).await?;
    Ok(serde_json::to_string(&rows.rows).unwrap())
}

/// A private file with a key.
pub(crate) fn key_file() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
    file
}

impl Place {
    /// On the server that a variable names. `None` without one, after printing a note.
    pub(crate) fn fresh(variable: &str) -> Option<Self> {
        let variable = variable.to_owned();
        let made = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(Self::made(&variable))
        });
        made.join().unwrap()
    }

    /// As [`fresh`](Self::fresh), on a runtime.
    pub(crate) async fn made(variable: &str) -> Option<Self> {
        let entries = Database::on(variable).await?;
        let agents = Database::on(variable).await?;
        Some(Self { entries, agents, key: key_file() })
    }

    /// The administrator is the server's superuser.
    pub(crate) fn config(&self) -> PostgresConfig {
        let sql = SqlConfig::new(self.agents.url()).with_key_file(self.key.path());
        self.entries.config().with_sql(sql)
    }

    /// The file with the key of agents' passwords.
    pub(crate) fn key_file(&self) -> &Path {
        self.key.path()
    }

    /// What another process needs to open them: the two URLs and the key's file, separated by spaces.
    pub(crate) fn given(&self) -> String {
        format!("{} {} {}", self.entries.url(), self.agents.url(), self.key.path().display())
    }

    /// The URL of the database for agents.
    pub(crate) fn url(&self) -> String {
        self.agents.url()
    }

    /// A superuser connection to the database for agents.
    pub(crate) async fn client(&self) -> Client {
        connect(&self.agents.url()).await
    }

    /// Runs statements as the superuser in the database for agents.
    pub(crate) fn run(&self, sql: &str) {
        let (url, sql) = (self.agents.url(), sql.to_owned());
        let run = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { connect(&url).await.batch_execute(&sql).await.unwrap() });
        });
        run.join().unwrap();
    }
}
