//! Snapshots of PostgreSQL stores, and migration between PostgreSQL and SQLite.
//!
//! Needs a server: `MEMORY_TEST_POSTGRES_URL` names one, `cargo xtask test` starts one.

use memory::Memory;
use memory::snapshot::{
    Control, MigrateOptions, OnDifferent, RestoreOptions, SnapshotOptions, entries_digest, migrate, restore,
};
use memory_conformance::random::Random;

use super::postgres_place::Place;
use super::property::{fill, rounds, scopes};
use super::random::{entries, rows};
use super::support::{content, kv, restored, same, scope, set, sql, store, taken};

/// Scope roles are shared by all databases of the cluster.
static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn entries_alone(from: &Memory, to: &Memory) {
    for scope in scopes() {
        let (one, other) = (entries_digest(kv(from), &scope).await, entries_digest(kv(to), &scope).await);
        assert_eq!(other.unwrap(), one.unwrap(), "{scope}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_random_store_comes_back_from_its_snapshot() {
    let _one = ONE.lock().await;
    let Some(place) = Place::fresh().await else { return };
    let mut made = 0;
    for seed in 0..rounds(6) {
        let from = place.open().await;
        made += fill(&from, &mut Random::new(seed)).await;
        let (file, report) = taken(&from, &SnapshotOptions::default()).await;
        assert!(report.is_complete(), "seed {seed}: {report:?}");
        let other = Place::fresh().await.unwrap();
        let to = other.open().await;
        let report = restored(&to, &file, &RestoreOptions::default()).await.unwrap();
        assert!(report.is_complete(), "seed {seed}: {report:?}");
        same(&from, &to, &scopes()).await;
        for scope in scopes() {
            assert_eq!(rows(&to, &scope).await, rows(&from, &scope).await, "seed {seed}, {scope}");
        }
        let again = restored(&to, &file, &RestoreOptions::default()).await.unwrap();
        assert_eq!((again.records, again.conflicts), (0, 0), "seed {seed}: {again:?}");
        place.clear(&from, &scopes()).await;
    }
    assert!(made > rounds(6), "only {made} objects were made");
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_move_to_postgresql_and_back_byte_for_byte() {
    let _one = ONE.lock().await;
    let Some(place) = Place::fresh().await else { return };
    let between = place.open().await;
    for seed in 0..rounds(10) {
        let mut random = Random::new(1_000 + seed);
        let (from, back) = (store().await, store().await);
        for scope in scopes() {
            entries(kv(&from), &scope, &mut random).await;
        }
        super::support::put(&from, &scopes()[0], vectored()).await;
        let there = Place::fresh().await.unwrap();
        let between = if seed == 0 { between.clone() } else { there.open().await };
        let report = migrate(&from, &between, &MigrateOptions::default(), &Control::default()).await.unwrap();
        assert!(report.is_complete(), "seed {seed}: {report:?}");
        entries_alone(&from, &between).await;
        let report = migrate(&between, &back, &MigrateOptions::default(), &Control::default()).await.unwrap();
        assert!(report.is_complete(), "seed {seed}: {report:?}");
        entries_alone(&from, &back).await;
        let (one, _) = taken(&from, &SnapshotOptions::default()).await;
        let (other, _) = taken(&back, &SnapshotOptions::default()).await;
        let lines = |file: &[u8]| {
            let text = String::from_utf8(file.to_vec()).unwrap();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines[1..lines.len() - 1].to_vec()
        };
        assert_eq!(lines(&other), lines(&one), "seed {seed}");
    }
}

/// Vectors of two models, with numbers that are hard to write.
fn vectored() -> Vec<memory::Record> {
    let numbers = [0.1_f32, -0.333_333_34, f32::MIN_POSITIVE, 3.402_823_5e38, 1e-7];
    let vector = |model: &str, numbers: &[f32]| memory::RecordVector {
        model: memory::EmbeddingModel {
            provider: "test".to_owned(),
            model: model.to_owned(),
            dimensions: numbers.len(),
        },
        vector: numbers.to_vec(),
        text: None,
    };
    let (name, null) = (super::support::key("vectored"), memory::Json::null());
    let mut record = memory::Record::from(memory::Entry::new(name, null, 90, memory::Timestamp::EPOCH));
    record.vectors = vec![vector("z", &numbers), vector("a", &numbers[..2])];
    vec![record]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_another_dialect_is_listed_and_the_entries_are_restored() {
    let _one = ONE.lock().await;
    let Some(place) = Place::fresh().await else { return };
    let from = store().await;
    set(&from, &scope("ada"), "k", "1").await;
    sql(&from, &scope("ada"), "CREATE TABLE t (a)").await;
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    let to = place.open().await;
    for round in 0..2 {
        let report = restored(&to, &file, &RestoreOptions::default()).await.unwrap();
        assert_eq!(report.entries.restored, 1 - round, "{report:?}");
        assert_eq!(report.not_carried.len(), 1);
        assert!(report.not_carried[0].what[0].contains("SQL database"), "{report:?}");
        assert!(!report.is_complete());
    }
    let moved = store().await;
    let report = migrate(&to, &moved, &MigrateOptions::default(), &Control::default()).await.unwrap();
    assert!(report.is_complete(), "there is none in the source: {report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn differing_scopes_are_replaced_entirely() {
    let _one = ONE.lock().await;
    let Some(place) = Place::fresh().await else { return };
    let from = place.open().await;
    set(&from, &scope("ada"), "k", "1").await;
    sql(&from, &scope("ada"), "CREATE TABLE t (a integer)").await;
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    set(&from, &scope("ada"), "k", "2").await;
    set(&from, &scope("ada"), "more", "3").await;
    sql(&from, &scope("ada"), "CREATE TABLE other (a integer)").await;
    let refused = restored(&from, &file, &RestoreOptions::default()).await.unwrap_err();
    assert_eq!(refused.kind(), memory::ErrorKind::Conflict);
    let replacing = RestoreOptions::default().with_on_different(OnDifferent::Replace);
    let report = restored(&from, &file, &replacing).await.unwrap();
    assert_eq!((report.entries.replaced, report.databases.replaced), (1, 1), "{report:?}");
    let (records, lines) = content(&from, &scope("ada")).await;
    assert_eq!((records.len(), records[0].entry.value.as_str()), (1, "1"));
    assert!(
        lines.iter().any(|line| line.contains("\"t\"")) && !lines.iter().any(|line| line.contains("other"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_stopped_within_a_scope_leaves_none_of_it() {
    let _one = ONE.lock().await;
    let Some(place) = Place::fresh().await else { return };
    let from = store().await;
    for at in 0..2_000 {
        set(&from, &scope("ada"), &format!("k{at}"), "1").await;
    }
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    let to = place.open().await;
    // The file is read once to check and again to apply: this stops it halfway through the second time.
    let control = Control::default();
    let stop = control.clone();
    let reader = StopsAt { inner: std::io::Cursor::new(file.clone()), read: 0, at: file.len() * 5 / 2, stop };
    let options = RestoreOptions::default().with_on_different(OnDifferent::Replace);
    let error =
        restore(&to, std::io::BufReader::with_capacity(512, reader), &options, &control).await.unwrap_err();
    assert_eq!(error.details()["stopped"], true);
    assert!(content(&to, &scope("ada")).await.0.is_empty());
    assert_eq!(restored(&to, &file, &RestoreOptions::default()).await.unwrap().records, 2_000);
}

/// A file that stops the operation after this much was read.
struct StopsAt {
    inner: std::io::Cursor<Vec<u8>>,
    read: usize,
    at: usize,
    stop: Control,
}

impl std::io::Read for StopsAt {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read += read;
        if self.read >= self.at {
            self.stop.stop();
        }
        Ok(read)
    }
}

impl std::io::Seek for StopsAt {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.inner.seek(to)
    }
}
