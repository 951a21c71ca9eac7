//! The store that statements are tried on: the facet as agents get it, and beside it what loads a scope with the
//! runtime's rights, shows all it holds, and takes layers away.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory::{BackendUrl, OpenContext};
use memory_core::sql::{
    DumpStream, ExecOutcome, RestoreOutcome, Rows, SqlFacet, SqlScopePage, SqlScopesQuery, SqlUsage,
    SqlValue, StatementOptions, TableInfo, TxId, TxState,
};
use memory_core::{
    Backend as _, BackendExt as _, Capabilities, Checked, Error, Health, Json, Key, ListQuery, Provider,
    Result, RunContext, Scope, ScopeId, TenantId,
};
use memory_sqlite::SqliteProvider;
use memory_sqlite::lab::{self, Layers, Measured, Mode, Stages};

use super::line::Op;
use super::outside::SECRET;
use crate::settings::sqlite_url;

/// The tenant that statements run for.
pub(super) const TENANT: &str = "corpus";
/// Another tenant, with a user of the same name as the first scope tried.
const OTHER_TENANT: &str = "corpus-neighbour";

/// What to open.
#[derive(Clone, Debug)]
pub(super) struct How {
    pub(super) url: Option<String>,
    pub(super) folder: PathBuf,
    /// What a relative path of the URL is relative to.
    pub(super) base_dir: Option<PathBuf>,
    pub(super) no_validator: bool,
    pub(super) only_layer: Option<String>,
}

/// What a statement answered.
#[derive(Debug)]
pub(super) enum Answer {
    Rows(Rows),
    Done(ExecOutcome),
}

/// An opened store.
#[derive(Debug)]
pub(super) struct Lab {
    /// The facet as agents reach it.
    facet: Checked<Probe>,
    sqlite: Arc<SqliteProvider>,
    /// Of the last statement.
    peak: Arc<AtomicU64>,
    neighbours: Vec<Scope>,
    root: PathBuf,
}

impl Lab {
    /// Opens the store, `number` of this run, and puts neighbours into it.
    ///
    /// # Errors
    /// `invalid_argument` for a layer that is none, or a URL that is not SQLite's; as the store fails.
    pub(super) async fn open(how: &How, number: u64) -> Result<Self> {
        let (layers, stages) = layers(how)?;
        let url = match &how.url {
            Some(url) => url.clone(),
            None => {
                let file = how.folder.join(format!("store-{number}")).join("memory.db");
                format!("{}?durability=normal", sqlite_url(&file)?)
            }
        };
        let url = BackendUrl::parse(&url)?;
        if url.scheme() != "sqlite" {
            return Err(Error::invalid(
                "a corpus is tried on SQLite only, whose layers can be looked at; give --url sqlite:PATH, or none",
            ));
        }
        let mut context = OpenContext::default();
        context.base_dir.clone_from(&how.base_dir);
        let sqlite = memory::sqlite::open(&url, &context)?.with_layers(layers).with_stages(stages);
        let sqlite = Arc::new(sqlite);
        let peak = Arc::new(AtomicU64::new(0));
        let facet = Checked::new(Probe { sqlite: Arc::clone(&sqlite), peak: Arc::clone(&peak) })?;
        let neighbours = vec![Scope::user(OTHER_TENANT, "line-1")?, Scope::agent(TENANT, "line-1")?];
        let first = neighbours.first().map(|scope| lab::database_file(&sqlite, scope)).unwrap_or_default();
        // Root, tenant, scope, file.
        let root = first.ancestors().nth(3).map(Path::to_path_buf).unwrap_or_default();
        let lab = Self { facet, sqlite, peak, neighbours, root };
        for scope in &lab.neighbours {
            lab.sqlite.drop_sql_scope(scope).await?;
            lab.load(scope, &format!("CREATE TABLE notes(body); INSERT INTO notes VALUES('{SECRET}')"))
                .await?;
            lab.sqlite.put(scope, &Key::new("note/1")?, Json::string(SECRET)).await?;
        }
        Ok(lab)
    }

    /// Where the databases of scopes are.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a scope's own database is.
    pub(super) fn folder_of(&self, scope: &Scope) -> PathBuf {
        lab::database_file(&self.sqlite, scope).parent().map(Path::to_path_buf).unwrap_or_default()
    }

    /// Runs a script with the runtime's rights.
    ///
    /// # Errors
    /// As the engine has it.
    pub(super) async fn load(&self, scope: &Scope, script: &str) -> Result<()> {
        if script.trim().is_empty() { Ok(()) } else { lab::load_script(&self.sqlite, scope, script).await }
    }

    /// Everything the scope's database holds.
    ///
    /// # Errors
    /// As the engine has it.
    pub(super) async fn content(&self, scope: &Scope) -> Result<String> {
        lab::dump_text(&self.sqlite, scope).await
    }

    /// Everything that neighbours hold, in databases and as entries.
    ///
    /// # Errors
    /// As the engine has it.
    pub(super) async fn neighbours(&self) -> Result<String> {
        let mut all = String::new();
        for scope in &self.neighbours {
            all.push_str(&self.content(scope).await?);
            let entries = self.sqlite.list(scope, ListQuery::prefix("")).await?.entries;
            for entry in entries {
                all.push_str(&format!("{}={}@{}\n", entry.key, entry.value, entry.version));
            }
        }
        Ok(all)
    }

    /// Runs a statement as an agent does; its answer, and the memory it took where that is known.
    pub(super) async fn run(
        &self,
        run: &RunContext,
        scope: &Scope,
        op: Op,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> (Result<Answer>, u64) {
        self.peak.store(0, Ordering::Release);
        let answer = match op {
            Op::Exec => self.facet.exec(run, scope, sql, args, options).await.map(Answer::Done),
            Op::Query => self.facet.query(run, scope, sql, args, options).await.map(Answer::Rows),
        };
        (answer, self.peak.load(Ordering::Acquire))
    }

    /// # Errors
    /// As the store fails.
    pub(super) async fn drop_scope(&self, scope: &Scope) -> Result<()> {
        self.sqlite.drop_sql_scope(scope).await.map(drop)
    }

    /// Removes the neighbours and closes the store.
    pub(super) async fn close(self) {
        for scope in &self.neighbours {
            let _ = self.sqlite.drop_sql_scope(scope).await;
            let _ = self.sqlite.drop_scope(scope).await;
        }
        let _ = self.sqlite.close().await;
    }
}

fn layers(how: &How) -> Result<(Layers, Stages)> {
    const NO_STAGE: Stages = Stages { gate: false, grammar: false, walk: false };
    let Some(name) = how.only_layer.as_deref() else {
        return Ok((Layers::ALL, if how.no_validator { NO_STAGE } else { Stages::ALL }));
    };
    Ok(match name {
        "gate" => (Layers::NONE, Stages { gate: true, ..NO_STAGE }),
        "grammar" => (Layers::NONE, Stages { grammar: true, ..NO_STAGE }),
        "walk" => (Layers::NONE, Stages { walk: true, ..NO_STAGE }),
        _ => match Layers::only(name) {
            Some(layers) => (layers, NO_STAGE),
            None => {
                return Err(Error::invalid(format!(
                    "there is no such layer; --only-layer takes gate, grammar, walk, {}",
                    Layers::NAMES.join(", ")
                )));
            }
        },
    })
}

/// The store's SQL facet, keeping what each statement took.
#[derive(Debug)]
struct Probe {
    sqlite: Arc<SqliteProvider>,
    peak: Arc<AtomicU64>,
}

impl Probe {
    async fn measured(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
        mode: Mode,
    ) -> Result<Measured> {
        let measured = self.sqlite.measured(run, scope, sql, args, options, mode).await?;
        self.peak.store(measured.peak_bytes, Ordering::Release);
        Ok(measured)
    }
}

#[async_trait]
impl Provider for Probe {
    fn name(&self) -> &str {
        self.sqlite.name()
    }

    fn capabilities(&self) -> Capabilities {
        let served = self.sqlite.capabilities();
        let mut capabilities = Capabilities::none();
        capabilities.sql = served.sql;
        capabilities.sql_dialect = served.sql_dialect;
        capabilities.sql_transactions = served.sql_transactions;
        capabilities.sql_vectors = served.sql_vectors;
        capabilities.shared_schemas = served.shared_schemas;
        capabilities
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        Some(self)
    }

    async fn health(&self) -> Result<Health> {
        self.sqlite.health().await
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        self.sqlite.end_run(tenant, root_run).await
    }
}

#[async_trait]
impl SqlFacet for Probe {
    async fn exec(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome> {
        let measured = self.measured(run, scope, sql, args, options, Mode::Exec).await?;
        let mut outcome = ExecOutcome::default();
        (outcome.rows_affected, outcome.returning) = (measured.rows_affected, measured.rows);
        Ok(outcome)
    }

    async fn query(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows> {
        Ok(self.measured(run, scope, sql, args, options, Mode::Query).await?.rows.unwrap_or_default())
    }

    async fn begin(&self, run: &RunContext, scope: &Scope, parent: Option<&TxId>) -> Result<TxState> {
        self.sqlite.begin(run, scope, parent).await
    }

    async fn commit(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        self.sqlite.commit(run, scope, tx).await
    }

    async fn rollback(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        self.sqlite.rollback(run, scope, tx).await
    }

    async fn describe_tables(&self, run: &RunContext, scope: &Scope) -> Result<Vec<TableInfo>> {
        self.sqlite.describe_tables(run, scope).await
    }

    async fn sql_scopes(&self, tenant: &TenantId, query: SqlScopesQuery) -> Result<SqlScopePage> {
        self.sqlite.sql_scopes(tenant, query).await
    }

    async fn drop_sql_scope(&self, scope: &Scope) -> Result<bool> {
        self.sqlite.drop_sql_scope(scope).await
    }

    async fn sql_usage(&self, scope: &Scope) -> Result<SqlUsage> {
        self.sqlite.sql_usage(scope).await
    }

    async fn dump(&self, scope: &Scope) -> Result<DumpStream> {
        self.sqlite.dump(scope).await
    }

    async fn restore(&self, scope: &Scope, dump: DumpStream) -> Result<RestoreOutcome> {
        self.sqlite.restore(scope, dump).await
    }
}
