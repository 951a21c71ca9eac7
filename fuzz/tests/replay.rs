//! The targets on stable Rust: every seed, and deterministic mutations of the seeds.
//!
//! `MEMORY_FUZZ_CHANGES` is the number of mutations that each target tries (default 4,000, in at most 5 seconds).
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops at what it did not expect, and says what it tried"
)]

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use memory_fuzz::mutate::{Numbers, mutated};
use memory_fuzz::{TARGETS, Target};

/// A slow machine tries fewer mutations instead of taking longer.
const BUDGET: Duration = Duration::from_secs(5);

fn seeds(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder)
        .expect("a folder of seeds")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(file).expect("a seed"))).collect()
}

/// Runs one input; on a panic saves it to a file and prints how to run it again.
fn run(target: &Target, what: &str, input: &[u8]) {
    let Err(panicked) = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input))) else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(target.name);
    let file = folder.join("replay");
    let kept = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, input));
    eprintln!("{what}, {} bytes, broke a promise: {:?}", input.len(), String::from_utf8_lossy(input));
    if kept.is_ok() {
        eprintln!("again: cargo run -p memory-fuzz --example replay -- {} {}", target.name, file.display());
    }
    panic::resume_unwind(panicked);
}

fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let (started, seeds) = (Instant::now(), seeds(target));
    assert!(!seeds.is_empty(), "no seeds for {name}");
    for (file, seed) in &seeds {
        run(target, &format!("the seed {}", file.display()), seed);
    }
    let changes: u64 = env::var("MEMORY_FUZZ_CHANGES").map_or(4_000, |text| text.parse().expect("a number"));
    let contents: Vec<Vec<u8>> = seeds.into_iter().map(|(_, seed)| seed).collect();
    let mut tried = 0;
    while tried < changes && started.elapsed() < BUDGET {
        let mut numbers = Numbers::new(tried);
        let seed = &contents[numbers.below(contents.len())];
        run(target, &format!("change {tried}"), &mutated(seed, &contents, &mut numbers));
        tried += 1;
    }
    println!("{name}: {} seeds, {tried} changes, {:.1} s", contents.len(), started.elapsed().as_secs_f64());
}

macro_rules! replays {
    ($($name:ident)*) => {
        $(#[test] fn $name() { replay(stringify!($name)); })*
        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
    };
}

replays! { analyzer audit config cursor embed_reply facts_reply filter governed graph_databases graph_json http ids_times import json lexical_index mcp records reduce segment snapshot sql_sandbox sql_value tool url validator_postgres validator_sqlite }

/// A target that never runs would look tested.
#[test]
fn every_target_is_replayed_and_has_a_binary() {
    let known: BTreeSet<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(known, REPLAYED.iter().copied().collect());
    let manifest =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).expect("a manifest");
    let binaries = manifest
        .split("[[bin]]")
        .skip(1)
        .map(|bin| bin.split_once("name = \"").and_then(|(_, rest)| rest.split_once('"')).expect("a name").0);
    assert_eq!(known, binaries.collect());
}
