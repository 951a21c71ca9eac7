//! The caches' counters.

use std::sync::Arc;

use memory_core::Provider;

use crate::support::embedders::Directions;
use crate::support::sql::Sql;
use crate::support::{Store, TestClock, agent, fast};

/// Hits and misses of a cache.
fn uses(provider: &dyn Provider, cache: &str) -> [u64; 2] {
    ["hits", "misses"].map(|what| {
        let name = format!("sqlite_{cache}_{what}_total");
        let figure = provider.figures().into_iter().find(|figure| figure.name == name).expect(&name);
        assert!(figure.is_counter, "{name}");
        figure.value
    })
}

#[test]
fn each_search_is_a_hit_or_a_miss_of_the_caches_that_it_needs() {
    let embedder = Arc::new(Directions::new(8));
    let store = Store::embedding(None, fast(), TestClock::new(), embedder).unwrap();
    let indexes = || ["text_index", "vector_index"].map(|cache| uses(&*store.provider, cache));
    store.set("k", "\"green tea\"");
    assert_eq!(indexes(), [[0, 0], [0, 0]], "a write");
    store.find("tea").unwrap();
    assert_eq!(indexes(), [[0, 1], [0, 0]], "by words, the first time");
    store.find("tea").unwrap();
    store.set("l", "\"black tea\"");
    store.find("tea").unwrap();
    assert_eq!(indexes(), [[2, 1], [0, 0]], "again, and after a write");
    store.near("green tea", 1).unwrap();
    store.near("green tea", 1).unwrap();
    assert_eq!(indexes(), [[2, 1], [1, 1]], "by vector");
    store.entry("k").unwrap();
    assert_eq!(indexes(), [[2, 1], [1, 1]], "no search");
}

#[test]
fn where_nothing_fits_every_search_is_a_miss() {
    let embedder = Arc::new(Directions::new(8));
    let config = fast().with_vector_index_bytes(0).with_search_index_bytes(0);
    let store = Store::embedding(None, config, TestClock::new(), embedder).unwrap();
    store.set("k", "\"green tea\"");
    for _ in 0..3 {
        store.find("tea").unwrap();
        store.near("green tea", 1).unwrap();
    }
    assert_eq!(["text_index", "vector_index"].map(|cache| uses(&*store.provider, cache)), [[0, 3], [0, 3]]);
}

#[test]
fn a_statement_finds_an_idle_connection_or_opens_one() {
    let sql = Sql::in_memory(fast());
    sql.exec("CREATE TABLE t (a)");
    assert_eq!(uses(&*sql.provider, "sql_connection"), [0, 1]);
    sql.exec("INSERT INTO t VALUES (1)");
    assert_eq!(uses(&*sql.provider, "sql_connection"), [1, 1]);
    sql.at(agent("bob")).exec("CREATE TABLE t (a)");
    assert_eq!(uses(&*sql.provider, "sql_connection"), [1, 2]);
}
