//! A backend as a session uses it: reads teach the session, writes carry what it saw.

use std::collections::BTreeSet;

use async_trait::async_trait;
use memory_core::{
    Backend, BulkOptions, DeleteOptions, DeleteOutcome, DriftCheck, DriftPolicy, DriftState, DriftToken,
    DropOutcome, Entry, Error, ErrorKind, Expect, GetOptions, ImportOptions, ImportOutcome, IncrementOutcome,
    Json, Key, ListQuery, NewEntry, Page, RecordStream, Reducer, ReembedOptions, ReembedOutcome, Result,
    Scope, ScopeDigest, ScopePage, ScopeStats, ScopesQuery, SearchQuery, SearchResults, SetOptions,
    SetOutcome, TenantId, Timestamp, UpdateOptions, UpdateOutcome,
};
use memory_core::{DriftChange, Seen};

use super::key_locks::KeyGuard;
use super::session::DriftSession;

/// Keys per request.
pub(super) const CHUNK: usize = 256;
/// How often `ack` tries while others write to the scope.
const LOOKS: usize = 8;

/// A backend as used by one session.
///
/// With the policy `off` it is simply the backend. `drop_scope` and `import_scope` are not guarded: the session then
/// forgets the scope.
#[derive(Clone, Copy, Debug)]
pub struct Guarded<'a> {
    pub(super) session: &'a DriftSession,
    pub(super) backend: &'a dyn Backend,
}

impl DriftSession {
    /// The backend as used by this session. The backend must serve the session's policy.
    #[must_use]
    pub fn guard<'a>(&'a self, backend: &'a dyn Backend) -> Guarded<'a> {
        Guarded { session: self, backend }
    }
}

impl<'a> Guarded<'a> {
    fn is_off(&self) -> bool {
        self.session.policy == DriftPolicy::Off
    }

    /// Makes the scope's current state the session's starting point, unless it already has one; the session's first
    /// call about a scope does the same. An entry that the session has not read is then protected if somebody else
    /// writes it later.
    ///
    /// # Errors
    /// If the scope's token cannot be read.
    pub async fn meet(&self, scope: &Scope) -> Result<()> {
        if self.is_off() {
            return Ok(());
        }
        self.begin(scope, scope.digest()).await.map(drop)
    }

    /// Learns the scope's token before anything is read, so that later changes are noticed. Returns when the call
    /// began.
    async fn begin(&self, scope: &Scope, digest: ScopeDigest) -> Result<u64> {
        if !self.session.views().knows(&digest) {
            let state = self.backend.drift_state(scope).await?;
            self.session.views().meet(digest, state);
        }
        Ok(self.session.views().tick())
    }

    /// Starts a read of the scope that teaches nothing by itself: read from [`backend`](Self::backend), and pass the
    /// entries shown to the agent to [`Reading::showed`]. For answers that may be cut short.
    ///
    /// # Errors
    /// If the scope's token cannot be read.
    pub async fn reading(&self, scope: &Scope) -> Result<Reading<'a>> {
        let started = match self.is_off() {
            true => None,
            false => {
                let digest = scope.digest();
                Some((digest, self.begin(scope, digest).await?))
            }
        };
        Ok(Reading { guarded: *self, started })
    }

    /// The backend itself; reading from it teaches the session nothing.
    #[must_use]
    pub fn backend(&self) -> &'a dyn Backend {
        self.backend
    }

    /// Whether the session has seen a different version of this entry (`None`: absent).
    pub(crate) fn saw_another(&self, scope: &Scope, key: &Key, entry: Option<&Entry>) -> bool {
        match self.session.views().seen(&scope.digest(), key) {
            None | Some(Seen::Unread(_)) => false,
            Some(Seen::Absent) => entry.is_some(),
            Some(Seen::Entry { version, .. }) => entry.map(|entry| entry.version) != Some(version),
        }
    }

    /// Runs a conversation's write to the scope. It is never refused, and its changes count as the session's own.
    /// `changes` extracts the changes of the scope's token from the result.
    pub(crate) async fn conversing<T>(
        &self,
        scope: &Scope,
        write: impl Future<Output = Result<T>>,
        changes: impl FnOnce(&T) -> &[DriftChange],
    ) -> Result<T> {
        // `row` compares single entries, and those of a conversation are written in no other way.
        if self.session.policy != DriftPolicy::Strict {
            return write.await;
        }
        let digest = scope.digest();
        let _lock = self.lock(digest, &[]).await;
        self.begin(scope, digest).await?;
        let written = write.await?;
        let mut views = self.session.views();
        changes(&written).iter().for_each(|change| views.advance(digest, *change));
        Ok(written)
    }

    fn clear(&self, cleared: impl IntoIterator<Item = std::path::PathBuf>) {
        let Some(backups) = &self.session.backups else { return };
        cleared.into_iter().for_each(|path| backups.resolve(&path));
    }

    /// Waits for the session's own writes of the same keys.
    async fn lock(&self, digest: ScopeDigest, keys: &[Key]) -> KeyGuard<'a> {
        let places = match self.session.policy {
            DriftPolicy::Strict => vec![(digest, None)],
            _ => keys.iter().map(|key| (digest, Some(key.clone()))).collect(),
        };
        self.session.locks.lock(places).await
    }

    /// Adopts an acknowledgement from another process after a refused write.
    async fn look_for_ack(&self, scope: &Scope, digest: ScopeDigest) -> Result<()> {
        if !self.session.views().is_unresolved(&digest) {
            return Ok(());
        }
        let Some(token) = self.session.backups.as_ref().and_then(|backups| backups.acknowledged(&digest))
        else {
            return Ok(());
        };
        match self.ack(scope, token).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            done => done,
        }
    }

    fn check(&self, digest: &ScopeDigest, key: &Key, expect: Expect) -> DriftCheck {
        if expect != Expect::Any {
            return DriftCheck::Observe;
        }
        let mut views = self.session.views();
        let seen = views.seen(digest, key);
        match (self.session.policy, seen, views.token(digest)) {
            (DriftPolicy::Row, seen, _) => {
                DriftCheck::Row(seen.unwrap_or_else(|| Seen::Unread(views.began(digest))))
            }
            (DriftPolicy::Strict, seen, Some(token)) => DriftCheck::Strict(token, seen),
            _ => DriftCheck::Observe,
        }
    }

    fn wrote(&self, digest: ScopeDigest, key: &Key, seen: Seen, change: Option<DriftChange>) {
        let cleared = self.session.views().wrote(digest, key, seen, change);
        self.clear(cleared);
    }

    /// Accepts the scope as it is, with every entry that the session tracks.
    ///
    /// # Errors
    /// `conflict` if the scope's token is not `token`: check its contents again. Errors of reading.
    pub async fn ack(&self, scope: &Scope, token: DriftToken) -> Result<()> {
        let digest = scope.digest();
        for _ in 0..LOOKS {
            let state = self.backend.drift_state(scope).await?;
            if state.token != token {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    "the scope has changed since that token; read it again and acknowledge its current token",
                )
                .with_detail("actual", state.token.to_string()));
            }
            let known: Vec<Key> = {
                let views = self.session.views();
                views.all(&digest, usize::MAX).into_iter().map(|(key, _)| key).collect()
            };
            let mut entries = Vec::with_capacity(known.len());
            for keys in known.chunks(CHUNK) {
                let found = self.backend.get_many(scope, keys, GetOptions::uncounted()).await?;
                entries.extend(keys.iter().cloned().zip(found.iter().map(|entry| Seen::of(entry.as_ref()))));
            }
            if self.backend.drift_state(scope).await? == state {
                let cleared = self.session.views().acknowledged(digest, state, entries);
                self.clear(cleared);
                return Ok(());
            }
        }
        Err(Error::unavailable("the scope kept changing while it was read; acknowledge it later"))
    }
}

/// A write of one key; the session's other writes of it wait meanwhile.
struct Writing<'a> {
    guarded: Guarded<'a>,
    scope: &'a Scope,
    digest: ScopeDigest,
    key: &'a Key,
    _lock: KeyGuard<'a>,
}

impl Guarded<'_> {
    async fn writing<'w>(&'w self, scope: &'w Scope, key: &'w Key) -> Result<Writing<'w>> {
        let digest = scope.digest();
        let lock = self.lock(digest, std::slice::from_ref(key)).await;
        self.begin(scope, digest).await?;
        Ok(Writing { guarded: *self, scope, digest, key, _lock: lock })
    }
}

impl Writing<'_> {
    /// What the backend has to compare.
    async fn check(&self, expect: Expect) -> Result<DriftCheck> {
        self.guarded.look_for_ack(self.scope, self.digest).await?;
        Ok(self.guarded.check(&self.digest, self.key, expect))
    }

    /// Learns the new state from the outcome, or explains the refusal.
    async fn ended<T>(
        self,
        done: Result<T>,
        learned: impl FnOnce(&T) -> (Seen, Option<DriftChange>),
    ) -> Result<T> {
        match done {
            Ok(outcome) => {
                let (seen, change) = learned(&outcome);
                self.guarded.wrote(self.digest, self.key, seen, change);
                Ok(outcome)
            }
            Err(error) => {
                let keys = std::slice::from_ref(self.key);
                Err(self.guarded.refused(self.scope, self.digest, keys, error).await)
            }
        }
    }
}

/// A read of a scope in progress. If dropped, it has shown nothing.
#[derive(Debug)]
pub struct Reading<'a> {
    guarded: Guarded<'a>,
    /// `None` if the policy is `off`.
    started: Option<(ScopeDigest, u64)>,
}

impl Reading<'_> {
    /// Marks these entries as shown in full, and so as seen (`None`: absent).
    pub fn showed<'e>(self, entries: impl IntoIterator<Item = (&'e Key, Option<&'e Entry>)>) {
        let Some((digest, started)) = self.started else { return };
        let mut cleared = BTreeSet::new();
        {
            let mut views = self.guarded.session.views();
            for (key, entry) in entries {
                cleared.extend(views.read(digest, key, Seen::of(entry), started));
            }
            cleared.extend(views.looked(&digest, started));
        }
        self.guarded.clear(cleared);
    }
}

/// What is stored now, according to an outcome.
fn stored(version: u64, expires_at: Option<Timestamp>, change: Option<DriftChange>) -> Seen {
    Seen::Entry { version, expires_at, digest: change.and_then(|change| change.digest) }
}

#[async_trait]
impl Backend for Guarded<'_> {
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
        let reading = self.reading(scope).await?;
        let entry = self.backend.get(scope, key, options).await?;
        reading.showed([(key, entry.as_ref())]);
        Ok(entry)
    }

    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
        let reading = self.reading(scope).await?;
        let entries = self.backend.get_many(scope, keys, options).await?;
        reading.showed(keys.iter().zip(entries.iter().map(Option::as_ref)));
        Ok(entries)
    }

    async fn set(
        &self,
        scope: &Scope,
        key: &Key,
        value: Json,
        mut options: SetOptions,
    ) -> Result<SetOutcome> {
        if self.is_off() {
            return self.backend.set(scope, key, value, options).await;
        }
        let writing = self.writing(scope, key).await?;
        options.drift = writing.check(options.expect).await?;
        let done = self.backend.set(scope, key, value, options).await;
        writing.ended(done, |done| (stored(done.version, done.expires_at, done.drift), done.drift)).await
    }

    async fn delete(&self, scope: &Scope, key: &Key, mut options: DeleteOptions) -> Result<DeleteOutcome> {
        if self.is_off() {
            return self.backend.delete(scope, key, options).await;
        }
        let writing = self.writing(scope, key).await?;
        options.drift = writing.check(options.expect).await?;
        let done = self.backend.delete(scope, key, options).await;
        writing.ended(done, |done| (Seen::Absent, done.drift)).await
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        let reading = self.reading(scope).await?;
        let page = self.backend.list(scope, query).await?;
        reading.showed(page.entries.iter().map(|entry| (&entry.key, Some(entry))));
        Ok(page)
    }

    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        if self.is_off() {
            return self.backend.increment(scope, key, delta, options).await;
        }
        let writing = self.writing(scope, key).await?;
        let options = options.with_drift(DriftCheck::Observe);
        let done = self.backend.increment(scope, key, delta, options).await;
        writing.ended(done, |done| (stored(done.version, done.expires_at, done.drift), done.drift)).await
    }

    async fn update(
        &self,
        scope: &Scope,
        key: &Key,
        reducer: Reducer,
        options: UpdateOptions,
    ) -> Result<UpdateOutcome> {
        if self.is_off() {
            return self.backend.update(scope, key, reducer, options).await;
        }
        let writing = self.writing(scope, key).await?;
        let options = options.with_drift(DriftCheck::Observe);
        let done = self.backend.update(scope, key, reducer, options).await;
        writing.ended(done, |done| (stored(done.version, done.expires_at, done.drift), done.drift)).await
    }

    async fn bulk_insert(
        &self,
        scope: &Scope,
        mut items: Vec<NewEntry>,
        mut options: BulkOptions,
    ) -> Result<Vec<SetOutcome>> {
        if self.is_off() || items.is_empty() {
            return self.backend.bulk_insert(scope, items, options).await;
        }
        let digest = scope.digest();
        let keys: Vec<Key> = items.iter().map(|item| item.key.clone()).collect();
        let _lock = self.lock(digest, &keys).await;
        self.begin(scope, digest).await?;
        self.look_for_ack(scope, digest).await?;
        if let (DriftPolicy::Strict, Some(token)) = (self.session.policy, self.session.views().token(&digest))
        {
            options.drift = DriftCheck::Strict(token, None);
        }
        let mut named = BTreeSet::new();
        for item in &mut items {
            // A later item with the same key sees the earlier one, which is this session's own write.
            item.options.drift = if named.insert(item.key.clone()) {
                match self.check(&digest, &item.key, item.options.expect) {
                    // The scope is checked once, before the items change it.
                    DriftCheck::Strict(_, Some(seen)) => DriftCheck::Row(seen),
                    DriftCheck::Strict(_, None) => DriftCheck::Observe,
                    check => check,
                }
            } else {
                DriftCheck::Observe
            };
        }
        match self.backend.bulk_insert(scope, items, options).await {
            Ok(outcomes) => {
                for (key, outcome) in keys.iter().zip(&outcomes) {
                    let seen = stored(outcome.version, outcome.expires_at, outcome.drift);
                    self.wrote(digest, key, seen, outcome.drift);
                }
                Ok(outcomes)
            }
            Err(error) => Err(self.refused(scope, digest, &keys, error).await),
        }
    }

    async fn search(&self, scope: &Scope, query: SearchQuery) -> Result<SearchResults> {
        let reading = self.reading(scope).await?;
        let results = self.backend.search(scope, query).await?;
        reading.showed(results.hits.iter().map(|hit| (&hit.entry.key, Some(&hit.entry))));
        Ok(results)
    }

    async fn stats(&self, scope: &Scope) -> Result<ScopeStats> {
        self.backend.stats(scope).await
    }

    async fn reembed(&self, scope: &Scope, options: ReembedOptions) -> Result<ReembedOutcome> {
        self.backend.reembed(scope, options).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        self.backend.scopes(tenant, query).await
    }

    async fn drift_state(&self, scope: &Scope) -> Result<DriftState> {
        self.backend.drift_state(scope).await
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        let outcome = self.backend.drop_scope(scope).await?;
        self.session.views().forget(&scope.digest());
        Ok(outcome)
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        self.backend.export_scope(scope).await
    }

    async fn import_scope(
        &self,
        scope: &Scope,
        records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome> {
        let imported = self.backend.import_scope(scope, records, options).await;
        // Even on failure: records before the bad one are stored.
        self.session.views().forget(&scope.digest());
        imported
    }
}
