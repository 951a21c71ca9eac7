//! Shared state of several agents in snapshots and migrations: all of its tables, or none.

use memory::Memory;
use memory::governed::{
    self, Actor, Bucket, Eraser, Ledger, NoteSource, PendingStatus, SharedMemory, Space, Trust, WorkingMemory,
};
use memory::snapshot::{Control, MigrateOptions, RestoreOptions, SnapshotOptions, migrate};

use super::support::{restored, store, taken, try_sql};

fn person() -> Actor {
    Actor { agent: "pat".to_owned(), run: "run".to_owned(), trust: Trust::Person }
}

async fn space(memory: &Memory) -> Space {
    governed::open(memory, &"acme".parse().unwrap(), "team").await.unwrap()
}

/// Rows, writes that wait, a forgotten row, and a note not promoted yet.
async fn filled(memory: &Memory) {
    let space = space(memory).await;
    let notes = WorkingMemory::new(&space);
    for words in [
        "issue redis_timeout: Redis times out under load",
        "issue lint_step: the linter fails",
        "issue old_laptop: a laptop was lost",
        "decision use_sqlite: one file is enough",
        "the earlier blocker is fixed",
        "redis_timeout is also called \"the cache trouble\"",
    ] {
        notes.note(&person(), NoteSource::Agent, words, None).await.unwrap();
    }
    governed::pipeline(&space).promote(10).await.unwrap();
    Eraser::new(&space).row(Bucket::Issues, "old_laptop", &person(), false).await.unwrap();
    notes.note(&person(), NoteSource::Agent, "lint_step is resolved", None).await.unwrap();
}

/// `to` has everything that `from` has, and continues from there.
async fn goes_on(from: &Memory, into: &Memory) {
    let (from, to) = (space(from).await, space(into).await);
    let (ledger, copied) = (Ledger::new(&from), Ledger::new(&to));
    let anchor = ledger.anchor().await.unwrap();
    assert!(anchor.seq > 4, "{anchor:?}");
    assert_eq!(copied.verify(Some(&anchor)).await.unwrap(), ledger.verify(None).await.unwrap());
    assert_eq!(copied.digest().await.unwrap(), ledger.digest().await.unwrap());
    let waits = governed::queue(&from).list(PendingStatus::NeedsReview, 10).await.unwrap();
    assert_eq!(waits.len(), 1);
    assert_eq!(governed::queue(&to).list(PendingStatus::NeedsReview, 10).await.unwrap(), waits);
    let notes = WorkingMemory::new(&from).notes("pat", "run").await.unwrap();
    assert_eq!(WorkingMemory::new(&to).notes("pat", "run").await.unwrap(), notes);
    assert!(copied.rebuild().await.unwrap().agrees());
    // The waiting note is promoted once, where it is now.
    assert_eq!(governed::pipeline(&to).promote(10).await.unwrap().committed, 1);
    let row = SharedMemory::new(&to).row(Bucket::Issues, "lint_step").await.unwrap().unwrap();
    assert_eq!(row.status, "resolved");
    copied.verify(Some(&anchor)).await.unwrap();
    assert!(copied.rebuild().await.unwrap().agrees());
    // The triggers are there too.
    for sql in [
        "DELETE FROM events_memory",
        "UPDATE events_memory SET source_agent = 'eve'",
        "DELETE FROM tombstones",
    ] {
        assert!(try_sql(into, to.scope(), sql, &[]).await.is_err(), "{sql}");
    }
}

async fn is_carried(from: &Memory, first: &Memory, second: &Memory) {
    filled(from).await;
    let (file, report) = taken(from, &SnapshotOptions::default()).await;
    assert!(report.is_complete(), "{report:?}");
    let report = restored(first, &file, &RestoreOptions::default()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    goes_on(from, first).await;
    let report = migrate(from, second, &MigrateOptions::default(), &Control::default()).await.unwrap();
    assert!(report.is_complete(), "{report:?}");
    goes_on(from, second).await;
}

#[tokio::test]
async fn shared_state_is_restored_and_migrated_whole() {
    is_carried(&store().await, &store().await, &store().await).await;
}

#[cfg(all(feature = "postgres", unix))]
#[tokio::test(flavor = "multi_thread")]
async fn shared_state_is_restored_and_migrated_whole_on_postgresql() {
    use super::postgres_place::Place;
    let Some(place) = Place::fresh().await else { return };
    let (first, second) = (Place::fresh().await.unwrap(), Place::fresh().await.unwrap());
    is_carried(&place.open().await, &first.open().await, &second.open().await).await;
}
