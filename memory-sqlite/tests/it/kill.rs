//! A process killed at any moment loses nothing it acknowledged, and leaves nothing half-written.
//!
//! The state of each task is a function of its number of steps, so after a kill the file must show exactly the
//! acknowledged steps, or one more: the one in progress. `MEMORY_KILL_ROUNDS` sets the number of kills (default 200).

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::child::{self, Child};
use crate::support::files::{folder, integrity, place};
use crate::support::{Store, block_on, key, quiet};
use memory_conformance::random::Random;
use memory_core::{Json, Reducer, UpdateOptions};
use memory_sqlite::{Durability, SqliteConfig};

const PLAIN: [&str; 3] = ["plain0", "plain1", "plain2"];
const BULK: [&str; 2] = ["bulk0", "bulk1"];
const LIST: &str = "list0";
const COUNT: [&str; 2] = ["count0", "count1"];
const PLAIN_KEYS: u64 = 8;
const BULK_KEYS: u64 = 25;
const LIST_LIMIT: usize = 16;

fn rounds() -> u64 {
    std::env::var("MEMORY_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(200)
}

fn config(round: u64) -> SqliteConfig {
    let mut config = quiet();
    config.durability = if round.is_multiple_of(2) { Durability::Full } else { Durability::Normal };
    // Half of the rounds checkpoint continually.
    config.checkpoint_pages = if round % 4 < 2 { 1_000 } else { 16 };
    config
}

/// The key and value that a step of a plain task stores; every fifth deletes.
fn plain_key(task: &str, step: u64) -> String {
    format!("{task}/{}", step % PLAIN_KEYS)
}

fn plain_value(task: &str, step: u64) -> Option<String> {
    (step % 5 != 4).then(|| {
        format!(
            r#"{{"step":{step},"word":"{task}x{step}","pad":"{}"}}"#,
            "p".repeat(usize::try_from(step % 400).unwrap())
        )
    })
}

fn bulk_items(task: &str, step: u64) -> BTreeMap<String, String> {
    (0..BULK_KEYS).map(|n| (format!("{task}/{n:02}"), step.to_string())).collect()
}

/// What a task's keys hold after this many steps.
fn state(task: &str, steps: u64) -> BTreeMap<String, String> {
    if PLAIN.contains(&task) {
        let last = (steps.saturating_sub(PLAIN_KEYS - 1).max(1))..=steps;
        last.filter_map(|step| Some((plain_key(task, step), plain_value(task, step)?))).collect()
    } else if steps == 0 {
        BTreeMap::new()
    } else if BULK.contains(&task) {
        bulk_items(task, steps)
    } else {
        let kept: Vec<String> = (steps.saturating_sub(LIST_LIMIT as u64 - 1).max(1)..=steps)
            .map(|step| step.to_string())
            .collect();
        BTreeMap::from([(format!("{task}/list"), format!("[{}]", kept.join(",")))])
    }
}

/// Runs one step of a task; returns a number for the acknowledgement.
fn step(store: &Store, task: &str, step: u64) -> u64 {
    if PLAIN.contains(&task) {
        match plain_value(task, step) {
            Some(value) => store.set(&plain_key(task, step), &value),
            None => {
                store.delete(&plain_key(task, step)).unwrap();
                0
            }
        }
    } else if BULK.contains(&task) {
        store.bulk(bulk_items(task, step)).unwrap().last().unwrap().version
    } else if task == LIST {
        let item = Json::from(i64::try_from(step).unwrap());
        let reducer = Reducer::BoundedList { item, limit: LIST_LIMIT };
        let name = key(&format!("{task}/list"));
        block_on(store.backend().update(&store.scope, &name, reducer, UpdateOptions::default()))
            .unwrap()
            .version
    } else {
        u64::try_from(store.increment("count", 1).unwrap()).unwrap()
    }
}

/// The child: every task on its own thread, each step acknowledged on a line.
fn work_until_killed() {
    child::end_with_parent();
    let store = Store::open(Path::new(&child::given("DATABASE")), config(child::number("ROUND"))).unwrap();
    thread::scope(|threads| {
        for task in PLAIN.into_iter().chain(BULK).chain([LIST]).chain(COUNT) {
            let (store, first) = (&store, child::number(task));
            threads.spawn(move || {
                for number in first + 1.. {
                    let answer = step(store, task, number);
                    child::say(&format!("{task} {number} {answer}"));
                }
            });
        }
    });
}

/// What is known about the file between two kills.
#[derive(Default)]
struct Known {
    /// Steps that each task has certainly taken.
    steps: BTreeMap<&'static str, u64>,
    /// The counter as last read.
    count: u64,
    /// The version of each key at its last acknowledgement.
    versions: BTreeMap<String, u64>,
    acknowledged: u64,
}

impl Known {
    fn steps(&self, task: &str) -> u64 {
        self.steps.get(task).copied().unwrap_or(0)
    }

    /// Reads what a child said before it died.
    fn hear(&mut self, lines: &[String]) -> Vec<u64> {
        let mut counts = Vec::new();
        for line in lines {
            let mut words = line.split(' ');
            let name = words.next().unwrap();
            let (number, answer): (u64, u64) =
                (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap());
            let task =
                PLAIN.into_iter().chain(BULK).chain([LIST]).chain(COUNT).find(|task| *task == name).unwrap();
            let steps = self.steps.entry(task).or_default();
            assert_eq!(number, *steps + 1, "{task} acknowledges out of order");
            *steps = number;
            self.acknowledged += 1;
            if COUNT.contains(&task) {
                counts.push(answer);
            } else if answer > 0 {
                let name = if PLAIN.contains(&task) { plain_key(task, number) } else { task.to_owned() };
                let before = self.versions.insert(name, answer).unwrap_or(0);
                assert!(answer > before, "{task}: version {answer} comes after {before}");
            }
        }
        counts
    }

    /// Compares the reopened file with what it must hold.
    fn check(&mut self, store: &Store, counts: &mut Vec<u64>) {
        let mut stored: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let entries = store.entries("").unwrap();
        for entry in &entries {
            let name = entry.key.as_str();
            let task = name.split('/').next().unwrap().to_owned();
            stored.entry(task).or_default().insert(name.to_owned(), entry.value.as_str().to_owned());
        }
        for task in PLAIN.into_iter().chain(BULK).chain([LIST]) {
            let steps = self.steps(task);
            let found = stored.remove(task).unwrap_or_default();
            if found == state(task, steps + 1) {
                self.steps.insert(task, steps + 1);
            } else {
                assert_eq!(
                    found,
                    state(task, steps),
                    "{task} holds the state of neither {steps} steps nor one more"
                );
            }
        }
        let stats = block_on(store.backend().stats(&store.scope)).unwrap();
        assert_eq!(stats.entries, entries.len() as u64, "the scope's own count is wrong");
        for entry in &entries {
            if let Some(acknowledged) = self.versions.get(entry.key.as_str()) {
                assert!(entry.version >= *acknowledged, "{} went back to an older version", entry.key);
            }
        }

        let count = store.text("count").map_or(0, |text| text.parse().unwrap());
        let acknowledged = counts.len() as u64;
        let (least, most) = (self.count + acknowledged, self.count + acknowledged + COUNT.len() as u64);
        assert!((least..=most).contains(&count), "the counter is {count}, not {least} to {most}");
        counts.sort_unstable();
        counts.dedup();
        assert_eq!(counts.len() as u64, acknowledged, "two increments had the same answer");
        assert!(counts.iter().all(|answer| (self.count + 1..=count).contains(answer)));
        self.count = count;
    }

    /// The text index agrees with the entries.
    fn check_search(&self, store: &Store) {
        for task in PLAIN {
            let last = self.steps(task);
            for step in last.saturating_sub(PLAIN_KEYS - 1).max(1)..=last {
                let found = store.hits(&format!("{task}x{step}")).unwrap();
                for (name, value) in &found {
                    assert_eq!(store.text(name).as_ref(), Some(value), "search shows what is not stored");
                }
                let value = plain_value(task, step);
                let shown = found.into_iter().any(|(_, shown)| Some(shown) == value);
                assert_eq!(shown, value.is_some(), "{task} step {step}");
            }
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let test = child::this_test!();
    if child::role().is_some() {
        return work_until_killed();
    }
    let (_folder, path) = place();
    let mut random = Random::named(test);
    let mut known = Known::default();
    let (rounds, began) = (rounds(), Instant::now());
    for round in 0..rounds {
        let mut command = child::command(test, "work");
        command.env("DATABASE", &path).env("ROUND", round.to_string());
        for task in PLAIN.into_iter().chain(BULK).chain([LIST]).chain(COUNT) {
            command.env(task, known.steps(task).to_string());
        }
        let mut child = Child::start(&mut command);
        // Most children live for a moment after the first acknowledgement; some die before it.
        let mut said = Vec::new();
        if round % 8 != 7 {
            said.push(child.expect_line());
        }
        thread::sleep(Duration::from_micros(random.below(60_000)));
        child.kill();
        said.extend(child.rest());

        let mut counts = known.hear(&said);
        let store = Store::open(&path, config(round)).unwrap();
        known.check(&store, &mut counts);
        if round % 10 == 0 {
            known.check_search(&store);
        }
        // Half of the rounds leave the log to the next child.
        if round % 2 == 0 {
            store.close();
        } else {
            drop(store);
        }
        assert_eq!(integrity(&path), "ok");
    }
    assert!(known.acknowledged > rounds, "the children did next to nothing");
    println!("{rounds} kills, {} writes acknowledged, {:?}", known.acknowledged, began.elapsed());
}

#[test]
fn a_kill_during_creation_leaves_a_file_that_opens() {
    let test = child::this_test!();
    if child::role().is_some() {
        child::end_with_parent();
        for number in 0.. {
            let path = Path::new(&child::given("FOLDER")).join(format!("{number}/memory.db"));
            let store = Store::open(&path, config(number)).unwrap();
            store.set("number", &number.to_string());
            child::say(&number.to_string());
            if number % 3 == 0 {
                store.close();
            }
        }
    }
    let mut random = Random::named(test);
    let mut unfinished = 0;
    for _ in 0..rounds().div_ceil(8) {
        let folder = folder();
        let mut command = child::command(test, "create");
        let mut child = Child::start(command.env("FOLDER", folder.path()));
        child.expect_line();
        thread::sleep(Duration::from_micros(random.below(30_000)));
        child.kill();
        let acknowledged = child.rest().len() + 1;
        for number in 0..=acknowledged {
            let path = folder.path().join(format!("{number}/memory.db"));
            unfinished += u32::from(number == acknowledged && path.exists());
            let store = Store::open(&path, config(0)).unwrap_or_else(|error| panic!("{number}: {error:?}"));
            let text = store.text("number");
            if number < acknowledged {
                assert_eq!(text, Some(number.to_string()));
            }
            store.set("after", "1");
        }
    }
    println!("{unfinished} files were found unfinished");
}

#[test]
fn a_killed_process_does_not_hold_up_another() {
    let test = child::this_test!();
    if child::role().is_some() {
        child::end_with_parent();
        let store = Store::open(Path::new(&child::given("DATABASE")), config(0)).unwrap();
        loop {
            store.bulk((0..200).map(|n| (format!("theirs/{n}"), "1".to_owned()))).unwrap();
            child::say("written");
        }
    }
    let (_folder, path) = place();
    let store = Store::open(&path, config(1)).unwrap();
    let mut random = Random::named(test);
    for round in 0..rounds().div_ceil(10) {
        let mut command = child::command(test, "write");
        let mut child = Child::start(command.env("DATABASE", &path));
        child.expect_line();
        thread::sleep(Duration::from_micros(random.below(20_000)));
        child.kill();
        child.rest();
        store.set("ours", &round.to_string());
        assert_eq!(store.text("ours"), Some(round.to_string()));
        assert_eq!(store.keys("theirs/").unwrap().len(), 200);
    }
}
