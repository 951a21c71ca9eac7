//! VER, DEL: versions and preconditions.

use memory_core::json::Json;
use memory_core::{DeleteOptions, Error, ErrorKind, Expect, Next, Reply, Request, Result, SetOptions};

use crate::mutants::mutant::mutants;
use crate::mutants::requests::{is_conflict, kv, peek};
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "version.stays": ["VER-1"], "overwriting keeps the version" => fault(Fault::VersionStays);
    "version.reused-after-delete": ["VER-2"], "a recreated key starts at version 1" => fault(Fault::VersionPerLife);
    "version.restarts-after-drop": ["VER-2"], "dropping a scope resets its versions" => fault(Fault::VersionsEndWithDrop);
    "cas.version-ignored": ["VER-4"], "an expected version is not checked"
        => ask(|request| relax(request, |expect| matches!(expect, Expect::Version(_))));
    "cas.absent-ignored": ["VER-3"], "a set that expects absence overwrites" => ask(|request| relax(request, |expect| *expect == Expect::Absent));
    "cas.hash-ignored": ["VER-5"], "an expected hash is not checked" => ask(|request| relax(request, |expect| matches!(expect, Expect::Sha256(_))));
    "cas.hash-of-meaning": ["VER-5"], "the hash is compared with that of the canonical text"
        => ask(Request::Set { scope, key, options, .. } => {
            if let Expect::Sha256(hash) = options.expect && let Some(entry) = peek(&next, scope, key).await? {
                let same = entry.value.canonical_hash() == hash;
                options.expect = Expect::Version(if same { entry.version } else { 0 });
            }
        });
    "cas.newer-is-fine": ["VER-4"], "an expected version below the stored one is accepted"
        => ask(Request::Set { scope, key, options, .. } => {
            if let Expect::Version(version) = &mut options.expect && let Some(entry) = peek(&next, scope, key).await? {
                *version = entry.version.max(*version);
            }
        });
    "cas.conflict-writes": ["VER-6"], "a conflict is reported but written anyway"
        => over(Request::Set { scope, key, value, options } => {
            let kv = kv(&next)?;
            let result = kv.set(&scope, &key, value.clone(), options.clone()).await;
            if is_conflict(&result) {
                kv.set(&scope, &key, value, options.with_expect(Expect::Any)).await?;
            }
            result.map(Reply::Set)
        });
    "cas.conflict-says-nothing": ["VER-6"], "a conflict does not name the current version"
        => refuse(|_, error| if error.kind() == ErrorKind::Conflict { Error::conflict(None) } else { error });
    "cas.retry-refused": ["VER-7"], "a retry after a lost reply is a conflict" => answer(Reply::Set(outcome) if !outcome.written
            => return Err(Error::conflict(Some(outcome.version))));
    "cas.retry-writes": ["VER-7"], "a retry after a lost reply writes again"
        => over(Request::Set { scope, key, value, options } => {
            let kv = kv(&next)?;
            let outcome = kv.set(&scope, &key, value.clone(), options.clone()).await?;
            if outcome.written {
                return Ok(Reply::Set(outcome));
            }
            Ok(Reply::Set(kv.set(&scope, &key, value, options.with_expect(Expect::Any)).await?))
        });
    "cas.retry-looks-at-value-only": ["VER-7"], "a retry ignores differing metadata" => fault(Fault::RetryLooksAtValueOnly);
    "cas.retry-ignores-lifetime": ["VER-7"], "a retry ignores a differing lifetime" => fault(Fault::RetryIgnoresLifetime);
    "cas.refused-set-renews-version": ["SET-6"], "a refused set uses up a version"
        => over(Request::Set { scope, key, value, options } => {
            let kv = kv(&next)?;
            let result = kv.set(&scope, &key, value, options).await;
            if result.is_err()
                && let Some(entry) = peek(&next, &scope, &key).await?
            {
                let options = crate::mutants::requests::as_stored(&entry);
                kv.set(&scope, &key, entry.value, options).await?;
            }
            result.map(Reply::Set)
        });
    "delete.expect-ignored": ["DEL-3"], "a delete ignores its precondition"
        => ask(Request::Delete { options, .. } => options.expect = Expect::Any);
    "delete.absent-conflicts": ["DEL-3"], "deleting an absent entry under a precondition is a conflict"
        => over(Request::Delete { scope, key, options } => {
            let outcome = kv(&next)?.delete(&scope, &key, options).await?;
            if !outcome.deleted && options != DeleteOptions::default() {
                return Err(Error::conflict(None));
            }
            Ok(Reply::Delete(outcome))
        });
    "delete.missing-fails": ["DEL-2"], "deleting an absent entry is an error" => answer(Reply::Delete(outcome) if !outcome.deleted
            => return Err(Error::new(ErrorKind::NotFound, "the key is not stored; nothing was deleted")));
    "delete.always-deleted": ["DEL-2"], "deleting an absent entry reports a deletion"
        => answer(Reply::Delete(outcome) => outcome.deleted = true);
}

fn relax(request: &mut Request, ignored: fn(&Expect) -> bool) {
    let relax = |expect: &mut Expect| {
        if ignored(expect) {
            *expect = Expect::Any;
        }
    };
    match request {
        Request::Set { options, .. } => relax(&mut options.expect),
        Request::BulkInsert { items, .. } => {
            items.iter_mut().for_each(|item| relax(&mut item.options.expect));
        }
        _ => {}
    }
}

/// Stores a value whatever exists, for a mutant that bypasses the contract.
pub(super) async fn overwrite(
    next: &Next<'_>,
    scope: &memory_core::Scope,
    key: &memory_core::Key,
    value: Json,
) -> Result<u64> {
    let options = match peek(next, scope, key).await? {
        Some(entry) => crate::mutants::requests::as_stored(&entry),
        None => SetOptions::default(),
    };
    Ok(kv(next)?.set(scope, key, value, options).await?.version)
}
