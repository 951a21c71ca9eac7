//! A full disk refuses writes with a typed error; nothing acknowledged is lost, and reads and deletes still work.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support::child::{self, Child};
use crate::support::files::{beside, integrity, length, place};
use crate::support::{Store, eventually, quiet};
use memory_core::{Error, ErrorKind};
use memory_sqlite::{Durability, SqliteConfig};

fn config(role: &str) -> SqliteConfig {
    let mut config = quiet();
    config.durability = if role == "full" { Durability::Full } else { Durability::Normal };
    config.checkpoint_pages = 64;
    config
}

fn value(number: usize) -> String {
    format!("\"value {number} {}\"", "x".repeat(2_000))
}

/// Writes until refused; returns the refusal and records what was acknowledged.
fn fill(store: &Store, known: &mut BTreeMap<String, String>, from: usize) -> Option<Error> {
    for number in from..from + 4_000 {
        let name = format!("entry/{number:05}");
        match store.try_set(&name, &value(number)) {
            Ok(_) => known.insert(name, value(number)),
            Err(error) => return Some(error),
        };
    }
    None
}

fn check_refusal(error: &Error) {
    assert!(
        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown),
        "a full disk is `{}`: {error:?}",
        error.kind()
    );
    assert!(error.message().contains("disk"), "{error}");
}

/// Everything acknowledged is there. Refused writes may be there too if their outcome was unknown.
fn check_all(store: &Store, known: &BTreeMap<String, String>) {
    for (name, value) in known {
        assert_eq!(store.text(name).as_ref(), Some(value), "{name} was acknowledged");
    }
    let listed = store.entries("entry/").unwrap();
    assert!(known.keys().all(|name| listed.iter().any(|entry| entry.key.as_str() == name)));
    assert!(!store.find("value").unwrap().is_empty());
}

/// Fills the disk twice, and reads everything in between.
fn fill_and_go_on(store: &Store) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    store.set("count", "1");
    let error = fill(store, &mut known, 0).expect("the disk never got full");
    check_refusal(&error);
    assert!(known.len() > 50, "only {} entries fit", known.len());
    child::say(&format!("{} entries fit; then: {error}", known.len()));
    check_all(store, &known);
    // Writes keep being refused, and reads keep working.
    for attempt in 0..20 {
        if let Err(error) = store.try_set(&format!("more/{attempt}"), &value(attempt)) {
            check_refusal(&error);
        }
        if let Err(error) = store.increment("count", 1) {
            check_refusal(&error);
        }
        if let Err(error) = store.bulk((0..50).map(|n| (format!("bulk/{n:02}"), value(n)))) {
            check_refusal(&error);
        }
    }
    let bulk = store.keys("bulk/").unwrap().len();
    assert!(bulk == 0 || bulk == 50, "{bulk} of 50 entries of a bulk insert");
    check_all(store, &known);
    known
}

/// Deletes what it can. No delete may hang, or be reported as done when it is not.
fn delete(store: &Store, known: &mut BTreeMap<String, String>, count: usize) -> usize {
    let names: Vec<String> = known.keys().take(count).cloned().collect();
    let mut deleted = 0;
    for name in names {
        match store.delete(&name) {
            Ok(was_there) => {
                assert!(was_there);
                known.remove(&name);
                assert_eq!(store.text(&name), None);
                deleted += 1;
            }
            Err(error) => {
                check_refusal(&error);
                if store.text(&name).is_none() {
                    known.remove(&name);
                }
            }
        }
    }
    deleted
}

/// In the child: files may not grow beyond a size.
fn under_a_file_size_limit(role: &str) {
    let path = child::given("DATABASE");
    let store = Store::open(Path::new(&path), config(role)).unwrap();
    let mut known = fill_and_go_on(&store);
    // The log is at the limit, the database is not: a checkpoint makes room again.
    let deleted =
        eventually("deletes work", || Some(delete(&store, &mut known, 1)).filter(|deleted| *deleted > 0));
    child::say(&format!("{deleted} deleted at the limit"));
    let (number, before) = (20_000, known.len());
    let error = fill(&store, &mut known, number).expect("the database never reached the limit");
    check_refusal(&error);
    child::say(&format!("{} more entries fit", known.len() - before));
    check_all(&store, &known);
    drop(store);
    // Opening and reading need no room.
    check_all(&Store::open(Path::new(&path), config(role)).unwrap(), &known);
    let names: Vec<&str> = known.keys().map(String::as_str).collect();
    child::say(&format!("known {}", names.join(" ")));
}

fn file_size_limit(test: &str, role: &str) {
    let (_folder, path) = place();
    // The limit's signal is ignored, so that a write beyond it fails as on a full disk.
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\""]);
    let mut command = child::wrapped(shell, test, role);
    let said = Child::start(command.env("DATABASE", &path)).finish();
    println!("{role}: {}", said[..said.len() - 1].join("; "));
    let known: BTreeMap<String, String> = said
        .last()
        .and_then(|line| line.strip_prefix("known "))
        .unwrap()
        .split(' ')
        .map(|name| (name.to_owned(), value(name.trim_start_matches("entry/").parse().unwrap())))
        .collect();

    // Without the limit everything works again.
    let store = Store::open(&path, config(role)).unwrap();
    check_all(&store, &known);
    store.set("after", "1");
    let mut left = known.clone();
    assert_eq!(delete(&store, &mut left, known.len()), known.len());
    assert!(fill(&store, &mut BTreeMap::new(), 0).is_none());
    store.close();
    assert_eq!(integrity(&path), "ok");
}

#[test]
fn writes_beyond_a_file_size_limit_are_refused_and_nothing_is_lost() {
    if let Some(role) = child::role() {
        return under_a_file_size_limit(&role);
    }
    for durability in ["full", "normal"] {
        file_size_limit(child::this_test!(), durability);
    }
}

/// In the child, on its own small file system.
#[cfg(target_os = "linux")]
fn on_a_full_disk(role: &str) {
    let path = Path::new(&child::given("FOLDER")).join("memory.db");
    let ballast = Path::new(&child::given("FOLDER")).join("ballast");
    std::fs::write(&ballast, vec![0; 1 << 20]).unwrap();
    let store = Store::open(&path, config(role)).unwrap();
    let mut known = fill_and_go_on(&store);
    let deleted = delete(&store, &mut known, 40);
    child::say(&format!("{deleted} of 40 deletes on the full disk"));
    check_all(&store, &known);

    // Once there is room, the open store works again at once.
    std::fs::remove_file(&ballast).unwrap();
    store.set("after", "1");
    store.increment("count", 1).unwrap();
    assert_eq!(delete(&store, &mut known, 40), 40);
    check_all(&store, &known);

    // Full again; a new process finds everything.
    let from = 30_000;
    let error = fill(&store, &mut known, from).expect("the disk never got full again");
    check_refusal(&error);
    drop(store);
    let store =
        Store::open(&path, config(role)).unwrap_or_else(|error| panic!("opening on a full disk: {error:?}"));
    check_all(&store, &known);
    let log = length(&beside(&path, "-wal"));
    child::say(&format!("database {}, log {log}", length(&path)));
    store.close();
    assert_eq!(integrity(&path), "ok");
}

#[cfg(target_os = "linux")]
#[test]
fn writes_to_a_full_disk_are_refused_and_work_again_once_there_is_room() {
    if let Some(role) = child::role() {
        return on_a_full_disk(&role);
    }
    for durability in ["full", "normal"] {
        child::on_a_small_file_system(child::this_test!(), durability);
    }
}
