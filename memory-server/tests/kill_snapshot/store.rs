//! The stores that are killed at: files, and databases of the server that the tests have.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memory::Memory;
use tokio_postgres::{Client, NoTls};

const SERVER: &str = "MEMORY_TEST_POSTGRES_URL";

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

    /// Killing takes longer where a server must be asked.
    pub(crate) fn rounds(&self) -> u64 {
        let usual = match self {
            Self::Sqlite => 8,
            Self::Postgres { .. } => 3,
        };
        std::env::var("MEMORY_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(usual)
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
                let admin = connect(&format!("{server}/postgres")).await;
                for name in &databases {
                    let create = format!("CREATE DATABASE {name} TEMPLATE template0");
                    admin.batch_execute(&create).await.unwrap();
                }
                let agents = format!("{server}/{}", databases[1]).replace(':', "%3A").replace('/', "%2F");
                let url = format!(
                    "{server}/{}?sql.url={}&sql.key_file={}",
                    databases[0],
                    agents.replace('@', "%40"),
                    key.display()
                );
                Store { url, server: Some((server.clone(), databases)) }
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
