//! The store of LangGraph: the table `store` of `langgraph.store.sqlite` and `langgraph.store.postgres`, with
//! namespace, key, value, times and expiry. Each row becomes a record, so that times and expiry are kept. A SQLite file
//! is read directly; rows of a server arrive as lines of JSON.

use std::fs;
use std::io::{self, BufRead, Read as _};
use std::path::Path;

use memory::hierarchical::transfer::Foreign;
use memory_core::{Entry, Error, Json, Key, Result, Source, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::readers::lines::{Line, Lines};
use super::readers::{Place, json_complaint, written};
use super::records::{Found, RecordReader};

/// Rows read at a time.
const ROWS: usize = 500;
/// Largest value, in bytes.
const MAX_VALUE: i64 = 16 << 20;

/// The first bytes of a SQLite file.
pub(crate) const SQLITE: &[u8] = b"SQLite format 3\0";

/// A SQLite file, opened for reading only.
enum Database {
    /// In WAL mode, SQLite would create files next to it, or change those of the program that uses it.
    Logged(Foreign),
    /// The program may go on writing between two reads of pages.
    Plain(Connection),
}

impl Database {
    fn open(path: &Path) -> Result<Self> {
        let path = fs::canonicalize(path).map_err(unreadable)?;
        if is_logged(&path).map_err(unreadable)? {
            return Foreign::open(&path).map(Self::Logged);
        }
        // Must come before any use of SQLite, or this process cannot serve SQL to agents.
        memory::sqlite::prepare_process();
        let opened = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        opened.map(Self::Plain).map_err(unreadable)
    }

    fn connection(&self) -> &Connection {
        match self {
            Self::Logged(foreign) => foreign.connection(),
            Self::Plain(connection) => connection,
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Logged(foreign) => foreign.finish(),
            Self::Plain(_) => Ok(()),
        }
    }
}

/// Whether the header of a SQLite file says WAL mode.
fn is_logged(path: &Path) -> io::Result<bool> {
    let mut head = [0; SQLITE.len() + 4];
    fs::File::open(path)?.read_exact(&mut head)?;
    Ok(head.ends_with(&[2, 2]))
}

/// Reads a store in key order.
pub(crate) struct LangGraph {
    /// `None` after the last row.
    database: Option<Database>,
    /// The expiry columns; `NULL` in place of one that the table lacks, as older tables do.
    expiry: [&'static str; 2],
    after: Option<(String, String)>,
    ready: std::vec::IntoIter<Found>,
}

impl LangGraph {
    /// Opens a file for reading only.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let database = Database::open(path)?;
        let mut columns = Vec::new();
        database
            .connection()
            .prepare("SELECT name FROM pragma_table_info('store')")
            .and_then(|mut statement| {
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    columns.push(row.get::<_, String>(0)?);
                }
                Ok(())
            })
            .map_err(unreadable)?;
        let has = |name: &str| columns.iter().any(|column| column == name);
        if !["prefix", "key", "value", "created_at", "updated_at"].into_iter().all(has) {
            return Err(Error::corrupt(
                "the SQLite file has no table `store` of LangGraph; a store of `memory` is copied with `memory migrate`",
            ));
        }
        let expiry = ["expires_at", "ttl_minutes"].map(|name| if has(name) { name } else { "NULL" });
        Ok(Self { database: Some(database), expiry, after: None, ready: Vec::new().into_iter() })
    }

    fn page(&mut self) -> rusqlite::Result<Vec<Found>> {
        let Some(database) = &self.database else { return Ok(Vec::new()) };
        let [expires, minutes] = self.expiry;
        let (prefix, key) = self.after.clone().unwrap_or_default();
        let begins = self.after.is_none();
        let mut statement = database.connection().prepare(&format!(
            "SELECT prefix, key, value, CAST(created_at AS TEXT), CAST(updated_at AS TEXT), CAST({expires} AS TEXT), length(CAST(value AS BLOB)), \
             CAST({minutes} AS REAL) \
             FROM store WHERE ?1 OR (prefix, key) > (?2, ?3) ORDER BY prefix, key LIMIT {ROWS}"
        ))?;
        let mut rows = statement.query(rusqlite::params![begins, prefix, key])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let (prefix, key): (String, String) = (row.get(0)?, row.get(1)?);
            let place = Place::Part(format!("{prefix} {key}"));
            let bytes: Option<i64> = row.get(6)?;
            found.push(match (bytes, row.get_ref(2)?) {
                (Some(bytes), _) if bytes > MAX_VALUE => {
                    Found::Broken(place, format!("the value has {bytes} bytes; at most {MAX_VALUE} are read"))
                }
                (_, ValueRef::Text(value) | ValueRef::Blob(value)) => {
                    let times: [Option<String>; 3] = [row.get(3)?, row.get(4)?, row.get(5)?];
                    match entry(&prefix, &key, value, &times, row.get(7)?) {
                        Ok(entry) => Found::Record(place, Box::new(entry.into())),
                        Err(error) => Found::Broken(place, error.message().to_owned()),
                    }
                }
                _ => Found::Broken(place, "the value is no text".to_owned()),
            });
            self.after = Some((prefix, key));
        }
        Ok(found)
    }
}

impl RecordReader for LangGraph {
    fn next_record(&mut self) -> io::Result<Option<Found>> {
        if let Some(found) = self.ready.next() {
            return Ok(Some(found));
        }
        self.ready = self.page().map_err(io::Error::other)?.into_iter();
        let next = self.ready.next();
        if next.is_none()
            && let Some(database) = self.database.take()
        {
            database.finish().map_err(io::Error::other)?;
        }
        Ok(next)
    }
}

/// A row as written by PostgreSQL's `row_to_json`.
#[derive(Deserialize)]
struct Row<'a> {
    prefix: String,
    key: String,
    #[serde(borrow)]
    value: &'a RawValue,
    created_at: Option<String>,
    updated_at: Option<String>,
    expires_at: Option<String>,
    ttl_minutes: Option<f64>,
}

/// Reads rows, one per line.
pub(crate) struct LangGraphRows<R>(Lines<R>);

impl<R: BufRead> LangGraphRows<R> {
    /// Reads from the first line on.
    pub(crate) fn new(input: R) -> Self {
        Self(Lines::of_records(input))
    }
}

impl<R: BufRead + Send> RecordReader for LangGraphRows<R> {
    fn next_record(&mut self) -> io::Result<Option<Found>> {
        let Some((number, line)) = self.0.next_line()? else { return Ok(None) };
        let place = Place::Line(number);
        let text = match line {
            Line::Text(text) => text,
            Line::Broken(why) => return Ok(Some(Found::Broken(place, why))),
        };
        let read =
            serde_json::from_str::<Row<'_>>(text).map_err(|error| json_complaint(&error)).and_then(|row| {
                let times = [row.created_at, row.updated_at, row.expires_at];
                entry(&row.prefix, &row.key, row.value.get().as_bytes(), &times, row.ttl_minutes)
                    .map_err(|error| error.message().to_owned())
            });
        Ok(Some(match read {
            Ok(entry) => Found::Record(place, Box::new(entry.into())),
            Err(why) => Found::Broken(place, why),
        }))
    }
}

/// The entry for a row, as our Python client's `MemoryStore` writes it. Its key has the labels of the namespace, then
/// `//`, then the item's key, so that namespaces cannot overlap. Its metadata has the minutes of a lifetime that
/// restarts with each read.
fn entry(
    prefix: &str,
    key: &str,
    value: &[u8],
    times: &[Option<String>; 3],
    minutes: Option<f64>,
) -> Result<Entry> {
    let text = std::str::from_utf8(value).map_err(|_| Error::invalid("the value is not UTF-8"))?;
    let escaped = |part: &str| part.replace('%', "%25").replace('/', "%2F").replace('\0', "%00");
    let mut path = "langgraph/".to_owned();
    for label in prefix.split('.') {
        path.push_str(&escaped(label));
        path.push('/');
    }
    path.push('/');
    path.push_str(&escaped(key));
    let at = |time: &Option<String>| time.as_deref().map(written).transpose();
    let [created, updated, expires] = times;
    let created = at(created)?;
    let updated = at(updated)?.or(created).unwrap_or(Timestamp::EPOCH);
    let mut entry = Entry::new(Key::new(path)?, Json::parse(text)?, 1, updated);
    entry.created_at = created.unwrap_or(updated).min(updated);
    entry.expires_at = at(expires)?;
    if let Some(minutes) = minutes.filter(|minutes| *minutes > 0.0) {
        entry.metadata.insert("ttl_minutes", minutes);
    }
    entry.metadata.check()?;
    entry.source = Some(Source::new("import:langgraph")?);
    Ok(entry)
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::corrupt("the SQLite file cannot be read").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::ErrorKind;

    /// What `SqliteStore.setup` makes.
    const TABLES: &str = "CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, \
        created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (prefix, key));
        CREATE INDEX store_prefix_idx ON store (prefix);
        ALTER TABLE store ADD COLUMN expires_at TIMESTAMP; ALTER TABLE store ADD COLUMN ttl_minutes REAL;";

    fn read(rows: &str) -> Vec<std::result::Result<Entry, String>> {
        memory::sqlite::prepare_process();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        Connection::open(&path).unwrap().execute_batch(&format!("{TABLES}{rows}")).unwrap();
        let mut reader = LangGraph::open(&path).unwrap();
        let mut found = Vec::new();
        while let Some(one) = reader.next_record().unwrap() {
            found.push(match one {
                Found::Record(_, record) => Ok(record.entry),
                Found::Broken(place, why) => Err(format!("{place}: {why}")),
            });
        }
        found
    }

    #[test]
    fn a_row_keeps_namespace_value_times_and_expiry() {
        let found = read(
            "INSERT INTO store VALUES ('users.ada', 'a/b', X'7b226e223a20312e31307d', '2026-01-02 03:04:05', '2026-01-03 03:04:05', '2036-01-01 00:00:00.795242+00:00', 5);
             INSERT INTO store VALUES ('users', 'x', 'no json', '2026-01-02 03:04:05', '2026-01-02 03:04:05', NULL, NULL);",
        );
        assert!(found[0].as_ref().unwrap_err().starts_with("users x: "));
        let entry = found[1].as_ref().unwrap();
        assert_eq!(
            (entry.key.as_str(), entry.value.as_str()),
            ("langgraph/users/ada//a%2Fb", "{\"n\": 1.10}")
        );
        assert_eq!(entry.created_at.to_string(), "2026-01-02T03:04:05.000Z");
        assert_eq!(entry.updated_at.to_string(), "2026-01-03T03:04:05.000Z");
        assert_eq!(entry.expires_at.unwrap().to_string(), "2036-01-01T00:00:00.795Z");
        assert_eq!(serde_json::to_string(&entry.metadata).unwrap(), r#"{"ttl_minutes":5.0}"#);
    }

    #[test]
    fn a_store_in_wal_mode_is_read_with_its_log_and_nothing_is_left_beside_it() {
        memory::sqlite::prepare_process();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let files = |folder: &Path| {
            let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
            let mut files: Vec<_> = files.map(|file| (std::fs::read(&file).unwrap(), file)).collect();
            files.sort();
            files
        };
        let keys = |path: &Path| {
            let before = files(path.parent().unwrap());
            let mut reader = LangGraph::open(path).unwrap();
            let mut keys = Vec::new();
            while let Some(found) = reader.next_record().unwrap() {
                let Found::Record(_, record) = found else { panic!("a row is broken") };
                keys.push(record.entry.key.as_str().to_owned());
            }
            drop(reader);
            assert!(files(path.parent().unwrap()) == before, "{path:?}");
            keys
        };
        let program = Connection::open(&path).unwrap();
        program.execute_batch(&format!("PRAGMA journal_mode = WAL; {TABLES}")).unwrap();
        program.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        program.execute_batch("INSERT INTO store(prefix, key, value) VALUES ('p', 'k', '1')").unwrap();
        assert_eq!(keys(&path), ["langgraph/p//k"], "the program is running");
        let killed = tempfile::tempdir().unwrap();
        let copy = killed.path().join("store.db");
        for name in ["store.db", "store.db-wal"] {
            std::fs::copy(path.with_file_name(name), copy.with_file_name(name)).unwrap();
        }
        assert_eq!(keys(&copy), ["langgraph/p//k"], "the program was killed");
        drop(program);
        assert_eq!(keys(&path), ["langgraph/p//k"], "the program has closed it");
    }

    #[test]
    fn rows_of_a_server_are_read_as_lines() {
        let text = concat!(
            r#"{"prefix":"users.ada","key":"home","value":{"n": 1.10},"created_at":"2026-01-02T03:04:05.123456+00:00","updated_at":"2026-01-03T05:04:05+02:00","expires_at":null,"ttl_minutes":null}"#,
            "\n{\"prefix\":\"users\"}\n",
        );
        let mut rows = LangGraphRows::new(text.as_bytes());
        let Some(Found::Record(_, record)) = rows.next_record().unwrap() else { panic!("line 1 is a row") };
        let entry = record.entry;
        assert_eq!(
            (entry.key.as_str(), entry.value.as_str()),
            ("langgraph/users/ada//home", "{\"n\": 1.10}")
        );
        assert_eq!(entry.created_at.to_string(), "2026-01-02T03:04:05.123Z");
        assert_eq!(entry.updated_at.to_string(), "2026-01-03T03:04:05.000Z");
        assert!(entry.metadata.is_empty());
        assert!(matches!(rows.next_record().unwrap(), Some(Found::Broken(Place::Line(2), _))));
        assert!(rows.next_record().unwrap().is_none());
    }

    #[test]
    fn pages_follow_each_other_and_another_file_is_refused() {
        let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1203) \
            INSERT INTO store(prefix, key, value) SELECT 'p' || (i % 7), 'k' || i, i FROM n;";
        assert_eq!(read(rows).into_iter().filter(|row| row.is_ok()).count(), 1_203);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE store (a)").unwrap();
        assert_eq!(LangGraph::open(&path).err().unwrap().kind(), ErrorKind::Corrupt);
    }
}
