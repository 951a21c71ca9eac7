//! Dropping a scope's database frees space, so it must need none, not even for the mark that fences late writers.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::support::child;
use crate::support::sql::Sql;
use crate::support::{agent, quiet};
use memory_core::ErrorKind;

/// Fills the disk.
fn fill(folder: &Path) {
    let mut ballast =
        std::fs::OpenOptions::new().create(true).append(true).open(folder.join("ballast")).unwrap();
    for length in [4_096, 512, 1] {
        while ballast.write_all(&vec![0; length]).is_ok() {}
    }
}

fn index_of_the_log(folder: &Path) -> PathBuf {
    let found = std::fs::read_dir(folder).unwrap().map(|item| item.unwrap().path());
    for path in found {
        if path.is_dir() {
            let below = index_of_the_log(&path);
            if below.exists() {
                return below;
            }
        } else if path.file_name().is_some_and(|name| name == "data.db-shm") {
            return path;
        }
    }
    folder.join("none")
}

fn drops(role: &str) {
    let folder = PathBuf::from(child::given("FOLDER"));
    let database = folder.join("memory.db");
    let mut sql = Sql::open(&database, quiet());
    sql.exec("CREATE TABLE t AS SELECT hex(zeroblob(100000)) AS a");
    let other = sql.at(agent("bob"));
    other.exec("CREATE TABLE t AS SELECT 'kept' AS a");
    let held = (role == "open").then(|| {
        let second = Sql::open(&database, quiet());
        second.exec("INSERT INTO t VALUES ('by the other')");
        second
    });
    if role == "closed" {
        sql.clone().close();
        std::fs::remove_file(index_of_the_log(&folder.join("memory.db.sql"))).unwrap();
        sql = Sql::open(&database, quiet());
    }
    fill(&folder);
    if role == "open" {
        let error = sql.try_exec("INSERT INTO t SELECT hex(zeroblob(50000))").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
    assert!(sql.drop_scope());
    assert!(!sql.drop_scope());
    assert!(sql.tables().is_empty());
    assert_eq!(sql.at(agent("bob")).texts("SELECT a FROM t"), ["kept"]);
    // There is room again, and a connection to the old database writes to a new one.
    let writer = held.as_ref().unwrap_or(&sql);
    assert!(writer.tables().is_empty());
    writer.exec("CREATE TABLE again (a)");
    writer.exec("INSERT INTO again VALUES ('new')");
    assert_eq!(sql.texts("SELECT a FROM again"), ["new"]);
    child::say(role);
}

#[test]
fn a_database_is_dropped_on_a_full_disk_whether_open_or_not() {
    if let Some(role) = child::role() {
        return drops(&role);
    }
    for role in ["open", "closed"] {
        child::on_a_small_file_system(child::this_test!(), role);
    }
}
