//! Search by vectors and hybrid search give the same results as reading everything: for random entries, filters and
//! budgets, during concurrent writes, and across processes that are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::child::{self, Child};
use crate::support::embedders::Directions;
use crate::support::files::{folder, integrity};
use crate::support::{Store, TestClock, block_on, fast, json, key};
use memory_conformance::Reference;
use memory_conformance::random::Random;
use memory_core::embed::cosine;
use memory_core::{
    Backend, Checked, Dedup, DedupPolicy, DeleteOptions, Embed, Embedding, Field, Filter, Fusion, Key,
    Metadata, NewEntry, Provider as _, RankOptions, Scope, SearchMode, SearchQuery, SearchResults,
    SetOptions, Ttl,
};
use memory_sqlite::SqliteConfig;
use proptest::prelude::*;
use proptest::sample::select;

// ---- Against reading everything ----

const KEYS: u64 = 150;

/// One step of a history; its details follow from its number.
#[derive(Clone, Debug)]
enum Step {
    /// Writes this many entries.
    Write(u64, usize),
    Delete(u64, usize),
    Advance(u64),
    Sweep,
    Search(Asked),
}

#[derive(Clone, Debug)]
struct Asked {
    text: usize,
    mode: SearchMode,
    prefix: &'static str,
    filter: Option<Filter>,
    top_k: usize,
    threshold: Option<f64>,
    rank: RankOptions,
    dedup: Option<Dedup>,
}

/// Few texts for many keys, so that there are ties, also near the threshold.
fn text(index: u64) -> String {
    format!("text {} {}", index % 40, if index.is_multiple_of(3) { "tea" } else { "rain" })
}

fn items(seed: u64, count: usize) -> Vec<NewEntry> {
    let mut random = Random::named(&format!("items {seed}"));
    let item = |_| {
        let name =
            format!("{}/{:03}", ["a", "b"][usize::try_from(random.below(2)).unwrap()], random.below(KEYS));
        let mut item = NewEntry::new(key(&name), json(&format!("\"{}\"", text(random.below(200)))));
        let number = i64::try_from(random.below(10)).unwrap();
        item.options.metadata = match random.below(4) {
            0 => Metadata::new(),
            1 => Metadata::new().with("n", f64::from(i32::try_from(number).unwrap()) + 0.5),
            _ => Metadata::new().with("n", number).with("city", "Oslo"),
        };
        if random.below(5) == 0 {
            item.options.ttl = Ttl::After(Duration::from_millis(1 + random.below(100)));
        }
        if random.below(8) == 0 {
            item.options.embed = Embed::Never;
        }
        item
    };
    (0..count).map(item).collect()
}

fn filters() -> impl Strategy<Value = Option<Filter>> {
    let number = || Field::Metadata("n".into());
    let city = || Field::Metadata("city".into());
    prop_oneof![
        3 => Just(None),
        1 => (0..10_i64).prop_map(move |n| Some(Filter::Eq(number(), n.into()))),
        1 => (0..10_i64).prop_map(move |n| Some(Filter::Lt(number(), n.into()))),
        1 => Just(Some(Filter::And(vec![
            Filter::Not(Box::new(Filter::Exists(city()))),
            Filter::Or(vec![Filter::Exists(number()), Filter::Exists(Field::ExpiresAt)]),
        ]))),
        1 => Just(Some(Filter::Gt(Field::UpdatedAt, 1_800_000_000_050_i64.into()))),
        // More fields than are kept as columns.
        1 => Just(Some(Filter::Or(
            (0..40).map(|n| Filter::Eq(Field::Metadata(format!("m{n}")), 1.into()))
                .chain([Filter::Eq(number(), 3.into())]).collect()
        ))),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    let modes = select(&[SearchMode::Vector, SearchMode::Vector, SearchMode::Hybrid, SearchMode::Lexical]);
    let dedups = prop_oneof![
        2 => Just(None),
        1 => (select(&[0.5, 0.9, 1.0]), select(&[DedupPolicy::Drop, DedupPolicy::Merge, DedupPolicy::Keep]))
            .prop_map(|(threshold, policy)| Some(Dedup { threshold, policy })),
    ];
    let ranks = (select(&[0.0, 0.0, 0.7]), select(&[1.0, 0.5]), any::<bool>()).prop_map(
        |(recency, similarity, reciprocal)| RankOptions {
            recency,
            similarity,
            half_life_seconds: 0.05,
            fusion: if reciprocal { Fusion::ReciprocalRank { k: 60 } } else { Fusion::default() },
            ..RankOptions::default()
        },
    );
    let thresholds = select(&[None, None, Some(0.0), Some(0.4)]);
    let top_k = select(&[1_usize, 5, 20, 100, 300]);
    (0..50_usize, modes, select(&["", "", "a/", "b/1", "c"]), filters(), top_k, thresholds, ranks, dedups)
        .prop_map(|(text, mode, prefix, filter, top_k, threshold, rank, dedup)| Asked {
            text,
            mode,
            prefix,
            filter,
            top_k,
            threshold,
            rank,
            dedup,
        })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (any::<u64>(), select(&[1_usize, 5, 80])).prop_map(|(seed, count)| Step::Write(seed, count)),
        1 => (any::<u64>(), select(&[1_usize, 20])).prop_map(|(seed, count)| Step::Delete(seed, count)),
        1 => (1..60_u64).prop_map(Step::Advance),
        1 => Just(Step::Sweep),
        6 => asked().prop_map(Step::Search),
    ]
}

fn query(asked: &Asked) -> SearchQuery {
    let mut query = SearchQuery::new(text(asked.text as u64))
        .with_mode(asked.mode)
        .with_prefix(asked.prefix)
        .with_top_k(asked.top_k)
        .with_rank(asked.rank.clone());
    (query.filter, query.threshold, query.dedup) = (asked.filter.clone(), asked.threshold, asked.dedup);
    query
}

fn shown(found: SearchResults) -> (Vec<String>, usize) {
    let hit = |hit: memory_core::Hit| {
        let merged: Vec<&str> = hit.merged.iter().map(Key::as_str).collect();
        format!("{} {:.12} {:.12} {:?} {merged:?}", hit.entry.key, hit.score, hit.rank_score, hit.entry.value)
    };
    (found.hits.into_iter().map(hit).collect(), found.duplicates)
}

async fn take(kv: &dyn Backend, scope: &Scope, step: &Step) {
    match step {
        Step::Write(seed, count) => {
            let written = kv.bulk_insert(scope, items(*seed, *count), Default::default()).await.unwrap();
            assert!(written.iter().all(|outcome| !matches!(outcome.embedding, Embedding::Failed(_))));
        }
        Step::Delete(seed, count) => {
            for item in items(*seed, *count) {
                kv.delete(scope, &item.key, DeleteOptions::default()).await.unwrap();
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(60),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn search_answers_as_reading_everything_would(
        history in prop::collection::vec(steps(), 1..30),
        // Nothing fits; sometimes some of it; everything fits.
        budget in select(&[0_usize, 3_000, 1 << 20]),
        dimensions in select(&[2_usize, 3, 16]),
        other_handle: bool,
    ) {
        let clock = TestClock::new();
        let embedder = Arc::new(Directions::new(dimensions));
        let reference = Reference::new(Arc::clone(&clock) as Arc<_>).with_embedder(embedder.clone());
        let reference = Checked::new(reference).unwrap();
        let folder = folder();
        let path = folder.path().join("memory.db");
        let config = fast().with_vector_index_bytes(budget);
        let open = || Store::embedding(Some(&path), config.clone(), clock.clone(), embedder.clone()).unwrap();
        let store = open();
        // Like another process: it learns of writes only from the file.
        let searched = if other_handle { open() } else { store.clone() };
        for step in &history {
            block_on(take(reference.backend().unwrap(), &store.scope, step));
            block_on(take(store.backend(), &store.scope, step));
            match step {
                Step::Advance(ms) => clock.advance(Duration::from_millis(*ms)),
                Step::Sweep => drop(block_on(store.provider.sweep()).unwrap()),
                Step::Search(asked) => {
                    let expected = block_on(reference.backend().unwrap().search(&store.scope, query(asked)));
                    let found = block_on(searched.backend().search(&store.scope, query(asked)));
                    prop_assert_eq!(shown(found.unwrap()), shown(expected.unwrap()), "{:?}", asked);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn scopes_that_share_a_small_budget_are_searched_rightly_in_turn() {
    let embedder = Arc::new(Directions::new(64));
    // About two of the five fit.
    let config = fast().with_vector_index_bytes(60_000);
    let store = Store::embedding(None, config, TestClock::new(), embedder.clone()).unwrap();
    let scopes: Vec<Scope> = (0..5).map(|n| crate::support::agent(&format!("agent {n}"))).collect();
    for (number, scope) in scopes.iter().enumerate() {
        let items = (0..200)
            .map(|n| NewEntry::new(key(&format!("k{n}")), json(&format!("\"{number} {n}\""))))
            .collect();
        block_on(store.backend().bulk_insert(scope, items, Default::default())).unwrap();
    }
    for round in 0..60 {
        let (number, n) = (round % 5, round * 7 % 200);
        let query = SearchQuery::new(format!("{number} {n}")).with_mode(SearchMode::Vector).with_top_k(3);
        let found = block_on(store.backend().search(&scopes[number], query)).unwrap();
        assert_eq!(found.hits[0].entry.key.as_str(), format!("k{n}"), "scope {number}");
    }
}

// ---- While others write ----

/// Every hit is what is stored at that moment: its score is that of its own text.
fn check_hits(embedder: &Directions, asked: &str, found: &SearchResults) {
    let asked = embedder.vector(asked);
    let mut keys = BTreeSet::new();
    for hit in &found.hits {
        let own = cosine(&embedder.vector(&hit.entry.search_text()), &asked).clamp(0.0, 1.0);
        assert!((hit.score - own).abs() < 1e-12, "`{}` scores {}, its text {own}", hit.entry.key, hit.score);
        assert!(keys.insert(hit.entry.key.clone()), "`{}` twice", hit.entry.key);
    }
    assert!(found.hits.is_sorted_by(|a, b| a.score >= b.score));
}

/// Writes, deletes and re-embeds at random.
fn churn(store: &Store, seed: &str, steps: u64) {
    let mut random = Random::named(seed);
    for _ in 0..steps {
        let name = format!("k{:02}", random.below(40));
        match random.below(10) {
            0 | 1 => drop(store.delete(&name).unwrap()),
            2 => drop(store.try_set_with(
                &name,
                "\"no vector\"",
                SetOptions::default().with_embed(Embed::Never),
            )),
            3 => {
                let items = (0..8).map(|n| (format!("k{n:02}"), format!("\"{}\"", text(random.below(60)))));
                store.bulk(items).unwrap();
            }
            4 => drop(store.try_set_with(
                &name,
                "\"brief\"",
                SetOptions::default().with_ttl(Ttl::After(Duration::from_millis(1))),
            )),
            5 => drop(block_on(store.backend().reembed(&store.scope, Default::default())).unwrap()),
            6 => store.clock.advance(Duration::from_millis(1)),
            _ => {
                store.set(&name, &format!("\"{}\"", text(random.below(60))));
            }
        }
    }
}

fn search_while_others_write(in_memory: bool, budget: usize) {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let embedder = Arc::new(Directions::new(24));
    let clock = TestClock::new();
    let mut config = fast().with_vector_index_bytes(budget);
    config.busy_timeout_ms = 60_000;
    let open = || {
        let path = (!in_memory).then_some(path.as_path());
        Store::embedding(path, config.clone(), clock.clone(), embedder.clone()).unwrap()
    };
    let first = open();
    let second = if in_memory { first.clone() } else { open() };
    let done = AtomicBool::new(false);
    thread::scope(|threads| {
        let writers: Vec<_> = [&first, &second, &first]
            .into_iter()
            .enumerate()
            .map(|(n, store)| threads.spawn(move || churn(store, &format!("writer {n}"), 300)))
            .collect();
        for (n, store) in [&first, &second].into_iter().enumerate() {
            let (embedder, done) = (&embedder, &done);
            threads.spawn(move || {
                let mut random = Random::named(&format!("reader {n}"));
                while !done.load(Ordering::SeqCst) {
                    let asked = text(random.below(60));
                    let query = SearchQuery::new(&asked).with_mode(SearchMode::Vector).with_top_k(15);
                    check_hits(
                        embedder,
                        &asked,
                        &block_on(store.backend().search(&store.scope, query)).unwrap(),
                    );
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
    // At rest both handles find exactly what is there.
    block_on(first.backend().reembed(&first.scope, Default::default())).unwrap();
    let stored: BTreeMap<String, String> = first
        .entries("")
        .unwrap()
        .into_iter()
        .map(|entry| (entry.key.to_string(), entry.search_text().into_owned()))
        .collect();
    for store in [&first, &second] {
        let query = SearchQuery::new("text 1 tea").with_mode(SearchMode::Vector).with_top_k(100);
        let found = block_on(store.backend().search(&store.scope, query)).unwrap();
        check_hits(&embedder, "text 1 tea", &found);
        let keys: BTreeSet<String> = found.hits.iter().map(|hit| hit.entry.key.to_string()).collect();
        assert_eq!(keys, stored.keys().cloned().collect());
    }
}

#[test]
fn what_is_found_while_others_write_is_what_is_stored() {
    search_while_others_write(false, 1 << 20);
}

#[test]
fn what_is_found_by_reading_while_others_write_is_what_is_stored() {
    search_while_others_write(false, 0);
}

#[test]
fn what_is_found_in_memory_while_others_write_is_what_is_stored() {
    search_while_others_write(true, 1 << 20);
}

// ---- Other processes ----

fn embedding(config: SqliteConfig) -> Store {
    let path = child::given("DATABASE");
    Store::embedding(Some(Path::new(&path)), config, TestClock::new(), Arc::new(Directions::new(24))).unwrap()
}

fn patient() -> SqliteConfig {
    let mut config = fast();
    config.busy_timeout_ms = 60_000;
    config
}

#[test]
fn what_another_process_writes_is_found_and_what_it_removes_is_not() {
    const NAME: &str =
        concat!(module_path!(), "::what_another_process_writes_is_found_and_what_it_removes_is_not");
    if child::role().is_some() {
        // Ends with its input, and so with its parent.
        let store = embedding(patient());
        child::say("ready");
        for line in std::io::stdin().lines() {
            let line = line.unwrap();
            match line.split_once(' ').unwrap() {
                ("set", text) => {
                    store.set("k", &format!("\"{text}\""));
                }
                ("delete", name) => drop(store.delete(name).unwrap()),
                ("churn", seed) => churn(&store, seed, 100),
                other => panic!("{other:?}"),
            }
            child::say("done");
        }
        return;
    }
    let folder = folder();
    let path = folder.path().join("memory.db");
    let embedder = Arc::new(Directions::new(24));
    let store = Store::embedding(Some(&path), patient(), TestClock::new(), embedder.clone()).unwrap();
    store.bulk((0..50).map(|n| (format!("own{n}"), format!("\"own {n}\"")))).unwrap();
    let mut other = Child::with(NAME, "writer", &[("DATABASE", path.as_os_str())]);
    assert_eq!(other.expect_line(), "ready");
    let nearest =
        |text: &str| store.near(text, 1).unwrap().into_iter().next().filter(|(_, score)| *score > 0.999_999);
    for n in 0..10 {
        assert_eq!(nearest(&format!("word {n}")), None);
        other.ask(&format!("set word {n}"));
        assert_eq!(nearest(&format!("word {n}")).unwrap().0, "k");
        other.ask(&format!("delete own{n}"));
        assert_eq!(nearest(&format!("own {n}")), None, "deleted by the other process");
        // Own writes in between.
        store.set(&format!("own{n}"), &format!("\"own {n} again\""));
        assert_eq!(nearest(&format!("own {n} again")).unwrap().0, format!("own{n}"));
    }
    other.tell("churn elsewhere");
    for n in 0..100 {
        let asked = text(n);
        let query = SearchQuery::new(&asked).with_mode(SearchMode::Vector).with_top_k(15);
        check_hits(&embedder, &asked, &block_on(store.backend().search(&store.scope, query)).unwrap());
    }
    assert_eq!(other.expect_line(), "done");
    other.end();
}

#[test]
fn a_process_killed_while_it_embeds_leaves_no_half_written_vector() {
    const NAME: &str =
        concat!(module_path!(), "::a_process_killed_while_it_embeds_leaves_no_half_written_vector");
    if child::role().is_some() {
        child::end_with_parent();
        let store = embedding(patient());
        let seed = child::given("SEED");
        thread::scope(|threads| {
            for n in 0..3 {
                let (store, seed) = (&store, &seed);
                threads.spawn(move || {
                    for step in 0.. {
                        let name = format!("own{n}");
                        let said = text(step);
                        let outcome = store.try_set(&name, &format!("\"{said}\"")).unwrap();
                        assert_eq!(outcome.embedding, Embedding::Stored);
                        child::say(&format!("{name} {} {said}", outcome.version));
                        churn(store, &format!("{seed} {n} {step}"), 3);
                    }
                });
            }
        });
        return;
    }
    let folder = folder();
    let path = folder.path().join("memory.db");
    let embedder = Arc::new(Directions::new(24));
    let rounds: u64 =
        std::env::var("MEMORY_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(25);
    let mut random = Random::named(NAME);
    for round in 0..rounds {
        let seed = round.to_string();
        let given = [("DATABASE", path.as_os_str()), ("SEED", OsStr::new(&seed))];
        let mut writer = Child::with(NAME, "writer", &given);
        let mut acknowledged = BTreeMap::new();
        let mut note = |line: String| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            let mut word = || words.next().unwrap();
            acknowledged.insert(word(), (word().parse::<u64>().unwrap(), word()));
        };
        for _ in 0..1 + random.below(40) {
            note(writer.expect_line());
        }
        writer.kill();
        writer.rest().into_iter().for_each(note);

        let store = Store::embedding(Some(&path), patient(), TestClock::new(), embedder.clone()).unwrap();
        for (name, (version, said)) in &acknowledged {
            let entry = store.entry(name).unwrap().unwrap();
            assert!(entry.version >= *version, "`{name}` was acknowledged");
            if entry.version == *version {
                let near = store.near(said, 100).unwrap();
                let own = near.iter().find(|(found, _)| found == name);
                assert!(
                    own.is_some_and(|(_, score)| *score > 0.999_999),
                    "`{name}`: its vector was acknowledged"
                );
            }
        }
        let records =
            block_on(crate::support::collect(block_on(store.backend().export_scope(&store.scope)).unwrap()));
        for record in records.into_iter().map(Result::unwrap) {
            for vector in &record.vectors {
                assert_eq!(
                    vector.vector,
                    embedder.vector(&record.entry.search_text()),
                    "`{}`",
                    record.entry.key
                );
            }
        }
        store.close();
        let conn = crate::support::files::raw_or_new(&path);
        let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(number("SELECT count(*) FROM vector"), number("SELECT sum(vectors) FROM scope"));
        let orphans = "SELECT count(*) FROM vector v WHERE NOT EXISTS (SELECT 1 FROM entry e \
                       WHERE e.space = v.space AND e.key = v.key AND e.version = v.version)";
        assert_eq!(number(orphans), 0);
    }
    assert_eq!(integrity(&path), "ok");
}

#[test]
fn a_large_scope_is_loaded_as_it_is_read() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let embedder = Arc::new(Directions::new(8));
    let open = |bytes| {
        let config = fast().with_vector_index_bytes(bytes);
        Store::embedding(Some(&path), config, TestClock::new(), embedder.clone()).unwrap()
    };
    let [store, scanning] = [64 << 20, 0].map(open);
    store.bulk((0..9_900).map(|n| (format!("k{n:05}"), format!("\"entry {n}\"")))).unwrap();
    let same = |store: &Store, asked: &str| {
        assert_eq!(store.near(asked, 20).unwrap(), scanning.near(asked, 20).unwrap(), "{asked}");
    };
    let loaded = open(64 << 20);
    same(&loaded, "entry 77");
    same(&loaded, "nothing like it");
    // Another handle adds and removes entries.
    store.bulk((0..9_900).map(|n| (format!("l{n:05}"), format!("\"entry {n}\"")))).unwrap();
    same(&loaded, "entry 78");
    (0..50).for_each(|n| drop(store.delete(&format!("k{n:05}"))));
    same(&loaded, "entry 7");
    // Exceeding the budget is noticed while loading.
    let tight = open(9_900 * 2 * 33);
    same(&tight, "entry 79");
    same(&tight, "entry 80");
}
