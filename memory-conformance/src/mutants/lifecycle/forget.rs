//! FGT: forgetting.

use memory_core::{
    EraseTarget, Error, ErrorKind, GetOptions, Next, Reply, Request, Result, Taken, Timestamp, TombstonesOf,
};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::kv;
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "forget.no-tombstone": ["FGT-11", "FGT-7"], "erasing leaves no tombstone" => fault(Fault::EraseLeavesNoTombstone);
    "forget.versions-begin-anew": ["FGT-5"], "an erased scope restarts at version 1" => fault(Fault::EraseForgetsVersions);
    "forget.versions-of-all": ["FGT-1", "ISO-4"], "every scope begins behind the versions of what was erased elsewhere" => fault(Fault::EraseRaisesOthers);
    "forget.leaves-runs": ["FGT-2"], "runs of an erased tenant stay" => fault(Fault::EraseLeavesRuns);
    "forget.keeps-expired": ["FGT-1", "FGT-4"], "expired entries of an erased scope stay" => fault(Fault::EraseKeepsExpired);
    "forget.key-takes-scope": ["FGT-3"], "erasing a key erases its scope" => ask(key_takes_scope);
    "forget.scope-takes-tenant": ["FGT-1"], "erasing a scope erases its tenant"
        => ask(Request::Erase { target } => {
            if let EraseTarget::Scope(scope) = target.clone() {
                *target = EraseTarget::Tenant(scope.tenant);
            }
        });
    "forget.counts-missing": ["FGT-4"], "erasing reports no counts"
        => answer(Reply::Erase(erased) => (erased.scopes, erased.entries, erased.databases) = (0, 0, 0));
    "forget.counts-refused-writes": ["FGT-4", "SET-6"], "a scope that only refused writes named counts" => around(counts_refused);
    "forget.expired-keys-untold": ["FGT-4"], "an expired entry that is erased by its key does not count" => around({
        let is_gone = match &request {
            Request::Erase { target: EraseTarget::Key { scope, key } } => {
                kv(&next)?.get(scope, key, GetOptions::uncounted()).await?.is_none()
            }
            _ => false,
        };
        let mut reply = next.run(request).await?;
        if let Reply::Erase(erased) = &mut reply && is_gone {
            erased.entries = 0;
        }
        Ok(reply)
    });
    "forget.key-version-unknown": ["FGT-5"], "the tombstone of a key has no version"
        => answer(Reply::Erase(erased) if erased.tombstone.id.key.is_some() => erased.tombstone.version = 0);
    "forget.nothing-fails": ["FGT-4"], "erasing what does not exist is an error" => answer(Reply::Erase(erased) if erased.scopes + erased.entries == 0
            => return Err(Error::new(ErrorKind::NotFound, "there is nothing to erase; name something else")));
    "forget.copies-unjudged": ["FGT-7"], "importing an older copy restores everything" => ask(|request| change_taken(request, |_| Taken::New));
    "forget.moment-exclusive": ["FGT-7"], "a copy from the tombstone's time counts as newer"
        => ask(|request| change_taken(request, |taken| match taken {
            Taken::At(at) => {
                Taken::At(at.checked_add(std::time::Duration::from_millis(1)).unwrap_or(Timestamp::MAX))
            }
            taken => taken,
        }));
    "forget.copies-untold": ["FGT-7"], "skipped records are not reported"
        => answer(Reply::ImportScope(outcome) => outcome.skipped += std::mem::take(&mut outcome.forgotten));
    "forget.every-copy-old": ["FGT-8"], "records are skipped whatever the age of the copy"
        => ask(|request| change_taken(request, |taken| match taken {
            Taken::At(_) => Taken::At(Timestamp::EPOCH),
            taken => taken,
        }));
    "forget.writes-judged": ["FGT-8"], "an ordinary import is treated as a copy"
        => ask(|request| change_taken(request, |taken| if taken == Taken::New { Taken::Undated } else { taken }));
    "forget.undated-unjudged": ["FGT-9"], "an undated copy is stored"
        => ask(|request| change_taken(request, |taken| if taken == Taken::Undated { Taken::New } else { taken }));
    "forget.undated-left-out": ["FGT-9"], "an undated copy is skipped entirely"
        => ask(|request| change_taken(request, |taken| if taken == Taken::Undated { Taken::At(Timestamp::EPOCH) } else { taken }));
    "forget.list-of-all": ["FGT-11"], "the tombstones of one scope include all others"
        => ask(Request::Tombstones { of, .. } => {
            if let TombstonesOf::Scope(scope) = of.clone() {
                *of = TombstonesOf::Tenant(scope.tenant);
            }
        });
    "forget.list-of-every-tenant": ["FGT-11"], "the tombstones of one tenant include those of the others"
        => ask(Request::Tombstones { of, .. } => {
            if matches!(of, TombstonesOf::Tenant(_)) {
                *of = TombstonesOf::Store;
            }
        });
    "forget.list-reversed": ["FGT-11"], "tombstones come in reverse order"
        => answer(Reply::Tombstones(tombstones) => tombstones.reverse());
    "forget.list-after-ignored": ["FGT-11"], "every page of tombstones is the first"
        => ask(Request::Tombstones { after, .. } => *after = None);
    "forget.bury-in-vain": ["FGT-12"], "imported tombstones are dropped"
        => instead(Request::Bury { .. } => Ok(Reply::Bury(())));
    "forget.bury-erases": ["FGT-12"], "an imported tombstone deletes existing entries" => fault(Fault::BuryErases);
    "forget.bury-replaces": ["FGT-12"], "the last of two tombstones wins" => fault(Fault::BuryReplaces);
    "forget.bury-future": ["FGT-12"], "a tombstone may lie in the future" => fault(Fault::BuryUnclamped);
    "forget.sql-stays": ["FGT-13"] needs [Sql, Erase], "the SQL database of an erased scope stays"
        => ask(Request::Erase { target } => {
            if let EraseTarget::Scope(scope) = target.clone() && let Ok(key) = memory_core::Key::new("k") {
                *target = EraseTarget::Key { scope, key };
            }
        });
    "forget.sql-goes-with-key": ["FGT-13"] needs [Sql, Erase], "erasing a key deletes the SQL database" => ask(key_takes_scope);
    "forget.sql-copies-unjudged": ["FGT-14"] needs [Sql, Erase], "restoring an older copy restores an erased database"
        => ask(Request::Restore { options, .. } => options.taken_at = None);
}

fn key_takes_scope(request: &mut Request) {
    if let Request::Erase { target } = request
        && let EraseTarget::Key { scope, .. } = target.clone()
    {
        *target = EraseTarget::Scope(scope);
    }
}

async fn counts_refused(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let written = match &request {
        Request::Set { scope, .. } => Some(scope.clone()),
        _ => None,
    };
    let counts = match &request {
        Request::Erase { target: EraseTarget::Scope(scope) } => memory.lock().scopes.contains(scope),
        _ => false,
    };
    let mut reply = next.run(request).await;
    match (&mut reply, written) {
        (Err(_), Some(scope)) => drop(memory.lock().scopes.insert(scope)),
        (Ok(Reply::Erase(erased)), _) if counts => erased.scopes = 1,
        _ => {}
    }
    reply
}

fn change_taken(request: &mut Request, change: impl FnOnce(Taken) -> Taken) {
    if let Request::ImportScope { options, .. } = request {
        options.taken = change(options.taken);
    }
}
