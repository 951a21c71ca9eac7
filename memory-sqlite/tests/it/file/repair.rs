//! A file whose triggers, indexes or views another program changed is refused, and fixed by `repair`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::child::{self, Child};
use crate::support::embedders::Directions;
use crate::support::files::{contents, folder, integrity, place, raw};
use crate::support::{Store, TestClock, block_on, fast};
use memory_conformance::random::Random;
use memory_core::Seen;
use memory_core::{DriftCheck, DriftState, Entry, Error, ErrorKind, ScopeStats, SetOptions};
use memory_sqlite::{RepairOptions, Repaired, repair};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

const ENTRIES: usize = 40;

fn open(path: &Path) -> Store {
    Store::embedding(Some(path), fast(), TestClock::new(), Arc::new(Directions::new(16))).unwrap()
}

fn text(n: usize) -> String {
    format!("word{n} {}", "x".repeat(n % 7 * 400 + 1))
}

fn names(range: std::ops::Range<usize>) -> impl Iterator<Item = (String, String)> {
    range.map(|n| (format!("entry/{n:03}"), format!("\"{}\"", text(n))))
}

/// A closed database with a scope of some entries with vectors.
fn database(path: &Path) {
    let store = open(path);
    store.bulk(names(0..ENTRIES)).unwrap();
    store.close();
}

/// Drops the triggers, like a program that knows nothing about them.
fn drop_triggers(conn: &Connection) {
    let names: Vec<String> = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(names.len(), 8, "{names:?}");
    for name in names {
        conn.execute_batch(&format!("DROP TRIGGER {name}")).unwrap();
    }
}

/// Drops the triggers, then changes, deletes and adds an entry without a trace.
fn meddle(path: &Path) {
    let conn = raw(path);
    drop_triggers(&conn);
    conn.execute_batch(
        "UPDATE entry SET value = '\"teapot\"', body = NULL WHERE key = 'entry/001';
         DELETE FROM entry WHERE key = 'entry/002';
         INSERT INTO entry (space, key, version, born, created_at, updated_at, accesses, size, value)
             SELECT space, 'slipped', 900, 1, 1, 1, 0, 8, '\"slip\"' FROM scope;",
    )
    .unwrap();
}

fn refused(path: &Path) -> Error {
    let before = contents(path.parent().unwrap());
    let error = Store::open(path, fast()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(contents(path.parent().unwrap()) == before, "refusing changed a file");
    error
}

fn repaired(path: &Path) -> Repaired {
    repair(path, &fast(), RepairOptions::default()).unwrap()
}

fn unrepairable(path: &Path) -> Error {
    let before = contents(path.parent().unwrap());
    let error = repair(path, &fast(), RepairOptions::default()).unwrap_err();
    assert!(contents(path.parent().unwrap()) == before, "refusing changed a file");
    assert!(error.message().contains(';'), "the message does not say what to do: {error}");
    error
}

fn state(store: &Store) -> DriftState {
    block_on(store.backend().drift_state(&store.scope)).unwrap()
}

fn stats(store: &Store) -> ScopeStats {
    block_on(store.backend().stats(&store.scope)).unwrap()
}

/// Asserts that the scope's counters agree with its rows.
fn counts_hold(store: &Store, path: &Path) {
    let counted: (i64, i64) = raw(path)
        .query_row(
            "SELECT count(*), sum(size) FROM entry WHERE space = (SELECT space FROM scope WHERE name = ?1)",
            [store.scope.id.as_str()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let stats = stats(store);
    assert_eq!((stats.entries, stats.bytes), (counted.0.unsigned_abs(), counted.1.unsigned_abs()));
}

/// DRF-58.
#[test]
fn a_file_without_triggers_is_refused_and_opens_again_once_it_is_repaired() {
    let (_folder, path) = place();
    database(&path);
    let store = open(&path);
    let (before, token) = (store.entries("").unwrap(), state(&store).token);
    store.close();
    meddle(&path);
    let error = refused(&path);
    assert!(error.message().contains("`memory drift repair`"), "{error}");
    assert!(error.details()["objects"].to_string().contains("trigger entry_deleted"), "{error:?}");

    let report = repaired(&path);
    assert_eq!((report.made.len(), report.removed.len(), report.updated_from), (8, 0, None), "{report:?}");
    assert_eq!((report.scopes, report.changed, report.miscounted), (1, 1, 1), "{report:?}");
    assert_eq!((report.entries, report.vectors), (ENTRIES as u64, ENTRIES as u64), "{report:?}");

    let store = open(&path);
    let after = store.entries("").unwrap();
    let keys = |entries: &[Entry]| -> Vec<String> {
        entries.iter().map(|entry| entry.key.as_str().to_owned()).collect()
    };
    let mut expected = keys(&before);
    expected.retain(|key| key != "entry/002");
    expected.push("slipped".to_owned());
    assert_eq!(keys(&after), expected);
    let last = before.iter().map(|entry| entry.version).max().unwrap().max(900);
    let mut versions: Vec<u64> = after.iter().map(|entry| entry.version).collect();
    assert!(versions.iter().all(|version| *version > last), "{versions:?}");
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), after.len());
    assert_ne!(state(&store).token, token);
    counts_hold(&store, &path);
    assert_eq!(store.find("teapot").unwrap(), ["entry/001"]);
    assert!(store.near("word3", 5).unwrap().is_empty(), "the vectors may belong to other texts");
    let embedded = block_on(store.backend().reembed(&store.scope, Default::default())).unwrap();
    assert_eq!(embedded.embedded, ENTRIES as u64);
    assert!(store.set("entry/002", "1") > *versions.last().unwrap());
    store.close();
    assert_eq!(integrity(&path), "ok");
}

/// DRF-58: a writer must read again what it read before the repair.
#[test]
fn a_writer_that_read_before_the_repair_overwrites_nothing() {
    let (_folder, path) = place();
    database(&path);
    let store = open(&path);
    let check = |store: &Store, name: &str, strict: bool| {
        let seen = Seen::of(store.entry(name).unwrap().as_ref());
        if strict { DriftCheck::Strict(state(store).token, Some(seen)) } else { DriftCheck::Row(seen) }
    };
    let checks: Vec<(String, DriftCheck)> = ["entry/001", "entry/003"]
        .into_iter()
        .flat_map(|name| [false, true].map(|strict| (name.to_owned(), check(&store, name, strict))))
        .collect();
    let writes = |store: &Store, (name, check): &(String, DriftCheck)| {
        store.try_set_with(name, "\"mine\"", SetOptions::default().with_drift(*check))
    };
    meddle(&path);
    for seen in &checks {
        assert_eq!(writes(&store, seen).unwrap_err().details()["reason"], "triggers");
    }
    // The store stays open meanwhile.
    repaired(&path);
    let opened_after = open(&path);
    for store in [&store, &opened_after] {
        for seen in &checks {
            let error = writes(store, seen).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DriftDetected, "{seen:?}");
            assert_ne!(error.details()["reason"], "triggers");
        }
        counts_hold(store, &path);
        assert_eq!(store.find("teapot").unwrap(), ["entry/001"]);
    }
    let seen = ("entry/003".to_owned(), check(&store, "entry/003", true));
    writes(&store, &seen).unwrap();
}

/// DRF-59.
#[test]
fn repairing_an_intact_file_changes_nothing() {
    let (folder, path) = place();
    database(&path);
    let before = contents(folder.path());
    let report = repaired(&path);
    assert!(report.is_clean() && report.scopes == 1, "{report:?}");
    assert!(contents(folder.path()) == before);

    meddle(&path);
    assert!(!repaired(&path).is_clean());
    let before = contents(folder.path());
    assert!(repaired(&path).is_clean());
    assert!(contents(folder.path()) == before);
}

/// The entries are as counted, so that only the removal changes the scope's row.
#[test]
fn vectors_that_a_repair_removes_are_no_longer_counted() {
    let (_folder, path) = place();
    database(&path);
    drop_triggers(&raw(&path));
    let report = repaired(&path);
    assert_eq!((report.miscounted, report.vectors), (0, ENTRIES as u64), "{report:?}");
    let counted: i64 = raw(&path).query_row("SELECT vectors FROM scope", [], |row| row.get(0)).unwrap();
    assert_eq!(counted, 0);
}

/// DRF-59: a program whose triggers were off changed the rows of one scope.
#[test]
fn only_a_scope_changed_without_a_trace_counts_as_changed() {
    let (_folder, path) = place();
    let store = open(&path);
    let other = Store { scope: crate::support::agent("bob"), ..store.clone() };
    for store in [&store, &other] {
        store.bulk(names(0..3)).unwrap();
    }
    let (token, others) = (state(&store).token, state(&other).token);
    let conn = raw(&path);
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    conn.execute_batch(
        "DELETE FROM entry WHERE key = 'entry/001' AND space = (SELECT space FROM scope WHERE name = 'ada')",
    )
    .unwrap();
    let report = repaired(&path);
    assert_eq!(
        (report.scopes, report.changed, report.miscounted, report.entries),
        (2, 1, 1, 2),
        "{report:?}"
    );
    assert!(report.made.is_empty() && report.removed.is_empty(), "{report:?}");
    assert_ne!(state(&store).token, token);
    assert_eq!(state(&other).token, others);
    counts_hold(&store, &path);
    // A change that a trigger noticed is counted by the next write or repair, and does not count as another.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true).unwrap();
    conn.execute_batch("DELETE FROM entry WHERE key = 'entry/002'").unwrap();
    let tokens = [state(&store).token, state(&other).token];
    let report = repaired(&path);
    assert_eq!((report.changed, report.miscounted), (0, 2), "{report:?}");
    assert_eq!([state(&store).token, state(&other).token], tokens);
    counts_hold(&other, &path);
}

/// DRF-58.
#[test]
fn foreign_objects_are_removed_and_changed_ones_recreated() {
    let (_folder, path) = place();
    database(&path);
    let spy = "CREATE TRIGGER \"a \"\"spy\" AFTER INSERT ON entry BEGIN DELETE FROM body; END";
    raw(&path)
        .execute_batch(&format!(
            "{spy}; CREATE VIEW v AS SELECT * FROM entry; \
             CREATE TRIGGER on_view INSTEAD OF INSERT ON v BEGIN DELETE FROM entry; END; \
             CREATE INDEX extra ON entry (size); DROP TRIGGER entry_deleted; \
             CREATE TRIGGER Entry_Deleted AFTER DELETE ON entry BEGIN DELETE FROM body; END; \
             DROP INDEX scope_name; DROP INDEX entry_expiry; DROP INDEX vector_key; \
             INSERT INTO vector (space, model, key, version, data) \
             SELECT space, model, key, version, data FROM vector WHERE key = 'entry/005'; \
             UPDATE scope SET vectors = vectors + 1"
        ))
        .unwrap();
    refused(&path);
    let report = repaired(&path);
    let removed: Vec<(&str, &str)> =
        report.removed.iter().map(|object| (object.kind.as_str(), object.name.as_str())).collect();
    assert_eq!(
        removed,
        [
            ("index", "extra"),
            ("trigger", "Entry_Deleted"),
            ("trigger", "a \"spy"),
            ("trigger", "on_view"),
            ("view", "v")
        ]
    );
    assert_eq!(report.removed[2].sql, spy, "its SQL allows recreating it");
    let made = ["index entry_expiry", "index scope_name", "index vector_key", "trigger entry_deleted"];
    assert_eq!(report.made, made);
    assert_eq!(report.vectors, ENTRIES as u64 + 1);
    let store = open(&path);
    counts_hold(&store, &path);
    assert_eq!(store.entries("").unwrap().len(), ENTRIES);
    store.close();
    assert_eq!(integrity(&path), "ok");
}

/// If only an index is missing, the triggers were never off.
#[test]
fn a_missing_index_is_recreated_and_no_scope_counts_as_changed() {
    let (_folder, path) = place();
    database(&path);
    raw(&path)
        .execute_batch("DROP INDEX scope_space; CREATE INDEX scope_space ON scope (space, name)")
        .unwrap();
    let report = repaired(&path);
    assert_eq!((report.changed, report.entries, report.vectors), (0, 0, 0), "{report:?}");
    assert_eq!((report.made.len(), report.removed.len()), (1, 1), "{report:?}");
    let store = open(&path);
    assert_eq!(store.near(&text(3), 1).unwrap()[0].0, "entry/003");
}

/// DRF-58.
#[test]
fn vectors_are_kept_on_request() {
    let (_folder, path) = place();
    database(&path);
    let conn = raw(&path);
    drop_triggers(&conn);
    // An entry with another version than its vector was changed.
    conn.execute_batch("UPDATE entry SET version = version + 70 WHERE key = 'entry/004'").unwrap();
    drop(conn);
    let open_meanwhile = raw(&path);
    let last: i64 = open_meanwhile.query_row("SELECT max(id) FROM vector", [], |row| row.get(0)).unwrap();
    let options = RepairOptions::default().with_keep_vectors(true);
    let report = repair(&path, &fast(), options).unwrap();
    assert_eq!((report.entries, report.vectors), (ENTRIES as u64, 1), "{report:?}");
    let first: i64 = open_meanwhile.query_row("SELECT min(id) FROM vector", [], |row| row.get(0)).unwrap();
    assert!(first > last, "an id was reused for another vector");
    let store = open(&path);
    for n in [0, 3, ENTRIES - 1] {
        assert_eq!(store.near(&text(n), 1).unwrap()[0].0, format!("entry/{n:03}"));
    }
    assert_eq!(stats(&store).models[0].rows, ENTRIES as u64 - 1);
    store.set("entry/003", "1");
    assert_eq!(block_on(store.backend().reembed(&store.scope, Default::default())).unwrap().embedded, 1);
}

#[test]
fn a_dry_run_reports_and_changes_nothing() {
    let (folder, path) = place();
    database(&path);
    meddle(&path);
    let before = contents(folder.path());
    let told = repair(&path, &fast(), RepairOptions::default().with_dry_run(true)).unwrap();
    assert!(contents(folder.path()) == before);
    refused(&path);
    assert_eq!(repaired(&path), told);
}

/// DRF-58.
#[test]
fn an_unrepairable_file_is_refused_and_unchanged() {
    let folder = folder();
    for (name, sql) in [
        ("missing", "DROP TABLE garbage"),
        ("column", "ALTER TABLE scope ADD COLUMN extra INTEGER"),
        ("extra", "DROP TRIGGER entry_deleted; CREATE TABLE extra (a)"),
        ("application", "PRAGMA application_id = 7"),
        ("newer", "PRAGMA user_version = 99"),
        (
            "twins",
            "DROP INDEX scope_name; INSERT INTO scope (digest, space, tenant, kind, name, entries, bytes, expiring, \
             version, floor, changes) SELECT x'00', 99, tenant, kind, name, 0, 0, 0, 0, 0, 0 FROM scope",
        ),
    ] {
        let path = folder.path().join(format!("{name}.db"));
        database(&path);
        raw(&path).execute_batch(sql).unwrap();
        assert_eq!(unrepairable(&path).kind(), ErrorKind::Corrupt, "{name}");
    }
    let path = folder.path().join("text.db");
    fs::write(&path, "not a database, but long enough to be read as a header".repeat(4)).unwrap();
    assert_eq!(unrepairable(&path).kind(), ErrorKind::Corrupt);
    let path = folder.path().join("empty.db");
    fs::write(&path, "").unwrap();
    assert_eq!(unrepairable(&path).kind(), ErrorKind::NotFound);
    assert_eq!(unrepairable(&folder.path().join("none.db")).kind(), ErrorKind::NotFound);
    let nowhere = folder.path().join("no/such.db");
    assert_eq!(repair(&nowhere, &fast(), RepairOptions::default()).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!nowhere.parent().unwrap().exists());
}

#[test]
fn a_damaged_file_is_not_repaired() {
    let (_folder, path) = place();
    database(&path);
    let conn = raw(&path);
    drop_triggers(&conn);
    let root: i64 = conn
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'body'", [], |row| row.get(0))
        .unwrap();
    drop(conn);
    let root = usize::try_from(root).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[(root - 1) * 4_096 + 8..(root - 1) * 4_096 + 64].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    assert_eq!(unrepairable(&path).kind(), ErrorKind::Corrupt);
}

/// DRF-56, DRF-58: tampering is noticed before the file is migrated.
#[test]
fn a_file_of_an_earlier_format_is_repaired_and_migrated() {
    let folder = folder();
    for version in 1..=6 {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/v{version}.db"));
        let path = folder.path().join(format!("v{version}.db"));
        fs::copy(fixture, &path).unwrap();
        let sql = match version {
            1 | 2 => "CREATE TRIGGER spy AFTER INSERT ON entry BEGIN DELETE FROM body; END",
            _ => "DROP TRIGGER body_updated",
        };
        raw(&path).execute_batch(sql).unwrap();
        assert!(refused(&path).message().contains("`memory drift repair`"), "{version}");
        let report = repaired(&path);
        assert_eq!(report.updated_from, (version < 6).then_some(version), "{report:?}");
        assert_eq!(report.changed, report.scopes, "{report:?}");
        let store = Store::open(&path, fast()).unwrap();
        assert_eq!(store.text("number").as_deref(), Some("123456789012345678901234567890.50e-3"));
        store.close();
        assert!(repaired(&path).is_clean());
    }
}

#[test]
fn a_file_that_another_program_writes_is_refused_in_time_and_repaired_after() {
    let (_folder, path) = place();
    database(&path);
    meddle(&path);
    let other = raw(&path);
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let patience = fast().with_busy_timeout(Duration::from_millis(50));
    let error = repair(&path, &patience, RepairOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.retry().is_retryable());
    other.execute_batch("ROLLBACK").unwrap();
    assert!(!repaired(&path).is_clean());
}

/// The child: repairs the file, and says when it starts and finishes.
fn repair_until_killed() {
    child::end_with_parent();
    child::say("begins");
    repaired(Path::new(&child::given("DATABASE")));
    child::say("repaired");
}

/// DRF-58: a repair is one transaction.
#[test]
fn a_repair_that_is_killed_has_done_all_or_nothing() {
    let test = child::this_test!();
    const MANY: usize = 3_000;
    if child::role().is_some() {
        return repair_until_killed();
    }
    let folder = folder();
    let broken = folder.path().join("broken.db");
    let store = Store::open(&broken, fast()).unwrap();
    store.bulk(names(0..MANY)).unwrap();
    store.close();
    meddle(&broken);
    let begin = |at: &Path| -> Child {
        fs::copy(&broken, at).unwrap();
        let mut child = Child::with(test, "repair", &[("DATABASE", at.as_os_str())]);
        assert_eq!(child.expect_line(), "begins");
        child
    };
    let whole: PathBuf = folder.path().join("whole.db");
    let child = begin(&whole);
    let began = Instant::now();
    assert_eq!(child.finish(), ["repaired"]);
    let lasts = u64::try_from(began.elapsed().as_micros()).unwrap();
    let values = |path: &Path| -> Vec<(String, String)> {
        let store = Store::open(path, fast()).unwrap();
        let entries = store.entries("").unwrap();
        assert!(entries.iter().all(|entry| entry.version > 900), "it was half repaired");
        counts_hold(&store, path);
        store.close();
        entries
            .into_iter()
            .map(|entry| (entry.key.as_str().to_owned(), entry.value.as_str().to_owned()))
            .collect()
    };
    let expected = values(&whole);
    let mut random = Random::named("repair");
    let mut undone = 0;
    for round in 0..16 {
        let path = folder.path().join(format!("{round}.db"));
        let mut child = begin(&path);
        std::thread::sleep(Duration::from_micros(random.below(lasts)));
        child.kill();
        child.rest();
        let opens = Store::open(&path, fast()).map(Store::close);
        if let Err(error) = opens {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
            assert_eq!(repaired(&path).made.len(), 8, "round {round}");
            undone += 1;
        }
        assert!(repaired(&path).is_clean(), "round {round}");
        assert_eq!(values(&path), expected, "round {round}");
    }
    println!("16 repairs were killed, {undone} of them before the commit");
}
