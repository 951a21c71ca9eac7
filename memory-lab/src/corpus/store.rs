//! The store under attack: the facet that agents use, and privileged access that fills a scope, reads all its contents and
//! switches layers off.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::{BackendUrl, OpenContext};
use memory_core::sql::{ExecOutcome, Rows, SqlValue, StatementOptions};
use memory_core::{
    Backend as _, BackendExt as _, Checked, Error, Json, Key, ListQuery, Provider as _, Result, RunContext,
    Scope, SqlDialect, SqlFacet,
};
use memory_postgres::{PostgresProvider, SqlConfig};
use memory_server::terminal::sqlite_url;
use memory_sqlite::SqliteProvider;
use memory_sqlite::lab::{self, Layers, Stages};

use super::line::Op;
use super::outside::SECRET;

/// The tenant of the statements.
pub(super) const TENANT: &str = "corpus";
/// Another tenant, with a user of the same name as the first scope tried.
const OTHER_TENANT: &str = "corpus-neighbour";

/// What to open.
#[derive(Clone, Debug)]
pub(super) struct StoreOptions {
    pub(super) url: Option<String>,
    pub(super) folder: PathBuf,
    /// The folder that relative paths of the URL start from.
    pub(super) base_dir: Option<PathBuf>,
    pub(super) no_validator: bool,
    pub(super) only_layer: Option<String>,
}

/// The result of a statement.
#[derive(Debug)]
pub(super) enum Answer {
    Rows(Rows),
    Done(ExecOutcome),
}

/// A backend whose layers can be switched off.
#[derive(Debug)]
enum Backend {
    Sqlite(Arc<SqliteProvider>),
    Postgres(Arc<PostgresProvider>),
}

/// An opened store.
#[derive(Debug)]
pub(super) struct TestStore {
    /// The facet that agents use.
    facet: Box<dyn SqlFacet>,
    backend: Backend,
    neighbours: Vec<Scope>,
    root: PathBuf,
}

impl TestStore {
    /// Opens the store and creates the neighbours.
    ///
    /// # Errors
    /// `invalid_argument` for an unknown layer or another backend; errors of the store.
    pub(super) async fn open(options: &StoreOptions) -> Result<Self> {
        let url = match &options.url {
            Some(url) => url.clone(),
            None => {
                let file = options.folder.join("store").join("memory.db");
                format!("{}?durability=normal", sqlite_url(&file)?)
            }
        };
        let url = BackendUrl::parse(&url)?;
        let mut context = OpenContext::default();
        context.base_dir.clone_from(&options.base_dir);
        let neighbours = vec![Scope::user(OTHER_TENANT, "line-1")?, Scope::agent(TENANT, "line-1")?];
        let opened = match url.scheme() {
            "sqlite" => {
                let (layers, stages) = layers(options)?;
                let config = memory::sqlite::config(&url, context.base_dir.as_deref())?;
                let clock = Arc::clone(&context.clock);
                let sqlite = match memory::sqlite::file(&url, context.base_dir.as_deref())? {
                    Some(file) => SqliteProvider::open(file, config, clock)?,
                    None => SqliteProvider::open_in_memory(config, clock)?,
                };
                let sqlite = Arc::new(sqlite.with_layers(layers).with_stages(stages));
                let first =
                    neighbours.first().map(|scope| lab::database_file(&sqlite, scope)).unwrap_or_default();
                // The path is root/tenant/scope/file.
                let root = first.ancestors().nth(3).map(Path::to_path_buf).unwrap_or_default();
                let facet = Box::new(Checked::new(Arc::clone(&sqlite))?);
                Self { facet, backend: Backend::Sqlite(sqlite), neighbours, root }
            }
            "postgres" | "postgresql" => {
                let postgres = Arc::new(Box::pin(postgres(&url, &context, options)).await?);
                let facet = Box::new(Checked::new(Arc::clone(&postgres))?);
                // The server's files are not watched; changes show in the scopes' contents.
                let root = options.folder.join("no-files");
                Self { facet, backend: Backend::Postgres(postgres), neighbours, root }
            }
            _ => {
                return Err(Error::invalid(
                    "a corpus runs only on SQLite or PostgreSQL; give --url sqlite:PATH or postgres://…, or no --url for a \
                     fresh SQLite file",
                ));
            }
        };
        for scope in &opened.neighbours {
            opened.drop_scope(scope).await?;
            opened
                .load(scope, &format!("CREATE TABLE notes(body text); INSERT INTO notes VALUES('{SECRET}')"))
                .await?;
            if let Backend::Sqlite(sqlite) = &opened.backend {
                sqlite.put(scope, &Key::new("note/1")?, Json::string(SECRET)).await?;
            }
        }
        Ok(opened)
    }

    pub(super) fn dialect(&self) -> SqlDialect {
        match self.backend {
            Backend::Sqlite(_) => SqlDialect::Sqlite,
            Backend::Postgres(_) => SqlDialect::Postgres,
        }
    }

    /// The folder of the scopes' databases.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a scope's database.
    pub(super) fn folder_of(&self, scope: &Scope) -> PathBuf {
        match &self.backend {
            Backend::Sqlite(sqlite) => {
                lab::database_file(sqlite, scope).parent().map(Path::to_path_buf).unwrap_or_default()
            }
            Backend::Postgres(_) => self.root.join("of-the-scope"),
        }
    }

    /// Runs a script with the runtime's rights.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(super) async fn load(&self, scope: &Scope, script: &str) -> Result<()> {
        if script.trim().is_empty() {
            return Ok(());
        }
        match &self.backend {
            Backend::Sqlite(sqlite) => lab::load_script(sqlite, scope, script).await,
            Backend::Postgres(postgres) => {
                Box::pin(memory_postgres::lab::load_script(postgres, scope, script)).await
            }
        }
    }

    /// All contents of the scope's database.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(super) async fn content(&self, scope: &Scope) -> Result<String> {
        match &self.backend {
            Backend::Sqlite(sqlite) => lab::dump_text(sqlite, scope).await,
            Backend::Postgres(postgres) => Box::pin(memory_postgres::lab::dump_text(postgres, scope)).await,
        }
    }

    /// All contents of the neighbours: databases and entries.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(super) async fn neighbours(&self) -> Result<String> {
        let mut all = String::new();
        for scope in &self.neighbours {
            all.push_str(&self.content(scope).await?);
            let Backend::Sqlite(sqlite) = &self.backend else { continue };
            let entries = sqlite.list(scope, ListQuery::prefix("")).await?.entries;
            for entry in entries {
                all.push_str(&format!("{}={}@{}\n", entry.key, entry.value, entry.version));
            }
        }
        Ok(all)
    }

    /// Runs a statement as an agent; returns its answer and its peak memory.
    pub(super) async fn run(
        &self,
        run: &RunContext,
        scope: &Scope,
        op: Op,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> (Result<Answer>, u64) {
        lab::forget_peak();
        // Corpora for PostgreSQL call the scope's own schema `s_a`.
        let named = match &self.backend {
            Backend::Sqlite(_) => None,
            Backend::Postgres(_) => {
                Some(sql.replace("s_a.", &format!("{}.", memory_postgres::lab::names_of(scope).1)))
            }
        };
        let sql = named.as_deref().unwrap_or(sql);
        let answer = match op {
            Op::Exec => self.facet.exec(run, scope, sql, args, options).await.map(Answer::Done),
            Op::Query => self.facet.query(run, scope, sql, args, options).await.map(Answer::Rows),
        };
        // A server's memory cannot be measured from here.
        let peak = if matches!(self.backend, Backend::Sqlite(_)) { lab::last_peak_bytes() } else { 0 };
        (answer, peak)
    }

    /// # Errors
    /// Errors of the store.
    pub(super) async fn drop_scope(&self, scope: &Scope) -> Result<()> {
        self.facet.drop_sql_scope(scope).await.map(drop)
    }

    /// Removes the neighbours and closes the store.
    pub(super) async fn close(self) {
        for scope in &self.neighbours {
            let _ = self.facet.drop_sql_scope(scope).await;
            if let Backend::Sqlite(sqlite) = &self.backend {
                let _ = sqlite.drop_scope(scope).await;
            }
        }
        let _ = match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.close().await,
            Backend::Postgres(postgres) => postgres.close().await,
        };
    }
}

const NO_STAGE: Stages = Stages { gate: false, grammar: false, walk: false };

/// Connects as the server's administrator. If no separate database for agents is configured, the URL's database serves both,
/// with a key created for this run.
async fn postgres(
    url: &BackendUrl,
    context: &OpenContext,
    options: &StoreOptions,
) -> Result<PostgresProvider> {
    let stages = match options.only_layer.as_deref() {
        None if options.no_validator => NO_STAGE,
        None => Stages::ALL,
        Some("gate") => Stages { gate: true, ..NO_STAGE },
        Some("grammar") => Stages { grammar: true, ..NO_STAGE },
        Some("walk") => Stages { walk: true, ..NO_STAGE },
        Some(_) => {
            return Err(Error::invalid(
                "there is no such layer on PostgreSQL; --only-layer takes gate, grammar or walk. The privileges of the scopes' \
                 roles always apply; --no-validator leaves only them",
            ));
        }
    };
    let mut config = memory::postgres::config(url, context)?;
    if config.sql.is_none() {
        let key = options.folder.join("key");
        let failed = |error: std::io::Error| {
            Error::unavailable("the key for the corpus cannot be written").with_source(error)
        };
        std::fs::write(&key, "a key for a corpus, which protects nothing").map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        }
        let sql =
            SqlConfig::new(config.url.clone()).with_key_file(std::path::absolute(&key).map_err(failed)?);
        config = config.with_sql(sql);
    }
    Ok(PostgresProvider::open(config).await?.with_stages(stages))
}

fn layers(options: &StoreOptions) -> Result<(Layers, Stages)> {
    let Some(name) = options.only_layer.as_deref() else {
        return Ok((Layers::ALL, if options.no_validator { NO_STAGE } else { Stages::ALL }));
    };
    Ok(match name {
        "gate" => (Layers::NONE, Stages { gate: true, ..NO_STAGE }),
        "grammar" => (Layers::NONE, Stages { grammar: true, ..NO_STAGE }),
        "walk" => (Layers::NONE, Stages { walk: true, ..NO_STAGE }),
        _ => match Layers::only(name) {
            Some(layers) => (layers, NO_STAGE),
            None => {
                return Err(Error::invalid(format!(
                    "there is no such layer; --only-layer takes one of gate, grammar, walk, {}",
                    Layers::NAMES.join(", ")
                )));
            }
        },
    })
}
