//! Refusing a write: saves the scope, and reports what drifted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory_core::limits::MAX_PAGE;
use memory_core::{
    DriftPolicy, DriftToken, Error, ErrorKind, GetOptions, Key, ListQuery, Result, Scope, ScopeDigest,
};
use memory_core::{DriftReason, Seen};
use serde_json::Value;

use super::guarded::{CHUNK, Guarded};
use super::view::{Kept, Unresolved};
use crate::conversations::is_reserved;

/// Most keys that a refusal names.
const NAMED_KEYS: usize = 64;
/// Most bytes of those keys.
const NAMED_BYTES: usize = 4 << 10;
/// Most tracked entries that are compared after a refusal.
const COMPARED: usize = 10_000;
/// Most pages of the scope that are searched for entries the session has not seen.
const PAGES: usize = 100;

/// What differs from what the session saw.
#[derive(Debug, Default)]
struct Changed {
    /// With their current state.
    keys: BTreeMap<Key, Seen>,
    /// Whether these are all the changes.
    complete: bool,
}

impl Guarded<'_> {
    /// Explains a refusal for drift; passes on any other error.
    pub(super) async fn refused(
        &self,
        scope: &Scope,
        digest: ScopeDigest,
        keys: &[Key],
        error: Error,
    ) -> Error {
        if error.kind() != ErrorKind::DriftDetected {
            return error;
        }
        let detail = |name: &str| error.details().get(name).and_then(Value::as_str);
        let actual: Option<DriftToken> = detail("actual").and_then(|token| token.parse().ok());
        let reason = detail("reason").unwrap_or_default().to_owned();
        let about = [DriftReason::FileReplaced, DriftReason::Triggers, DriftReason::Silent]
            .into_iter()
            .find(|about| about.as_str() == reason);
        let changed = match about.is_some_and(DriftReason::is_of_the_store) {
            true => Changed::default(),
            // Naming the keys is optional; if it fails, the refusal still stands.
            false => self.changed(scope, digest, keys).await.unwrap_or_default(),
        };
        let observed = self.session.views().token(&digest);
        let strict = self.session.policy == DriftPolicy::Strict;
        // What the write would have overwritten; under `strict`, everything.
        let mut drifted = changed.keys.clone();
        drifted.retain(|key, _| strict || keys.contains(key));
        let backup = self.saved(scope, digest, (observed, actual), &reason, &drifted, &changed.keys).await;
        let path = backup.as_ref().map(|kept| kept.path.clone());
        let pending: BTreeSet<Key> = match (strict, drifted.is_empty()) {
            (false, true) => keys.iter().cloned().collect(),
            _ => drifted.into_keys().collect(),
        };
        let complete = !strict || changed.complete;
        let unread = !pending.is_empty();
        let unresolved = Unresolved { actual, pending, complete, backup };
        let superseded = self.session.views().refused(digest, unresolved, strict);
        if let (Some(backups), Some(path)) = (&self.session.backups, superseded) {
            backups.resolve(&path);
        }
        let (named, truncated) = named(keys, &changed);
        let text = |token: Option<DriftToken>| token.map_or(Value::Null, |token| token.to_string().into());
        error
            .with_detail("policy", self.session.policy.as_str())
            .with_detail("observed", text(observed))
            .with_detail("changed", named)
            .with_detail("changed_truncated", truncated)
            .with_detail(
                "drift_backup",
                path.map_or(Value::Null, |path| path.to_string_lossy().into_owned().into()),
            )
            .with_detail("remediation", remediation(about, strict, complete, unread))
    }

    /// Saves the scope, unless it was already saved with the entries `drifted` in their current state; the session's
    /// own writes since then need no new copy.
    async fn saved(
        &self,
        scope: &Scope,
        digest: ScopeDigest,
        (observed, actual): (Option<DriftToken>, Option<DriftToken>),
        reason: &str,
        drifted: &BTreeMap<Key, Seen>,
        changed: &BTreeMap<Key, Seen>,
    ) -> Option<Kept> {
        let backups = match &self.session.backups {
            Some(backups) if scope.kind.is_durable() => backups,
            backups => {
                if !self.session.views().is_refused_at(&digest, actual) {
                    tracing::warn!(
                        scope = %digest.to_hex(),
                        reason,
                        why = match backups {
                            Some(_) => "what ends with its run leaves no copy on a disk",
                            None => "the store has no folder for backups of drift",
                        },
                        "somebody else changed the scope: a write was refused, and the scope was not saved"
                    );
                }
                return None;
            }
        };
        let before = self.session.views().saved(&digest, drifted);
        if let Some(kept) = before
            && Arc::clone(backups).holds(&kept.path).await
        {
            return Some(kept);
        }
        let now = self.session.clock.now();
        match Arc::clone(backups).save(self.backend, scope, observed, actual, now).await {
            Ok(saved) => {
                if saved.fresh {
                    tracing::warn!(
                        scope = %digest.to_hex(),
                        reason,
                        backup = %saved.path.display(),
                        "somebody else changed the scope: a write was refused and the scope saved"
                    );
                }
                Some(Kept { path: saved.path, drifted: changed.clone() })
            }
            Err(why) => {
                tracing::warn!(
                    scope = %digest.to_hex(),
                    reason,
                    error = %why,
                    "somebody else changed the scope: a write was refused, but the scope could not be saved"
                );
                None
            }
        }
    }

    /// Compares what the session saw with what is stored.
    async fn changed(&self, scope: &Scope, digest: ScopeDigest, written: &[Key]) -> Result<Changed> {
        let mut changed = Changed { keys: BTreeMap::new(), complete: true };
        let (mut known, version, began) = {
            let views = self.session.views();
            (views.all(&digest, COMPARED), views.version(&digest), views.began(&digest))
        };
        changed.complete &= known.len() < COMPARED;
        if self.session.policy == DriftPolicy::Row {
            let remembered: BTreeSet<&Key> = known.iter().map(|(key, _)| key).collect();
            let unread: BTreeSet<&Key> = written.iter().filter(|key| !remembered.contains(key)).collect();
            let unread: Vec<_> = unread.into_iter().map(|key| (key.clone(), Seen::Unread(began))).collect();
            known.extend(unread);
        }
        // The keys to be written come first, so that they are always compared.
        let (first, rest): (Vec<_>, Vec<_>) =
            known.iter().partition::<Vec<&(Key, Seen)>, _>(|(key, _)| written.contains(key));
        let known: Vec<&(Key, Seen)> = first.into_iter().chain(rest).collect();
        for part in known.chunks(CHUNK) {
            let keys: Vec<Key> = part.iter().map(|(key, _)| key.clone()).collect();
            let found = self.backend.get_many(scope, &keys, GetOptions::uncounted()).await?;
            for ((key, seen), entry) in part.iter().zip(&found) {
                let now = Seen::of(entry.as_ref());
                if !same(seen, &now, self.session.clock.now()) {
                    changed.keys.insert(key.clone(), now);
                }
            }
        }
        if self.session.policy != DriftPolicy::Strict {
            return Ok(changed);
        }
        let seen: BTreeSet<&Key> = known.iter().map(|(key, _)| key).collect();
        let mut cursor = None;
        for page in 1.. {
            let query = ListQuery::default().with_limit(MAX_PAGE).with_cursor(cursor);
            let listed = self.backend.list(scope, query).await?;
            let new =
                listed.entries.iter().filter(|entry| entry.version > version && !seen.contains(&entry.key));
            changed.keys.extend(new.map(|entry| (entry.key.clone(), Seen::of(Some(entry)))));
            cursor = listed.next;
            if cursor.is_none() {
                break;
            }
            if page == PAGES {
                changed.complete = false;
                break;
            }
        }
        // Entries of conversations are recalled, not read by key.
        changed.keys.retain(|key, _| !is_reserved(key.as_str()));
        Ok(changed)
    }
}

/// Whether an entry is as it was seen, or has expired as expected.
fn same(before: &Seen, now: &Seen, clock: memory_core::Timestamp) -> bool {
    match (before, now) {
        (Seen::Unread(began), Seen::Entry { version, .. }) => version <= began,
        (Seen::Entry { version: one, digest: a, .. }, Seen::Entry { version: other, digest: b, .. }) => {
            one == other && (a.is_none() || a == b)
        }
        (Seen::Absent, Seen::Entry { .. }) => false,
        (Seen::Entry { expires_at, .. }, _) => expires_at.is_some_and(|at| at <= clock),
        (Seen::Unread(_) | Seen::Absent, _) => true,
    }
}

/// The keys that a refusal names, those of the write first.
fn named(written: &[Key], changed: &Changed) -> (Vec<String>, bool) {
    let first = written.iter().filter(|key| changed.keys.contains_key(*key)).collect::<BTreeSet<_>>();
    let rest = changed.keys.keys().filter(|key| !first.contains(*key));
    let (mut named, mut bytes) = (Vec::new(), 0);
    for key in first.iter().copied().chain(rest) {
        bytes += key.as_str().len();
        if named.len() >= NAMED_KEYS || bytes > NAMED_BYTES {
            return (named, true);
        }
        named.push(key.as_str().to_owned());
    }
    (named, !changed.complete)
}

fn remediation(about: Option<DriftReason>, strict: bool, complete: bool, unread: bool) -> &'static str {
    match (about, strict) {
        (Some(DriftReason::Triggers), _) => {
            "have the operator run `memory drift repair`, on PostgreSQL `memory postgres provision --apply`; nothing can be \
             written safely before"
        }
        (Some(DriftReason::FileReplaced), _) => {
            "have the operator open the store again; nothing can be written safely before that"
        }
        (Some(DriftReason::Silent), true) => {
            "reading alone does not help: have the operator look at `memory drift diff` and have the scope counted anew, on \
             SQLite by `memory drift repair`"
        }
        (_, false) => "read the entry, decide again with what it says now, and send the write anew",
        (_, true) if !complete => {
            "not every change could be named: have the operator look at `memory drift diff` and run `memory drift ack`"
        }
        (_, true) if unread => {
            "read every entry named in `changed`, decide again, and send the write anew; or have the operator look at \
             `memory drift diff` and run `memory drift ack`"
        }
        (_, true) => {
            "what changed was read before, is gone or was said in a conversation: read again what you need of the scope, decide again, and send the \
             write anew"
        }
    }
}
