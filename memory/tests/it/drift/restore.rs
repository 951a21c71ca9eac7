//! Restoring backups.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memory::drift::backup::{Backup, Restored};
use memory::{
    BulkOptions, Capabilities, Clock as _, EmbeddingModel, Entry, ImportOptions, ListQuery, NewEntry, Record,
    RecordStream, RecordVector, Result, SetOptions, Stream, Ttl,
};

use super::support::{Fixture, json, key};

async fn save(fixture: &Fixture) -> Backup {
    let (backups, now) = (fixture.backups(), fixture.clock.now());
    let path: PathBuf = backups.save(fixture.backend(), &fixture.scope, None, None, now).await.unwrap().path;
    Backup::load(&path).await.unwrap()
}

async fn restored(fixture: &Fixture, backup: &Backup, capabilities: &Capabilities) -> Restored {
    let restored = backup.clone().restore(fixture.backend(), capabilities).await.unwrap();
    assert_eq!(backup.difference(fixture.backend()).await.unwrap(), Default::default());
    restored
}

fn stream(records: Vec<Record>) -> RecordStream {
    struct Records(std::vec::IntoIter<Record>);
    impl Stream for Records {
        type Item = Result<Record>;
        fn poll_next(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Ready(self.0.next().map(Ok))
        }
    }
    Box::pin(Records(records.into_iter()))
}

async fn export(fixture: &Fixture) -> Vec<Record> {
    let mut stream = fixture.backend().export_scope(&fixture.scope).await.unwrap();
    let mut records = Vec::new();
    while let Some(record) = std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await {
        records.push(record.unwrap());
    }
    records
}

/// In one transaction, and write by write.
fn both_ways(fixture: &Fixture) -> [Capabilities; 2] {
    let whole = fixture.memory.capabilities();
    assert!(whole.atomic_import);
    let mut in_steps = whole.clone();
    in_steps.atomic_import = false;
    [whole, in_steps]
}

#[tokio::test]
async fn a_restore_yields_the_saved_contents() {
    let Some(fixture) = Fixture::new().await else { return };
    for capabilities in both_ways(&fixture) {
        fixture.other_sets("changed", "1").await;
        fixture.other_sets("gone", "1").await;
        let kept = fixture.other_sets("kept", "1").await;
        let backup = save(&fixture).await;
        fixture.other_sets("changed", "2").await;
        fixture.other_sets("new", "2").await;
        fixture.other_deletes("gone").await;
        let difference = backup.difference(fixture.backend()).await.unwrap();
        assert_eq!(difference.changed, [key("changed")]);
        assert_eq!(difference.vanished, [key("gone")]);
        assert_eq!(difference.appeared, [key("new")]);
        let Restored { imported, deleted, .. } = restored(&fixture, &backup, &capabilities).await;
        assert_eq!((imported.created, imported.replaced, deleted), (1, 1, 1));
        assert_eq!(fixture.value("changed").await.unwrap(), "1");
        let entry = fixture.backend().get(&fixture.scope, &key("kept"), Default::default()).await.unwrap();
        assert_eq!(entry.unwrap().version, kept, "what said the same is as it was");
        let again = restored(&fixture, &backup, &capabilities).await;
        assert_eq!((again.imported.created, again.imported.replaced, again.deleted), (0, 0, 0));
    }
}

/// DRF-48.
#[tokio::test]
async fn an_entry_that_expired_since_gives_way_to_nothing() {
    let Some(fixture) = Fixture::new().await else { return };
    for capabilities in both_ways(&fixture) {
        for name in ["expires", "expires later"] {
            let after = if name == "expires" { 60 } else { 600 };
            let options = SetOptions::default().with_ttl(Ttl::After(Duration::from_secs(after)));
            fixture.backend().set(&fixture.scope, &key(name), json("1"), options).await.unwrap();
        }
        let backup = save(&fixture).await;
        fixture.clock.advance(61);
        for name in ["expires", "expires later"] {
            fixture.other_sets(name, "2").await;
        }
        let restored = backup.restore(fixture.backend(), &capabilities).await.unwrap();
        assert_eq!((restored.imported.expired, restored.imported.replaced, restored.deleted), (1, 1, 0));
        assert_eq!(fixture.value("expires").await, None);
        assert_eq!(fixture.value("expires later").await.unwrap(), "1");
        fixture.other_deletes("expires later").await;
    }
}

/// DRF-48.
#[tokio::test]
async fn unchanged_entries_keep_their_vectors_and_restored_ones_get_theirs_back() {
    let Some(fixture) = Fixture::new().await else { return };
    let model = EmbeddingModel { provider: "elsewhere".into(), model: "tiny".into(), dimensions: 3 };
    let record = |name: &str| {
        let mut record = Record::from(Entry::new(key(name), json("1"), 1, fixture.clock.now()));
        record.vectors =
            vec![RecordVector { model: model.clone(), vector: vec![0.25, -1.5, 3.0], text: None }];
        record
    };
    let records = stream(vec![record("changed"), record("kept")]);
    fixture.backend().import_scope(&fixture.scope, records, ImportOptions::default()).await.unwrap();
    let before = export(&fixture).await;
    let backup = save(&fixture).await;
    fixture.other_sets("changed", "2").await;
    fixture.other_sets("new", "2").await;
    // The same content at another time counts as unchanged.
    fixture.clock.advance(60);
    fixture.other_sets("kept", "3").await;
    let kept = stream(vec![record("kept")]);
    let replace = ImportOptions::default().with_on_existing(memory::OnExisting::Replace);
    fixture.backend().import_scope(&fixture.scope, kept, replace).await.unwrap();
    restored(&fixture, &backup, &fixture.memory.capabilities()).await;
    let after = export(&fixture).await;
    let vectors = |records: &[Record]| -> Vec<(String, Vec<RecordVector>)> {
        records.iter().map(|record| (record.entry.key.as_str().to_owned(), record.vectors.clone())).collect()
    };
    assert_eq!(vectors(&after), vectors(&before));
    assert!(after.iter().all(|record| record.vectors.len() == 1));
    // It keeps the time of its last write.
    assert!(after[1].entry.updated_at > before[1].entry.updated_at);
    assert_eq!(after[0].entry.updated_at, before[0].entry.updated_at);
}

/// DRF-48.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_sees_a_half_restored_scope() {
    const MANY: usize = 400;
    let Some(fixture) = Fixture::new().await else { return };
    let set = |names: std::ops::Range<usize>, value: &'static str| {
        let items = names.map(|n| NewEntry::new(key(&format!("{n:04}")), json(value))).collect::<Vec<_>>();
        fixture.backend().bulk_insert(&fixture.scope, items, BulkOptions::default())
    };
    set(0..MANY, "1").await.unwrap();
    let backup = save(&fixture).await;
    let reader = fixture.again().await;
    let (ended, scope) = (Arc::new(AtomicBool::new(false)), fixture.scope.clone());
    let reading = {
        let ended = Arc::clone(&ended);
        tokio::spawn(async move {
            let mut seen = 0;
            while !ended.load(Ordering::SeqCst) {
                // One page, and so one consistent read, of keys that were added or changed.
                let query = ListQuery::default().with_limit(1_000);
                let page = reader.backend().unwrap().list(&scope, query).await.unwrap();
                let told =
                    |value: &str| page.entries.iter().filter(|entry| entry.value.as_str() == value).count();
                let whole = [(MANY, 0), (MANY / 2, MANY)];
                let found = (told("1"), told("2"));
                assert!(whole.contains(&found), "a scope by half: {found:?}");
                seen += 1;
                tokio::task::yield_now().await;
            }
            seen
        })
    };
    for _ in 0..4 {
        // As one write: half are changed, and as many are new.
        set(MANY / 2..MANY + MANY / 2, "2").await.unwrap();
        restored(&fixture, &backup, &fixture.memory.capabilities()).await;
    }
    ended.store(true, Ordering::SeqCst);
    assert!(reading.await.unwrap() > 0);
}
