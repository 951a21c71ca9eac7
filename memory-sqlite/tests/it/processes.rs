//! Several processes on one file: exact counters, one winner per version, and each sees the others' writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::child::{self, Child};
use crate::support::files::{folder, integrity, place};
use crate::support::{Store, fast, quiet};
use memory_core::{ErrorKind, Expect, SetOptions};
use memory_sqlite::SqliteConfig;

/// Threads per process: their writes commit in groups.
const THREADS: u64 = 8;

fn config_of(role: &str) -> SqliteConfig {
    let mut config = if role.contains("full") { quiet() } else { fast() };
    // The other process holds the lock half of the time, on a busy machine.
    config.busy_timeout_ms = 60_000;
    config
}

fn open_given(role: &str) -> Store {
    child::end_with_parent();
    Store::open(Path::new(&child::given("DATABASE")), config_of(role)).unwrap()
}

/// Increments, and reports the sum of the results.
fn increment_and_tell(role: &str) {
    let (store, times) = (open_given(role), child::number("TIMES"));
    child::say("ready");
    let sum: i64 = thread::scope(|threads| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                let store = &store;
                threads.spawn(move || {
                    (0..times / THREADS).map(|_| store.increment("count", 1).unwrap()).sum::<i64>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    child::say(&sum.to_string());
    store.close();
}

fn two_processes_increment(test: &str, role: &str, times: u64) {
    let (_folder, path) = place();
    Store::open(&path, config_of(role)).unwrap().close();
    let began = Instant::now();
    let times_text = times.to_string();
    let given: [(&str, &OsStr); 2] = [("DATABASE", path.as_os_str()), ("TIMES", OsStr::new(&times_text))];
    let mut children = [Child::with(test, role, &given), Child::with(test, role, &given)];
    for child in &mut children {
        assert_eq!(child.expect_line(), "ready");
    }
    let sum: i64 = children.map(|child| child.finish()[0].parse::<i64>().unwrap()).iter().sum();
    let total = i64::try_from(2 * times).unwrap();
    let store = Store::open(&path, config_of(role)).unwrap();
    assert_eq!(store.text("count"), Some(total.to_string()));
    // Each number from 1 to the total was returned once.
    assert_eq!(sum, total * (total + 1) / 2);
    store.close();
    assert_eq!(integrity(&path), "ok");
    println!("2 × {times} increments, {role}: {:?}", began.elapsed());
}

#[test]
fn two_processes_that_increment_a_counter_50_000_times_each_end_at_100_000() {
    if let Some(role) = child::role() {
        return increment_and_tell(&role);
    }
    let test = child::this_test!();
    two_processes_increment(test, "normal", 50_000);
}

#[test]
fn durable_increments_of_two_processes_add_up() {
    if let Some(role) = child::role() {
        return increment_and_tell(&role);
    }
    two_processes_increment(child::this_test!(), "full", 2_000);
}

/// The child: executes commands, line by line.
fn obey(role: &str) {
    let store = Store::open(Path::new(&child::given("DATABASE")), config_of(role)).unwrap();
    child::say("ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        child::say(&match words.as_slice() {
            ["set", name, text] => store.set(name, &format!("\"{text}\"")).to_string(),
            ["delete", name] => store.delete(name).unwrap().to_string(),
            ["get", name] => store.text(name).unwrap_or_else(|| "nothing".to_owned()),
            ["count", name] => store.increment(name, 1).unwrap().to_string(),
            ["list", prefix] => store.keys(prefix).unwrap().join(" "),
            ["find", word] => store.find(word).unwrap().join(" "),
            other => panic!("no such order: {other:?}"),
        });
    }
    store.close();
}

#[test]
fn each_process_reads_lists_and_finds_what_the_other_wrote() {
    if let Some(role) = child::role() {
        return obey(&role);
    }
    let (_folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    let mut other = Child::obedient(child::this_test!(), &path);

    store.set("tea", "\"oolong leaves\"");
    assert_eq!(other.ask("get tea"), "\"oolong leaves\"");
    assert_eq!(other.ask("find oolong"), "tea");
    other.ask("set coffee arabica beans");
    assert_eq!(store.text("coffee").as_deref(), Some("\"arabica beans\""));
    assert_eq!(store.keys("").unwrap(), ["coffee", "tea"]);
    assert_eq!(store.find("arabica").unwrap(), ["coffee"]);

    // Both have a text index by now; each must notice overwriting and deleting.
    other.ask("set tea sencha leaves");
    assert_eq!(store.find("oolong").unwrap(), Vec::<String>::new());
    assert_eq!(store.find("sencha").unwrap(), ["tea"]);
    assert_eq!(store.find("leaves").unwrap(), ["tea"]);
    assert!(store.delete("tea").unwrap());
    assert_eq!(other.ask("find leaves"), "");
    assert_eq!(other.ask("list "), "coffee");
    assert_eq!(other.ask("delete tea"), "false");
    assert_eq!(other.ask("delete coffee"), "true");
    assert_eq!(store.keys("").unwrap(), Vec::<String>::new());
    assert_eq!(store.find("arabica").unwrap(), Vec::<String>::new());
    assert_eq!(store.text("coffee"), None);
    other.end();
}

#[test]
fn writes_of_two_processes_in_turn_leave_both_text_indexes_right() {
    if let Some(role) = child::role() {
        return obey(&role);
    }
    let (_folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    let mut other = Child::obedient(child::this_test!(), &path);
    let mut expected: BTreeMap<String, String> = BTreeMap::new();
    for round in 0..120_u32 {
        let (name, word) = (format!("key{}", round % 7), format!("word{}", round % 5));
        match round % 6 {
            0 | 1 | 3 => {
                store.set(&name, &format!("\"{word}\""));
                expected.insert(name, word);
            }
            2 | 4 => {
                other.ask(&format!("set {name} {word}"));
                expected.insert(name, word);
            }
            _ => {
                other.ask(&format!("delete {name}"));
                expected.remove(&name);
            }
        }
        // Not after every write: an index that missed one of the other's writes must notice at its own next one.
        if round % 3 != 0 {
            continue;
        }
        for word in (0..5).map(|n| format!("word{n}")) {
            let holders: BTreeSet<&str> =
                expected.iter().filter(|(_, held)| **held == word).map(|(name, _)| name.as_str()).collect();
            let ours = store.hits(&word).unwrap();
            let ours: BTreeSet<&str> = ours
                .iter()
                .filter(|(_, text)| *text == format!("\"{word}\""))
                .map(|(name, _)| name.as_str())
                .collect();
            assert_eq!(ours, holders, "round {round}, {word}, here");
            let theirs = other.ask(&format!("find {word}"));
            let theirs: BTreeSet<&str> = theirs.split_whitespace().collect();
            assert!(
                holders.is_subset(&theirs),
                "round {round}, {word}: {theirs:?} lacks some of {holders:?}"
            );
        }
        let all: BTreeSet<&str> = expected.keys().map(String::as_str).collect();
        let theirs = other.ask("find word");
        assert_eq!(theirs.split_whitespace().collect::<BTreeSet<_>>(), all, "round {round}");
    }
    other.end();
}

/// Sets the same key on condition that nobody was faster, and reports each win.
fn race(role: &str) {
    let store = open_given(role);
    let me = child::given("NAME");
    child::say("ready");
    let (mut wins, mut losses) = (0, 0);
    while wins < 300 {
        let seen = store.entry("prize").unwrap().map(|entry| entry.version);
        let expect = seen.map_or(Expect::Absent, Expect::Version);
        // A unique value each time: otherwise a loser's value could be stored already, which counts as success.
        let value = format!("\"{me} {wins} {losses}\"");
        match store.try_set_with("prize", &value, SetOptions::default().with_expect(expect)) {
            Ok(outcome) => {
                assert!(outcome.written);
                child::say(&format!("{} {}", seen.unwrap_or(0), outcome.version));
                wins += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
                losses += 1;
            }
        }
        store.set(&format!("own/{me}"), &wins.to_string());
    }
    store.close();
}

#[test]
fn of_processes_that_expect_the_same_version_exactly_one_wins() {
    if let Some(role) = child::role() {
        return race(&role);
    }
    let test = child::this_test!();
    let (_folder, path) = place();
    Store::open(&path, fast()).unwrap().close();
    let children = ["red", "blue", "green"].map(|name| {
        let mut child =
            Child::with(test, "race", &[("DATABASE", path.as_os_str()), ("NAME", OsStr::new(name))]);
        assert_eq!(child.expect_line(), "ready");
        child
    });
    let mut steps: BTreeMap<u64, u64> = BTreeMap::new();
    for child in children {
        for win in child.finish() {
            let (before, after) = win.split_once(' ').unwrap();
            let (before, after): (u64, u64) = (before.parse().unwrap(), after.parse().unwrap());
            assert!(after > before);
            assert_eq!(steps.insert(before, after), None, "two processes replaced version {before}");
        }
    }
    // The wins form one chain from nothing to the stored value.
    let (mut version, mut length) = (0, 0);
    while let Some(next) = steps.get(&version) {
        (version, length) = (*next, length + 1);
    }
    assert_eq!(length, 900);
    let store = Store::open(&path, fast()).unwrap();
    assert_eq!(store.entry("prize").unwrap().unwrap().version, version);
}

/// Writes and deletes one key, and reports every version.
fn collect_versions(role: &str) {
    let store = open_given(role);
    child::say("ready");
    for number in 0..500 {
        child::say(&store.set("shared", &number.to_string()).to_string());
        if number % 3 == 0 {
            store.delete("shared").unwrap();
        }
    }
    store.close();
}

#[test]
fn versions_of_a_key_are_unique_across_processes_and_deletes() {
    if let Some(role) = child::role() {
        return collect_versions(&role);
    }
    let test = child::this_test!();
    let (_folder, path) = place();
    Store::open(&path, fast()).unwrap().close();
    let children = [0, 1].map(|_| {
        let mut child = Child::with(test, "versions", &[("DATABASE", path.as_os_str())]);
        assert_eq!(child.expect_line(), "ready");
        child
    });
    let mut seen = BTreeSet::new();
    for child in children {
        let mut last = 0;
        for version in child.finish() {
            let version: u64 = version.parse().unwrap();
            assert!(version > last, "version {version} comes after {last} in one process");
            assert!(seen.insert(version), "version {version} was given twice");
            last = version;
        }
    }
    assert_eq!(seen.len(), 1_000);
}

/// Creates files at the same moment as two other processes, as far as possible.
fn create_together(names: &[&str]) {
    child::end_with_parent();
    let (folder, me) = (child::given("FOLDER"), child::given("NAME"));
    for round in 0..FILES {
        let marker = |name: &str| Path::new(&folder).join(format!("{round}.{name}"));
        std::fs::write(marker(&me), b"").unwrap();
        let began = Instant::now();
        while !names.iter().all(|name| marker(name).exists()) {
            assert!(began.elapsed() < Duration::from_secs(60), "another process is gone");
            thread::yield_now();
        }
        let store =
            Store::open(&Path::new(&folder).join(format!("{round}.db")), config_of("normal")).unwrap();
        store.increment("count", 1).unwrap();
        // Closing while another process opens is part of the test.
        store.close();
    }
}

const FILES: usize = 60;

#[test]
fn processes_that_create_one_file_at_the_same_time_share_it() {
    const NAMES: [&str; 3] = ["red", "blue", "green"];
    if child::role().is_some() {
        return create_together(&NAMES);
    }
    let folder = folder();
    let children = NAMES.map(|name| {
        let given = [("FOLDER", folder.path().as_os_str()), ("NAME", OsStr::new(name))];
        Child::with(child::this_test!(), "create", &given)
    });
    for child in children {
        child.finish();
    }
    for round in 0..FILES {
        let path = folder.path().join(format!("{round}.db"));
        assert_eq!(Store::open(&path, fast()).unwrap().text("count").as_deref(), Some("3"), "file {round}");
    }
}

/// The system releases every lock of a process on a file as soon as the process closes any of its descriptors.
#[test]
fn a_second_handle_leaves_the_locks_of_the_first_in_place() {
    if let Some(role) = child::role() {
        return obey(&role);
    }
    let test = child::this_test!();
    let (_folder, path) = place();
    let one = Store::open(&path, fast()).unwrap();
    one.set("before", "1");
    let two = Store::open(&path, fast()).unwrap();
    // Whoever closes the file last removes the log: not this one.
    let mut other = Child::obedient(test, &path);
    assert_eq!(other.ask("get before"), "1");
    other.end();
    one.set("after", "1");
    two.set("after", "2");
    let mut other = Child::obedient(test, &path);
    assert_eq!(other.ask("get after"), "2");
    other.end();
    drop((one, two));
    assert_eq!(integrity(&path), "ok");
    assert_eq!(Store::open(&path, fast()).unwrap().text("after").as_deref(), Some("2"));
}
