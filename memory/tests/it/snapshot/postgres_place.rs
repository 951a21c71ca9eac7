//! Two fresh databases, one for entries and one for agents' SQL, dropped with the value.

use memory::{Memory, Scope};
use memory_fakes::postgres::{Database, SERVER};
use memory_postgres::{PostgresConfig, PostgresProvider, SqlConfig};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

pub(crate) struct Place {
    entries: Database,
    agents: Database,
    key: tempfile::NamedTempFile,
}

impl Place {
    /// `None` without a server, after printing a note.
    pub(crate) async fn fresh() -> Option<Self> {
        let (entries, agents) = (Database::on(SERVER).await?, Database::on(SERVER).await?);
        let mut key = tempfile::NamedTempFile::new().unwrap();
        key.write_all(b"0123456789abcdef0123456789abcdef\n").unwrap();
        key.as_file().set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
        Some(Self { entries, agents, key })
    }

    /// The store in them.
    pub(crate) async fn open(&self) -> Memory {
        let sql = SqlConfig::new(self.agents.url()).with_key_file(self.key.path());
        let config = PostgresConfig::new(self.entries.url()).with_pool_size(4).with_sql(sql);
        Memory::new(std::sync::Arc::new(PostgresProvider::open(config).await.unwrap())).unwrap()
    }

    /// Removes everything from it.
    pub(crate) async fn clear(&self, memory: &Memory, scopes: &[Scope]) {
        for scope in scopes {
            memory.backend().unwrap().drop_scope(scope).await.unwrap();
            memory.sql().unwrap().drop_sql_scope(scope).await.unwrap();
        }
    }
}
