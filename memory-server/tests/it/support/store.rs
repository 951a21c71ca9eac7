//! The stores that are killed at: files, and databases of the server that the tests have.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memory::snapshot::{EntriesDigest, SqlDigest, entries_digest, sql_digest};
use memory::{Memory, Scope};
use tokio_postgres::{Client, NoTls};

const SERVER: &str = "MEMORY_TEST_POSTGRES_URL";
/// How long the server may take to notice that a program is dead.
const PATIENCE: Duration = Duration::from_secs(60);

/// Roles of scopes are the server's, and so shared by all databases on it: whoever uses them holds this.
pub(crate) static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A scope's entries, and its SQL database where it has one.
pub(crate) type Held = (EntriesDigest, Option<SqlDigest>);

pub(crate) async fn held(memory: &Memory, scope: &Scope) -> Held {
    let entries = entries_digest(memory.backend().unwrap(), scope).await.unwrap();
    (entries, sql_digest(memory.sql().unwrap(), scope).await.unwrap())
}

/// What kind of stores a test is about.
pub(crate) enum Kind {
    Sqlite,
    /// The server's URL without a database, and where the key for agents' roles is.
    Postgres {
        server: String,
        key: PathBuf,
    },
}

impl Kind {
    /// Without a server: `None`, after saying so.
    pub(crate) fn postgres(home: &Path) -> Option<Self> {
        let Ok(url) = std::env::var(SERVER) else {
            println!("skipped: no server; `cargo xtask test` starts one, or set {SERVER}");
            return None;
        };
        let (server, _) = url.rsplit_once('/').unwrap();
        let key = home.join("key");
        let mut file = std::fs::File::create(&key).unwrap();
        file.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        Some(Self::Postgres { server: server.to_owned(), key })
    }

    /// An empty store.
    pub(crate) async fn fresh(&self, home: &Path) -> Store {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        match self {
            Self::Sqlite => {
                let file = home.join(format!("store{number}.db"));
                Store { url: format!("sqlite:{}", file.display()), server: None }
            }
            Self::Postgres { server, key } => {
                let databases = ["entries", "agents"]
                    .map(|what| format!("kill_{what}_{}_{number}", std::process::id()))
                    .to_vec();
                let agents = format!("{server}/{}", databases[1]).replace(':', "%3A").replace('/', "%2F");
                let url = format!(
                    "{server}/{}?sql.url={}&sql.key_file={}",
                    databases[0],
                    agents.replace('@', "%40"),
                    key.display()
                );
                let store = Store { url, server: Some((server.clone(), databases)) };
                store.empty().await;
                store
            }
        }
    }
}

/// A store that ends with the value.
pub(crate) struct Store {
    pub(crate) url: String,
    server: Option<(String, Vec<String>)>,
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
        self.server.is_some()
    }

    /// Makes the databases anew. Files stay as they are.
    pub(crate) async fn empty(&self) {
        let Some((server, databases)) = &self.server else { return };
        let admin = connect(&format!("{server}/postgres")).await;
        for name in databases {
            let (drop, create) = (
                format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"),
                format!("CREATE DATABASE {name} TEMPLATE template0"),
            );
            admin.batch_execute(&drop).await.unwrap();
            admin.batch_execute(&create).await.unwrap();
        }
    }

    /// By what the entries' database is known wherever something of it lies; `None`: it is a file, and known by its place.
    pub(crate) async fn id(&self) -> Option<String> {
        let (server, databases) = self.server.as_ref()?;
        let entries = connect(&format!("{server}/{}", databases[0])).await;
        Some(entries.query_one("SELECT id::text FROM memory.guard", &[]).await.unwrap().get(0))
    }

    /// As [`empty`](Self::empty), and known by this id.
    pub(crate) async fn empty_as(&self, id: &str) {
        let Some((server, databases)) = &self.server else { return };
        self.empty().await;
        drop(self.open().await);
        let entries = connect(&format!("{server}/{}", databases[0])).await;
        entries.execute("UPDATE memory.guard SET id = $1::text::uuid", &[&id]).await.unwrap();
    }

    /// Waits until the server has ended what it was doing for programs that were killed: their last statement may go on.
    pub(crate) async fn settled(&self) {
        self.settled_beside(0).await;
    }

    /// The same, beside so many sessions of others.
    pub(crate) async fn settled_beside(&self, sessions: i64) {
        let begun = Instant::now();
        while self.sessions().await > sessions {
            assert!(begun.elapsed() < PATIENCE, "a killed program's sessions do not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Sessions that programs have with the server's databases now.
    pub(crate) async fn sessions(&self) -> i64 {
        let Some((server, databases)) = &self.server else { return 0 };
        let busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = ANY ($1) AND backend_type = 'client backend'";
        connect(&format!("{server}/postgres")).await.query_one(busy, &[databases]).await.unwrap().get(0)
    }

    /// The tables of a server that hold a text in some row.
    pub(crate) async fn holding(&self, text: &str) -> Vec<String> {
        let Some((server, databases)) = &self.server else { return Vec::new() };
        let tables = "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c \
                      JOIN pg_namespace n ON n.oid = c.relnamespace \
                      WHERE c.relkind IN ('r', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')";
        let mut found = Vec::new();
        for name in databases {
            let client = connect(&format!("{server}/{name}")).await;
            for row in client.query(tables, &[]).await.unwrap() {
                let table: String = row.get(0);
                let holds =
                    format!("SELECT EXISTS (SELECT FROM {table} t WHERE position($1 IN t::text) > 0)");
                if client.query_one(&holds, &[&text]).await.unwrap().get(0) {
                    found.push(format!("{name}: {table}"));
                }
            }
        }
        found
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let Some((server, databases)) = self.server.take() else { return };
        // A runtime of its own: the test's may be ending.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let admin = connect(&format!("{server}/postgres")).await;
                for name in databases {
                    let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                    let _ = admin.batch_execute(&drop).await;
                }
            });
        });
        let _ = dropping.join();
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
