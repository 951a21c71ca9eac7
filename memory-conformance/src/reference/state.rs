//! What one scope holds, and every rule of one write. No locks, no clock, no awaiting.

use std::collections::BTreeMap;

use memory_core::entry::size_bytes;
use memory_core::reduce::reduce;
use memory_core::{
    DeleteOutcome, Entry, Error, ErrorKind, Expect, IncrementOutcome, Json, Key, Metadata, NewEntry, Quota,
    RecordVector, Reducer, Result, SetOptions, SetOutcome, Source, Timestamp, Ttl, UpdateOptions,
    UpdateOutcome,
};

/// An entry with its vectors.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) entry: Entry,
    pub(crate) vectors: Vec<RecordVector>,
}

/// One scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScopeState {
    /// In byte order of the keys. Expired entries stay until they are written over.
    pub(crate) entries: BTreeMap<Key, Stored>,
    /// The greatest version ever given in this scope.
    pub(crate) counter: u64,
    /// The greatest version each key ever had.
    pub(crate) highest: BTreeMap<Key, u64>,
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
    /// The entry of a key, unless it has expired.
    pub(crate) fn live(&self, key: &Key, now: Timestamp) -> Option<&Stored> {
        self.entries.get(key).filter(|stored| !stored.entry.is_expired(now))
    }

    /// Live entries in key order.
    pub(crate) fn all_live(&self, now: Timestamp) -> impl Iterator<Item = &Stored> {
        self.entries.values().filter(move |stored| !stored.entry.is_expired(now))
    }

    /// Live entries and their bytes.
    pub(crate) fn usage(&self, now: Timestamp) -> (u64, u64) {
        self.all_live(now)
            .fold((0, 0), |(entries, bytes), stored| (entries + 1, bytes + stored.entry.size_bytes()))
    }

    pub(crate) fn count_access(&mut self, key: &Key) {
        if let Some(stored) = self.entries.get_mut(key) {
            stored.entry.access_count += 1;
        }
    }

    /// A version that no key of this scope ever had.
    pub(crate) fn next_version(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Notes that a key has this version.
    pub(crate) fn note_version(&mut self, key: &Key, version: u64) {
        self.counter = self.counter.max(version);
        self.highest.insert(key.clone(), version);
    }

    pub(crate) fn check_quota(&self, quota: Quota, now: Timestamp, key: &Key, size: u64) -> Result<()> {
        if quota.is_unlimited() {
            return Ok(());
        }
        let before = self.usage(now);
        let after = match self.live(key, now) {
            Some(stored) => (before.0, before.1 - stored.entry.size_bytes() + size),
            None => (before.0 + 1, before.1 + size),
        };
        quota.check(before, after)
    }

    /// Stores content under a key: the one place where versions, times and counts of a write are made.
    fn put(
        &mut self,
        now: Timestamp,
        key: &Key,
        content: Content,
        ttl: Ttl,
        quota: Quota,
    ) -> Result<Written> {
        let Content { value, metadata, source, text } = content;
        let size = size_bytes(key, &value, &metadata, source.as_ref(), text.as_deref());
        self.check_quota(quota, now, key, size)?;
        let live = self.live(key, now).map(|stored| &stored.entry);
        let created = live.is_none();
        let expires_at = ttl.expiry(now, live.and_then(|entry| entry.expires_at))?;
        let (created_at, access_count) =
            live.map_or((now, 0), |entry| (entry.created_at, entry.access_count));

        let version = self.next_version();
        self.note_version(key, version);
        let mut entry = Entry::new(key.clone(), value, version, now);
        entry.metadata = metadata;
        entry.source = source;
        entry.text = text;
        entry.created_at = created_at;
        entry.access_count = access_count;
        entry.expires_at = expires_at;
        self.entries.insert(key.clone(), Stored { entry, vectors: Vec::new() });
        Ok(Written { version, created, expires_at })
    }

    pub(crate) fn set(
        &mut self,
        now: Timestamp,
        key: &Key,
        value: Json,
        options: &SetOptions,
    ) -> Result<SetOutcome> {
        let live = self.live(key, now).map(|stored| &stored.entry);
        if !holds(options.expect, live) {
            return match live {
                Some(entry) if is_already(entry, &value, options) => {
                    Ok(SetOutcome::new(entry.version, false, false, entry.expires_at))
                }
                live => Err(Error::conflict(live.map(|entry| entry.version))),
            };
        }
        let content = Content {
            value,
            metadata: options.metadata.clone(),
            source: options.source.clone(),
            text: options.text.clone(),
        };
        let written = self.put(now, key, content, options.ttl, options.quota)?;
        Ok(SetOutcome::new(written.version, written.created, true, written.expires_at))
    }

    /// All items or none: they are applied to a copy, which replaces the scope at the end.
    pub(crate) fn bulk_insert(
        &mut self,
        now: Timestamp,
        items: &[NewEntry],
        quota: Quota,
    ) -> Result<Vec<SetOutcome>> {
        let mut copy = self.clone();
        let mut outcomes = Vec::with_capacity(items.len());
        for (index, NewEntry { key, value, options }) in items.iter().enumerate() {
            let options = SetOptions::clone(options).with_quota(Quota::default());
            let outcome = copy
                .set(now, key, value.clone(), &options)
                .map_err(|error| error.with_detail("index", index))?;
            outcomes.push(outcome);
        }
        quota.check(self.usage(now), copy.usage(now))?;
        *self = copy;
        Ok(outcomes)
    }

    pub(crate) fn delete(&mut self, now: Timestamp, key: &Key, expect: Expect) -> Result<DeleteOutcome> {
        let live = self.live(key, now).map(|stored| &stored.entry);
        match live {
            None => Ok(DeleteOutcome::new(false)),
            Some(entry) if !holds(expect, live) => Err(Error::conflict(Some(entry.version))),
            Some(_) => {
                self.entries.remove(key);
                Ok(DeleteOutcome::new(true))
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
        let live = self.live(key, now).map(|stored| &stored.entry);
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
        let written = self.put(now, key, content, options.ttl, options.quota)?;
        Ok(IncrementOutcome::new(value, written.version, written.expires_at))
    }

    pub(crate) fn update(
        &mut self,
        now: Timestamp,
        key: &Key,
        reducer: &Reducer,
        options: UpdateOptions,
        max_value_bytes: usize,
    ) -> Result<UpdateOutcome> {
        let live = self.live(key, now).map(|stored| &stored.entry);
        let reduced = reduce(live.map(|entry| &entry.value), reducer)?;
        if reduced.value.len_bytes() > max_value_bytes {
            return Err(Error::too_large("value", reduced.value.len_bytes(), max_value_bytes, "bytes"));
        }
        let content = keep(live, reduced.value.clone());
        let written = self.put(now, key, content, options.ttl, options.quota)?;
        let mut outcome = UpdateOutcome::new(reduced.value, written.version, written.expires_at);
        outcome.appended = reduced.appended;
        outcome.dropped = reduced.dropped;
        Ok(outcome)
    }
}

fn holds(expect: Expect, live: Option<&Entry>) -> bool {
    expect.holds(live.map(|entry| (entry.version, &entry.value)))
}

/// Whether what a set wants is what is stored, its lifetime included (VER-7).
fn is_already(entry: &Entry, value: &Json, options: &SetOptions) -> bool {
    let same_lifetime = match options.ttl {
        Ttl::Keep => true,
        Ttl::Never => entry.expires_at.is_none(),
        Ttl::After(duration) => entry.expires_at == entry.updated_at.checked_add(duration),
    };
    same_lifetime
        && entry.value == *value
        && entry.metadata == options.metadata
        && entry.source == options.source
        && entry.text == options.text
}

/// A new value with the rest of the live entry.
fn keep(live: Option<&Entry>, value: Json) -> Content {
    Content {
        value,
        metadata: live.map(|entry| entry.metadata.clone()).unwrap_or_default(),
        source: live.and_then(|entry| entry.source.clone()),
        text: live.and_then(|entry| entry.text.clone()),
    }
}
