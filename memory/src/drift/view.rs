//! A session's memory: a token per scope, and the last seen state of each entry, up to a number of entries.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use memory_core::{DriftChange, Seen};
use memory_core::{DriftState, DriftToken, Key, ScopeDigest};

/// The tracked state of one entry.
#[derive(Clone, Copy, Debug)]
struct Known {
    seen: Seen,
    /// The time of its last use; its place in the order.
    used: u64,
    /// When an own write taught it; 0 if a read did.
    written: u64,
}

/// A refusal whose causes have not been read yet.
#[derive(Debug)]
pub(super) struct Unresolved {
    /// The scope's token at the refusal.
    pub(super) actual: Option<DriftToken>,
    /// Entries still to be read. If empty, all changes were read before or are gone, and any read suffices.
    pub(super) pending: BTreeSet<Key>,
    /// Whether these are all that drifted, so that reading them resolves the whole scope.
    pub(super) complete: bool,
    /// The backup of the scope.
    pub(super) backup: Option<Kept>,
}

/// A backup of the scope.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) path: PathBuf,
    /// The drifted entries as saved.
    pub(super) drifted: BTreeMap<Key, Seen>,
}

/// The tracked state of one scope.
#[derive(Debug, Default)]
struct View {
    token: Option<DriftToken>,
    /// The scope's highest version at that token.
    version: u64,
    /// The highest version that may be older than the session: that of entries that existed when it began, or that it
    /// knew and has forgotten. Nobody can tell who wrote those.
    began: u64,
    keys: HashMap<Key, Known>,
    unresolved: Option<Unresolved>,
    /// The time of the last refused write.
    refused: u64,
}

/// Everything that a session tracks.
#[derive(Debug)]
pub(super) struct Views {
    scopes: HashMap<ScopeDigest, View>,
    /// Entries by last use.
    order: BTreeMap<u64, (ScopeDigest, Key)>,
    capacity: usize,
    tick: u64,
    forgotten: u64,
}

impl View {
    /// Call when everything required was read. Returns the backup of a fully resolved drift.
    fn settle(&mut self) -> Option<PathBuf> {
        let resolved = self.unresolved.take_if(|unresolved| unresolved.complete)?;
        self.token = resolved.actual.or(self.token);
        resolved.backup.map(|kept| kept.path)
    }
}

impl Views {
    pub(super) fn new(capacity: usize) -> Self {
        Self { scopes: HashMap::new(), order: BTreeMap::new(), capacity, tick: 0, forgotten: 0 }
    }

    /// A tick later than all before.
    pub(super) fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    pub(super) fn knows(&self, digest: &ScopeDigest) -> bool {
        self.scopes.get(digest).is_some_and(|view| view.token.is_some())
    }

    /// The scope's state when the session first uses it.
    pub(super) fn meet(&mut self, digest: ScopeDigest, state: DriftState) {
        let view = self.scopes.entry(digest).or_default();
        if view.token.is_none() {
            (view.token, view.version) = (Some(state.token), state.version);
            view.began = view.began.max(state.version);
        }
    }

    pub(super) fn token(&self, digest: &ScopeDigest) -> Option<DriftToken> {
        self.scopes.get(digest)?.token
    }

    pub(super) fn version(&self, digest: &ScopeDigest) -> u64 {
        self.scopes.get(digest).map_or(0, |view| view.version)
    }

    pub(super) fn began(&self, digest: &ScopeDigest) -> u64 {
        self.scopes.get(digest).map_or(0, |view| view.began)
    }

    pub(super) fn entries(&self, digest: &ScopeDigest) -> usize {
        self.scopes.get(digest).map_or(0, |view| view.keys.len())
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(super) fn is_unresolved(&self, digest: &ScopeDigest) -> bool {
        self.scopes.get(digest).is_some_and(|view| view.unresolved.is_some())
    }

    /// Whether a write was refused while the scope was at this token, and that has not been cleared.
    pub(super) fn is_refused_at(&self, digest: &ScopeDigest, actual: Option<DriftToken>) -> bool {
        let unresolved = self.scopes.get(digest).and_then(|view| view.unresolved.as_ref());
        unresolved.is_some_and(|unresolved| unresolved.actual == actual)
    }

    /// Where the scope was saved with these entries in their current drifted state.
    pub(super) fn saved(&self, digest: &ScopeDigest, drifted: &BTreeMap<Key, Seen>) -> Option<Kept> {
        let kept = self.scopes.get(digest)?.unresolved.as_ref()?.backup.as_ref()?;
        let same = drifted.iter().all(|(key, now)| kept.drifted.get(key) == Some(now));
        (same && !drifted.is_empty()).then(|| kept.clone())
    }

    /// The last seen state of an entry; counts as a use.
    pub(super) fn seen(&mut self, digest: &ScopeDigest, key: &Key) -> Option<Seen> {
        let tick = self.tick();
        let known = self.scopes.get_mut(digest)?.keys.get_mut(key)?;
        if let Some(place) = self.order.remove(&known.used) {
            self.order.insert(tick, place);
        }
        known.used = tick;
        Some(known.seen)
    }

    /// The tracked entries of a scope, most recently used first, at most `most`.
    pub(super) fn all(&self, digest: &ScopeDigest, most: usize) -> Vec<(Key, Seen)> {
        let Some(view) = self.scopes.get(digest) else { return Vec::new() };
        let mut all: Vec<_> = view.keys.iter().collect();
        all.sort_unstable_by_key(|(_, known)| std::cmp::Reverse(known.used));
        all.into_iter().take(most).map(|(key, known)| (key.clone(), known.seen)).collect()
    }

    /// Records the result of a read that began at `started`. Returns the backup of a drift that it resolves.
    pub(super) fn read(
        &mut self,
        digest: ScopeDigest,
        key: &Key,
        seen: Seen,
        started: u64,
    ) -> Option<PathBuf> {
        let view = self.scopes.entry(digest).or_default();
        if view.keys.get(key).is_some_and(|known| known.written > started) {
            // It may have seen the state before an own write that has finished since.
            return None;
        }
        // A read from before the refusal may have seen the state before the drift.
        let after = view.refused < started;
        self.put(digest, key, seen, 0);
        if after { self.resolve(&digest, key) } else { None }
    }

    /// Records that a read that began at `started` was answered, whatever it found. Returns what [`read`](Self::read)
    /// does.
    pub(super) fn looked(&mut self, digest: &ScopeDigest, started: u64) -> Option<PathBuf> {
        let view = self.scopes.get_mut(digest)?;
        let unresolved = view.unresolved.as_ref()?;
        (unresolved.pending.is_empty() && view.refused < started).then(|| view.settle()).flatten()
    }

    /// Records an own write. Returns what [`read`](Self::read) does.
    pub(super) fn wrote(
        &mut self,
        digest: ScopeDigest,
        key: &Key,
        seen: Seen,
        change: Option<DriftChange>,
    ) -> Option<PathBuf> {
        let tick = self.tick();
        self.put(digest, key, seen, tick);
        if let Some(change) = change {
            self.advance(digest, change);
        }
        self.resolve(&digest, key)
    }

    /// An entry's current state has become known.
    fn resolve(&mut self, digest: &ScopeDigest, key: &Key) -> Option<PathBuf> {
        let view = self.scopes.get_mut(digest)?;
        let unresolved = view.unresolved.as_mut()?;
        let was_last = unresolved.pending.remove(key) && unresolved.pending.is_empty();
        was_last.then(|| view.settle()).flatten()
    }

    /// Records that an own write changed the scope's token. If it did not start from the token last seen, a foreign
    /// change came in between and must still be detected.
    pub(super) fn advance(&mut self, digest: ScopeDigest, change: DriftChange) {
        let view = self.scopes.entry(digest).or_default();
        if view.token == Some(change.before) {
            view.token = Some(change.after);
        }
        if let Some(unresolved) = &mut view.unresolved
            && unresolved.actual == Some(change.before)
        {
            unresolved.actual = Some(change.after);
        }
    }

    fn put(&mut self, digest: ScopeDigest, key: &Key, seen: Seen, written: u64) {
        let used = self.tick();
        let view = self.scopes.entry(digest).or_default();
        if let Some(before) = view.keys.insert(key.clone(), Known { seen, used, written }) {
            self.order.remove(&before.used);
        }
        self.order.insert(used, (digest, key.clone()));
        while self.order.len() > self.capacity {
            let Some((_, (digest, key))) = self.order.pop_first() else { break };
            if let Some(view) = self.scopes.get_mut(&digest)
                && let Some(Known { seen: Seen::Entry { version, .. }, .. }) = view.keys.remove(&key)
            {
                view.began = view.began.max(version);
            }
            if self.forgotten == 0 {
                tracing::warn!(
                    entries = self.capacity,
                    "a drift session is full: its least recently used entries are no longer guarded"
                );
            }
            self.forgotten += 1;
        }
    }

    /// Records a refused write. Unread causes of an earlier refusal stay pending unless this one names `all`. Returns
    /// the backup of the earlier refusal if this one supersedes it.
    pub(super) fn refused(
        &mut self,
        digest: ScopeDigest,
        unresolved: Unresolved,
        all: bool,
    ) -> Option<PathBuf> {
        let tick = self.tick();
        let view = self.scopes.entry(digest).or_default();
        view.refused = tick;
        let before = view.unresolved.replace(unresolved);
        let now = view.unresolved.as_mut()?;
        let before = before?;
        if !all {
            now.pending.extend(before.pending);
        }
        let path = before.backup?.path;
        (now.backup.as_ref().map(|kept| &kept.path) != Some(&path)).then_some(path)
    }

    /// Records that the scope was acknowledged in this state, with its current entries. Returns the backup of the
    /// drift.
    pub(super) fn acknowledged(
        &mut self,
        digest: ScopeDigest,
        state: DriftState,
        entries: Vec<(Key, Seen)>,
    ) -> Option<PathBuf> {
        for (key, seen) in entries {
            self.put(digest, &key, seen, 0);
        }
        let view = self.scopes.entry(digest).or_default();
        (view.token, view.version) = (Some(state.token), state.version);
        view.began = view.began.max(state.version);
        view.unresolved.take()?.backup.map(|kept| kept.path)
    }

    /// Forgets what was seen of a scope.
    pub(super) fn forget(&mut self, digest: &ScopeDigest) {
        let Some(view) = self.scopes.remove(digest) else { return };
        for known in view.keys.values() {
            self.order.remove(&known.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::Scope;

    fn entry(version: u64) -> Seen {
        Seen::Entry { version, expires_at: None, digest: None }
    }

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    #[test]
    fn the_least_recently_used_entry_is_forgotten_and_counted() {
        let digest = Scope::agent("t", "a").unwrap().digest();
        let mut views = Views::new(2);
        views.read(digest, &key("a"), entry(1), 1);
        views.read(digest, &key("b"), entry(2), 1);
        assert_eq!(views.seen(&digest, &key("a")), Some(entry(1)));
        views.read(digest, &key("c"), entry(3), 1);
        assert_eq!(views.seen(&digest, &key("b")), None);
        assert_eq!(views.seen(&digest, &key("a")), Some(entry(1)));
        assert_eq!((views.entries(&digest), views.forgotten(), views.order.len()), (2, 1, 2));
        views.forget(&digest);
        assert_eq!((views.entries(&digest), views.order.len()), (0, 0));
    }

    #[test]
    fn a_read_that_began_before_an_own_write_does_not_take_it_back() {
        let digest = Scope::agent("t", "a").unwrap().digest();
        let mut views = Views::new(10);
        let started = views.tick();
        views.wrote(digest, &key("a"), entry(2), None);
        views.read(digest, &key("a"), entry(1), started);
        assert_eq!(views.seen(&digest, &key("a")), Some(entry(2)));
        let later = views.tick();
        views.read(digest, &key("a"), entry(3), later);
        assert_eq!(views.seen(&digest, &key("a")), Some(entry(3)));
    }
}
