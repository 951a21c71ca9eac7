//! The store that statements are tried on: the facet as agents get it, and beside it what loads a scope with the
//! runtime's rights, shows all it holds, and takes layers away.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::{BackendUrl, OpenContext};
use memory_core::sql::{ExecOutcome, Rows, SqlFacet, SqlValue, StatementOptions};
use memory_core::{
    Backend as _, BackendExt as _, Checked, Error, ErrorKind, Json, Key, ListQuery, Result, RunContext, Scope,
};
use memory_postgres::{PostgresProvider, SqlConfig};
use memory_sqlite::SqliteProvider;
use memory_sqlite::lab::{self, Layers, Stages};

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

/// A backend whose facet can be taken apart.
#[derive(Debug)]
enum Store {
    Sqlite(Arc<SqliteProvider>),
    Postgres(Arc<PostgresProvider>),
}

/// An opened store.
#[derive(Debug)]
pub(super) struct Lab {
    /// The facet as agents reach it.
    facet: Box<dyn SqlFacet>,
    store: Store,
    neighbours: Vec<Scope>,
    root: PathBuf,
}

impl Lab {
    /// Opens the store and puts neighbours into it.
    ///
    /// # Errors
    /// `invalid_argument` for a layer that is none, or a URL of another backend; as the store fails.
    pub(super) async fn open(how: &How) -> Result<Self> {
        let url = match &how.url {
            Some(url) => url.clone(),
            None => {
                let file = how.folder.join("store").join("memory.db");
                format!("{}?durability=normal", sqlite_url(&file)?)
            }
        };
        let url = BackendUrl::parse(&url)?;
        let mut context = OpenContext::default();
        context.base_dir.clone_from(&how.base_dir);
        let neighbours = vec![Scope::user(OTHER_TENANT, "line-1")?, Scope::agent(TENANT, "line-1")?];
        let lab = match url.scheme() {
            "sqlite" => {
                let (layers, stages) = layers(how)?;
                let sqlite = memory::sqlite::open(&url, &context)?.with_layers(layers).with_stages(stages);
                let sqlite = Arc::new(sqlite);
                let first =
                    neighbours.first().map(|scope| lab::database_file(&sqlite, scope)).unwrap_or_default();
                // Root, tenant, scope, file.
                let root = first.ancestors().nth(3).map(Path::to_path_buf).unwrap_or_default();
                let facet = Box::new(Checked::new(Arc::clone(&sqlite))?);
                Self { facet, store: Store::Sqlite(sqlite), neighbours, root }
            }
            "postgres" | "postgresql" => {
                let postgres = Arc::new(Box::pin(postgres(&url, &context, how)).await?);
                let facet = Box::new(Checked::new(Arc::clone(&postgres))?);
                // The server's files are its own: what moved in them is seen in the scopes.
                let root = how.folder.join("no-files");
                Self { facet, store: Store::Postgres(postgres), neighbours, root }
            }
            _ => {
                return Err(Error::invalid(
                    "a corpus is tried on SQLite or PostgreSQL, whose layers can be looked at; give --url sqlite:PATH or \
                     postgres://…, or none",
                ));
            }
        };
        for scope in &lab.neighbours {
            lab.drop_scope(scope).await?;
            lab.load(scope, &format!("CREATE TABLE notes(body text); INSERT INTO notes VALUES('{SECRET}')"))
                .await?;
            if let Store::Sqlite(sqlite) = &lab.store {
                sqlite.put(scope, &Key::new("note/1")?, Json::string(SECRET)).await?;
            }
        }
        Ok(lab)
    }

    /// Where the databases of scopes are.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a scope's own database is.
    pub(super) fn folder_of(&self, scope: &Scope) -> PathBuf {
        match &self.store {
            Store::Sqlite(sqlite) => {
                lab::database_file(sqlite, scope).parent().map(Path::to_path_buf).unwrap_or_default()
            }
            Store::Postgres(_) => self.root.join("of-the-scope"),
        }
    }

    /// Runs a script with the runtime's rights.
    ///
    /// # Errors
    /// As the engine has it.
    pub(super) async fn load(&self, scope: &Scope, script: &str) -> Result<()> {
        if script.trim().is_empty() {
            return Ok(());
        }
        match &self.store {
            Store::Sqlite(sqlite) => lab::load_script(sqlite, scope, script).await,
            Store::Postgres(postgres) => {
                Box::pin(memory_postgres::lab::load_script(postgres, scope, script)).await
            }
        }
    }

    /// Everything the scope's database holds.
    ///
    /// # Errors
    /// As the engine has it.
    pub(super) async fn content(&self, scope: &Scope) -> Result<String> {
        match &self.store {
            Store::Sqlite(sqlite) => lab::dump_text(sqlite, scope).await,
            Store::Postgres(postgres) => Box::pin(memory_postgres::lab::dump_text(postgres, scope)).await,
        }
    }

    /// Everything that neighbours hold, in databases and as entries.
    ///
    /// # Errors
    /// As the engine has it.
    pub(super) async fn neighbours(&self) -> Result<String> {
        let mut all = String::new();
        for scope in &self.neighbours {
            all.push_str(&self.content(scope).await?);
            let Store::Sqlite(sqlite) = &self.store else { continue };
            let entries = sqlite.list(scope, ListQuery::prefix("")).await?.entries;
            for entry in entries {
                all.push_str(&format!("{}={}@{}\n", entry.key, entry.value, entry.version));
            }
        }
        Ok(all)
    }

    /// Runs a statement as an agent does; its answer, and the memory it took.
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
        // Corpora of PostgreSQL call the scope's own schema `s_a`.
        let named = match &self.store {
            Store::Sqlite(_) => None,
            Store::Postgres(_) => {
                Some(sql.replace("s_a.", &format!("{}.", memory_postgres::lab::names_of(scope).1)))
            }
        };
        let sql = named.as_deref().unwrap_or(sql);
        let answer = match op {
            Op::Exec => self.facet.exec(run, scope, sql, args, options).await.map(Answer::Done),
            Op::Query => self.facet.query(run, scope, sql, args, options).await.map(Answer::Rows),
        };
        // What a server takes is the server's.
        let peak = if matches!(self.store, Store::Sqlite(_)) { lab::last_peak_bytes() } else { 0 };
        (answer, peak)
    }

    /// # Errors
    /// As the store fails.
    pub(super) async fn drop_scope(&self, scope: &Scope) -> Result<()> {
        self.facet.drop_sql_scope(scope).await.map(drop)
    }

    /// Removes the neighbours and closes the store.
    pub(super) async fn close(self) {
        for scope in &self.neighbours {
            let _ = self.facet.drop_sql_scope(scope).await;
            if let Store::Sqlite(sqlite) = &self.store {
                let _ = sqlite.drop_scope(scope).await;
            }
        }
        let _ = match &self.store {
            Store::Sqlite(sqlite) => sqlite.close().await,
            Store::Postgres(postgres) => postgres.close().await,
        };
    }
}

const NO_STAGE: Stages = Stages { gate: false, grammar: false, walk: false };

/// A server, as its administrator reaches it. Without a database for agents of its own the URL's serves both, with a key
/// that is made up.
async fn postgres(url: &BackendUrl, context: &OpenContext, how: &How) -> Result<PostgresProvider> {
    let stages = match how.only_layer.as_deref() {
        None if how.no_validator => NO_STAGE,
        None => Stages::ALL,
        Some("gate") => Stages { gate: true, ..NO_STAGE },
        Some("grammar") => Stages { grammar: true, ..NO_STAGE },
        Some("walk") => Stages { walk: true, ..NO_STAGE },
        Some(_) => {
            return Err(Error::invalid(
                "there is no such layer on PostgreSQL; --only-layer takes gate, grammar, walk, each with what the roles of \
                 scopes may do; --no-validator leaves that alone",
            ));
        }
    };
    let mut config = memory::postgres::config(url, context)?;
    if config.sql.is_none() {
        let key = how.folder.join("key");
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Unavailable, "the key for the corpus cannot be written").with_source(error)
        };
        std::fs::write(&key, "a key for a corpus, which holds nothing worth keeping").map_err(failed)?;
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

fn layers(how: &How) -> Result<(Layers, Stages)> {
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
