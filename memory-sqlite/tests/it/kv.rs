//! The facet on both kinds of database, without any runtime: what the conformance suite does not see from outside.

use std::time::Duration;

use crate::support::{TestClock, agent, block_on, json, key, normal};
use memory_core::{
    Backend, BulkOptions, DeleteOptions, ErrorKind, GetOptions, NewEntry, Quota, SearchQuery, SetOptions, Ttl,
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
fn search_follows_every_write() {
    on_both(async |db, clock| {
        let scope = agent("a");
        let found = async |text: &str| -> Vec<String> {
            let results = db.search(&scope, SearchQuery::new(text)).await.unwrap();
            results.hits.into_iter().map(|hit| String::from(hit.entry.key)).collect()
        };
        assert!(found("lisbon").await.is_empty());
        db.set(&scope, &key("1"), json(r#""Ann moved to Lisbon""#), SetOptions::default()).await.unwrap();
        assert_eq!(found("lisbon").await, ["1"]);
        let ttl = SetOptions::default().with_ttl(Ttl::After(Duration::from_millis(7)));
        db.set(&scope, &key("2"), json(r#""Bob went to Lisbon and Lisbon""#), ttl).await.unwrap();
        assert_eq!(found("lisbon").await, ["2", "1"]);
        clock.advance(Duration::from_millis(7));
        assert_eq!(found("lisbon").await, ["1"]);
        clock.set_back(Duration::from_millis(1));
        assert_eq!(found("lisbon").await, ["2", "1"]);
        clock.advance(Duration::from_millis(1));
        db.set(&scope, &key("1"), json(r#""Ann moved to Oslo""#), SetOptions::default()).await.unwrap();
        assert!(found("lisbon").await.is_empty());
        assert_eq!(found("oslo").await, ["1"]);
        db.delete(&scope, &key("1"), DeleteOptions::default()).await.unwrap();
        assert!(found("oslo").await.is_empty());
        db.set(&scope, &key("3"), json(r#""Oslo""#), SetOptions::default()).await.unwrap();
        db.drop_scope(&scope).await.unwrap();
        assert!(found("oslo").await.is_empty());
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

#[test]
fn access_counts_outlive_the_provider() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.db");
    let scope = agent("a");
    block_on(async {
        let db = crate::support::open(&path, normal());
        db.set(&scope, &key("k"), json("1"), SetOptions::default()).await.unwrap();
        for before in 0..5 {
            let entry = db.get(&scope, &key("k"), GetOptions::default()).await.unwrap().unwrap();
            assert_eq!(entry.access_count, before);
        }
        db.flush().await.unwrap();
        db.get(&scope, &key("k"), GetOptions::default()).await.unwrap();
        drop(db);
        assert!(memory_sqlite::wait_until_closed(std::time::Duration::from_secs(30)));
        let db = crate::support::open(&path, normal());
        let entry = db.get(&scope, &key("k"), GetOptions::default()).await.unwrap().unwrap();
        assert_eq!(entry.access_count, 6);
    });
}
