//! The facet on both kinds of database, without any runtime: what the conformance suite cannot see from outside.

use std::time::Duration;

use crate::support::{TestClock, agent, block_on, json, key, normal};
use memory_core::{
    Backend, BulkOptions, ErrorKind, GetOptions, NewEntry, Provider as _, Quota, SearchQuery, SetOptions, Ttl,
};
use memory_sqlite::SqliteProvider;

/// Runs a test on a file and in memory.
fn on_both(test: impl AsyncFn(&SqliteProvider, &TestClock)) {
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let file = SqliteProvider::open(folder.path().join("m.db"), normal(), clock.clone()).unwrap();
    block_on(test(&file, &clock));
    let clock = TestClock::new();
    let memory = SqliteProvider::open_in_memory(normal(), clock.clone()).unwrap();
    block_on(test(&memory, &clock));
}

#[test]
fn making_room_for_a_write_over_an_expired_entry_that_is_among_very_many() {
    on_both(async |db, clock| {
        let scope = agent("a");
        let quota = Quota { max_entries: Some(700), max_bytes: None };
        let options =
            |ms| SetOptions::default().with_quota(quota).with_ttl(Ttl::After(Duration::from_millis(ms)));
        let mut items = Vec::new();
        for i in 0..700_u64 {
            let options = options(1 + i);
            items.push(NewEntry { options, ..NewEntry::new(key(&format!("k{i:03}")), json("1")) });
        }
        db.bulk_insert(&scope, items, BulkOptions::default()).await.unwrap();
        clock.advance(Duration::from_millis(700));
        // Reclaiming goes by expiry and in steps, so the last one is still there when its turn is to be written.
        assert!(db.set(&scope, &key("k699"), json("2"), options(5)).await.unwrap().created);
        assert_eq!(db.stats(&scope).await.unwrap().entries, 1);
        assert_eq!(db.sweep().await.unwrap(), 700 - 512 - 1);
        assert_eq!(db.stats(&scope).await.unwrap().entries, 1);
    });
}

#[test]
fn a_clock_that_is_set_back_shows_again_what_had_expired() {
    on_both(async |db, clock| {
        let scope = agent("a");
        let count = async || db.search(&scope, SearchQuery::new("lisbon")).await.unwrap().hits.len();
        let ttl = SetOptions::default().with_ttl(Ttl::After(Duration::from_millis(7)));
        db.set(&scope, &key("k"), json(r#""Bob went to Lisbon""#), ttl).await.unwrap();
        assert_eq!(count().await, 1);
        clock.advance(Duration::from_millis(7));
        assert_eq!(count().await, 0);
        clock.set_back(Duration::from_millis(1));
        assert_eq!(count().await, 1);
    });
}

#[test]
fn after_closing_everything_is_unavailable() {
    on_both(async |db, _| {
        let scope = agent("a");
        db.set(&scope, &key("k"), json("1"), SetOptions::default()).await.unwrap();
        db.close().await.unwrap();
        db.close().await.unwrap();
        let error = db.get(&scope, &key("k"), GetOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let error = db.set(&scope, &key("k"), json("1"), SetOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let error = db.search(&scope, SearchQuery::new("x")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    });
}
