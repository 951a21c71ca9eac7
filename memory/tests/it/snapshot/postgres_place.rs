//! Two fresh databases, one for entries, one for agents' SQL, which end with the value.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

use memory::{Memory, Scope};
use memory_postgres::{PostgresConfig, PostgresProvider, SqlConfig};
use tokio_postgres::{Client, NoTls};

const SERVER: &str = "MEMORY_TEST_POSTGRES_URL";

pub(crate) struct Place {
    server: String,
    names: [String; 2],
    key: tempfile::NamedTempFile,
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

impl Place {
    /// Without a server: `None`, after saying so.
    pub(crate) async fn fresh() -> Option<Self> {
        let Ok(server) = std::env::var(SERVER) else {
            println!("skipped: no server; `cargo xtask test` starts one, or set {SERVER}");
            return None;
        };
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let admin = connect(&server).await;
        let names = ["entries", "agents"].map(|what| {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            format!("snapshot_{what}_{}_{number}", std::process::id())
        });
        for name in &names {
            admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
            admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
        }
        let mut key = tempfile::NamedTempFile::new().unwrap();
        key.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
        key.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        Some(Self { server, names, key })
    }

    fn url(&self, name: &str) -> String {
        let (server, _) = self.server.rsplit_once('/').unwrap();
        format!("{server}/{name}")
    }

    /// The store in them.
    pub(crate) async fn open(&self) -> Memory {
        let [entries, agents] = &self.names;
        let sql = SqlConfig::new(self.url(agents)).with_key_file(self.key.path());
        let config = PostgresConfig::new(self.url(entries)).with_pool_size(4).with_sql(sql);
        Memory::new(std::sync::Arc::new(PostgresProvider::open(config).await.unwrap())).unwrap()
    }

    /// Takes everything out of it.
    pub(crate) async fn clear(&self, memory: &Memory, scopes: &[Scope]) {
        for scope in scopes {
            memory.backend().unwrap().drop_scope(scope).await.unwrap();
            memory.sql().unwrap().drop_sql_scope(scope).await.unwrap();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A runtime of its own: the test's may be ending.
        let (server, names) = (self.server.clone(), self.names.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let admin = connect(&server).await;
                for name in names {
                    let _ =
                        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
                }
            });
        });
        let _ = dropping.join();
    }
}
