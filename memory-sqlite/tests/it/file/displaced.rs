//! A file that is renamed over, moved or deleted while it is open: nothing is written to it, and nothing of it gets
//! into the file that replaced it (DRF-55).

use std::path::Path;

use crate::support::files::{beside, folder, length, place};
use crate::support::{Store, block_on, collect, eventually, fast, json, key};
use memory_core::DriftCheck;
use memory_core::{
    BulkOptions, DeleteOptions, Error, ErrorKind, Expect, NewEntry, Provider as _, SetOptions, UpdateOptions,
};

/// Puts another file in the place of the store's.
fn replace(path: &Path) {
    let other = path.with_extension("other");
    let store = Store::open(&other, fast()).unwrap();
    for n in 0..50 {
        store.set(&format!("good/{n}"), "\"put in its place\"");
    }
    store.close();
    std::fs::rename(&other, path).unwrap();
}

/// The error of every kind of write, with this check.
fn writes(store: &Store, check: DriftCheck) -> Vec<Error> {
    let backend = store.provider.backend().unwrap();
    let (scope, key, value) = (&store.scope, key("unseen"), json("1"));
    let set = |expect| SetOptions::default().with_expect(expect).with_drift(check);
    let mut item = NewEntry::new(key.clone(), value.clone());
    item.options.drift = check;
    let update = UpdateOptions::default().with_drift(check);
    let delete = DeleteOptions::default().with_drift(check);
    let push = memory_core::Reducer::BoundedList { item: json("1"), limit: 3 };
    block_on(async {
        vec![
            backend.set(scope, &key, value.clone(), set(Expect::Any)).await.unwrap_err(),
            backend.set(scope, &key, value, set(Expect::Absent)).await.unwrap_err(),
            backend.increment(scope, &key, 1, update).await.unwrap_err(),
            backend.update(scope, &key, push, update).await.unwrap_err(),
            backend.bulk_insert(scope, vec![item], BulkOptions::default()).await.unwrap_err(),
            backend.delete(scope, &key, delete).await.unwrap_err(),
        ]
    })
}

#[test]
fn no_write_is_acknowledged_that_would_be_lost() {
    for is_deleted in [true, false] {
        let (_folder, path) = place();
        let store = Store::open(&path, fast()).unwrap();
        store.set("k", "1");
        if is_deleted {
            std::fs::remove_file(&path).unwrap();
        } else {
            replace(&path);
        }
        for refused in writes(&store, DriftCheck::Observe) {
            assert_eq!(refused.kind(), ErrorKind::DriftDetected, "{refused}");
            assert_eq!(refused.details()["reason"], "file_replaced");
        }
        for refused in writes(&store, DriftCheck::Off) {
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
            assert_eq!(refused.details()["reason"], "file_replaced");
            assert!(!refused.retry().is_retryable());
        }
        let dropped = block_on(store.backend().drop_scope(&store.scope)).unwrap_err();
        assert_eq!(dropped.details()["reason"], "file_replaced");
        assert_eq!(store.text("k").unwrap(), "1", "what was readable before still is");
        store.close();
        if !is_deleted {
            assert_eq!(Store::open(&path, fast()).unwrap().keys("").unwrap().len(), 50);
        }
    }
}

#[test]
fn nothing_of_the_old_log_gets_into_the_file_that_was_put_in_place() {
    for entries in [5, 300] {
        let (_folder, path) = place();
        let store = Store::open(&path, fast()).unwrap();
        for n in 0..entries {
            store.set(&format!("old/{n:03}"), "\"in the log\"");
        }
        replace(&path);
        let placed = std::fs::read(&path).unwrap();
        assert!(store.try_set("old/000", "2").is_err());
        // A reader that was open before still reads the old file, which may be the only copy.
        let records =
            block_on(async { collect(store.backend().export_scope(&store.scope).await.unwrap()).await });
        assert_eq!(records.into_iter().map(Result::unwrap).count(), entries);
        let refused = block_on(store.provider.read_snapshot()).unwrap_err();
        assert_eq!(refused.details()["reason"], "file_replaced");
        assert!(block_on(store.provider.sweep()).is_err());
        assert!(std::fs::read(&path).unwrap() == placed, "the new file is unchanged");
        store.close();
        assert!(std::fs::read(&path).unwrap() == placed, "the new file is unchanged");
        assert_eq!(length(&beside(&path, "-wal")), 0, "nobody finds the old file's log");
        let store = Store::open(&path, fast()).unwrap();
        assert_eq!((store.keys("good/").unwrap().len(), store.keys("old/").unwrap().len()), (50, 0));
    }
}

#[test]
fn a_file_that_was_moved_has_all_that_was_acknowledged_once_the_store_is_closed() {
    let folder = folder();
    let (path, moved) = (folder.path().join("memory.db"), folder.path().join("moved.db"));
    let store = Store::open(&path, fast()).unwrap();
    store.set("k", "1");
    std::fs::rename(&path, &moved).unwrap();
    assert!(store.try_set("k", "2").is_err());
    store.close();
    assert_eq!(Store::open(&moved, fast()).unwrap().text("k").unwrap(), "1");
    assert_eq!(length(&beside(&path, "-wal")), 0);
}

#[test]
fn the_new_file_opens_without_the_old_log_while_the_old_file_is_still_open() {
    let (_folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    for n in 0..300 {
        store.set(&format!("old/{n:03}"), "\"in the log\"");
    }
    replace(&path);
    assert!(store.try_set("old/000", "2").is_err());
    eventually("the log is empty", || (length(&beside(&path, "-wal")) == 0).then_some(()));
    let next = Store::open(&path, fast()).unwrap();
    assert_eq!((next.keys("good/").unwrap().len(), next.keys("old/").unwrap().len()), (50, 0));
}

#[test]
fn closing_the_old_file_keeps_the_log_of_the_new_one() {
    let (_folder, path) = place();
    let store = Store::open(&path, fast()).unwrap();
    store.set("k", "1");
    replace(&path);
    // As a careful operator would restore by hand.
    for end in ["-wal", "-shm"] {
        std::fs::remove_file(beside(&path, end)).unwrap();
    }
    let other = Store::open(&path, fast()).unwrap();
    other.set("new", "1");
    drop(store);
    assert!(memory_sqlite::wait_until_closed(std::time::Duration::from_secs(30)));
    for end in ["-wal", "-shm"] {
        assert!(beside(&path, end).exists(), "{end}");
    }
    let third = Store::open(&path, fast()).unwrap();
    assert_eq!(third.text("new").unwrap(), "1");
    third.set("newer", "1");
    assert_eq!(other.text("newer").unwrap(), "1");
}
