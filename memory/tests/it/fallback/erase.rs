//! Forgetting in a pair (FGT-27, FGT-36 of `docs/spec/forget.md`): queued writes, then both stores.

use std::time::Duration;

use memory::fallback::{erase_journaled, forget_set_aside};
use memory::{BulkOptions, EraseTarget, ErrorKind, NewEntry, Scope, SetOptions, TombstoneId, TombstonesOf};

use crate::fallback::support::{Fault, Stand, json, key, scope, set, text};

const SECRET: &str = "xylograph";

fn other() -> Scope {
    Scope::agent("acme", "other").unwrap()
}

fn targets() -> [EraseTarget; 3] {
    [
        EraseTarget::Tenant(scope().tenant),
        EraseTarget::Scope(scope()),
        EraseTarget::Key { scope: scope(), key: key(SECRET) },
    ]
}

/// The journal's files that contain a text.
fn holding(stand: &Stand, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for item in std::fs::read_dir(stand.folder.path()).unwrap() {
        let path = item.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Whether the stores contain the secret: the primary, and the fallback.
async fn held(stand: &Stand) -> (bool, bool) {
    (text(&stand.primary, SECRET).await.is_some(), text(&stand.spare, SECRET).await.is_some())
}

/// Both stores have the secret and another entry, and writes of the secret are queued.
async fn seeded() -> Stand {
    let stand = Stand::journaling();
    for memory in [&stand.primary, &stand.spare] {
        set(memory, SECRET, "1").await.unwrap();
        set(memory, "kept", "1").await.unwrap();
    }
    stand.down();
    stand.clock.advance(Duration::from_secs(1));
    let items = [SECRET, "beside"].map(|name| NewEntry::new(key(name), json("2"))).to_vec();
    stand.kv().bulk_insert(&scope(), items, BulkOptions::default()).await.unwrap();
    stand.set(SECRET, "3").await.unwrap();
    stand.kv().set(&other(), &key("elsewhere"), json("4"), SetOptions::default()).await.unwrap();
    assert!(!holding(&stand, SECRET).is_empty());
    stand
}

#[tokio::test]
async fn no_byte_of_a_target_is_left_in_the_journal_and_the_rest_stays_queued() {
    // What stays queued: nothing of a forgotten tenant; the other key of a write of two.
    for (target, left) in targets().iter().zip([0, 1, 2]) {
        let stand = seeded().await;
        assert_eq!(stand.counts().waiting, 3);
        assert_eq!(erase_journaled(&stand.journal(), target).unwrap(), if left == 0 { 3 } else { 2 });
        assert_eq!(holding(&stand, SECRET), Vec::<String>::new(), "{target:?}");
        assert_eq!(stand.counts().waiting, left, "{target:?}");
        assert_eq!(erase_journaled(&stand.journal(), target).unwrap(), 0, "{target:?}: again");
        stand.up();
        stand.memory.health().await.unwrap();
        assert_eq!(stand.counts().waiting, 0, "{target:?}: the rest is written");
        assert_eq!(
            text(&stand.primary, SECRET).await.as_deref(),
            Some("1"),
            "{target:?}: a journal is no store"
        );
        assert_eq!(text(&stand.primary, "beside").await.is_some(), left == 2, "{target:?}");
    }
}

#[tokio::test]
async fn keys_replayed_before_another_was_set_aside_are_erased_with_their_tenant() {
    let stand = Stand::journaling();
    stand.down();
    stand.set(SECRET, "1").await.unwrap();
    stand.set("late", "1").await.unwrap();
    stand.clock.advance(Duration::from_secs(1));
    set(&stand.primary, "late", "2").await.unwrap();
    stand.up();
    assert_eq!(stand.get(SECRET).await, (Some("1".into()), None));
    assert_eq!((stand.counts().waiting, stand.counts().set_aside), (0, 1));
    assert_eq!(forget_set_aside(&stand.journal()).unwrap(), 1);
    assert!(!holding(&stand, SECRET).is_empty(), "the journal remembers what it replayed");
    erase_journaled(&stand.journal(), &EraseTarget::Tenant(scope().tenant)).unwrap();
    assert_eq!(holding(&stand, SECRET), Vec::<String>::new());
}

#[tokio::test]
async fn a_pair_forgets_queued_writes_and_in_both_stores() {
    for target in targets() {
        let stand = seeded().await;
        stand.up();
        let erased = stand.memory.erase(&target).await.unwrap();
        assert!(erased.entries > 0, "{target:?}");
        assert_eq!(held(&stand).await, (false, false), "{target:?}");
        assert_eq!(holding(&stand, SECRET), Vec::<String>::new(), "{target:?}");
        for memory in [&stand.primary, &stand.spare] {
            let tombstones = memory.tombstones(&TombstonesOf::Store, None, 10).await.unwrap();
            assert!(
                tombstones.iter().any(|tombstone| tombstone.id == TombstoneId::of(&target)),
                "{target:?}"
            );
            let keeps = matches!(target, EraseTarget::Key { .. });
            assert_eq!(text(memory, "kept").await.is_some(), keeps, "{target:?}");
        }
        stand.memory.health().await.unwrap();
        assert_eq!(text(&stand.primary, SECRET).await, None, "{target:?}: what waited was not written after");
    }
}

#[tokio::test]
async fn with_one_store_unavailable_the_other_forgets_and_forgetting_again_completes_it() {
    for primary_is_away in [true, false] {
        let stand = seeded().await;
        stand.up();
        let faults = if primary_is_away { &stand.faults } else { &stand.spare_faults };
        *faults.fault.lock().unwrap() = Some(Fault::Before(ErrorKind::Unavailable));
        let target = EraseTarget::Scope(scope());
        let error = stand.memory.erase(&target).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        let named = if primary_is_away { "the primary store has not" } else { "the fallback has not" };
        assert!(error.message().contains(named) && error.message().contains("forget again"), "{error}");
        assert_eq!(held(&stand).await, (primary_is_away, !primary_is_away));
        assert_eq!(holding(&stand, SECRET), Vec::<String>::new(), "what waited is gone in any case");

        *faults.fault.lock().unwrap() = None;
        stand.memory.erase(&target).await.unwrap();
        assert_eq!(held(&stand).await, (false, false));
    }
}

#[tokio::test]
async fn with_both_unavailable_queued_writes_are_removed_and_forgetting_again_completes_it() {
    let stand = seeded().await;
    stand.down();
    *stand.spare_faults.fault.lock().unwrap() = Some(Fault::Before(ErrorKind::Unavailable));
    let target = EraseTarget::Scope(scope());
    assert_eq!(stand.memory.erase(&target).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(held(&stand).await, (true, true));
    assert_eq!(holding(&stand, SECRET), Vec::<String>::new());
    stand.up();
    *stand.spare_faults.fault.lock().unwrap() = None;
    stand.memory.erase(&target).await.unwrap();
    assert_eq!(held(&stand).await, (false, false));
}
