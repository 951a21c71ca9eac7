//! What becomes of a refused write: the scope is saved, and whoever wrote is told what drifted.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_core::drift::{DriftReason, Seen};
use memory_core::limits::MAX_PAGE;
use memory_core::{
    DriftPolicy, DriftToken, Error, ErrorKind, GetOptions, Key, ListQuery, Result, Scope, ScopeDigest,
};
use serde_json::Value;

use super::guarded::{CHUNK, Guarded};
use super::view::Unresolved;

/// Most keys that a refusal names.
const NAMED_KEYS: usize = 64;
/// Most bytes of them.
const NAMED_BYTES: usize = 4 << 10;
/// Most remembered entries that are compared after a refusal.
const COMPARED: usize = 10_000;
/// Most pages of the scope that are looked through for entries that nobody of the session has seen.
const PAGES: usize = 100;

/// What differs from what the session saw.
#[derive(Debug, Default)]
struct Changed {
    keys: BTreeSet<Key>,
    /// Whether it is known to be all.
    complete: bool,
}

impl Guarded<'_> {
    /// Explains a refusal for drift; any other error stays as it is.
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
        let about_file = [DriftReason::FileReplaced, DriftReason::Triggers]
            .into_iter()
            .any(|about| about.as_str() == reason);
        let changed = match about_file {
            true => Changed::default(),
            // Naming the keys is a courtesy; the refusal stands without.
            false => self.changed(scope, digest, keys).await.unwrap_or_default(),
        };
        let observed = self.session.views().token(&digest);
        // What ends with its run leaves no copy on a disk.
        let backup = match self.session.backups.as_ref().filter(|_| scope.kind.is_durable()) {
            None => None,
            Some(backups) => {
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
                        Some(saved.path)
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
        };
        let strict = self.session.policy == DriftPolicy::Strict;
        let pending = match strict {
            true => changed.keys.clone(),
            false => {
                let drifted: BTreeSet<Key> =
                    keys.iter().filter(|key| changed.keys.contains(*key)).cloned().collect();
                if drifted.is_empty() { keys.iter().cloned().collect() } else { drifted }
            }
        };
        let complete = !pending.is_empty() && (!strict || changed.complete);
        let unresolved = Unresolved { actual, pending, complete, backup: backup.clone() };
        let superseded = self.session.views().refused(digest, unresolved);
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
                backup.map_or(Value::Null, |path| path.to_string_lossy().into_owned().into()),
            )
            .with_detail("remediation", remediation(self.session.policy, about_file, complete))
    }

    /// Compares what the session saw with what is stored.
    async fn changed(&self, scope: &Scope, digest: ScopeDigest, written: &[Key]) -> Result<Changed> {
        let mut changed = Changed { keys: BTreeSet::new(), complete: true };
        let (known, version) = {
            let views = self.session.views();
            (views.all(&digest, COMPARED), views.version(&digest))
        };
        changed.complete &= known.len() < COMPARED;
        // What was to be written first: it has to be among those that are compared.
        let (first, rest): (Vec<_>, Vec<_>) =
            known.iter().partition::<Vec<&(Key, Seen)>, _>(|(key, _)| written.contains(key));
        let known: Vec<&(Key, Seen)> = first.into_iter().chain(rest).collect();
        for part in known.chunks(CHUNK) {
            let keys: Vec<Key> = part.iter().map(|(key, _)| key.clone()).collect();
            let found = self.backend.get_many(scope, &keys, GetOptions::uncounted()).await?;
            for ((key, seen), entry) in part.iter().zip(&found) {
                if !same(seen, &Seen::of(entry.as_ref()), self.session.clock.now()) {
                    changed.keys.insert(key.clone());
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
            let new = listed.entries.iter().filter(|entry| entry.version > version);
            changed
                .keys
                .extend(new.filter(|entry| !seen.contains(&entry.key)).map(|entry| entry.key.clone()));
            cursor = listed.next;
            if cursor.is_none() {
                break;
            }
            if page == PAGES {
                changed.complete = false;
                break;
            }
        }
        Ok(changed)
    }
}

/// Whether an entry is as it was seen; where it was seen to expire, also where it has.
fn same(before: &Seen, now: &Seen, clock: memory_core::Timestamp) -> bool {
    match (before, now) {
        (Seen::Absent, Seen::Absent) => true,
        (Seen::Entry { expires_at, .. }, Seen::Absent) => expires_at.is_some_and(|at| at <= clock),
        (Seen::Entry { version: one, digest: a, .. }, Seen::Entry { version: other, digest: b, .. }) => {
            one == other && (a.is_none() || a == b)
        }
        (Seen::Absent, Seen::Entry { .. }) => false,
    }
}

/// The keys that a refusal names, those that were to be written first.
fn named(written: &[Key], changed: &Changed) -> (Vec<String>, bool) {
    let first = written.iter().filter(|key| changed.keys.contains(*key)).collect::<BTreeSet<_>>();
    let rest = changed.keys.iter().filter(|key| !first.contains(*key));
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

fn remediation(policy: DriftPolicy, about_file: bool, complete: bool) -> &'static str {
    match (policy, about_file, complete) {
        (_, true, _) => "have the operator open the store again; nothing can be written safely before",
        (DriftPolicy::Strict, _, true) => {
            "read every entry named in `changed`, decide again, and send the write anew; or have the operator look at \
             `memory drift diff` and run `memory drift ack`"
        }
        (DriftPolicy::Strict, _, false) => {
            "not every change could be named: have the operator look at `memory drift diff` and run `memory drift ack`"
        }
        _ => "read the entry, decide again with what it says now, and send the write anew",
    }
}
