//! Stores of their own.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use memory_core::{Clock, Provider, Timestamp};
use memory_fakes::postgres::{Database, SERVER};
use memory_postgres::{PostgresConfig, PostgresProvider, SqlConfig};
use memory_sqlite::{SqliteConfig, SqliteProvider};
use tempfile::{NamedTempFile, TempDir};

/// Makes stores.
pub(crate) struct Store;

/// A provider, and what it stands on.
pub(crate) struct Kept {
    pub(crate) provider: Arc<dyn Provider>,
    /// What another process needs to open it: see [`opened`].
    pub(crate) given: String,
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

fn sqlite_at(path: &Path) -> Arc<dyn Provider> {
    Arc::new(SqliteProvider::open(path, SqliteConfig::default(), Arc::new(RealTime)).unwrap())
}

async fn postgres_at(entries: &str, agents: &str, key: &str) -> Arc<dyn Provider> {
    let sql = SqlConfig::new(agents).with_key_file(key);
    let config = PostgresConfig::new(entries.to_owned()).with_sql(sql);
    Arc::new(PostgresProvider::open(config).await.unwrap())
}

/// Opens what another process was given.
pub(crate) async fn opened(given: &str) -> Arc<dyn Provider> {
    match given.split(' ').collect::<Vec<_>>().as_slice() {
        [path] => sqlite_at(Path::new(path)),
        [entries, agents, key] => postgres_at(entries, agents, key).await,
        other => panic!("{other:?}"),
    }
}

impl Store {
    pub(crate) fn sqlite() -> Kept {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        let given = path.display().to_string();
        Kept { provider: sqlite_at(&path), given, _folder: Some(folder), _databases: None }
    }

    /// `None` without a server.
    pub(crate) async fn postgres() -> Option<Kept> {
        let entries = Database::on(SERVER).await?;
        let agents = Database::on(SERVER).await?;
        let mut key = NamedTempFile::new().unwrap();
        key.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
        key.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        let given = format!("{} {} {}", entries.url(), agents.url(), key.path().display());
        let provider = opened(&given).await;
        Some(Kept { provider, given, _folder: None, _databases: Some((entries, agents, key)) })
    }
}
