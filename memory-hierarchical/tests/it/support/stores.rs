//! Stores of their own.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
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

impl Store {
    pub(crate) fn sqlite() -> Kept {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.db");
        let provider = SqliteProvider::open(&path, SqliteConfig::default(), Arc::new(RealTime)).unwrap();
        Kept { provider: Arc::new(provider), _folder: Some(folder), _databases: None }
    }

    /// `None` without a server.
    pub(crate) async fn postgres() -> Option<Kept> {
        let entries = Database::on(SERVER).await?;
        let agents = Database::on(SERVER).await?;
        let mut key = NamedTempFile::new().unwrap();
        key.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
        key.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        let sql = SqlConfig::new(agents.url()).with_key_file(key.path());
        let config = PostgresConfig::new(entries.url().to_owned()).with_sql(sql);
        let provider = PostgresProvider::open(config).await.unwrap();
        Some(Kept { provider: Arc::new(provider), _folder: None, _databases: Some((entries, agents, key)) })
    }
}
