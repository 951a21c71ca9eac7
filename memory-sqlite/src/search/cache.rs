//! Text indexes of recently searched scopes, kept in step with the database.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memory_core::json::Json;
use memory_core::lexical::LexicalIndex;
use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::{Key, Result, ScopeDigest, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::malformed;
use crate::row::{self, Unreadable};

/// Changes of a scope that are held for its next search, at most; with more, the search looks for them itself.
const FEED_CHANGES: usize = 10_000;
const FEED_BYTES: usize = 4 << 20;
/// Documents read between two looks at the memory taken.
const MEASURE_EVERY: usize = 4_096;

/// A committed write.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) space: i64,
    /// The scope's count of changes with this one.
    pub(crate) number: i64,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Put {
        key: Key,
        version: u64,
        value: Json,
        text: Option<String>,
        expires_at: Option<Timestamp>,
    },
    Removed {
        key: Key,
    },
    /// Entries got their vectors; all texts are as they were.
    Embedded,
}

impl Change {
    fn bytes(&self) -> usize {
        let what = match &self.what {
            What::Put { key, value, text, .. } => {
                key.as_str().len() + value.len_bytes() + text.as_ref().map_or(0, String::len)
            }
            What::Removed { key } => key.as_str().len(),
            What::Embedded => 0,
        };
        size_of::<Self>() + what
    }
}

#[derive(Debug, Default)]
struct Feed {
    changes: VecDeque<Change>,
    bytes: usize,
}

/// One scope's index.
#[derive(Debug)]
pub(crate) struct Cached {
    feed: Mutex<Feed>,
    index: Mutex<ScopeIndex>,
    bytes: AtomicUsize,
}

impl Cached {
    /// The index, for one search at a time.
    pub(crate) fn index(&self) -> MutexGuard<'_, ScopeIndex> {
        lock(&self.index)
    }
}

#[derive(Debug, Default)]
struct Scopes {
    /// With the time of their last use, in searches.
    cached: HashMap<ScopeDigest, (u64, Arc<Cached>)>,
    /// Scopes whose index did not fit, and their bytes then.
    oversized: HashMap<ScopeDigest, u64>,
    searches: u64,
}

/// The indexes of one provider.
#[derive(Debug)]
pub(crate) struct IndexCache {
    scopes: Mutex<Scopes>,
    count: AtomicUsize,
    budget: usize,
    /// Held from a commit until its changes are fed: who has passed it knows of every own commit that a snapshot
    /// taken before shows.
    barrier: Mutex<()>,
}

impl IndexCache {
    pub(crate) fn new(budget: usize) -> Self {
        Self { scopes: Mutex::default(), count: AtomicUsize::new(0), budget, barrier: Mutex::new(()) }
    }

    /// Whether a scope's changes are wanted.
    pub(crate) fn watches(&self, digest: &ScopeDigest) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && lock(&self.scopes).cached.contains_key(digest)
    }

    pub(crate) fn barrier(&self) -> MutexGuard<'_, ()> {
        lock(&self.barrier)
    }

    /// Hands over a committed change, in the order of commits.
    pub(crate) fn feed(&self, digest: &ScopeDigest, change: Change) {
        let Some(cached) = lock(&self.scopes).cached.get(digest).map(|(_, cached)| Arc::clone(cached)) else {
            return;
        };
        let mut feed = lock(&cached.feed);
        feed.bytes += change.bytes();
        feed.changes.push_back(change);
        // The gap that this leaves is noticed by its number.
        while feed.changes.len() > FEED_CHANGES || feed.bytes > FEED_BYTES {
            let Some(dropped) = feed.changes.pop_front() else { break };
            feed.bytes -= dropped.bytes();
        }
    }

    /// The cached index of a scope, empty at first; `None`: a scope of so many bytes did not fit.
    pub(crate) fn open(&self, digest: &ScopeDigest, scope_bytes: u64) -> Option<Arc<Cached>> {
        let mut scopes = lock(&self.scopes);
        if let Some(then) = scopes.oversized.get(digest) {
            if scope_bytes >= then / 4 * 3 {
                return None;
            }
            scopes.oversized.remove(digest);
        }
        scopes.searches += 1;
        let now = scopes.searches;
        let (used, cached) = scopes.cached.entry(*digest).or_insert_with(|| {
            let index = Mutex::new(ScopeIndex::default());
            (now, Arc::new(Cached { feed: Mutex::default(), index, bytes: AtomicUsize::new(0) }))
        });
        *used = now;
        let cached = Arc::clone(cached);
        self.count.store(scopes.cached.len(), Ordering::Relaxed);
        Some(cached)
    }

    /// Brings an index up to the snapshot that `connection` has open, in which the scope is `state`.
    ///
    /// Returns false where the index does not fit the budget; it is given up then.
    pub(crate) fn catch_up(
        &self,
        digest: &ScopeDigest,
        cached: &Cached,
        index: &mut ScopeIndex,
        connection: &Connection,
        state: ScopeState,
        now: Timestamp,
    ) -> Result<bool, Unreadable> {
        drop(self.barrier());
        // A clock that was set back brings expired entries to life again.
        if index.space != state.space || now.as_millis() < index.expired_at {
            *index = ScopeIndex { space: state.space, ..ScopeIndex::default() };
        }
        let changes = cached.feed_until(state);
        if !index.apply(changes, state) {
            // Another process wrote, or too much happened since.
            if !index.compare(connection, state, self.budget)? {
                self.give_up(digest, state.bytes);
                return Ok(false);
            }
        }
        index.expire(now);
        if index.measured == index.changes {
            return Ok(true);
        }
        index.measured = index.changes;
        index.tidy();
        cached.bytes.store(index.heap_bytes(), Ordering::Relaxed);
        Ok(self.make_room(digest, state.bytes))
    }

    /// Forgets an index, as one that turned out wrong.
    pub(crate) fn forget(&self, digest: &ScopeDigest) {
        let mut scopes = lock(&self.scopes);
        scopes.cached.remove(digest);
        self.count.store(scopes.cached.len(), Ordering::Relaxed);
    }

    fn give_up(&self, digest: &ScopeDigest, scope_bytes: u64) {
        self.forget(digest);
        let mut scopes = lock(&self.scopes);
        if scopes.oversized.len() >= 10_000 {
            scopes.oversized.clear();
        }
        scopes.oversized.insert(*digest, scope_bytes);
    }

    /// Forgets the indexes not used for longest until the rest fits; false where this one alone does not.
    fn make_room(&self, digest: &ScopeDigest, scope_bytes: u64) -> bool {
        let mut scopes = lock(&self.scopes);
        let bytes = |cached: &Arc<Cached>| cached.bytes.load(Ordering::Relaxed);
        let mut total: usize = scopes.cached.values().map(|(_, cached)| bytes(cached)).sum();
        while total > self.budget {
            let oldest = scopes.cached.iter().min_by_key(|(_, (used, _))| *used).map(|(oldest, _)| *oldest);
            let Some(oldest) = oldest.filter(|oldest| oldest != digest) else { break };
            if let Some((_, evicted)) = scopes.cached.remove(&oldest) {
                total -= bytes(&evicted);
            }
        }
        self.count.store(scopes.cached.len(), Ordering::Relaxed);
        drop(scopes);
        if total > self.budget {
            self.give_up(digest, scope_bytes);
        }
        total <= self.budget
    }
}

impl Cached {
    /// Takes the changes up to a snapshot.
    fn feed_until(&self, state: ScopeState) -> Vec<Change> {
        let mut feed = lock(&self.feed);
        let mut changes = Vec::new();
        while let Some(next) = feed.changes.front() {
            if next.space == state.space && next.number > state.changes {
                break;
            }
            let Some(change) = feed.changes.pop_front() else { break };
            feed.bytes -= change.bytes();
            changes.push(change);
        }
        changes
    }
}

/// What a snapshot says of a scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeState {
    pub(crate) space: i64,
    pub(crate) changes: i64,
    /// Rows, expired ones included.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// Vectors of all models, those of expired rows included.
    pub(crate) vectors: u64,
}

impl ScopeState {
    pub(crate) fn read(connection: &Connection, digest: &ScopeDigest) -> Result<Option<Self>, Unreadable> {
        let found = connection
            .prepare_cached("SELECT space, changes, entries, bytes, vectors FROM scope WHERE digest = ?1")?
            .query_row([digest.as_bytes()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })
            .optional()?;
        let Some((space, changes, entries, bytes, vectors)) = found else { return Ok(None) };
        Ok(Some(Self {
            space,
            changes,
            entries: row::unsigned(entries, "counter")?,
            bytes: row::unsigned(bytes, "counter")?,
            vectors: row::unsigned(vectors, "counter")?,
        }))
    }
}

/// The documents of one scope, as of its change number `changes`.
#[derive(Debug, Default)]
pub(crate) struct ScopeIndex {
    space: i64,
    changes: i64,
    /// False until the first comparison with the database.
    complete: bool,
    /// When documents last expired, by the caller's clock.
    expired_at: i64,
    /// The change at which the memory taken was last looked at.
    measured: i64,
    pub(crate) documents: LexicalIndex<Arc<str>>,
    /// The version of each document that is indexed.
    versions: HashMap<Arc<str>, u64>,
    key_bytes: usize,
}

impl ScopeIndex {
    /// The version that is indexed of a key.
    pub(crate) fn version(&self, key: &str) -> Option<u64> {
        self.versions.get(key).copied()
    }

    /// Applies own changes; false where some are missing.
    fn apply(&mut self, changes: Vec<Change>, state: ScopeState) -> bool {
        if !self.complete {
            return false;
        }
        for change in changes {
            if change.space != self.space || change.number <= self.changes {
                continue;
            }
            if change.number != self.changes + 1 {
                return false;
            }
            match change.what {
                What::Put { key, version, value, text, expires_at } => {
                    let text = text.map_or_else(|| value.search_text(MAX_TEXT_BYTES).into(), Cow::Owned);
                    self.insert(key.as_str().into(), version, &text, expires_at.map(Timestamp::as_millis));
                }
                What::Removed { key } => self.remove(key.as_str()),
                What::Embedded => {}
            }
            self.changes = change.number;
        }
        self.changes == state.changes
    }

    /// Finds what differs from the database by key and version, and reads that. Returns false where memory ends.
    fn compare(
        &mut self,
        connection: &Connection,
        state: ScopeState,
        budget: usize,
    ) -> Result<bool, Unreadable> {
        self.complete = false;
        // Expired ones too: the index itself knows when their time has come.
        let mut listing =
            connection.prepare_cached("SELECT key, version, expires_at FROM entry WHERE space = ?1")?;
        let mut content = connection.prepare_cached(
            "SELECT coalesce(e.text, b.text), coalesce(e.value, b.value) \
             FROM entry e LEFT JOIN body b ON b.id = e.body WHERE e.space = ?1 AND e.key = ?2",
        )?;
        let mut seen = 0_usize;
        let mut unseen: HashMap<Arc<str>, u64> = std::mem::take(&mut self.versions);
        let mut rows = listing.query(params![state.space])?;
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_str().map_err(|_| malformed("key"))?;
            let version = row::unsigned(row.get(1)?, "version")?;
            let expires_at: Option<i64> = row.get(2)?;
            if let Some((same, _)) = unseen.remove_entry(key).filter(|(_, indexed)| *indexed == version) {
                self.versions.insert(same, version);
            } else {
                let mut found = content.query(params![state.space, key])?;
                let row = found.next()?.ok_or_else(|| malformed("entry"))?;
                let text = search_text(
                    row.get_ref(0)?.as_str_or_null().map_err(|_| malformed("text"))?,
                    row.get_ref(1)?.as_str().map_err(|_| malformed("value"))?,
                )?;
                self.key_bytes += key.len();
                self.insert(key.into(), version, &text, expires_at);
            }
            seen += 1;
            if seen.is_multiple_of(MEASURE_EVERY) && self.heap_bytes() > budget {
                return Ok(false);
            }
        }
        for key in unseen.into_keys() {
            self.documents.remove(&key);
            self.key_bytes = self.key_bytes.saturating_sub(key.len());
        }
        self.changes = state.changes;
        self.complete = true;
        Ok(true)
    }

    fn insert(&mut self, key: Arc<str>, version: u64, text: &str, expires_at: Option<i64>) {
        if self.versions.insert(Arc::clone(&key), version).is_none() {
            self.key_bytes += key.len();
        }
        self.documents.insert(key, text, expires_at);
    }

    fn expire(&mut self, now: Timestamp) {
        if self.documents.expire(now.as_millis()) > 0 {
            self.expired_at = now.as_millis();
        }
    }

    fn remove(&mut self, key: &str) {
        if self.versions.remove(key).is_some() {
            self.key_bytes = self.key_bytes.saturating_sub(key.len());
        }
        self.documents.remove(key);
    }

    /// Forgets the versions of documents that expired, once they are many.
    fn tidy(&mut self) {
        if self.versions.len() > 2 * self.documents.len() + 1_024 {
            self.versions.retain(|key, _| self.documents.contains(key));
            self.versions.shrink_to_fit();
            self.key_bytes = self.versions.keys().map(|key| key.len()).sum();
        }
    }

    fn heap_bytes(&self) -> usize {
        // The table of versions, and the keys with their two counters.
        self.documents.heap_bytes()
            + self.versions.capacity() * 8 / 7 * 25
            + self.key_bytes
            + 16 * self.versions.len()
    }
}

/// The text that search indexes of a stored entry.
pub(crate) fn search_text<'a>(text: Option<&'a str>, value: &str) -> Result<Cow<'a, str>> {
    match text {
        Some(text) => Ok(text.into()),
        None => Ok(Json::parse(value).map_err(|_| malformed("value"))?.search_text(MAX_TEXT_BYTES).into()),
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
