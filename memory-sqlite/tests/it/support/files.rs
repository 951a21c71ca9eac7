//! Folders, their contents, and the database seen past the provider.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::{Store, quiet};

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// A folder, and the path of a database in it.
pub(crate) fn place() -> (TempDir, PathBuf) {
    let folder = folder();
    let path = folder.path().join("memory.db");
    (folder, path)
}

/// A file beside the database: `-wal`, `-shm`, `-journal`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(crate) fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

/// Everything in a folder, by name: the bytes of files, what links point to, the names of folders.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
        let bytes = if kind.is_symlink() {
            std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if kind.is_dir() {
            found.extend(contents(&path));
            b"folder".to_vec()
        } else if kind.is_file() {
            std::fs::read(&path).unwrap()
        } else {
            b"something else".to_vec()
        };
        found.insert(path, bytes);
    }
    found
}

/// The database as any other program opens it.
pub(crate) fn raw(path: &Path) -> Connection {
    raw_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Like [`raw`]; creates the file if there is none.
pub(crate) fn raw_or_new(path: &Path) -> Connection {
    raw_with(path, OpenFlags::default())
}

/// Like [`raw`], with these flags.
/// The SQL database of the only scope of a store in this folder.
pub(crate) fn raw_sql(folder: &Path) -> Connection {
    let found = contents(folder);
    let is_of_scope =
        |path: &&PathBuf| !path.ends_with("memory.db") && found[*path].starts_with(b"SQLite format 3");
    raw(found.keys().find(is_of_scope).unwrap())
}

pub(crate) fn raw_with(path: &Path, flags: OpenFlags) -> Connection {
    use_sqlite_through_the_crate_first();
    memory_sqlite::prepare_process();
    let conn = Connection::open_with_flags(path, flags).unwrap();
    conn.busy_timeout(Duration::from_secs(10)).unwrap();
    conn
}

/// If a process used SQLite another way first, single statements could not be metered, which other tests need.
fn use_sqlite_through_the_crate_first() {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| drop(Store::in_memory(quiet()).unwrap()));
}

pub(crate) fn pragma(conn: &Connection, name: &str) -> i64 {
    conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0)).unwrap()
}

/// SQLite's own integrity check.
pub(crate) fn integrity(path: &Path) -> String {
    raw(path).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}
