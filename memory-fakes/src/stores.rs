//! Stores of their own, for what is built on any provider.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use memory_core::{Clock, Provider, Timestamp};
use memory_postgres::{PostgresConfig, PostgresProvider, SqlConfig};
use memory_sqlite::{SqliteConfig, SqliteProvider};
use tempfile::{NamedTempFile, TempDir};

use crate::postgres::{Database, SERVER};

/// Runs a test's body on each store, with a `crate::support::World` that is made `on` it.
#[allow(clippy::crate_in_macro_def, reason = "the world is the tests' own")]
#[macro_export]
macro_rules! on_both_stores {
    ($($(#[$doc:meta])* async fn $name:ident($world:ident) $body:block)+) => {
        $(mod $name {
            #[allow(unused_imports, reason = "not every body needs all")]
            use super::*;

            async fn body(
                #[allow(unused_mut, reason = "not every body changes it")] mut $world: crate::support::World,
            ) $body

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                body(crate::support::World::on($crate::stores::Store::sqlite()).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                if let Some(store) = $crate::stores::Store::postgres().await {
                    body(crate::support::World::on(store).await).await;
                }
            }
        })+
    };
}

/// Makes stores.
#[derive(Debug)]
pub struct Store;

/// A provider, and what it stands on.
#[derive(Debug)]
pub struct Kept {
    pub provider: Arc<dyn Provider>,
    /// What another process needs to open it: see [`opened`].
    pub given: String,
    _folder: Option<TempDir>,
    _databases: Option<(Database, Database, NamedTempFile)>,
}

/// The real time, which the stores themselves go by.
#[derive(Debug)]
struct RealTime;

impl Clock for RealTime {
    #[allow(clippy::disallowed_methods, reason = "the stores' own time is not what is tested")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Timestamp::from_millis_clamped(i64::try_from(since.as_millis()).unwrap())
    }
}

fn sqlite_at(path: &str) -> Arc<dyn Provider> {
    Arc::new(SqliteProvider::open(Path::new(path), SqliteConfig::default(), Arc::new(RealTime)).unwrap())
}

/// Opens what another process was given.
pub async fn opened(given: &str) -> Arc<dyn Provider> {
    match given.split(' ').collect::<Vec<_>>().as_slice() {
        [path] => sqlite_at(path),
        [entries, agents, key] => {
            let sql = SqlConfig::new(*agents).with_key_file(key);
            let config = PostgresConfig::new((*entries).to_owned()).with_sql(sql);
            Arc::new(PostgresProvider::open(config).await.unwrap())
        }
        other => panic!("{other:?}"),
    }
}

impl Store {
    pub fn sqlite() -> Kept {
        let folder = tempfile::tempdir().unwrap();
        let given = folder.path().join("memory.db").display().to_string();
        Kept { provider: sqlite_at(&given), given, _folder: Some(folder), _databases: None }
    }

    /// `None` without a server.
    pub async fn postgres() -> Option<Kept> {
        let entries = Database::on(SERVER).await?;
        let agents = Database::on(SERVER).await?;
        // Such a file is its owner's only.
        let mut key = NamedTempFile::new().unwrap();
        key.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
        let given = format!("{} {} {}", entries.url(), agents.url(), key.path().display());
        let provider = opened(&given).await;
        Some(Kept { provider, given, _folder: None, _databases: Some((entries, agents, key)) })
    }
}
