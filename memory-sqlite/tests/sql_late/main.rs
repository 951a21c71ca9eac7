//! A host that used SQLite before this crate: single statements cannot be metered, but the process can.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(missing_docs)]

#[path = "../it/support/mod.rs"]
mod support;

use std::time::Duration;

use memory_core::{ErrorKind, HealthStatus, Provider as _};
use memory_sqlite::SqliteProvider;
use support::fast;
use support::sql::Sql;

#[test]
fn the_process_limit_holds_if_statements_cannot_be_metered() {
    let host = rusqlite::Connection::open_in_memory().unwrap();
    let mut config = fast();
    config.sql.heap_bytes = 4 << 20;
    config.sql.process_heap_bytes = Some(64 << 20);
    let sql = Sql::in_memory(config);
    sql.exec("CREATE TABLE t (a)");
    // More than a statement's own limit would allow.
    let some = "SELECT length(group_concat(hex(zeroblob(1000)), '')) FROM \
                (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1900) SELECT i FROM n)";
    assert_eq!(sql.int(some), 3_800_000);
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) \
                   SELECT count(*) FROM (SELECT DISTINCT hex(zeroblob(500)) || i FROM n)";
    let error = sql.try_query(endless).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(error.details()["layer"], "heap");
    // The host keeps running.
    assert_eq!(sql.int("SELECT count(*) FROM t"), 0);
    assert_eq!(host.query_row("SELECT 1", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
}

#[test]
fn without_a_bound_for_the_process_agents_get_no_sql() {
    let _host = rusqlite::Connection::open_in_memory().unwrap();
    let (_folder, path) = support::files::place();
    let open = || SqliteProvider::open(&path, fast(), support::TestClock::new());
    let provider = open().unwrap();
    assert!(!provider.capabilities().sql);
    assert!(provider.sql().is_none());
    let health = support::block_on(provider.health()).unwrap();
    assert_eq!(health.status, HealthStatus::Degraded);
    assert!(health.message.contains("prepare_process"), "{}", health.message);
    drop(provider);
    // Databases created by another process are not left out silently.
    let mut config = fast();
    config.sql.process_heap_bytes = Some(64 << 20);
    Sql::open(&path, config).exec("CREATE TABLE t (a)");
    // A store that is closing may hold its files for a moment.
    let mut refused = open().unwrap_err();
    for _ in 0..250 {
        if refused.kind() != ErrorKind::Unavailable {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        refused = open().unwrap_err();
    }
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}
