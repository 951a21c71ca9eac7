//! The sandbox without the validator in front of it.

mod corpus;
mod full_text;
mod functions;
mod inline;
mod layers;
mod statements;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memory_core::Result;
use memory_core::sql::{Rows, SqlValue};
use memory_validator::Mode;
use rusqlite::types::Value;

use super::{Cancel, Layers, Place, Ran, Role, Sandbox, SandboxConfig, SharedFile, Statement};

/// A test's own database, like a scope's.
pub(super) struct TestDatabase {
    folder: tempfile::TempDir,
    layers: Layers,
    config: SandboxConfig,
    quota: Option<u64>,
    timeout: Duration,
    shared: Vec<SharedFile>,
}

impl TestDatabase {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data.db"), b"").unwrap();
        let database = Self {
            folder,
            layers: Layers::ALL,
            config: SandboxConfig::default(),
            quota: None,
            timeout: Duration::from_secs(5),
            shared: Vec::new(),
        };
        // A reader needs a database, not an empty file.
        drop(database.writer());
        database
    }

    pub(super) fn with_layers(mut self, layers: Layers) -> Self {
        self.layers = layers;
        self
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("data.db")
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script with the runtime's rights.
    pub(super) fn load(&self, script: &str) {
        self.try_load(script).unwrap_or_else(|error| panic!("{error}: {script}"));
    }

    pub(super) fn try_load(&self, script: &str) -> Result<()> {
        self.writer().with_runtime_rights(|conn| {
            conn.execute_batch(script).map_err(|error| memory_core::Error::invalid(error.to_string()))
        })
    }

    pub(super) fn writer(&self) -> Sandbox {
        self.open(Role::Writer)
    }

    pub(super) fn open(&self, role: Role) -> Sandbox {
        let file = self.file();
        let mut sandbox =
            Sandbox::open(Place::File(&file), role, &self.config, &self.shared, None, self.layers).unwrap();
        sandbox.set_quota(self.quota);
        sandbox
    }

    pub(super) fn run(&self, sandbox: &mut Sandbox, mode: Mode, sql: &str, args: &[SqlValue]) -> Result<Ran> {
        let cancel = Cancel::default();
        sandbox.run(&Statement {
            sql,
            args,
            mode,
            deadline: Instant::now() + self.timeout,
            max_rows: 10_000,
            max_bytes: 8 << 20,
            frees: false,
            cancel: &cancel,
        })
    }

    /// Runs a statement as the facet does: in a transaction of the runtime, which the statement must not end.
    pub(super) fn exec(&self, sql: &str, args: &[SqlValue]) -> Result<Ran> {
        let mut writer = self.writer();
        writer.begin_immediate()?;
        let ran = self.run(&mut writer, Mode::Exec, sql, args);
        match ran {
            _ if !writer.in_transaction() => {
                Err(memory_core::Error::transaction_lost("ended by the statement"))
            }
            Ok(ran) => writer.commit().map(|()| ran),
            Err(error) => {
                writer.rollback()?;
                Err(error)
            }
        }
    }

    pub(super) fn query(&self, sql: &str, args: &[SqlValue]) -> Result<Rows> {
        let ran = self.run(&mut self.open(Role::Reader), Mode::Query, sql, args)?;
        Ok(ran.rows.unwrap_or_default())
    }

    /// The first value of the first row.
    pub(super) fn value(&self, sql: &str) -> Result<SqlValue> {
        Ok(self.query(sql, &[])?.rows.into_iter().next().and_then(|row| row.into_iter().next()).unwrap())
    }

    /// The contents of the database, and the names of the files next to it.
    pub(super) fn dump(&self) -> String {
        let conn = rusqlite::Connection::open(self.file()).unwrap();
        let mut dump = String::new();
        let mut objects = conn.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2").unwrap();
        let objects: Vec<(String, String, Option<String>)> = objects
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        for (kind, name, sql) in objects {
            dump += &format!("{kind} {name} {sql:?}\n");
            if kind != "table" {
                continue;
            }
            let name = name.replace('"', "\"\"");
            let Ok(mut rows) = conn.prepare(&format!("SELECT * FROM \"{name}\"")) else { continue };
            let width = rows.column_count();
            let mut lines: Vec<String> = rows
                .query_map([], |row| {
                    let values: rusqlite::Result<Vec<Value>> = (0..width).map(|at| row.get(at)).collect();
                    Ok(format!("{values:?}"))
                })
                .unwrap()
                .map(|line| line.unwrap_or_default())
                .collect();
            lines.sort();
            dump += &lines.join("\n");
        }
        let mut files: Vec<_> = std::fs::read_dir(self.folder())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|file| !file.ends_with("-wal") && !file.ends_with("-shm"))
            .collect();
        files.sort();
        format!("{dump}\n{files:?}")
    }
}
