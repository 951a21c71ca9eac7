//! Ten thousand writes with known near-duplicates, once, or for `MEMORY_SOAK_MINUTES` if set.

#![allow(clippy::print_stdout, clippy::panic, reason = "a test reports what it did")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_conformance::{Harness, ReferenceHarness, near_duplicates};

const WRITES: usize = 10_000;

#[test]
fn known_near_duplicates_are_folded_among_ten_thousand_writes() {
    let minutes = std::env::var("MEMORY_SOAK_MINUTES").ok().and_then(|minutes| minutes.parse::<u64>().ok());
    let enough = Duration::from_secs(minutes.unwrap_or(0) * 60);
    let started = Instant::now();
    let mut rounds = 0;
    while rounds == 0 || started.elapsed() < enough {
        rounds += 1;
        let harness: Arc<dyn Harness> = Arc::new(ReferenceHarness::with_vectors());
        let tally = near_duplicates::run(&harness, WRITES, rounds)
            .unwrap_or_else(|why| panic!("seed {rounds}: {why}"));
        println!("seed {rounds}: {tally:?}");
        assert_eq!(tally.writes, WRITES as u64);
        assert!(tally.dropped > 1_000 && tally.merged > 1_000, "{tally:?}");
    }
}
