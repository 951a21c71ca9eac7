//! The contents of one scope, and the rules of one write. No locks, no clock, no awaiting.

use std::collections::BTreeMap;

use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::entry::size_bytes;
use memory_core::reduce::reduce;
use memory_core::{
    BulkOptions, DeleteOptions, DeleteOutcome, DriftCheck, DriftToken, EmbeddingModel, Entry, Error,
    ErrorKind, Expect, IncrementOutcome, Json, Key, Metadata, NewEntry, Quota, RecordVector, Reducer, Result,
    ScopeKind, SetOptions, SetOutcome, Source, Timestamp, Ttl, UpdateOptions, UpdateOutcome,
};
use memory_core::{DriftChange, DriftReason, Seen};

use super::fault::{Fault, Faults, Viewer};

/// The id of every reference store: they are never compared with each other.
const DATABASE: u128 = 0x5eed;
/// Nonces of all scopes, so that none repeats.
static NONCES: AtomicU64 = AtomicU64::new(1);

/// An entry with its vectors.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) entry: Entry,
    pub(crate) vectors: Vec<RecordVector>,
}

/// One scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScopeState {
    /// In key order. Expired entries stay until they are overwritten.
    pub(crate) entries: BTreeMap<Key, Stored>,
    /// The greatest version ever assigned in this scope.
    pub(crate) counter: u64,
    /// The greatest erased version; no key gets it again.
    pub(crate) floor: u64,
    /// The greatest version each key ever had.
    pub(crate) highest: BTreeMap<Key, u64>,
    /// The number of changes so far.
    pub(crate) generation: u64,
    /// Changes with the generation.
    pub(crate) nonce: u64,
    /// The time of the last use.
    pub(crate) used_at: Timestamp,
    first_is_over: bool,
    /// How much space its entries may take.
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) faults: Faults,
}

/// What a write stores.
struct Content {
    value: Json,
    metadata: Metadata,
    source: Option<Source>,
    text: Option<String>,
}

/// What a write did.
struct Written {
    version: u64,
    created: bool,
    expires_at: Option<Timestamp>,
}

impl ScopeState {
    pub(crate) fn new(faults: Faults) -> Self {
        Self { faults, ..Self::default() }
    }

    /// Removes every entry before an import replaces them. Versions continue.
    pub(crate) fn give_way(&mut self, kind: ScopeKind) {
        self.entries.clear();
        if kind == ScopeKind::Run && self.faults.has(Fault::ReplacedRunsBeginAnew) {
            *self = Self::new(self.faults);
        }
    }

    fn is_live(&self, entry: &Entry, now: Timestamp, viewer: Viewer) -> bool {
        let inclusive = self.faults.has(Fault::ExpiryInclusive)
            || viewer == Viewer::Search && self.faults.has(Fault::SearchExpiryInclusive);
        let expired =
            if inclusive { entry.expires_at.is_some_and(|at| at < now) } else { entry.is_expired(now) };
        !expired || self.faults.has(Fault::Sees(viewer))
    }

    /// The entry of a key, unless it has expired.
    pub(crate) fn live(&self, key: &Key, now: Timestamp, viewer: Viewer) -> Option<&Stored> {
        self.entries.get(key).filter(|stored| self.is_live(&stored.entry, now, viewer))
    }

    /// Live entries in key order.
    pub(crate) fn all_live(&self, now: Timestamp, viewer: Viewer) -> impl Iterator<Item = &Stored> {
        self.entries.values().filter(move |stored| self.is_live(&stored.entry, now, viewer))
    }

    /// Live entries and their bytes.
    pub(crate) fn usage(&self, now: Timestamp, viewer: Viewer) -> (u64, u64) {
        self.all_live(now, viewer)
            .fold((0, 0), |(entries, bytes), stored| (entries + 1, bytes + stored.entry.size_bytes()))
    }

    /// Counts a change of an entry.
    pub(crate) fn changed(&mut self) {
        let left_out = !self.first_is_over && self.faults.has(Fault::DriftFromZero);
        self.first_is_over = true;
        if !left_out {
            self.generation += 1;
            self.nonce = NONCES.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn token(&self) -> DriftToken {
        DriftToken::new(DATABASE, self.generation, self.nonce)
    }

    /// Compares a write with what its caller saw.
    fn compare(
        &self,
        check: &DriftCheck,
        expect: Expect,
        live: Option<u64>,
        now: Timestamp,
    ) -> std::result::Result<(), DriftReason> {
        if expect != Expect::Any && !self.faults.has(Fault::DriftWithExpect) {
            return Ok(());
        }
        if let DriftCheck::Row(Seen::Entry { version, .. }) = check
            && self.faults.has(Fault::DriftRowSeesScope)
            && *version != self.counter
        {
            return Err(DriftReason::Changed);
        }
        check.compare(self.token(), live, now)
    }

    pub(crate) fn count_access(&mut self, key: &Key) {
        if self.faults.has(Fault::DriftReadMoves) {
            self.changed();
        }
        if let Some(stored) = self.entries.get_mut(key) {
            stored.entry.access_count += 1;
        }
    }

    /// A version that no key of this scope has had.
    pub(crate) fn next_version(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Records that a key has this version.
    pub(crate) fn note_version(&mut self, key: &Key, version: u64) {
        self.counter = self.counter.max(version);
        self.highest.insert(key.clone(), version);
    }

    pub(crate) fn check_quota(&self, quota: Quota, now: Timestamp, key: &Key, size: u64) -> Result<()> {
        if quota.is_unlimited() {
            return Ok(());
        }
        let before = self.usage(now, Viewer::Quota);
        let after = match self.live(key, now, Viewer::Quota) {
            Some(stored) => (before.0, before.1 - stored.entry.size_bytes() + size),
            None => (before.0 + 1, before.1 + size),
        };
        if self.faults.has(Fault::QuotaBlocksShrinking) {
            return quota.check((0, 0), after);
        }
        quota.check(before, after)
    }

    /// Expired entries take room too.
    fn check_disk(&self, key: &Key, size: u64) -> Result<()> {
        let others = self.entries.iter().filter(|(other, _)| *other != key);
        let used: u64 = others.map(|(_, stored)| stored.entry.size_bytes()).sum();
        match self.disk_bytes {
            Some(bytes) if used + size > bytes => {
                Err(Error::new(ErrorKind::Unavailable, "the disk is full; free space and try again"))
            }
            _ => Ok(()),
        }
    }

    /// In a scope, all vectors of a model have one length.
    pub(crate) fn check_dimensions(&self, now: Timestamp, model: &EmbeddingModel) -> Result<()> {
        let stored = self.all_live(now, Viewer::Set).flat_map(|stored| &stored.vectors);
        let other = stored.map(|vector| &vector.model).find(|other| {
            other.dimensions != model.dimensions
                && other.provider == model.provider
                && other.model == model.model
        });
        match other {
            None => Ok(()),
            Some(other) => Err(Error::new(
                ErrorKind::DimensionMismatch,
                "the scope holds vectors of this model with another length, and nothing was written; configure the stored \
                 length, or convert the scope with `reembed`",
            )
            .with_detail("expected", other.dimensions)
            .with_detail("actual", model.dimensions)),
        }
    }

    /// Stores content under a key: the one place that assigns versions, times and counts.
    fn put(
        &mut self,
        now: Timestamp,
        key: &Key,
        content: Content,
        options: UpdateOptions,
        viewer: Viewer,
    ) -> Result<Written> {
        let Content { value, metadata, source, text } = content;
        let UpdateOptions { ttl, quota, .. } = options;
        let size = size_bytes(key, &value, &metadata, source.as_ref(), text.as_deref());
        self.check_quota(quota, now, key, size)?;
        self.check_disk(key, size)?;
        let live = self.live(key, now, viewer).map(|stored| &stored.entry);
        let created = live.is_none();
        let stale = self.entries.get(key).map(|stored| &stored.entry);
        let expiring = if self.faults.has(Fault::KeepRevivesExpiry) { stale } else { live };
        let expires_at = ttl.expiry(now, expiring.and_then(|entry| entry.expires_at))?;
        let ancestor = if self.faults.has(Fault::BirthSurvivesExpiry) { stale } else { live };
        let (mut created_at, mut access_count) =
            ancestor.map_or((now, 0), |entry| (entry.created_at, entry.access_count));
        let mut updated_at = now;
        if self.faults.has(Fault::CreatedAtMoves) {
            created_at = now;
        }
        if self.faults.has(Fault::UpdatedAtStays) {
            updated_at = live.map_or(now, |entry| entry.updated_at);
        }
        if self.faults.has(Fault::CountEndsWithWrite) {
            access_count = 0;
        }
        let old_version = live.map(|entry| entry.version);
        let vectors = match self.entries.get(key) {
            Some(stored) if self.faults.has(Fault::StaleVectorStays) => stored.vectors.clone(),
            _ => Vec::new(),
        };

        let version = match old_version {
            Some(version) if self.faults.has(Fault::VersionStays) => version,
            old if self.faults.has(Fault::VersionPerLife) => old.map_or(1, |version| version + 1),
            _ => self.next_version(),
        };
        self.note_version(key, version);
        let mut entry = Entry::new(key.clone(), value, version, now);
        entry.metadata = metadata;
        entry.source = source;
        entry.text = text;
        entry.created_at = created_at;
        entry.updated_at = updated_at;
        entry.access_count = access_count;
        entry.expires_at = expires_at;
        self.entries.insert(key.clone(), Stored { entry, vectors });
        self.changed();
        Ok(Written { version, created, expires_at })
    }

    pub(crate) fn set(
        &mut self,
        now: Timestamp,
        key: &Key,
        value: Json,
        options: &SetOptions,
    ) -> Result<SetOutcome> {
        self.set_within(now, key, value, options, None)
    }

    /// A set, in a call whose scope may have drifted.
    fn set_within(
        &mut self,
        now: Timestamp,
        key: &Key,
        value: Json,
        options: &SetOptions,
        scope: Option<DriftReason>,
    ) -> Result<SetOutcome> {
        let before = self.token();
        let live = self.live(key, now, Viewer::Set).map(|stored| &stored.entry);
        let version = live.map(|entry| entry.version);
        let already = live.filter(|entry| is_already(entry, &value, options, self.faults));
        let tell = |drift: &DriftCheck, after| drift.tells().then(|| DriftChange::new(before, after, None));
        if !holds(options.expect, live) {
            return match already {
                Some(entry) => {
                    let mut outcome = SetOutcome::new(entry.version, false, false, entry.expires_at);
                    outcome.drift = tell(&options.drift, before);
                    Ok(outcome)
                }
                None => Err(Error::conflict(version)),
            };
        }
        let found = match scope.filter(|_| options.expect == Expect::Any) {
            Some(reason) => Err(reason),
            None => self.compare(&options.drift, options.expect, version, now),
        };
        if let Err(reason) = found {
            if let Some(entry) = already.filter(|_| !self.faults.has(Fault::DriftStoredRefused)) {
                let mut outcome = SetOutcome::new(entry.version, false, false, entry.expires_at);
                outcome.drift = tell(&options.drift, before);
                return Ok(outcome);
            }
            if self.faults.has(Fault::DriftRefusalMoves) {
                self.changed();
            }
            return Err(reason.refusal(before));
        }
        let limits = UpdateOptions::default().with_ttl(options.ttl).with_quota(options.quota);
        let content = Content {
            value,
            metadata: options.metadata.clone(),
            source: options.source.clone(),
            text: options.text.clone(),
        };
        let written = self.put(now, key, content, limits, Viewer::Set)?;
        let mut outcome = SetOutcome::new(written.version, written.created, true, written.expires_at);
        outcome.drift = tell(&options.drift, self.token());
        Ok(outcome)
    }

    /// All items or none: they are applied to a copy, which then replaces the scope.
    pub(crate) fn bulk_insert(
        &mut self,
        now: Timestamp,
        items: &[NewEntry],
        options: BulkOptions,
    ) -> Result<Vec<SetOutcome>> {
        let quota = options.quota;
        let scope = options.drift.compare(self.token(), None, now).err();
        let mut copy = self.clone();
        let mut outcomes = Vec::with_capacity(items.len());
        for (index, NewEntry { key, value, options }) in items.iter().enumerate() {
            let options = SetOptions::clone(options).with_quota(Quota::default());
            let outcome = copy
                .set_within(now, key, value.clone(), &options, scope)
                .map_err(|error| self.token().restate_in(error).with_detail("index", index))?;
            outcomes.push(outcome);
        }
        let before = self.usage(now, Viewer::Quota);
        if self.faults.has(Fault::QuotaPerItem) {
            items.iter().try_for_each(|item| {
                let size = size_bytes(&item.key, &item.value, &item.options.metadata, None, None);
                quota.check(before, (before.0 + 1, before.1 + size))
            })?;
        } else {
            quota.check(before, copy.usage(now, Viewer::Quota))?;
        }
        *self = copy;
        Ok(outcomes)
    }

    pub(crate) fn delete(
        &mut self,
        now: Timestamp,
        key: &Key,
        options: DeleteOptions,
    ) -> Result<DeleteOutcome> {
        let (expect, before) = (options.expect, self.token());
        let outcome = |deleted, after| {
            let mut outcome = DeleteOutcome::new(deleted);
            outcome.drift = options.drift.tells().then(|| DriftChange::new(before, after, None));
            outcome
        };
        let live = self.live(key, now, Viewer::Delete).map(|stored| &stored.entry);
        match live {
            None => Ok(outcome(false, before)),
            Some(entry) if !holds(expect, live) => Err(Error::conflict(Some(entry.version))),
            Some(entry) => {
                self.compare(&options.drift, expect, Some(entry.version), now)
                    .map_err(|reason| reason.refusal(before))?;
                self.entries.remove(key);
                if !self.faults.has(Fault::DriftDeleteStays) {
                    self.changed();
                }
                Ok(outcome(true, self.token()))
            }
        }
    }

    pub(crate) fn increment(
        &mut self,
        now: Timestamp,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        let live = self.live(key, now, Viewer::Increment).map(|stored| &stored.entry);
        let before = match live {
            None => 0,
            Some(entry) => entry.value.as_i64_exact().ok_or_else(|| {
                Error::new(
                    ErrorKind::WrongType,
                    "the stored value is not a 64-bit integer; set one, or count under another key",
                )
            })?,
        };
        let value = before.checked_add(delta).ok_or_else(|| {
            Error::invalid("the sum does not fit 64 bits; nothing was changed, use a smaller delta")
        })?;
        let content = keep(live, Json::from(value));
        let before = self.token();
        let written = self.put(now, key, content, options, Viewer::Increment)?;
        let mut outcome = IncrementOutcome::new(value, written.version, written.expires_at);
        outcome.drift = options.drift.tells().then(|| DriftChange::new(before, self.token(), None));
        Ok(outcome)
    }

    pub(crate) fn update(
        &mut self,
        now: Timestamp,
        key: &Key,
        reducer: &Reducer,
        options: UpdateOptions,
        max_value_bytes: usize,
    ) -> Result<UpdateOutcome> {
        let live = self.live(key, now, Viewer::Update).map(|stored| &stored.entry);
        let reduced = reduce(live.map(|entry| &entry.value), reducer)?;
        if reduced.value.len_bytes() > max_value_bytes {
            return Err(Error::too_large("value", reduced.value.len_bytes(), max_value_bytes, "bytes"));
        }
        let content = keep(live, reduced.value.clone());
        let before = self.token();
        let written = self.put(now, key, content, options, Viewer::Update)?;
        let mut outcome = UpdateOutcome::new(reduced.value, written.version, written.expires_at);
        outcome.appended = reduced.appended;
        outcome.dropped = reduced.dropped;
        outcome.drift = options.drift.tells().then(|| DriftChange::new(before, self.token(), None));
        Ok(outcome)
    }
}

fn holds(expect: Expect, live: Option<&Entry>) -> bool {
    expect.holds(live.map(|entry| (entry.version, &entry.value)))
}

/// Whether a set matches what is stored, including the lifetime (VER-7).
fn is_already(entry: &Entry, value: &Json, options: &SetOptions, faults: Faults) -> bool {
    let same_lifetime = match options.ttl {
        Ttl::Keep => true,
        Ttl::Never => entry.expires_at.is_none(),
        Ttl::After(duration) => entry.expires_at == entry.updated_at.checked_add(duration),
    };
    let same_rest =
        entry.metadata == options.metadata && entry.source == options.source && entry.text == options.text;
    entry.value == *value
        && (same_lifetime || faults.has(Fault::RetryIgnoresLifetime))
        && (same_rest || faults.has(Fault::RetryLooksAtValueOnly))
}

/// A new value with the other parts of the live entry.
fn keep(live: Option<&Entry>, value: Json) -> Content {
    Content {
        value,
        metadata: live.map(|entry| entry.metadata.clone()).unwrap_or_default(),
        source: live.and_then(|entry| entry.source.clone()),
        text: live.and_then(|entry| entry.text.clone()),
    }
}
