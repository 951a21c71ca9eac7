//! The stores on which programs are killed: files, and databases of the tests' server.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memory::snapshot::{EntriesDigest, SqlDigest, entries_digest, sql_digest};
use memory::sql::StatementOptions;
use memory::{BulkOptions, Json, Key, Memory, NewEntry, RunContext, Scope, ScopeId};
use memory_fakes::postgres::{Database, SERVER};

/// How long the server may take to notice that a program is dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// Scope roles are shared by all databases of the server: whoever uses them holds this.
pub(crate) static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A scope's entries, and its SQL database if it has one.
pub(crate) type Held = (EntriesDigest, Option<SqlDigest>);

pub(crate) async fn held(memory: &Memory, scope: &Scope) -> Held {
    let entries = entries_digest(memory.backend().unwrap(), scope).await.unwrap();
    (entries, sql_digest(memory.sql().unwrap(), scope).await.unwrap())
}

/// Runs one statement in a scope's database.
pub(crate) async fn exec(memory: &Memory, scope: &Scope, sql: &str) {
    let id = |id: &str| ScopeId::new(id).unwrap();
    let run = RunContext::new(scope.tenant.clone(), id("t"), id("r"));
    let facet = memory.sql().unwrap();
    facet.exec(&run, scope, sql, &[], StatementOptions::default()).await.unwrap();
}

/// Writes entries with these keys and texts.
pub(crate) async fn fill(
    memory: &Memory,
    scope: &Scope,
    entries: impl IntoIterator<Item = (String, String)>,
) {
    let item = |(key, text): (String, String)| NewEntry::new(Key::new(key).unwrap(), Json::string(&text));
    let items = entries.into_iter().map(item).collect();
    memory.backend().unwrap().bulk_insert(scope, items, BulkOptions::default()).await.unwrap();
}

/// Tests that run on a file, and on the server if there is one, each with a home of its own; those on the server one after
/// the other.
macro_rules! on_each_store {
    ($($name:ident => $test:expr;)*) => {
        mod sqlite {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                let home = tempfile::tempdir().unwrap();
                $test(&crate::support::store::Kind::Sqlite, home.path()).await;
            })*
        }

        mod postgres {
            use super::*;

            $(#[tokio::test]
            async fn $name() {
                let (home, _one) = (tempfile::tempdir().unwrap(), crate::support::store::ONE.lock().await);
                let Some(kind) = crate::support::store::Kind::postgres(home.path()) else { return };
                $test(&kind, home.path()).await;
            })*
        }
    };
}

pub(crate) use on_each_store;

/// What kind of stores a test is about.
pub(crate) enum Kind {
    Sqlite,
    /// On the server; where the key for agents' roles is.
    Postgres {
        key: PathBuf,
    },
}

impl Kind {
    /// Without a server: `None`, after saying so.
    pub(crate) fn postgres(home: &Path) -> Option<Self> {
        if std::env::var_os(SERVER).is_none() {
            println!("skipped: no server; `cargo xtask test` starts one, or set {SERVER}");
            return None;
        }
        let key = home.join("key");
        let mut file = std::fs::File::create(&key).unwrap();
        file.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        Some(Self::Postgres { key })
    }

    /// How often to kill: `file` times, or fewer on a server, where each round takes longer.
    pub(crate) fn rounds(&self, file: u64, server: u64) -> u64 {
        super::program::rounds(if matches!(self, Self::Sqlite) { file } else { server })
    }

    /// An empty store.
    pub(crate) async fn fresh(&self, home: &Path) -> Store {
        match self {
            Self::Sqlite => {
                static COUNT: AtomicU64 = AtomicU64::new(0);
                let file = home.join(format!("store{}.db", COUNT.fetch_add(1, Ordering::Relaxed)));
                Store { url: format!("sqlite:{}", file.display()), databases: None }
            }
            Self::Postgres { key } => {
                let (entries, agents) =
                    (Database::on(SERVER).await.unwrap(), Database::on(SERVER).await.unwrap());
                let sql = agents.url().replace(':', "%3A").replace('/', "%2F").replace('@', "%40");
                let url = format!("{}?sql.url={sql}&sql.key_file={}", entries.url(), key.display());
                Store { url, databases: Some([entries, agents]) }
            }
        }
    }
}

/// A store that is removed with the value.
pub(crate) struct Store {
    pub(crate) url: String,
    /// Of entries, and of agents' SQL.
    databases: Option<[Database; 2]>,
}

impl Store {
    pub(crate) async fn open(&self) -> Memory {
        memory::open(&self.url).await.unwrap()
    }

    /// What these scopes hold.
    pub(crate) async fn held(&self, scopes: &[Scope]) -> Vec<Held> {
        let memory = self.open().await;
        let mut all = Vec::new();
        for scope in scopes {
            all.push(held(&memory, scope).await);
        }
        all
    }

    /// Whether it is on a server.
    pub(crate) fn is_remote(&self) -> bool {
        self.databases.is_some()
    }

    /// Recreates the databases. Files stay as they are.
    pub(crate) async fn empty(&self) {
        for database in self.databases.iter().flatten() {
            database.empty().await;
        }
    }

    /// The id by which the entries' database is known wherever something of it is kept; `None` for a file, which is
    /// known by its place.
    pub(crate) async fn id(&self) -> Option<String> {
        let [entries, _] = self.databases.as_ref()?;
        Some(entries.client().await.query_one("SELECT id::text FROM memory.guard", &[]).await.unwrap().get(0))
    }

    /// As [`empty`](Self::empty), known by this id.
    pub(crate) async fn empty_as(&self, id: &str) {
        let Some([entries, _]) = &self.databases else { return };
        self.empty().await;
        drop(self.open().await);
        let set = "UPDATE memory.guard SET id = $1::text::uuid";
        entries.client().await.execute(set, &[&id]).await.unwrap();
    }

    /// Waits until the server has finished what it was doing for killed programs, whose last statement may continue.
    pub(crate) async fn settled(&self) {
        self.settled_beside(0).await;
    }

    /// The same, next to this many sessions of others.
    pub(crate) async fn settled_beside(&self, sessions: i64) {
        let begun = Instant::now();
        while self.sessions().await > sessions {
            assert!(begun.elapsed() < PATIENCE, "a killed program's sessions do not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sessions that programs currently have with the server's databases.
    pub(crate) async fn sessions(&self) -> i64 {
        let Some([entries, agents]) = &self.databases else { return 0 };
        let names = [&entries.name, &agents.name];
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = ANY ($1) AND backend_type = 'client backend'";
        entries.admin().await.query_one(busy, &[&&names[..]]).await.unwrap().get(0)
    }

    /// The tables of a server that contain a text in some row.
    pub(crate) async fn holding(&self, text: &str) -> Vec<String> {
        let tables = "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c \
                      JOIN pg_namespace n ON n.oid = c.relnamespace \
                      WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')";
        let mut found = Vec::new();
        for database in self.databases.iter().flatten() {
            let client = database.client().await;
            for row in client.query(tables, &[]).await.unwrap() {
                let table: String = row.get(0);
                let holds =
                    format!("SELECT EXISTS (SELECT FROM {table} t WHERE position($1 IN t::text) > 0)");
                if client.query_one(&holds, &[&text]).await.unwrap().get(0) {
                    found.push(format!("{}: {table}", database.name));
                }
            }
        }
        found
    }
}
