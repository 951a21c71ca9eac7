//! The store of definitions: one SQLite file of the operator.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::{Clock, Error, ErrorKind, Result, Retry, TenantId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use serde::Serialize;

use super::content::{Definition, DefinitionId, DefinitionRef};
use crate::private;

/// `mdef`, in the file's header.
const APPLICATION_ID: i32 = 0x6d64_6566;
const FORMAT: i32 = 1;
/// Most names of a tenant.
pub const MAX_NAMES: u32 = 1_000;
/// Most versions of a name.
pub const MAX_VERSIONS: u32 = 1_000;

/// A stored version of a definition.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StoredDefinition {
    /// Its owner.
    pub tenant: TenantId,
    /// Its name.
    pub name: String,
    /// The version: counts from 1 for each name and is never reused.
    pub version: u32,
    /// The id of its content.
    pub id: DefinitionId,
    /// The content.
    pub definition: Definition,
    /// What it was forked from, as `NAME@VERSION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was retired; `None` if it is active.
    pub retired_at: Option<Timestamp>,
    /// What to use instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
}

/// The file of definitions. Changes are atomic, and synced before they are acknowledged.
#[derive(Debug)]
pub struct DefinitionStore {
    connection: Mutex<Connection>,
    clock: Arc<dyn Clock>,
}

impl DefinitionStore {
    /// Opens or creates the file, readable only by its owner.
    ///
    /// # Errors
    /// `corrupt` for a foreign, newer or damaged file, `unavailable` if it cannot be written.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        private::create(path).map_err(|error| {
            Error::unavailable(format!(
                "{} cannot be written: {error}; make its folder writable, or set `file` under [definitions]",
                path.display()
            ))
            .with_retry(Retry::Never)
            .with_source(error)
        })?;
        Self::over(crate::backends::sqlite::connect(path).map_err(failed)?, clock)
    }

    /// Opens the file for reading. If it is missing, it is not created and there are no definitions.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_existing(path: &Path, clock: Arc<dyn Clock>) -> Result<Self> {
        if path.is_file() {
            return Self::open(path, clock);
        }
        Self::over(crate::backends::sqlite::connect(Path::new(":memory:")).map_err(failed)?, clock)
    }

    fn over(connection: Connection, clock: Arc<dyn Clock>) -> Result<Self> {
        connection.busy_timeout(Duration::from_secs(5)).map_err(failed)?;
        let pragma = |name: &str| -> Result<i32> {
            connection.pragma_query_value(None, name, |row| row.get(0)).map_err(failed)
        };
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(failed)?;
        match (pragma("application_id")?, pragma("user_version")?, tables) {
            (APPLICATION_ID, FORMAT, _) => {}
            (0, 0, 0) => connection.execute_batch(SCHEMA).map_err(failed)?,
            (APPLICATION_ID, ..) => return Err(damaged("it was written by a newer version of this program")),
            _ => return Err(damaged("it holds something else")),
        }
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        connection.pragma_update(None, "foreign_keys", "on").map_err(failed)?;
        Ok(Self { connection: Mutex::new(connection), clock })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // Every change is a transaction.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the first version of a name. If it already exists with the same content, returns it unchanged.
    ///
    /// # Errors
    /// `conflict` if the name has other content or was retired; `quota_exceeded` for too many names.
    pub fn create(&self, tenant: &TenantId, name: &str, definition: &Definition) -> Result<StoredDefinition> {
        let name = plain(name)?;
        let id = definition.id()?;
        self.change(|transaction| {
            match newest(transaction, tenant, &name.name)? {
                Some(there) if there.id == id && there.retired_at.is_none() => return Ok(there),
                Some(there) if there.retired_at.is_some() => {
                    Err(taken(&name, "was retired, and names are not reused"))
                }
                Some(_) => Err(taken(&name, "is taken; fork it to create its next version")),
                None => Ok(()),
            }?;
            let names: u32 = transaction
                .query_row(
                    "SELECT count(DISTINCT name) FROM definitions WHERE tenant = ?1",
                    [tenant.as_str()],
                    |row| row.get(0),
                )
                .map_err(failed)?;
            if names >= MAX_NAMES {
                return Err(Error::quota_exceeded(format!(
                    "the tenant has {MAX_NAMES} definitions; fork one of them"
                )));
            }
            insert(transaction, tenant, &name.name, 1, definition, None, self.clock.now())
        })
    }

    /// Creates a new version of a name, or the first version of a new name, from an existing version. If `change`
    /// changes nothing and the name is the same, returns the existing version.
    ///
    /// # Errors
    /// `not_found` for the version to fork, `conflict` if the name was retired; the errors of `change`.
    pub fn fork(
        &self,
        tenant: &TenantId,
        from: &DefinitionRef,
        name: &str,
        definition: impl FnOnce(&Definition) -> Result<Definition>,
    ) -> Result<StoredDefinition> {
        let name = plain(name)?;
        self.change(|transaction| {
            let parent = found(transaction, tenant, from)?;
            let definition = definition(&parent.definition)?;
            let there = newest(transaction, tenant, &name.name)?;
            let version = match &there {
                Some(there) if there.retired_at.is_some() => {
                    return Err(taken(&name, "was retired, and names are not reused"));
                }
                Some(there) if there.id == definition.id()? => return Ok(there.clone()),
                Some(_) if name.name != parent.name => {
                    return Err(taken(&name, "is taken; fork that name to create its next version"));
                }
                Some(there) if there.version >= MAX_VERSIONS => {
                    return Err(Error::quota_exceeded(format!(
                        "`{}` has {MAX_VERSIONS} versions; fork it under a new name",
                        name.name
                    )));
                }
                Some(there) => there.version + 1,
                None => 1,
            };
            let parent = format!("{}@{}", parent.name, parent.version);
            insert(transaction, tenant, &name.name, version, &definition, Some(&parent), self.clock.now())
        })
    }

    /// A version, active or not; without a number, the newest.
    ///
    /// # Errors
    /// `not_found`.
    pub fn show(&self, tenant: &TenantId, which: &DefinitionRef) -> Result<StoredDefinition> {
        found(&self.lock(), tenant, which)
    }

    /// A version to use.
    ///
    /// # Errors
    /// `not_found`. If it was retired, with `details.retired_at`, and `details.successor` if there is one.
    pub fn resolve(&self, tenant: &TenantId, which: &DefinitionRef) -> Result<StoredDefinition> {
        let stored = self.show(tenant, which)?;
        let Some(at) = stored.retired_at else { return Ok(stored) };
        let instead = match &stored.successor {
            Some(successor) => format!("use its successor `{successor}`"),
            None => "it has no successor; bind the agent to another".to_owned(),
        };
        Err(Error::not_found(format!("the backend `{which}` was retired; {instead}"))
            .with_detail("backend", which.to_string())
            .with_detail("retired_at", at.to_string())
            .with_detail("successor", stored.successor))
    }

    /// The newest version of each name, or every version, in order.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn list(&self, tenant: &TenantId, every_version: bool) -> Result<Vec<StoredDefinition>> {
        let connection = self.lock();
        let newest = "AND d.version = (SELECT max(version) FROM definitions AS other \
             WHERE other.tenant = d.tenant AND other.name = d.name)";
        let sql = format!(
            "{SELECT} WHERE d.tenant = ?1 {} ORDER BY d.name, d.version",
            if every_version { "" } else { newest }
        );
        let mut statement = connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([tenant.as_str()]).map_err(failed)?;
        let mut list = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            list.push(read(row)?);
        }
        Ok(list)
    }

    /// Retires a version, or every version of the name if no number is given. Retired versions are kept. Retiring again
    /// changes only the successor.
    ///
    /// # Errors
    /// `not_found`.
    pub fn retire(
        &self,
        tenant: &TenantId,
        which: &DefinitionRef,
        successor: Option<&str>,
    ) -> Result<StoredDefinition> {
        self.change(|transaction| {
            found(transaction, tenant, which)?;
            transaction
                .execute(
                    "UPDATE definitions SET retired_at = coalesce(retired_at, ?4), successor = ?5 \
                     WHERE tenant = ?1 AND name = ?2 AND (?3 IS NULL OR version = ?3)",
                    params![
                        tenant.as_str(),
                        which.name,
                        which.version,
                        self.clock.now().as_millis(),
                        successor
                    ],
                )
                .map_err(failed)?;
            found(transaction, tenant, which)
        })
    }

    fn change<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let mut connection = self.lock();
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let done = work(&transaction)?;
        transaction.commit().map_err(failed)?;
        Ok(done)
    }
}

const SCHEMA: &str = "
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS contents (id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS definitions (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    content TEXT NOT NULL REFERENCES contents (id),
    parent TEXT,
    created_at INTEGER NOT NULL,
    retired_at INTEGER,
    successor TEXT,
    PRIMARY KEY (tenant, name, version)
) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1835296102;
PRAGMA user_version = 1;
COMMIT;
";

const SELECT: &str = "SELECT d.tenant, d.name, d.version, d.content, c.body, d.parent, d.created_at, d.retired_at, d.successor \
     FROM definitions AS d JOIN contents AS c ON c.id = d.content";

fn insert(
    transaction: &Transaction<'_>,
    tenant: &TenantId,
    name: &str,
    version: u32,
    definition: &Definition,
    parent: Option<&str>,
    now: Timestamp,
) -> Result<StoredDefinition> {
    let id = definition.id()?;
    transaction
        .execute(
            "INSERT OR IGNORE INTO contents (id, body) VALUES (?1, ?2)",
            params![id.as_str(), definition.json()?.as_str()],
        )
        .map_err(failed)?;
    transaction
        .execute(
            "INSERT INTO definitions (tenant, name, version, content, parent, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![tenant.as_str(), name, version, id.as_str(), parent, now.as_millis()],
        )
        .map_err(failed)?;
    found(transaction, tenant, &DefinitionRef { name: name.to_owned(), version: Some(version) })
}

fn newest(connection: &Connection, tenant: &TenantId, name: &str) -> Result<Option<StoredDefinition>> {
    one(connection, tenant, name, None)
}

fn one(
    connection: &Connection,
    tenant: &TenantId,
    name: &str,
    version: Option<u32>,
) -> Result<Option<StoredDefinition>> {
    let sql = format!(
        "{SELECT} WHERE d.tenant = ?1 AND d.name = ?2 AND (?3 IS NULL OR d.version = ?3) ORDER BY d.version DESC LIMIT 1"
    );
    connection
        .prepare_cached(&sql)
        .and_then(|mut statement| {
            statement.query_row(params![tenant.as_str(), name, version], |row| Ok(read(row))).optional()
        })
        .map_err(failed)?
        .transpose()
}

fn found(connection: &Connection, tenant: &TenantId, which: &DefinitionRef) -> Result<StoredDefinition> {
    one(connection, tenant, &which.name, which.version)?.ok_or_else(|| {
        Error::not_found(format!(
            "the tenant has no backend `{which}`; `memory backend list` shows its backends"
        ))
        .with_detail("backend", which.to_string())
    })
}

fn read(row: &rusqlite::Row<'_>) -> Result<StoredDefinition> {
    let text = |at: usize| row.get::<_, String>(at).map_err(failed);
    let time = |millis: i64| Timestamp::from_millis(millis).map_err(|_| damaged("a time is invalid"));
    let retired: Option<i64> = row.get(7).map_err(failed)?;
    let definition: Definition = serde_json::from_str(&text(4)?)
        .map_err(|error| damaged("a definition is invalid").with_source(error))?;
    let id = DefinitionId::read(text(3)?);
    if definition.id()? != id {
        return Err(damaged("a definition does not match its id"));
    }
    Ok(StoredDefinition {
        tenant: TenantId::new(text(0)?).map_err(|_| damaged("a tenant is invalid"))?,
        name: text(1)?,
        version: row.get(2).map_err(failed)?,
        id,
        definition,
        parent: row.get(5).map_err(failed)?,
        created_at: time(row.get(6).map_err(failed)?)?,
        retired_at: retired.map(time).transpose()?,
        successor: row.get(8).map_err(failed)?,
    })
}

/// A name without a version.
fn plain(name: &str) -> Result<DefinitionRef> {
    let name = DefinitionRef::parse(name)?;
    if name.version.is_some() {
        return Err(Error::invalid("new versions are numbered automatically; give only the name"));
    }
    Ok(name)
}

fn taken(name: &DefinitionRef, why: &str) -> Error {
    Error::new(ErrorKind::Conflict, format!("the name `{name}` {why}")).with_retry(Retry::Never)
}

fn failed(error: rusqlite::Error) -> Error {
    let kind = match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, "the file of definitions cannot be used; see the cause").with_source(error)
}

fn damaged(why: &str) -> Error {
    Error::corrupt(format!(
        "the file of definitions cannot be read: {why}; set another `file` under [definitions]"
    ))
}
