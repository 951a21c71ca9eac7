//! The last snapshot of a scope before it is dropped (GCP-6).

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use memory::gc::{GcControl, GcOptions, GcReport, sweep};
use memory::snapshot::{Ledger, RestoreOptions, restore};
use memory::sql::StatementOptions;
use memory::{
    Error, ErrorKind, EvictOutcome, Hook, Interposed, Kept, Next, Op, Reply, Request, Result, RunContext,
    Scope, ScopeId, async_trait,
};

use super::{HOUR, Place, idle, user};

/// The result of an eviction.
#[derive(Clone, Copy, Debug)]
enum Evicts {
    /// It succeeds but the reply is lost.
    Unheard(ErrorKind),
    /// It fails without effect.
    Refused(ErrorKind),
    /// The scope was used meanwhile.
    Used,
}

#[async_trait]
impl Hook for Evicts {
    async fn around(&self, request: Request, next: Next<'_>) -> Result<Reply> {
        if request.op() != Op::Evict {
            return next.run(request).await;
        }
        match *self {
            Self::Unheard(kind) => {
                next.run(request).await?;
                Err(Error::new(kind, "the answer was lost"))
            }
            Self::Refused(kind) => Err(Error::new(kind, "the store refuses")),
            Self::Used => Ok(Reply::Evict(EvictOutcome::Kept(Kept::InUse))),
        }
    }
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|item| item.unwrap().path()).collect();
    names.sort();
    names
}

/// A scope to drop, the place of its last snapshot, and the ledger.
async fn idle_scope() -> (Place, Scope, PathBuf, GcOptions, Ledger) {
    let place = Place::new().await;
    let scope = user("t", "ada");
    place.fill(&scope, 30).await;
    place.clock.advance(HOUR * 48);
    let folder = place.folder.path().canonicalize().unwrap().join("last");
    let ledger = Ledger::at(place.folder.path().join("ledger"));
    let options = idle(24).with_snapshots(Some(folder.clone()), Some(ledger.clone()));
    (place, scope, folder, options, ledger)
}

async fn swept(place: &Place, options: &GcOptions, evicts: Evicts) -> GcReport {
    let unlucky = Interposed::new(place.store.clone(), evicts);
    sweep(&unlucky, options, place.clock.as_ref(), &GcControl::default()).await.unwrap()
}

#[tokio::test]
async fn the_last_snapshot_of_a_possibly_dropped_scope_is_kept_and_reported() {
    for kind in [ErrorKind::OutcomeUnknown, ErrorKind::Unavailable] {
        let (place, scope, folder, options, ledger) = idle_scope().await;
        let report = swept(&place, &options, Evicts::Unheard(kind)).await;
        assert!(!place.has(&scope).await, "it did go");
        assert_eq!((report.evicted, report.failed, report.snapshots), (0, 1, 1));
        let kept = report.failed_scopes[0].snapshot.clone().expect("where it can be had back");
        assert_eq!(names(&folder), std::slice::from_ref(&kept));
        let noted = ledger.entries().unwrap();
        assert_eq!((noted.len(), &noted[0].path), (1, &kept));
        let file = std::io::BufReader::new(File::open(&kept).unwrap());
        restore(&place.store, file, &RestoreOptions::default(), &Default::default()).await.unwrap();
        assert!(place.has(&scope).await);
    }
    // The result is unknown while the store may still be working on it.
    let (place, _, folder, options, _) = idle_scope().await;
    swept(&place, &options, Evicts::Refused(ErrorKind::OutcomeUnknown)).await;
    assert_eq!(names(&folder).len(), 1);
}

#[tokio::test]
async fn a_kept_scope_leaves_neither_file_nor_ledger_line() {
    for evicts in [Evicts::Refused(ErrorKind::Forbidden), Evicts::Used] {
        let (place, scope, folder, options, ledger) = idle_scope().await;
        let report = swept(&place, &options, evicts).await;
        assert_eq!((report.failed + report.kept, report.snapshots), (1, 0), "{evicts:?}");
        assert!(place.has(&scope).await);
        assert_eq!(names(&folder), Vec::<PathBuf>::new(), "{evicts:?}");
        let lines = fs::read_to_string(ledger.path()).unwrap();
        assert!(!lines.contains(".snapshot"), "{evicts:?}: {lines}");
    }
}

#[tokio::test]
async fn a_scope_that_cannot_be_snapshotted_is_kept_and_leaves_no_file() {
    let (place, scope, folder, options, ledger) = idle_scope().await;
    let id = |id: &str| ScopeId::new(id).unwrap();
    let run = RunContext::new(scope.tenant.clone(), id("a"), id("r"));
    // Its rows cannot be read, so no dump contains them.
    let table = "CREATE VIRTUAL TABLE words USING fts5(body, content='')";
    let sql = place.store.sql().unwrap();
    sql.exec(&run, &scope, table, &[], StatementOptions::default()).await.unwrap();
    for _ in 0..2 {
        place.clock.advance(HOUR * 48);
        let report = place.sweep(&options).await;
        assert_eq!((report.evicted, report.failed, report.snapshots), (0, 1, 0));
        assert!(place.has(&scope).await);
        assert_eq!(names(&folder), Vec::<PathBuf>::new());
        assert_eq!(ledger.entries().unwrap(), []);
        let noted = fs::read_to_string(ledger.path()).unwrap();
        assert!(noted.matches(".snapshot").count() <= 1, "no more than where to look: {noted}");
    }
}

#[tokio::test]
async fn leftovers_of_a_killed_sweep_are_removed_by_the_next() {
    let (place, _, folder, options, _) = idle_scope().await;
    fs::create_dir(&folder).unwrap();
    let random = "0123456789abcdef0123456789abcdef";
    let part = |name: &str| folder.join(format!(".{name}.{random}.part"));
    let dead = part("user-0123456789abcdef-17.snapshot");
    let alive = part("agent-0123456789abcdef-18.snapshot");
    let foreign = part("user-notes.snapshot");
    for path in [&dead, &alive, &foreign] {
        fs::write(path, "{}").unwrap();
    }
    let held = File::open(&alive).unwrap();
    held.lock().unwrap();
    let report = place.sweep(&options).await;
    let mut left = vec![alive.clone(), foreign.clone(), report.victims[0].snapshot.clone().unwrap()];
    left.sort();
    assert_eq!(names(&folder), left);
}

#[tokio::test]
async fn a_last_snapshot_restores_a_scope_and_without_one_the_scope_is_kept() {
    let place = Place::new().await;
    let (scope, run) = (user("t", "ada"), Scope::run("t", "r").unwrap());
    place.fill(&scope, 30).await;
    place.fill(&run, 30).await;
    place.clock.advance(HOUR * 48);
    let blocked = place.folder.path().join("a-file");
    std::fs::write(&blocked, "").unwrap();
    let failed = place.sweep(&idle(24).with_snapshots(Some(blocked), None)).await;
    assert_eq!((failed.evicted, failed.failed), (1, 1), "a run has no snapshot and goes");
    assert!(!failed.is_complete());
    assert!(failed.failed_scopes[0].message.as_ref().unwrap().contains("a-file"), "the place is named");

    place.clock.advance(HOUR);
    let folder = place.folder.path().join("last");
    let ledger = Ledger::at(place.folder.path().join("ledger"));
    let options = idle(24).with_snapshots(Some(folder.clone()), Some(ledger.clone()));
    let done = place.sweep(&options).await;
    assert_eq!((done.evicted, done.snapshots), (1, 1));
    let path = done.victims[0].snapshot.clone().unwrap();
    assert_eq!(path.parent(), Some(folder.as_path()));
    let noted = ledger.entries().unwrap();
    assert_eq!((noted.len(), noted[0].scope.as_ref()), (1, Some(&scope)));
    assert!(!place.has(&scope).await);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
    }
    let file = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
    restore(&place.store, file, &RestoreOptions::default(), &Default::default()).await.unwrap();
    assert!(place.has(&scope).await);
}
