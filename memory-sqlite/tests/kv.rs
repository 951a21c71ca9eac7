//! The facet on both kinds of database, without any runtime: what the conformance suite does not see from outside.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use std::time::Duration;

use memory_core::{
    Backend, BulkOptions, DeleteOptions, Embed, ErrorKind, Expect, GetOptions, ImportOptions, ListQuery,
    Metadata, NewEntry, OnExisting, Provider, Quota, Reducer, ScopesQuery, SearchQuery, SetOptions, Source,
    Ttl, UpdateOptions,
};
use memory_sqlite::SqliteProvider;
use support::{TestClock, agent, block_on, collect, json, key, normal, stream};

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
fn what_is_set_is_read_back_short_and_long() {
    on_both(async |db, _| {
        let scope = agent("a");
        let long = format!("{{\"long\": \"{}\", \"n\": 9007199254740993}}", "x".repeat(200_000));
        for text in ["1", r#"{ "b":1, "a": 1.50 }"#, &long] {
            let options = SetOptions::default()
                .with_metadata(Metadata::new().with("city", "Oslo").with("n", 0.1))
                .with_source(Source::new("chat").unwrap())
                .with_text("some text");
            let outcome = db.set(&scope, &key("k"), json(text), options).await.unwrap();
            let entry = db.get(&scope, &key("k"), GetOptions::default()).await.unwrap().unwrap();
            assert_eq!(entry.value.as_str(), text);
            assert_eq!(entry.version, outcome.version);
            assert_eq!(entry.metadata, Metadata::new().with("city", "Oslo").with("n", 0.1));
            assert_eq!(entry.source.unwrap().as_str(), "chat");
            assert_eq!(entry.text.as_deref(), Some("some text"));
        }
        let stats = db.stats(&scope).await.unwrap();
        let entry = db.get(&scope, &key("k"), GetOptions::uncounted()).await.unwrap().unwrap();
        assert_eq!((stats.entries, stats.bytes), (1, entry.size_bytes()));
        assert_eq!(entry.access_count, 3);
        assert!(db.delete(&scope, &key("k"), DeleteOptions::default()).await.unwrap().deleted);
        assert_eq!(db.stats(&scope).await.unwrap(), memory_core::ScopeStats::default());
    });
}

#[test]
fn versions_are_not_reused_after_delete_expiry_and_drop() {
    on_both(async |db, clock| {
        let scope = agent("a");
        let mut last = 0;
        for round in 0..4 {
            let ttl = Ttl::After(Duration::from_millis(10));
            let set =
                db.set(&scope, &key("k"), json("1"), SetOptions::default().with_ttl(ttl)).await.unwrap();
            assert!(set.version > last && set.created, "round {round}");
            last = set.version;
            match round {
                0 => drop(db.delete(&scope, &key("k"), DeleteOptions::default()).await.unwrap()),
                1 => assert_eq!(db.drop_scope(&scope).await.unwrap().entries, 1),
                2 => {
                    clock.advance(Duration::from_millis(10));
                    assert_eq!(db.sweep().await.unwrap(), 1);
                }
                _ => clock.advance(Duration::from_millis(10)),
            }
            assert!(db.get(&scope, &key("k"), GetOptions::default()).await.unwrap().is_none());
        }
    });
}

#[test]
fn a_quota_counts_what_is_live_to_the_millisecond() {
    on_both(async |db, clock| {
        let scope = agent("a");
        let quota = Quota { max_entries: Some(2), max_bytes: None };
        let short = SetOptions::default().with_quota(quota).with_ttl(Ttl::After(Duration::from_millis(5)));
        let long = SetOptions::default().with_quota(quota);
        db.set(&scope, &key("a"), json("1"), short.clone()).await.unwrap();
        db.set(&scope, &key("b"), json("1"), short).await.unwrap();
        let error = db.set(&scope, &key("c"), json("1"), long.clone()).await.unwrap_err();
        assert_eq!((error.kind(), error.details()["used"].as_u64()), (ErrorKind::QuotaExceeded, Some(2)));
        clock.advance(Duration::from_millis(5));
        db.set(&scope, &key("a"), json("1"), long.clone()).await.unwrap();
        db.set(&scope, &key("c"), json("1"), long.clone()).await.unwrap();
        let error = db.set(&scope, &key("d"), json("1"), long).await.unwrap_err();
        assert_eq!(error.details()["used"], 2);
        assert_eq!(db.stats(&scope).await.unwrap().entries, 2);
    });
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
fn a_bulk_insert_that_fails_in_the_middle_leaves_nothing() {
    on_both(async |db, _| {
        let scope = agent("a");
        db.set(&scope, &key("there"), json("1"), SetOptions::default()).await.unwrap();
        let mut items: Vec<NewEntry> =
            (0..10).map(|i| NewEntry::new(key(&format!("k{i}")), json(&"7".repeat(i * 300 + 1)))).collect();
        items.push(NewEntry {
            options: SetOptions::default().with_expect(Expect::Absent),
            ..NewEntry::new(key("there"), json("2"))
        });
        let before = db.stats(&scope).await.unwrap();
        let error = db.bulk_insert(&scope, items.clone(), BulkOptions::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.details()["index"].as_u64()), (ErrorKind::Conflict, Some(10)));
        assert_eq!(db.stats(&scope).await.unwrap(), before);
        items.pop();
        let quota = Quota { max_entries: Some(10), max_bytes: None };
        let error = db
            .bulk_insert(&scope, items.clone(), BulkOptions::default().with_quota(quota))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
        assert_eq!(db.stats(&scope).await.unwrap(), before);
        let outcomes = db.bulk_insert(&scope, items, BulkOptions::default()).await.unwrap();
        assert!(outcomes.windows(2).all(|pair| pair[0].version < pair[1].version));
        assert_eq!(db.stats(&scope).await.unwrap().entries, 11);
    });
}

#[test]
fn a_prefix_with_wildcards_is_only_bytes() {
    on_both(async |db, _| {
        let scope = agent("a");
        for name in ["a", "a%", "a%b", "a_", "ab", "A%", "b", "a\u{10ffff}", "a\u{10ffff}\u{10ffff}z"] {
            db.set(&scope, &key(name), json("1"), SetOptions::default()).await.unwrap();
        }
        for (prefix, expected) in [
            ("a%", vec!["a%", "a%b"]),
            ("a_", vec!["a_"]),
            ("A", vec!["A%"]),
            ("a\u{10ffff}", vec!["a\u{10ffff}", "a\u{10ffff}\u{10ffff}z"]),
            ("zz", vec![]),
        ] {
            let mut query = ListQuery::prefix(prefix).with_limit(1);
            let mut found = Vec::new();
            loop {
                let page = db.list(&scope, query.clone()).await.unwrap();
                found.extend(page.entries.into_iter().map(|entry| String::from(entry.key)));
                if page.next.is_none() {
                    break;
                }
                query = query.with_cursor(page.next);
            }
            assert_eq!(found, expected, "{prefix:?}");
        }
    });
}

#[test]
fn increments_and_reducers_keep_what_they_do_not_change() {
    on_both(async |db, _| {
        let scope = agent("a");
        let options = SetOptions::default().with_metadata(Metadata::new().with("m", true)).with_text("words");
        db.set(&scope, &key("n"), json("41"), options.clone()).await.unwrap();
        assert_eq!(db.increment(&scope, &key("n"), 1, UpdateOptions::default()).await.unwrap().value, 42);
        let entry = db.get(&scope, &key("n"), GetOptions::default()).await.unwrap().unwrap();
        assert_eq!((entry.value.as_str(), entry.text.as_deref()), ("42", Some("words")));
        assert_eq!(entry.metadata, options.metadata);
        let error = db.increment(&scope, &key("n"), i64::MAX, UpdateOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let patch = Reducer::Merge(json(r#"{"a":{"b":1}}"#));
        let error = db.update(&scope, &key("n"), patch.clone(), UpdateOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongType);
        db.update(&scope, &key("o"), patch, UpdateOptions::default()).await.unwrap();
        let again = Reducer::Merge(json(r#"{"a":{"c":2}}"#));
        let outcome = db.update(&scope, &key("o"), again, UpdateOptions::default()).await.unwrap();
        assert_eq!(outcome.value.as_str(), r#"{"a":{"b":1,"c":2}}"#);
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
fn an_export_imports_elsewhere_as_it_was_and_only_once() {
    on_both(async |db, _| {
        let (from, to) = (agent("from"), agent("to"));
        for i in 0..300 {
            let value = json(&format!("\"{}\"", "v".repeat(i * 10)));
            db.set(&from, &key(&format!("k{i:03}")), value, SetOptions::default()).await.unwrap();
        }
        db.get(&from, &key("k000"), GetOptions::default()).await.unwrap();
        let records = collect(db.export_scope(&from).await.unwrap()).await;
        assert_eq!(records.len(), 300);
        let copy = || stream(records.iter().map(|record| Ok(record.as_ref().unwrap().clone())).collect());
        let outcome = db.import_scope(&to, copy(), ImportOptions::default()).await.unwrap();
        assert_eq!(outcome.created, 300);
        let again = collect(db.export_scope(&to).await.unwrap()).await;
        for (a, b) in records.iter().zip(&again) {
            assert_eq!(a.as_ref().unwrap(), b.as_ref().unwrap());
        }
        for on_existing in [OnExisting::Skip, OnExisting::Replace] {
            let options = ImportOptions::default().with_on_existing(on_existing);
            assert_eq!(db.import_scope(&to, copy(), options).await.unwrap().skipped, 300);
        }
        let fail = ImportOptions::default().with_on_existing(OnExisting::Fail);
        let error = db.import_scope(&to, copy(), fail).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
    });
}

#[test]
fn an_import_gives_no_version_a_second_time() {
    on_both(async |db, _| {
        let scope = agent("a");
        db.set(&scope, &key("k"), json("1"), SetOptions::default()).await.unwrap();
        let records = collect(db.export_scope(&scope).await.unwrap()).await;
        let second = db.set(&scope, &key("k"), json("2"), SetOptions::default()).await.unwrap().version;
        db.delete(&scope, &key("k"), DeleteOptions::default()).await.unwrap();
        db.import_scope(&scope, stream(records), ImportOptions::default()).await.unwrap();
        let entry = db.get(&scope, &key("k"), GetOptions::default()).await.unwrap().unwrap();
        assert_eq!(entry.value.as_str(), "1");
        assert!(entry.version > second);
    });
}

#[test]
fn scopes_are_listed_with_what_is_live() {
    on_both(async |db, clock| {
        for id in ["b", "a", "c"] {
            let ttl = if id == "c" { Ttl::After(Duration::from_millis(1)) } else { Ttl::Keep };
            db.set(&agent(id), &key("k"), json("1"), SetOptions::default().with_ttl(ttl)).await.unwrap();
        }
        let run = memory_core::Scope::run("acme", "r").unwrap();
        db.set(&run, &key("k"), json("1"), SetOptions::default()).await.unwrap();
        clock.advance(Duration::from_millis(1));
        let tenant = &run.tenant;
        let mut query = ScopesQuery::default().with_limit(1);
        let mut found = Vec::new();
        loop {
            let page = db.scopes(tenant, query.clone()).await.unwrap();
            found.extend(page.scopes.iter().map(|info| info.scope.to_string()));
            if page.next.is_none() {
                break;
            }
            query = query.with_cursor(page.next);
        }
        assert_eq!(found, ["acme/agent/a", "acme/agent/b", "acme/run/r"]);
        db.end_run(tenant, &run.id).await.unwrap();
        db.end_run(tenant, &run.id).await.unwrap();
        assert!(db.get(&run, &key("k"), GetOptions::default()).await.unwrap().is_none());
    });
}

#[test]
fn vectors_are_refused_on_the_raw_provider_too() {
    on_both(async |db, _| {
        let scope = agent("a");
        let options = SetOptions::default().with_embed(Embed::Always);
        let error = db.set(&scope, &key("k"), json("1"), options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::VectorUnsupported);
        for mode in [memory_core::SearchMode::Vector, memory_core::SearchMode::Hybrid] {
            let error = db.search(&scope, SearchQuery::new("x").with_mode(mode)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::VectorUnsupported);
        }
        let error = db.reembed(&scope, memory_core::ReembedOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::VectorUnsupported);
        assert!(db.get(&scope, &key("k"), GetOptions::default()).await.unwrap().is_none());
        memory_core::Checked::new(SqliteProvider::open_in_memory(normal(), TestClock::new()).unwrap())
            .unwrap();
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
        let db = support::open(&path, normal());
        db.set(&scope, &key("k"), json("1"), SetOptions::default()).await.unwrap();
        for before in 0..5 {
            let entry = db.get(&scope, &key("k"), GetOptions::default()).await.unwrap().unwrap();
            assert_eq!(entry.access_count, before);
        }
        db.flush().await.unwrap();
        db.get(&scope, &key("k"), GetOptions::default()).await.unwrap();
        drop(db);
        let db = support::open(&path, normal());
        let entry = db.get(&scope, &key("k"), GetOptions::default()).await.unwrap().unwrap();
        assert_eq!(entry.access_count, 6);
    });
}
