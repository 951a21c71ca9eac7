//! The system calls of a durable write: the log is synced after its last byte and before the acknowledgement.

use std::path::Path;

use crate::support::child::{self, Child};
use crate::support::files::folder;
use crate::support::trace::{self, Call};
use crate::support::{Store, quiet, skip};
use memory_sqlite::Durability;

/// The child's acknowledgement, as the trace shows it.
const ACKNOWLEDGED: &str = "acknowledged";

fn write_and_acknowledge(role: &str) {
    let durability = if role == "full" { Durability::Full } else { Durability::Normal };
    let path = child::given("DATABASE");
    let store = Store::open(Path::new(&path), quiet().with_durability(durability)).unwrap();
    for round in 0..5 {
        store.set("key", &round.to_string());
        child::say(ACKNOWLEDGED);
    }
    // Exits here, as in a crash: what closing would write is not under test.
    std::process::exit(0);
}

/// The calls on the child's files, and where each acknowledgement began.
fn traced(test: &str, durability: &str) -> Option<(Vec<Call>, Vec<usize>)> {
    if let Some(reason) = trace::unavailable() {
        skip(test, &reason);
        return None;
    }
    let folder = folder();
    let output = folder.path().join("trace");
    let strace = trace::strace(
        &["-y", "-s", "64", "-e", "trace=mkdir,mkdirat,pwrite64,write,fsync,fdatasync"],
        &output,
    );
    let mut command = child::wrapped(strace, test, durability);
    command.env("DATABASE", folder.path().join("new/folder/memory.db"));
    let mut child = Child::start(&mut command);
    assert_eq!(child.rest(), [ACKNOWLEDGED; 5]);
    let calls = trace::calls(&output);
    let acknowledged = |call: &&Call| call.name == "write" && call.arguments.contains(": acknowledged\\n");
    let acknowledgements = calls.iter().filter(acknowledged).map(|call| call.began).collect();
    Some((calls, acknowledgements))
}

fn is_sync(call: &Call) -> bool {
    call.name == "fsync" || call.name == "fdatasync"
}

/// Whether the log was synced between its last byte before `at` and `at`.
fn synced_before(calls: &[Call], at: usize) -> bool {
    let log = |call: &&Call| call.arguments.contains("memory.db-wal>");
    let last = calls.iter().filter(log).rfind(|call| call.name == "pwrite64" && call.began < at);
    let last = last.expect("the log was written before the acknowledgement");
    calls.iter().filter(log).any(|call| is_sync(call) && call.began > last.ended && call.ended < at)
}

#[test]
fn a_durable_write_is_synced_before_it_is_acknowledged() {
    if let Some(role) = child::role() {
        return write_and_acknowledge(&role);
    }
    let Some((calls, acknowledgements)) = traced(child::this_test!(), "full") else {
        return;
    };
    assert_eq!(acknowledgements.len(), 5);
    for at in acknowledgements {
        assert!(synced_before(&calls, at), "no sync before the acknowledgement in line {at}: {calls:#?}");
    }
}

/// The counter-check: without durability there is no sync, and the test notices.
#[test]
fn without_durability_a_write_is_acknowledged_unsynced() {
    if let Some(role) = child::role() {
        return write_and_acknowledge(&role);
    }
    let Some((calls, acknowledgements)) = traced(child::this_test!(), "normal") else {
        return;
    };
    // The first may come after the syncs of creation.
    for at in acknowledgements.into_iter().skip(1) {
        assert!(!synced_before(&calls, at), "a sync before the acknowledgement in line {at}");
    }
}

/// A file that loses its name is lost, and a new folder's name is in its parent, so that is synced too.
#[test]
fn names_of_new_files_and_folders_are_synced_before_the_first_acknowledgement() {
    if let Some(role) = child::role() {
        return write_and_acknowledge(&role);
    }
    let test = child::this_test!();
    let Some((calls, acknowledgements)) = traced(test, "full") else { return };
    let first = acknowledgements[0];
    let made = |call: &&Call| call.name.starts_with("mkdir") && call.arguments.ends_with("= 0");
    let mut parents = Vec::new();
    for call in calls.iter().filter(made) {
        let path = Path::new(call.arguments.split('"').nth(1).unwrap());
        parents.push((call.ended, path.parent().unwrap().to_owned()));
    }
    assert_eq!(parents.len(), 2, "two folders are new");
    let holds_the_file = parents[1].1.join("folder");
    parents.push((parents[1].0, holds_the_file));
    for (since, folder) in parents {
        let marked = format!("<{}>", folder.display());
        assert!(
            calls.iter().any(|call| {
                is_sync(call) && call.arguments.contains(&marked) && call.began > since && call.ended < first
            }),
            "{} was not synced",
            folder.display()
        );
    }
}
