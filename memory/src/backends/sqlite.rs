//! `sqlite:PATH` and `sqlite::memory:`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Capabilities, Error, ErrorKind, Provider, Result, Retry};
use memory_sqlite::SqliteProvider;
pub use memory_sqlite::{
    RepairOptions, Repaired, SchemaObject, SqliteConfig, prepare_process, quick_check, wait_until_closed,
};
use serde_json::{Map, Value};

use crate::config::without_values;
use crate::factory::{Access, Factory, OpenContext};
use crate::url::BackendUrl;

/// The path of an in-memory database.
const IN_MEMORY: &str = ":memory:";

/// Opens databases of `memory-sqlite`. Blocks for a few milliseconds. Every field of [`SqliteConfig`] is a parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SqliteFactory;

#[async_trait]
impl Factory for SqliteFactory {
    fn check(&self, url: &BackendUrl, context: &OpenContext) -> Result<()> {
        let config = config(url, context.base_dir.as_deref())?;
        if let Some(root) = config.sql.root.filter(|root| root.exists() && !root.is_dir()) {
            return Err(Error::invalid(format!(
                "`sql.root` names {}, which is no folder; name one, or a place for a new one",
                root.display()
            )));
        }
        file(url, context.base_dir.as_deref()).map(drop)
    }

    async fn open(&self, url: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>> {
        self.check(url, context)?;
        let config = config(url, context.base_dir.as_deref())?;
        let clock = Arc::clone(&context.clock);
        let provider = match file(url, context.base_dir.as_deref())? {
            None => SqliteProvider::open_in_memory(config, clock)?,
            Some(path) if context.access != Access::Create && is_missing(&path) => {
                return Err(missing(&path));
            }
            Some(path) if context.access == Access::Read => {
                SqliteProvider::open_to_read(path, config, clock)?
            }
            Some(path) => SqliteProvider::open(path, config, clock)?,
        };
        Ok(match &context.embedder {
            Some(embedder) => Arc::new(provider.with_embedder(Arc::clone(embedder))),
            None => Arc::new(provider),
        })
    }

    fn serves(&self) -> Option<Capabilities> {
        Some(super::entries())
    }
}

/// Recreates the triggers and indexes of a database that another program changed, so that it opens again. Blocks for
/// about as long as it takes to read the file twice.
///
/// # Errors
/// `capability_unsupported` for a store that is not a SQLite file, saying how to repair it if possible;
/// `invalid_argument` for a malformed URL or parameter; those of [`memory_sqlite::repair`].
pub fn repair(url: &BackendUrl, context: &OpenContext, options: RepairOptions) -> Result<Repaired> {
    let unsupported = |message| Error::new(ErrorKind::Unsupported, message).with_retry(Retry::Never);
    match url.scheme() {
        "sqlite" => {}
        "postgres" | "postgresql" => {
            return Err(unsupported(
                "the store is a PostgreSQL database; `memory postgres provision --apply` recreates its triggers",
            ));
        }
        _ => {
            return Err(unsupported("the store has no triggers of ours; only a SQLite file can be repaired"));
        }
    }
    let config = config(url, context.base_dir.as_deref())?;
    let Some(path) = file(url, context.base_dir.as_deref())? else {
        return Err(unsupported(
            "no other program can change the triggers of an in-memory database; name a file",
        ));
    };
    if is_missing(&path) {
        return Err(missing(&path));
    }
    memory_sqlite::repair(path, &config, options)
}

/// The folder beside a database in which its scopes are saved when a write is refused for drift.
pub(crate) fn drift_folder(url: &BackendUrl, base: Option<&Path>) -> Option<PathBuf> {
    if url.scheme() != "sqlite" {
        return None;
    }
    let mut name = based(base, path(url).ok()??).into_os_string();
    name.push(".drift");
    Some(PathBuf::from(name))
}

/// The file of a URL, relative to `base`; `None` for an in-memory database.
///
/// # Errors
/// `invalid_argument` for a malformed URL.
pub fn file(url: &BackendUrl, base: Option<&Path>) -> Result<Option<PathBuf>> {
    Ok(path(url)?.map(|path| based(base, path)))
}

fn is_missing(file: &Path) -> bool {
    file.symlink_metadata().is_err_and(|error| {
        matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
    })
}

fn missing(file: &Path) -> Error {
    Error::not_found(
        format!("there is no store: {} does not exist; check the path, or write something to it first, which creates it", file.display()),
    )
    .with_retry(Retry::Never)
    .with_detail("missing", "store")
}

/// The existing SQL databases of a store: those of scopes, of shared state and of graphs.
///
/// # Errors
/// `invalid_argument` for a malformed URL or parameter.
pub fn sql_databases(url: &BackendUrl, base: Option<&Path>) -> Result<Vec<PathBuf>> {
    let Some(file) = file(url, base)? else { return Ok(Vec::new()) };
    let root = config(url, base)?.sql.root.unwrap_or_else(|| {
        let mut name = file.into_os_string();
        name.push(".sql");
        PathBuf::from(name)
    });
    let inside = |folder: PathBuf| folder.read_dir().into_iter().flatten().flatten().map(|item| item.path());
    let databases = inside(root).flat_map(inside).map(|folder| folder.join("data.db"));
    let mut found: Vec<PathBuf> =
        databases.filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_file())).collect();
    found.sort();
    Ok(found)
}

/// A store's own files and folders, whether they exist or not: the database with its engine's files, the scopes'
/// databases, and what this project keeps next to it. Empty for an in-memory database.
///
/// # Errors
/// `invalid_argument` for a malformed URL or parameter.
pub fn own_files(url: &BackendUrl, base: Option<&Path>) -> Result<Vec<PathBuf>> {
    let Some(file) = file(url, base)? else { return Ok(Vec::new()) };
    let sql = config(url, base)?.sql;
    let mut own = vec![file.clone()];
    for ending in ["-wal", "-shm", "-journal", ".sql", ".drift", ".snapshots", ".forget"] {
        let mut name = file.clone().into_os_string();
        name.push(ending);
        own.push(PathBuf::from(name));
    }
    own.extend(sql.root);
    own.extend(sql.shared.into_iter().map(|shared| shared.path));
    Ok(own)
}

fn based(base: Option<&Path>, path: PathBuf) -> PathBuf {
    match base {
        Some(base) => base.join(path),
        None => path,
    }
}

/// The file; `None` if in memory.
fn path(url: &BackendUrl) -> Result<Option<PathBuf>> {
    let path = url.decoded_path()?;
    if path == IN_MEMORY {
        return Ok(None);
    }
    // `//name/…` would name a host; three slashes start an absolute path, as in `file:` URLs.
    let path = match path.strip_prefix("//") {
        Some(rest) if rest.starts_with('/') && !rest.starts_with("//") => rest,
        Some(_) => {
            return Err(Error::invalid(
                "a file has no host: write `sqlite:relative/path.db`, `sqlite:/absolute/path.db` or `sqlite:///absolute/path.db`",
            ));
        }
        None => path.as_str(),
    };
    if path.is_empty() {
        return Err(Error::invalid(
            "the URL names no file: write `sqlite:PATH`, or `sqlite::memory:` for none",
        ));
    }
    // SQLite and its tools treat such names specially.
    if path.starts_with(':') || path.starts_with("file:") {
        return Err(Error::invalid(
            "the file's name begins with `:` or `file:`; write `sqlite:./NAME` for a file of that name",
        ));
    }
    Ok(Some(PathBuf::from(path)))
}

/// Parses the URL, with paths relative to `base`.
///
/// # Errors
/// `invalid_argument` for a malformed URL or parameter, naming it.
pub fn config(url: &BackendUrl, base: Option<&Path>) -> Result<SqliteConfig> {
    let mut fields = Map::new();
    for (name, text) in url.parameters()? {
        // Parsed on its own first, so that the error can name it.
        let mut alone = Map::new();
        insert(&mut alone, &name, &text, base)?;
        serde_json::from_value::<SqliteConfig>(Value::Object(alone)).map_err(|error| {
            let why = without_values(&error.to_string());
            Error::invalid(format!("the parameter `{name}` of the sqlite URL is not accepted: {why}"))
                .with_detail("parameter", name.as_str())
        })?;
        insert(&mut fields, &name, &text, base)?;
    }
    let config: SqliteConfig = serde_json::from_value(Value::Object(fields)).map_err(|error| {
        Error::invalid("the parameters of the sqlite URL are not accepted").with_source(error)
    })?;
    config.check().map(|()| config)
}

/// Stores a parameter in the section that its name indicates: `sql.NAME` in the SQL options, and `sql.shared.NAME=FILE`
/// in their list of shared files.
fn insert(fields: &mut Map<String, Value>, name: &str, text: &str, base: Option<&Path>) -> Result<()> {
    let file = || match based(base, PathBuf::from(text)).into_os_string().into_string() {
        Ok(path) => Ok(Value::String(path)),
        Err(_) => Err(Error::invalid(format!("the folder that `{name}` is relative to is not UTF-8"))),
    };
    let plain = || match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text.parse::<u64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
    };
    let Some(inner) = name.strip_prefix("sql.") else {
        fields.insert(name.to_owned(), plain());
        return Ok(());
    };
    let Some(sql) = fields.entry("sql").or_insert_with(|| Value::Object(Map::new())).as_object_mut() else {
        return Err(Error::invalid("`sql` is a group of parameters; write `sql.NAME=value`"));
    };
    match inner.strip_prefix("shared.") {
        Some(schema) => {
            let shared = sql.entry("shared").or_insert_with(|| Value::Array(Vec::new()));
            if let Some(shared) = shared.as_array_mut() {
                shared.push(serde_json::json!({"name": schema, "path": file()?}));
            }
        }
        None if inner == "root" => drop(sql.insert(inner.to_owned(), file()?)),
        None => drop(sql.insert(inner.to_owned(), plain())),
    }
    Ok(())
}

/// Opens one of our own SQLite files that is not a store. All use of SQLite in this crate goes through here or through
/// a provider, because agents get SQL only if the process was prepared before its first use of SQLite.
pub(crate) fn connect(path: &Path) -> rusqlite::Result<rusqlite::Connection> {
    prepare_process();
    rusqlite::Connection::open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_sqlite::Durability;

    fn url(text: &str) -> BackendUrl {
        BackendUrl::parse(text).unwrap()
    }

    #[test]
    fn paths_are_files_relative_absolute_or_none() {
        for (text, expected) in [
            ("sqlite::memory:", None),
            ("sqlite:a.db", Some("a.db")),
            ("sqlite:dir/a%20b.db?durability=full", Some("dir/a b.db")),
            ("sqlite:/var/a.db", Some("/var/a.db")),
            ("sqlite:///var/a.db", Some("/var/a.db")),
            ("sqlite:./:odd:", Some("./:odd:")),
        ] {
            assert_eq!(path(&url(text)).unwrap(), expected.map(PathBuf::from), "{text}");
        }
        for bad in [
            "sqlite:",
            "sqlite:?durability=full",
            "sqlite://a.db",
            "sqlite:////a.db",
            "sqlite::mem:",
            "sqlite:file:a",
        ] {
            assert!(path(&url(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn parameters_are_the_fields_of_the_configuration() {
        let config = config(&url("sqlite:a.db?durability=normal&busy_timeout_ms=250"), None).unwrap();
        assert_eq!(config.durability, Durability::Normal);
        assert_eq!(config.busy_timeout_ms, 250);
        assert_eq!(super::config(&url("sqlite:a.db"), None).unwrap(), SqliteConfig::default());
    }

    #[test]
    fn parameters_of_sql_reach_its_own_options() {
        let text =
            "sqlite:a.db?sql.tx_idle_ms=250&sql.root=trees&sql.shared.facts=facts.db&sql.quota_bytes=70000";
        let config = super::config(&url(text), Some(Path::new("base"))).unwrap();
        assert_eq!((config.sql.tx_idle_ms, config.sql.quota_bytes), (250, Some(70_000)));
        assert_eq!(config.sql.root, Some(PathBuf::from("base/trees")));
        let shared = &config.sql.shared[0];
        assert_eq!((shared.name.as_str(), shared.path.as_path()), ("facts", Path::new("base/facts.db")));
        for bad in
            ["sqlite:a.db?sql.nonsense=1", "sqlite:a.db?sql=1&sql.root=x", "sqlite:a.db?sql.shared.A=x"]
        {
            assert!(super::config(&url(bad), None).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_unknown_or_invalid_parameter_is_named_with_what_is_allowed() {
        for (bad, name, allowed) in [
            ("sqlite:a.db?durablity=full", "durablity", "`durability`"),
            ("sqlite:a.db?durability=fast", "durability", "`normal`"),
            ("sqlite:a.db?readers=many", "readers", "usize"),
            ("sqlite:a.db?busy_timeout_ms=-1", "busy_timeout_ms", "u"),
            ("sqlite:a.db?readers=0", "readers", "1 to 64"),
        ] {
            let error = config(&url(bad), None).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(allowed), "{bad}: {error}");
            let value = bad.rsplit_once('=').unwrap().1;
            assert!(
                !error.contains(&format!("`{value}`")) && !error.contains(&format!("\"{value}\"")),
                "{error}"
            );
        }
    }
}
