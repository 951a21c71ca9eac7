//! The store that statements are tried on: the facet as agents get it, and beside it what loads a scope with the
//! runtime's rights, shows all it holds, and takes layers away.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::{BackendUrl, OpenContext};
use memory_core::sql::{ExecOutcome, Rows, SqlFacet as _, SqlValue, StatementOptions};
use memory_core::{
    Backend as _, BackendExt as _, Checked, Error, Json, Key, ListQuery, Result, RunContext, Scope,
};
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

/// An opened store.
#[derive(Debug)]
pub(super) struct Lab {
    /// The facet as agents reach it.
    facet: Checked<Arc<SqliteProvider>>,
    sqlite: Arc<SqliteProvider>,
    neighbours: Vec<Scope>,
    root: PathBuf,
}

impl Lab {
    /// Opens the store and puts neighbours into it.
    ///
    /// # Errors
    /// `invalid_argument` for a layer that is none, or a URL that is not SQLite's; as the store fails.
    pub(super) async fn open(how: &How) -> Result<Self> {
        let (layers, stages) = layers(how)?;
        let url = match &how.url {
            Some(url) => url.clone(),
            None => {
                let file = how.folder.join("store").join("memory.db");
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
        let facet = Checked::new(Arc::clone(&sqlite))?;
        let neighbours = vec![Scope::user(OTHER_TENANT, "line-1")?, Scope::agent(TENANT, "line-1")?];
        let first = neighbours.first().map(|scope| lab::database_file(&sqlite, scope)).unwrap_or_default();
        // Root, tenant, scope, file.
        let root = first.ancestors().nth(3).map(Path::to_path_buf).unwrap_or_default();
        let lab = Self { facet, sqlite, neighbours, root };
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
        let answer = match op {
            Op::Exec => self.facet.exec(run, scope, sql, args, options).await.map(Answer::Done),
            Op::Query => self.facet.query(run, scope, sql, args, options).await.map(Answer::Rows),
        };
        (answer, lab::last_peak_bytes())
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
