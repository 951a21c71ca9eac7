//! The operations that write, inside a transaction. Each checks first, then writes.

use memory_core::entry::{Expect, Quota};
use memory_core::json::Json;
use memory_core::reduce::{Reducer, reduce};
use memory_core::{
    BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, Embed, EmbeddingModel, Entry, Error,
    IncrementOutcome, Key, SetOutcome, Source, Timestamp, UpdateOptions, UpdateOutcome,
};
use memory_core::{ContentDigest, DriftChange, DriftReason};
use rusqlite::params;

use super::draft::Draft;
use super::entries::{Content, History, Old};
use super::row::{StoredEntry, encode_metadata};
use crate::commit::batch::Batch;
use crate::commit::scope::{Space, Target};
use crate::error::{Fault, lost};

/// Sets an entry, checking precondition, drift guard and quota (SET, VER, TTL, QUO). `model` is the embedder's, if
/// there is one.
pub(crate) fn set(
    batch: &mut Batch<'_>,
    target: &Target,
    draft: &Draft,
    model: Option<&EmbeddingModel>,
) -> Result<SetOutcome, Fault> {
    batch.admit(target)?;
    if let Some(model) = model.filter(|_| draft.embed() != Embed::Never) {
        check_model(batch, target, model)?;
    }
    set_within(batch, target, draft, draft.options.quota, None)
}

/// Refuses vectors of a different length before anything is written (EMB-2).
fn check_model(batch: &mut Batch<'_>, target: &Target, model: &EmbeddingModel) -> Result<(), Fault> {
    let space = batch.space(&target.digest)?;
    batch.check_dimensions(&space, model, batch.now())
}

fn set_within(
    batch: &mut Batch<'_>,
    target: &Target,
    draft: &Draft,
    quota: Quota,
    scope_drift: Option<DriftReason>,
) -> Result<SetOutcome, Fault> {
    let now = batch.now();
    let mut space = batch.space(&target.digest)?;
    let mut old = batch.old(&space, &draft.key)?;
    let live = old.filter(|old| old.is_live(now));
    let before = batch.token(&space);
    let check = &draft.options.drift;
    batch.in_place(check, before)?;
    let mut lost = false;
    let allowed =
        check_expect(batch, &space, &draft.key, draft.options.expect, live.as_ref()).and_then(|()| {
            let drifted = match (draft.options.expect, scope_drift) {
                (Expect::Any, None) => {
                    batch.drifted(&target.digest, &space, Some(&draft.key), live.as_ref(), check, now)?
                }
                (Expect::Any, found) => found,
                // A precondition protects the write already.
                _ => None,
            };
            lost = drifted.is_some_and(DriftReason::is_of_the_store);
            drifted.map_or(Ok(()), |reason| Err(reason.refusal(before).into()))
        });
    if let Err(refused) = allowed {
        // Either a retry of a set whose reply was lost, or somebody else wrote the same.
        if let (Fault::Refused(_), Some(live)) = (&refused, live)
            && !lost
            && let Some(stored) = readable(batch.entry(&space, &draft.key))?
            && draft.is_stored(&stored.entry)
        {
            let mut outcome = SetOutcome::new(live.version, false, false, live.expires_at);
            outcome.drift =
                batch.token_change(check, before, &space, || Some(ContentDigest::of_entry(&stored.entry)));
            return Ok(outcome);
        }
        return Err(refused);
    }
    let expires_at = draft.options.ttl.expiry(now, live.and_then(|live| live.expires_at))?;
    batch.allow(target, &mut space, &draft.key, quota, &mut old, draft.size, now)?;
    let history = follow(&space, live.as_ref(), now, expires_at)?;
    batch.put(target, &mut space, &draft.key, old.as_ref(), draft.content(), history)?;
    batch.keep(&target.digest, space);
    let mut outcome = SetOutcome::new(history.version, live.is_none(), true, expires_at);
    outcome.drift = batch.token_change(check, before, &space, || Some(draft.digest(expires_at)));
    Ok(outcome)
}

/// An entry, or `None` if the row cannot be decoded: another program may have written anything.
fn readable(read: Result<Option<StoredEntry>, Fault>) -> Result<Option<StoredEntry>, Fault> {
    match read {
        Err(Fault::Refused(_)) => Ok(None),
        read => read,
    }
}

/// The history of a row written at `now` over a live one, or newly created.
fn follow(
    space: &Space,
    live: Option<&Old>,
    now: Timestamp,
    expires_at: Option<Timestamp>,
) -> Result<History, Fault> {
    let version = next_version(space)?;
    Ok(match live {
        Some(live) => History {
            version,
            created_at: live.created_at,
            // If the clock was set back, an update is still not before the creation.
            updated_at: now.max(live.created_at),
            expires_at,
            accesses: live.accesses,
            born: Some(live.born),
        },
        None => History { version, created_at: now, updated_at: now, expires_at, accesses: 0, born: None },
    })
}

pub(crate) fn next_version(space: &Space) -> Result<u64, Fault> {
    match space.version.checked_add(1) {
        Some(version) if version <= i64::MAX.unsigned_abs() => Ok(version),
        _ => Err(Error::internal("the scope has used up all versions; export it into a new one").into()),
    }
}

fn check_expect(
    batch: &Batch<'_>,
    space: &Space,
    key: &Key,
    expect: Expect,
    live: Option<&Old>,
) -> Result<(), Fault> {
    let holds = match (expect, live) {
        (Expect::Any, _) | (Expect::Absent, None) => true,
        (Expect::Version(version), Some(live)) => version == live.version,
        (Expect::Sha256(_), Some(live)) => {
            let stored = batch.entry(space, key)?;
            expect.holds(stored.as_ref().map(|stored| (live.version, &stored.entry.value)))
        }
        (Expect::Absent, Some(_)) | (Expect::Version(_) | Expect::Sha256(_), None) => false,
    };
    if holds { Ok(()) } else { Err(Error::conflict(live.map(|live| live.version)).into()) }
}

/// Deletes an entry; a missing one is no error (DEL).
pub(crate) fn delete(
    batch: &mut Batch<'_>,
    target: &Target,
    key: &Key,
    options: DeleteOptions,
) -> Result<DeleteOutcome, Fault> {
    let now = batch.now();
    let mut space = batch.space(&target.digest)?;
    let before = batch.token(&space);
    let check = &options.drift;
    batch.in_place(check, before)?;
    let Some(old) = batch.old(&space, key)?.filter(|old| old.is_live(now)) else {
        let found = batch.drifted(&target.digest, &space, Some(key), None, check, now)?;
        if let Some(reason) = found.filter(|reason| reason.is_of_the_store()) {
            return Err(reason.refusal(before).into());
        }
        // Already gone, as requested.
        let mut outcome = DeleteOutcome::new(false);
        outcome.drift = batch.token_change(check, before, &space, || None);
        return Ok(outcome);
    };
    check_expect(batch, &space, key, options.expect, Some(&old))?;
    if options.expect == Expect::Any
        && let Some(reason) = batch.drifted(&target.digest, &space, Some(key), Some(&old), check, now)?
    {
        return Err(reason.refusal(before).into());
    }
    batch.remove(target, &mut space, key, &old)?;
    batch.keep(&target.digest, space);
    let mut outcome = DeleteOutcome::new(true);
    outcome.drift = batch.token_change(check, before, &space, || None);
    Ok(outcome)
}

/// Adds to a number (INC). If given an embedder's model, also returns the text to embed.
pub(crate) fn increment(
    batch: &mut Batch<'_>,
    target: &Target,
    key: &Key,
    delta: i64,
    options: UpdateOptions,
    model: Option<&EmbeddingModel>,
) -> Result<(IncrementOutcome, Option<String>), Fault> {
    let mut value = 0_i64;
    let Modified { version, expires_at, text, drift } = modify(
        batch,
        target,
        key,
        options,
        model,
        |stored| {
            let before = match stored {
            None => 0,
            Some(stored) => stored.as_i64_exact().ok_or_else(|| {
                Error::wrong_type(
                    "the stored value is not a 64-bit integer; set one before incrementing, or use another key",
                )
            })?,
        };
            value = before.checked_add(delta).ok_or_else(|| {
                Error::invalid("the sum does not fit 64 bits, so nothing was changed; use a smaller delta")
            })?;
            Ok(Json::from(value))
        },
    )?;
    let mut outcome = IncrementOutcome::new(value, version, expires_at);
    outcome.drift = drift;
    Ok((outcome, text))
}

/// Applies a reducer (UPD). If given an embedder's model, also returns the text to embed.
pub(crate) fn update(
    batch: &mut Batch<'_>,
    target: &Target,
    key: &Key,
    reducer: &Reducer,
    options: UpdateOptions,
    model: Option<&EmbeddingModel>,
) -> Result<(UpdateOutcome, Option<String>), Fault> {
    let limit = batch.context().config.max_value_bytes;
    let mut reduced = None;
    let Modified { version, expires_at, text, drift } =
        modify(batch, target, key, options, model, |stored| {
            let result = reduce(stored, reducer)?;
            if result.value.len_bytes() > limit {
                return Err(Error::too_large("value", result.value.len_bytes(), limit, "bytes"));
            }
            let value = result.value.clone();
            reduced = Some(result);
            Ok(value)
        })?;
    let reduced = reduced.ok_or_else(lost)?;
    let mut outcome = UpdateOutcome::new(reduced.value, version, expires_at);
    outcome.appended = reduced.appended;
    outcome.dropped = reduced.dropped;
    outcome.drift = drift;
    Ok((outcome, text))
}

/// The result of [`modify`].
struct Modified {
    version: u64,
    expires_at: Option<Timestamp>,
    /// The text to embed, if a model was given.
    text: Option<String>,
    drift: Option<DriftChange>,
}

/// Replaces the value with the result of `change`, and keeps the rest.
fn modify(
    batch: &mut Batch<'_>,
    target: &Target,
    key: &Key,
    options: UpdateOptions,
    model: Option<&EmbeddingModel>,
    change: impl FnOnce(Option<&Json>) -> memory_core::Result<Json>,
) -> Result<Modified, Fault> {
    batch.admit(target)?;
    if let Some(model) = model {
        check_model(batch, target, model)?;
    }
    let now = batch.now();
    let mut space = batch.space(&target.digest)?;
    let before = batch.token(&space);
    batch.in_place(&options.drift, before)?;
    let mut old = batch.old(&space, key)?;
    let live = old.filter(|old| old.is_live(now));
    let stored = match live {
        Some(_) => batch.entry(&space, key)?.map(|stored| stored.entry),
        None => None,
    };
    let value = change(stored.as_ref().map(|entry| &entry.value))?;
    let expires_at = options.ttl.expiry(now, live.and_then(|live| live.expires_at))?;
    let stored = match stored {
        Some(mut entry) => {
            entry.value = value;
            entry
        }
        None => Entry::new(key.clone(), value, 1, now),
    };
    let size = stored.size_bytes();
    batch.allow(target, &mut space, key, options.quota, &mut old, size, now)?;
    let history = follow(&space, live.as_ref(), now, expires_at)?;
    let metadata = encode_metadata(&stored.metadata);
    let content = Content {
        value: &stored.value,
        metadata: metadata.as_deref(),
        source: stored.source.as_ref().map(Source::as_str),
        text: stored.text.as_deref(),
        size,
    };
    batch.put(target, &mut space, key, old.as_ref(), content, history)?;
    batch.keep(&target.digest, space);
    let text = model.map(|_| stored.search_text().into_owned());
    let drift = batch.token_change(&options.drift, before, &space, || {
        let Entry { value, metadata, source, text, .. } = &stored;
        Some(ContentDigest::of(value, metadata, source.as_ref(), text.as_deref(), expires_at))
    });
    Ok(Modified { version: history.version, expires_at, text, drift })
}

/// Sets many entries, all or none (BLK).
pub(crate) fn bulk_insert(
    batch: &mut Batch<'_>,
    target: &Target,
    drafts: &[Draft],
    options: BulkOptions,
    model: Option<&EmbeddingModel>,
) -> Result<Vec<SetOutcome>, Fault> {
    batch.admit(target)?;
    if let Some(model) = model
        && let Some(index) = drafts.iter().position(|draft| draft.embed() != Embed::Never)
    {
        check_model(batch, target, model).map_err(|fault| at_index(fault, index))?;
    }
    batch.atomically(&target.digest, |batch| {
        let now = batch.now();
        let (token, scope_drift) = {
            let space = batch.space(&target.digest)?;
            let drift = batch.drifted(&target.digest, &space, None, None, &options.drift, now)?;
            (batch.token(&space), drift)
        };
        let quota = options.quota;
        let before = match quota.is_unlimited() {
            true => (0, 0),
            false => {
                let space = batch.space(&target.digest)?;
                batch.live(&space, now)?
            }
        };
        let mut outcomes = Vec::with_capacity(drafts.len());
        for (index, draft) in drafts.iter().enumerate() {
            let outcome =
                set_within(batch, target, draft, Quota::default(), scope_drift).map_err(|fault| {
                    match at_index(fault, index) {
                        Fault::Refused(error) => Fault::Refused(token.restate_in(error)),
                        engine => engine,
                    }
                })?;
            outcomes.push(outcome);
        }
        if !quota.is_unlimited() {
            let space = batch.space(&target.digest)?;
            quota.check(before, batch.live(&space, now)?)?;
        }
        Ok(outcomes)
    })
}

fn at_index(fault: Fault, index: usize) -> Fault {
    match fault {
        Fault::Refused(error) => Fault::Refused(error.with_detail("index", index)),
        engine => engine,
    }
}

/// Drops a scope (SCO-4). The versions of a run start over.
pub(crate) fn drop_scope(batch: &mut Batch<'_>, target: &Target) -> Result<DropOutcome, Fault> {
    empty(batch, target, target.scope.kind.is_durable())
}

/// Removes every entry of a scope. The scope gets a new space at once, which hides its rows; the sweep reclaims them.
pub(crate) fn empty(
    batch: &mut Batch<'_>,
    target: &Target,
    keeps_versions: bool,
) -> Result<DropOutcome, Fault> {
    let now = batch.now();
    let mut space = batch.space(&target.digest)?;
    if space.id == 0 {
        return Ok(DropOutcome::new(0));
    }
    let (live, _) = batch.live(&space, now)?;
    let leaves_rows = space.entries > 0 || space.segments > 0;
    if leaves_rows {
        batch.statement("INSERT INTO garbage (space) VALUES (?1)")?.execute([space.id])?;
        batch.leaves_garbage();
    }
    // A row that records a SQL database to remove stays until that is gone.
    if keeps_versions || space.intent != 0 {
        if leaves_rows {
            let fresh = batch.fresh_space()?;
            batch
                .statement("UPDATE scope SET space = ?2 WHERE digest = ?1")?
                .execute(params![target.digest.as_bytes(), fresh])?;
            space.id = fresh;
            space.move_token(&batch.context().watch);
        }
        (space.entries, space.bytes, space.expiring, space.vectors, space.segments) = (0, 0, 0, 0, 0);
        space.floor = space.version;
        space.changes += 1;
        space.touch();
    } else {
        batch.statement("DELETE FROM scope WHERE digest = ?1")?.execute(params![target.digest.as_bytes()])?;
        // Versions from before an erasure are still not reused.
        space = Space::read(batch.connection(), &target.digest)?;
    }
    batch.keep(&target.digest, space);
    batch.wrote(2);
    Ok(DropOutcome::new(live))
}
