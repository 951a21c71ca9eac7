//! A forget killed at any moment leaves no half state, is completed by forgetting again, and no older snapshot undoes
//! it.

use std::path::Path;
use std::time::Instant;

use memory::snapshot::{Control, check};
use memory::{EraseTarget, Scope, TenantId, TombstoneId, TombstonesOf};
use memory_conformance::random::Random;

use crate::support::program::{ends, killed, moment, ok};
use crate::support::seed::{SECRET, TENANT, files, holding, others, seed, target};
use crate::support::store::{Held, Kind, Store, on_each_store};

#[derive(Clone, Copy)]
enum What {
    Scope,
    Tenant,
}

impl What {
    fn erased(self) -> EraseTarget {
        match self {
            Self::Scope => EraseTarget::Scope(target()),
            Self::Tenant => EraseTarget::Tenant(TenantId::new(TENANT).unwrap()),
        }
    }

    /// The scopes to forget, and those to keep.
    fn scopes(self) -> (Vec<Scope>, Vec<Scope>) {
        let all = [vec![target()], others()].concat();
        all.into_iter().partition(|scope| self.erased().has_scope(scope))
    }

    /// Texts that must then be in no file.
    fn texts(self) -> &'static [&'static str] {
        match self {
            Self::Scope => &[SECRET],
            Self::Tenant => &[SECRET, TENANT],
        }
    }

    async fn is_buried(self, store: &Store) -> bool {
        let of = match self.erased() {
            EraseTarget::Tenant(tenant) => TombstonesOf::Tenant(tenant),
            _ => TombstonesOf::Scope(target()),
        };
        let tombstones = store.open().await.tombstones(&of, None, 100).await.unwrap();
        tombstones.iter().any(|tombstone| tombstone.id == TombstoneId::of(&self.erased()))
    }
}

fn copy(from: &Path, to: &Path) {
    // Stores that were dropped remove their logs when they close.
    assert!(memory::sqlite::wait_until_closed(std::time::Duration::from_secs(30)));
    std::fs::create_dir_all(to).unwrap();
    for item in std::fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let to = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            copy(&item.path(), &to);
        } else {
            std::fs::copy(item.path(), to).unwrap();
        }
    }
}

/// Whether an unfinished forget is recorded.
fn is_noted(home: &Path) -> bool {
    let is_note = |path: &Path| {
        let folder = path.parent().and_then(Path::extension);
        folder.is_some_and(|ending| ending == "forget")
            && path.extension().is_some_and(|ending| ending == "json")
    };
    files(home).iter().any(|path| is_note(path))
}

/// Nothing of a scope is gone without a tombstone; with one there are no entries, and the database is either whole or
/// gone.
fn whole(found: &[Held], before: &[Held], is_buried: bool, round: u64) {
    for (found, before) in found.iter().zip(before) {
        if is_buried {
            assert_eq!(found.0.entries, 0, "round {round}: entries behind their tombstone");
            assert!(found.1.is_none() || found.1 == before.1, "round {round}: half a database");
        } else {
            assert_eq!(found, before, "round {round}: gone without a tombstone");
        }
    }
}

/// Paths in the ledger are absolute, and folders are named by the database's id, so each round reuses the folder of the
/// one before.
async fn forgets(kind: &Kind, folder: &Path, what: What, rounds: u64) {
    let (template, home) = (folder.join("template"), folder.join("home"));
    std::fs::create_dir(&home).unwrap();
    let store = kind.fresh(&home).await;
    seed(&home, &store.url).await;
    let known_by = store.id().await;
    let (gone, kept) = what.scopes();
    let (before, kept_before) = (store.held(&gone).await, store.held(&kept).await);
    // A copy that is in no ledger.
    let hidden = folder.join("hidden");
    std::fs::copy(home.join("all.snapshot"), &hidden).unwrap();
    let restore = ["restore", hidden.to_str().unwrap(), "-q"];
    copy(&home, &template);

    let id = target().id;
    let named: &[&str] = if matches!(what, What::Scope) { &["--user", id.as_str()] } else { &[] };
    let forget = [&["forget", "--yes", "--audit", "redact", "-q", "--tenant", TENANT], named].concat();
    // On a server the log is out of reach, which changes the exit code.
    let code = if store.is_remote() { 7 } else { 0 };
    let started = Instant::now();
    ends(&home, &forget, code);
    let took = started.elapsed();
    let (mut random, mut cut, mut buried, mut resumed) = (Random::new(4), 0, 0, 0);
    for round in 0..rounds {
        std::fs::remove_dir_all(&home).unwrap();
        copy(&template, &home);
        if let Some(known_by) = &known_by {
            store.empty_as(known_by).await;
            ok(&home, &restore);
        }
        cut += u64::from(killed(&home, &forget, moment(&mut random, took)));
        store.settled().await;
        let is_buried = what.is_buried(&store).await;
        whole(&store.held(&gone).await, &before, is_buried, round);
        if is_buried {
            buried += 1;
            ok(&home, &restore);
            whole(&store.held(&gone).await, &before, true, round);
        }
        if is_noted(&home) && round % 2 == 0 {
            resumed += 1;
            ends(&home, &["forget", "--resume", "-q"], code);
        } else {
            ends(&home, &forget, code);
        }
        assert!(!is_noted(&home), "round {round}: it has ended");
        for text in what.texts() {
            assert_eq!(holding(&home, text), Vec::<String>::new(), "round {round}: {text}");
            assert_eq!(store.holding(text).await, Vec::<String>::new(), "round {round}: {text}");
        }
        let file = std::fs::File::open(home.join("all.snapshot")).unwrap();
        let progress = check(std::io::BufReader::new(file), &Control::default()).unwrap();
        assert_eq!(progress.scopes, kept.len() as u64, "round {round}");
        ok(&home, &restore);
        assert!(
            store.held(&gone).await.iter().all(|held| held.0.entries == 0 && held.1.is_none()),
            "round {round}: an older snapshot brings it back"
        );
        assert_eq!(store.held(&kept).await, kept_before, "round {round}: what was not named");
    }
    println!(
        "{cut} of {rounds} were killed in the middle, {buried} with the entries gone, {resumed} resumed"
    );
}

async fn forgets_a_scope(kind: &Kind, folder: &Path) {
    forgets(kind, folder, What::Scope, kind.rounds(5, 2)).await;
}

async fn forgets_a_tenant(kind: &Kind, folder: &Path) {
    forgets(kind, folder, What::Tenant, kind.rounds(3, 2)).await;
}

on_each_store! {
    a_killed_forget_of_a_scope_is_completed_by_running_it_again => forgets_a_scope;
    a_killed_forget_of_a_tenant_is_completed_by_running_it_again => forgets_a_tenant;
}
