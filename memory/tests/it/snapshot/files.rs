use std::path::Path;

use memory::snapshot::{Control, FileOptions, Ledger, SnapshotOptions, check, to_file};
use memory_core::ErrorKind;

use crate::snapshot::support::{store, varied};

async fn written(
    path: &Path,
    options: &FileOptions,
) -> memory_core::Result<memory::snapshot::SnapshotReport> {
    to_file(&varied().await, path, &SnapshotOptions::default(), options, &Control::default()).await
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|item| item.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_is_private_and_complete_and_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("today.snapshot");
    let report = written(&path, &FileOptions::default()).await.unwrap();
    assert_eq!(names(folder.path()), ["today.snapshot"]);
    let file = std::fs::File::open(&path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), report.bytes);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    check(std::io::BufReader::new(file), &Control::default()).unwrap();
}

#[tokio::test]
async fn an_existing_file_is_replaced_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    std::fs::write(&path, "mine").unwrap();
    let error = written(&path, &FileOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    written(&path, &FileOptions::default().with_overwrite(true)).await.unwrap();
    assert_ne!(std::fs::read(&path).unwrap(), b"mine");
    let error = written(folder.path(), &FileOptions::default().with_overwrite(true)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(names(folder.path()), ["a"]);
}

#[tokio::test]
async fn a_snapshot_that_fails_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let control = Control::default();
    control.stop();
    let memory = varied().await;
    to_file(&memory, &path, &SnapshotOptions::default(), &FileOptions::default(), &control)
        .await
        .unwrap_err();
    assert_eq!(names(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn leftovers_of_dead_processes_are_removed_but_not_files_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let (dead, living) = (format!(".a.{:032x}.part", 1), format!(".a.{:032x}.part", 2));
    let other = format!(".b.{:032x}.part", 3);
    for name in [&dead, &living, &other, &".a.mine.part".to_owned()] {
        std::fs::write(folder.path().join(name), "half").unwrap();
    }
    let held = std::fs::File::open(folder.path().join(&living)).unwrap();
    held.try_lock().unwrap();
    written(&folder.path().join("a"), &FileOptions::default()).await.unwrap();
    assert_eq!(names(folder.path()), [living, ".a.mine.part".to_owned(), other, "a".to_owned()]);
}

#[tokio::test]
async fn the_ledger_lists_snapshots_and_their_paths() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(folder.path().join("store.snapshots"));
    assert_eq!(ledger.entries().unwrap(), []);
    let options = FileOptions::default().with_ledger(Some(ledger.clone())).with_overwrite(true);
    let first = written(&folder.path().join("one"), &options).await.unwrap();
    // A half-written line of a killed process is skipped.
    let half = std::fs::OpenOptions::new().append(true).open(folder.path().join("store.snapshots")).unwrap();
    std::io::Write::write_all(&mut &half, b"{\"created_at\":\"20").unwrap();
    to_file(
        &store().await,
        &folder.path().join("two"),
        &SnapshotOptions::default().with_scope(Some(crate::snapshot::support::scope("ada"))),
        &options,
        &Control::default(),
    )
    .await
    .unwrap();
    let entries = ledger.entries().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0].sha256, first.sha256);
    assert_eq!(entries[0].path, folder.path().canonicalize().unwrap().join("one"));
    assert_eq!(entries[1].scope, Some(crate::snapshot::support::scope("ada")));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let file = std::fs::metadata(folder.path().join("store.snapshots")).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
}
