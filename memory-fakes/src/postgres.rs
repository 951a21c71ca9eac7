//! Databases of their own for tests, on a real PostgreSQL server that the environment names.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio_postgres::{Client, NoTls};

/// The variable that names a server with pgvector; `cargo xtask test` starts one.
pub const SERVER: &str = "MEMORY_TEST_POSTGRES_URL";

/// A database that ends with the value.
#[derive(Debug)]
pub struct Database {
    server: String,
    /// Its name.
    pub name: String,
}

impl Database {
    /// An empty database on the server that a variable names. Without a server: `None`, after saying so.
    pub async fn on(variable: &str) -> Option<Self> {
        let Ok(server) = std::env::var(variable) else {
            println!("skipped: no server; `cargo xtask test` starts one, or set {variable}");
            return None;
        };
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let database = Self { server, name };
        database.empty().await;
        Some(database)
    }

    /// As [`on`](Self::on), on a runtime of its own.
    pub fn on_own_runtime(variable: &str) -> Option<Self> {
        apart(|| Self::on(variable))
    }

    /// Makes it anew.
    pub async fn empty(&self) {
        let (admin, name) = (self.admin().await, &self.name);
        admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await.unwrap();
        // A template that nobody is connected to: many tests ask at once.
        admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE template0")).await.unwrap();
    }

    /// Its URL.
    pub fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    /// A connection of the server's superuser to it.
    pub async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    /// A connection of the server's superuser to another database.
    pub async fn admin(&self) -> Client {
        connect(&self.server).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        apart(|| async {
            let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
            let _ = self.admin().await.batch_execute(&drop).await;
        });
    }
}

/// Runs to its end on a runtime of its own: the caller's may be ending.
pub fn apart<T: Send, F: Future<Output = T>>(work: impl FnOnce() -> F + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work())
        });
        thread.join().unwrap()
    })
}

/// A connection of the driver's own, without anything of ours in between.
pub async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The URL of another database of the same server.
pub fn with_database(url: &str, name: &str) -> String {
    let (place, query) = url.split_once('?').map_or((url, None), |(place, query)| (place, Some(query)));
    let authority = place.find("://").map_or(0, |at| at + 3);
    let end = place[authority..].find('/').map_or(place.len(), |at| authority + at);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}/{name}{query}", &place[..end])
}
