//! Graphs as database files of the original's layout.

use std::path::{Path, PathBuf};

use memory_core::{ErrorKind, Provider as _};
use memory_hierarchical::transfer::{Graph, read_raw_db, write_raw_db};
use rusqlite::Connection;

use super::files::{graph_of, multiset, shared};
use crate::support::{agent, derives, episodic, semantic, similar, supersedes, transitioned};

fn graph() -> Graph {
    let mut graph = Graph {
        semantic: vec![semantic("a"), semantic("b")],
        episodic: vec![episodic("e")],
        ..Graph::default()
    };
    for edge in [similar("a", "b"), derives("b", "e"), supersedes("a", "b"), transitioned("b", "a")] {
        graph.push(edge);
    }
    graph
}

fn file(folder: &Path) -> PathBuf {
    let path = folder.join("ada.db");
    std::fs::write(&path, write_raw_db(&agent("ada"), &graph()).unwrap()).unwrap();
    path
}

/// SQLite takes its allocator only before its first use, so this runs in a process where nothing else uses SQLite: this
/// test's binary again.
#[test]
fn agents_get_sql_after_a_graph_was_the_first_use_of_sqlite() {
    const FIRST: &str = "MEMORY_TEST_FIRST_USE";
    let folder = tempfile::tempdir().unwrap();
    match std::env::var(FIRST).as_deref() {
        Ok("write") => drop(write_raw_db(&agent("ada"), &graph()).unwrap()),
        Ok(path) => drop(read_raw_db(Path::new(path), &agent("ada")).unwrap()),
        Err(_) => {
            let name = "transfer::raw_db::agents_get_sql_after_a_graph_was_the_first_use_of_sqlite";
            for first in [Path::new("write"), &file(folder.path())] {
                let mut again = std::process::Command::new(std::env::current_exe().unwrap());
                let ended = again.args(["--exact", name]).env(FIRST, first).output().unwrap();
                let said = String::from_utf8_lossy(&ended.stdout);
                assert!(ended.status.success() && said.contains("1 passed"), "{first:?}: {said}");
            }
            return;
        }
    }
    let provider = crate::support::Store::sqlite().provider;
    assert!(provider.capabilities().sql);
}

#[test]
fn what_is_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(read_raw_db(&file(folder.path()), &agent("ada")).unwrap(), graph());
}

#[test]
fn a_file_has_the_originals_tables_and_indexes() {
    let Some(original) = shared("hierarchical/my-agent.db") else { return };
    let Some(exported) = graph_of("json/my-agent.export.json") else { return };
    assert_eq!(multiset(&read_raw_db(&original, &agent("my-agent")).unwrap()), multiset(&exported));
    let folder = tempfile::tempdir().unwrap();
    let ours = folder.path().join("ours.db");
    std::fs::write(&ours, write_raw_db(&agent("my-agent"), &exported).unwrap()).unwrap();
    let schema = |path: &Path| -> Vec<(String, String, String)> {
        let uri = format!("file:{}?immutable=1", path.display());
        let connection = Connection::open(uri).unwrap();
        let mut found = Vec::new();
        for table in [
            "semantic_memories",
            "episodic_memories",
            "similar_to_edges",
            "derives_from_edges",
            "supersedes_edges",
            "transitioned_to_edges",
        ] {
            let query = "SELECT ?1, name, type || \"notnull\" || ifnull(dflt_value, '') || pk FROM pragma_table_info(?1) \
                 UNION ALL SELECT ?1, name, '' FROM pragma_index_list(?1) ORDER BY 2";
            let mut statement = connection.prepare(query).unwrap();
            let rows =
                statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
            found.extend(rows.map(Result::unwrap));
        }
        found
    };
    assert_eq!(schema(&ours), schema(&original));
}

#[test]
fn rows_of_another_agent_are_refused_with_their_number() {
    let Some(file) = shared("hierarchical/other-agent.foreign-rows.db") else { return };
    let error = read_raw_db(&file, &agent("other-agent")).unwrap_err();
    assert_eq!((error.kind(), error.details()["refused"].as_u64()), (ErrorKind::Corrupt, Some(11)));
    assert!(error.message().contains("another agent"), "{error}");
    assert_eq!(read_raw_db(&file, &agent("my-agent")).unwrap().semantic.len(), 4);
}

#[test]
fn edges_that_end_nowhere_are_refused_with_their_number() {
    let Some(file) = shared("hierarchical/ag.orphan-edges.db") else { return };
    let error = read_raw_db(&file, &agent("ag")).unwrap_err();
    assert_eq!(error.details()["refused"], 3, "{error}");
}

#[test]
fn a_log_that_another_program_keeps_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").unwrap();
    writer
        .execute(
            "INSERT INTO semantic_memories (memory_id, agent_id, confidence) VALUES ('in the log', 'ada', 1)",
            [],
        )
        .unwrap();
    let before = contents(folder.path());
    let read = read_raw_db(&path, &agent("ada")).unwrap();
    assert!(read.semantic.iter().any(|node| node.memory_id == "in the log"));
    assert_eq!(contents(folder.path()), before);
    drop(writer);
}

/// Regression: SQLite created an index next to the log and left it there.
#[test]
fn a_log_that_a_program_left_is_read_and_nothing_is_made_beside_it() {
    let (folder, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = file(folder.path());
    let writer = Connection::open(&path).unwrap();
    let insert =
        "INSERT INTO semantic_memories (memory_id, agent_id, confidence) VALUES ('in the log', 'ada', 1)";
    writer.execute_batch(&format!("PRAGMA journal_mode = WAL; {insert}")).unwrap();
    for name in ["ada.db", "ada.db-wal"] {
        std::fs::copy(folder.path().join(name), left.path().join(name)).unwrap();
    }
    let (path, before) = (left.path().join("ada.db"), contents(left.path()));
    assert_eq!(before.len(), 2);
    let read = read_raw_db(&path, &agent("ada")).unwrap();
    assert!(read.semantic.iter().any(|node| node.memory_id == "in the log"));
    memory_hierarchical::migrate::Source::read(&path, None).unwrap();
    assert_eq!(contents(left.path()), before);
}

/// The names and contents of the files in a folder.
fn contents(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn a_file_without_a_log_stays_alone_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = WAL").unwrap();
    read_raw_db(&path, &agent("ada")).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_writer_that_was_interrupted_is_not_read_past() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    std::fs::write(folder.path().join("ada.db-journal"), b"half a transaction").unwrap();
    assert_eq!(read_raw_db(&path, &agent("ada")).unwrap_err().kind(), ErrorKind::Unavailable);
}

#[test]
#[cfg(unix)]
fn a_link_is_never_followed() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(file(folder.path()), &link).unwrap();
    assert_eq!(read_raw_db(&link, &agent("ada")).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let error = read_raw_db(folder.path(), &agent("ada")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "a folder");
    std::os::unix::fs::symlink(folder.path().join("link.db"), folder.path().join("ada.db-wal")).unwrap();
    let error = read_raw_db(&folder.path().join("ada.db"), &agent("ada")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "a log");
}

#[test]
fn foreign_and_truncated_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let kind = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        read_raw_db(&path, &agent("ada")).map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(kind(b""), Err(ErrorKind::Corrupt));
    assert_eq!(kind(b"{\"agent_name\": \"ada\"}"), Err(ErrorKind::Corrupt));
    assert_eq!(kind(b"LBUG\x28\0\0\0\0\0\0\0\0\0\0\0"), Err(ErrorKind::Unsupported));
    for length in [16, 100, 4_096, whole.len() / 2, whole.len() - 4_096] {
        assert_eq!(kind(&whole[..length]), Err(ErrorKind::Corrupt), "{length} bytes");
    }
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE semantic_memories (memory_id TEXT)")
        .unwrap();
    assert_eq!(read_raw_db(&path, &agent("ada")).unwrap_err().kind(), ErrorKind::Corrupt);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(read_raw_db(&path, &agent("ada")).unwrap_err().kind(), ErrorKind::NotFound);
}
