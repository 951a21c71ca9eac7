//! No statement takes down the process, whatever its shape, and the work grows no faster than the text.

#![cfg(feature = "sqlite-grammar")]
#![allow(unsafe_code, clippy::unwrap_used, reason = "an allocator that counts; helpers of tests")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

use memory_validator::{Dialect, Limits, Mode, Policy, SHORT_STACK_BYTES, Validator, Verdict};
use support::shapes::{CHAINS, LISTS, NESTS, Shape};

struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes unchanged to the system's allocator; the count is in a thread-local cell that has no
// destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A thread's default stack, a small part of what [`Validator::check_here`] needs.
const SMALL_STACK: usize = 2 << 20;

fn on_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(SMALL_STACK).spawn(run).unwrap().join().unwrap();
}

fn check(sql: &str) -> Verdict {
    Validator::check_here(sql, Dialect::Sqlite, Mode::Exec, &Policy::new(Dialect::Sqlite))
}

fn refused_for_size(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Refused(refusal) if matches!(refusal.rule, "too_long" | "too_deep"))
}

#[test]
fn the_longest_chain_that_is_let_in_takes_little_stack() {
    on_small_stack(|| {
        for (name, make) in CHAINS {
            for n in [0, 1, 63, 64, 65, 300, 499, 500, 999, 1_000, 1_001, 20_000] {
                let verdict = check(&make(n));
                assert!(n <= 1_000 || refused_for_size(&verdict), "{name} {n}: {verdict:?}");
                assert!(n > 32 || matches!(verdict, Verdict::Accepted(_)), "{name} {n}: {verdict:?}");
            }
        }
    });
}

#[test]
fn the_deepest_nest_that_is_let_in_takes_little_stack() {
    on_small_stack(|| {
        for (name, make) in NESTS {
            for n in [0, 1, 16, 31, 32, 63, 64, 65, 1_000, 10_000, 40_000] {
                let verdict = check(&make(n));
                assert!(n <= 64 || refused_for_size(&verdict), "{name} {n}: {verdict:?}");
                assert!(n > 16 || matches!(verdict, Verdict::Accepted(_)), "{name} {n}: {verdict:?}");
            }
        }
    });
}

#[test]
fn chains_inside_nests_take_little_stack() {
    on_small_stack(|| {
        for part in ["+1", "||1", " OR 1", " LIKE 1", " BETWEEN 1 AND 1", " COLLATE c", " IN (1)", " ISNULL"]
        {
            for per_level in [10, 400, 990] {
                let mut sql = "1".to_owned();
                for _ in 0..60 {
                    sql = format!("({sql}{})", part.repeat(per_level));
                }
                let _ = check(&format!("SELECT {sql}"));
                let mut sql = "1".to_owned();
                for _ in 0..60 {
                    sql = format!("(SELECT 1{} + {sql})", part.repeat(per_level));
                }
                let _ = check(&format!("SELECT {sql}"));
            }
        }
    });
}

#[test]
fn a_short_text_needs_no_thread_of_its_own_and_gets_the_same_verdict() {
    let policy = Policy::new(Dialect::Sqlite);
    let thread = std::thread::Builder::new().stack_size(SHORT_STACK_BYTES);
    let decided = thread.spawn(move || {
        let mut decided = 0;
        for (name, make) in CHAINS.iter().chain(NESTS).chain(LISTS) {
            for n in 0..48 {
                let sql = make(n);
                let Some(short) = Validator::check_short(&sql, Dialect::Sqlite, Mode::Exec, &policy) else {
                    continue;
                };
                decided += 1;
                assert_eq!(short, Validator::check(&sql, Dialect::Sqlite, Mode::Exec, &policy), "{name} {n}");
            }
        }
        decided
    });
    assert!(decided.unwrap().join().unwrap() > 300);
    for long in [format!("SELECT '{}'", "x".repeat(512)), format!("SELECT 1{}", "+1".repeat(24))] {
        let policy = Policy::new(Dialect::Sqlite);
        assert_eq!(Validator::check_short(&long, Dialect::Sqlite, Mode::Query, &policy), None);
        assert!(matches!(check(&long), Verdict::Accepted(_)));
    }
}

#[test]
fn lists_of_any_length_take_little_stack() {
    on_small_stack(|| {
        for (name, make) in LISTS {
            for n in [0, 1, 1_000, 66_000, 99_000, 500_000] {
                let started = Instant::now();
                let verdict = check(&make(n));
                // Work that grew with the square of the text would take minutes.
                assert!(started.elapsed() < Duration::from_secs(20), "{name} {n}: {:?}", started.elapsed());
                assert!(n > 1 || !refused_for_size(&verdict), "{name} {n}: {verdict:?}");
            }
        }
    });
}

/// Bytes allocated for a verdict, on a thread that keeps nothing from an earlier one.
fn work(sql: String) -> usize {
    std::thread::spawn(move || {
        let policy = Policy::new(Dialect::Sqlite);
        let before = BYTES.with(Cell::get);
        let _ = Validator::check_here(&sql, Dialect::Sqlite, Mode::Exec, &policy);
        BYTES.with(Cell::get) - before
    })
    .join()
    .unwrap()
}

#[test]
fn memory_grows_with_the_text_and_not_with_its_square() {
    let grows = |name: &str, make: fn(usize) -> String, n: usize| {
        let (small, large) = (work(make(n)), work(make(4 * n)));
        // Vectors and arenas double, so four times as much text may take eight times as much memory at the steps.
        assert!(large < 9 * small.max(20_000), "{name}: {small} then {large} bytes");
    };
    let all = |shapes: &[Shape], n: usize| shapes.iter().for_each(|(name, make)| grows(name, *make, n));
    all(CHAINS, 240);
    all(NESTS, 15);
    all(LISTS, 10_000);
}

#[test]
fn names_that_a_parser_joins_or_compares_are_few() {
    let long = "n".repeat(1_000);
    let types = format!("CREATE TABLE t(a {})", format!("{long} ").repeat(900));
    let columns = |n: usize| {
        let names: Vec<String> = (0..n).map(|at| format!("c{at}")).collect();
        names.join(",")
    };
    assert!(refused_for_size(&check(&types)));
    assert!(matches!(check(&format!("CREATE TABLE t({})", columns(2_000))), Verdict::Accepted(_)));
    assert!(refused_for_size(&check(&format!("CREATE TABLE t({})", columns(2_001)))));
    assert!(matches!(check(&format!("INSERT INTO t({}) VALUES (1)", columns(2_000))), Verdict::Accepted(_)));
    assert!(refused_for_size(&check(&format!("INSERT INTO t({}) VALUES (1)", columns(2_001)))));
    assert!(refused_for_size(&check(&format!("UPDATE t SET ({}) = (1)", columns(50_000)))));
    assert!(refused_for_size(&check(&format!("SELECT 1 FROM a JOIN b USING ({})", columns(50_000)))));
    let alike: Vec<String> = (0..900).map(|at| format!("{long}{at}")).collect();
    assert!(refused_for_size(&check(&format!("INSERT INTO t({}) VALUES (1)", alike.join(",")))));
}

#[test]
fn the_caps_are_the_policys() {
    let mut policy = Policy::new(Dialect::Sqlite);
    policy.limits = Limits::default();
    policy.limits.bytes = 20;
    policy.limits.tokens = 5;
    let check = |sql: &str| Validator::check_here(sql, Dialect::Sqlite, Mode::Query, &policy);
    assert!(matches!(check("SELECT 1, 2"), Verdict::Accepted(_)));
    assert!(refused_for_size(&check("SELECT 1, 2, 3")));
    assert!(refused_for_size(&check("SELECT 1            , 2")));
}

#[test]
fn a_megabyte_and_no_more() {
    let text = |bytes: usize| format!("SELECT '{}'", "a".repeat(bytes - 9));
    assert!(matches!(check(&text(1 << 20)), Verdict::Accepted(_)));
    assert!(refused_for_size(&check(&text((1 << 20) + 1))));
    assert!(refused_for_size(&check(&text(10 << 20))));
}
