//! One write transaction: the state of the scopes it touches, and the rows it writes.

use std::collections::HashMap;
use std::sync::Arc;

use memory_core::{Clock, Error, Key, Quota, Scope, ScopeDigest, Timestamp};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, params};

use crate::background::Signal;
use crate::config::SqliteConfig;
use crate::drift::Watch;
use crate::erase;
use crate::row::{self, StoredEntry, Unreadable, signed};
use crate::search::cache::{Change, IndexCache, What};
pub(crate) use crate::space::{Content, History, Old, Space, Target};
use crate::vector;
use memory_core::access::AccessCounts;

/// A row with less than this much text lives in `entry`, whose pages then hold four or more; the text of a longer one
/// lives in `body`. SQLite spills what is over a quarter of a page from a table without rowids, which is slow.
const INLINE_BYTES: usize = 900;

/// Most expired rows that one write reclaims to make room.
const RECLAIM: usize = 512;

/// What every transaction needs from the provider.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: SqliteConfig,
    pub(crate) indexes: Arc<IndexCache>,
    pub(crate) matrices: Arc<vector::cache::MatrixCache>,
    pub(crate) accesses: Arc<AccessCounts>,
    pub(crate) signal: Arc<Signal>,
    pub(crate) watch: Arc<Watch>,
}

/// Why an operation did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It may not; it has written nothing.
    Refused(Error),
    /// The engine failed; what it has written is to be rolled back.
    Engine(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Unreadable> for Fault {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::Engine(error) => Self::Engine(error),
            Unreadable::Content(error) => Self::Refused(error),
        }
    }
}

/// A write transaction under way.
pub(crate) struct Batch<'c> {
    connection: &'c Connection,
    context: &'c Context,
    spaces: HashMap<ScopeDigest, Space>,
    changes: Vec<(ScopeDigest, Change)>,
    vector_changes: Vec<(ScopeDigest, vector::feed::Change)>,
    /// Access counts written, to be struck off once committed.
    settled: bool,
    garbage: bool,
    written: usize,
    displaced: bool,
}

impl<'c> Batch<'c> {
    pub(crate) fn new(connection: &'c Connection, context: &'c Context) -> Self {
        Self {
            connection,
            context,
            spaces: HashMap::new(),
            changes: Vec::new(),
            vector_changes: Vec::new(),
            settled: false,
            garbage: false,
            written: 0,
            displaced: context.watch.is_displaced(),
        }
    }

    /// Whether the file had another name, or none, when the transaction began.
    pub(crate) fn is_displaced(&self) -> bool {
        self.displaced
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    pub(crate) fn context(&self) -> &'c Context {
        self.context
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    pub(crate) fn statement(&self, sql: &str) -> rusqlite::Result<CachedStatement<'c>> {
        self.connection.prepare_cached(sql)
    }

    /// That so many rows were written, for the checkpointer.
    pub(crate) fn wrote(&mut self, rows: usize) {
        self.written += rows;
    }

    /// That access counts were written in this transaction.
    pub(crate) fn settles_accesses(&mut self) {
        self.settled = true;
    }

    /// That rows are to be reclaimed.
    pub(crate) fn leaves_garbage(&mut self) {
        self.garbage = true;
    }

    /// The state of a scope; all zeros where it has none yet. Changes to it count once [`keep`](Self::keep) is called.
    pub(crate) fn space(&mut self, digest: &ScopeDigest) -> Result<Space, Fault> {
        if let Some(space) = self.spaces.get(digest) {
            return Ok(*space);
        }
        let space = self
            .statement(
                "SELECT space, entries, bytes, expiring, version, floor, changes, vectors, generation, nonce, recount, \
                 used_at, leaving FROM scope WHERE digest = ?1",
            )?
            .query_row([digest.as_bytes()], |row| {
                let mut numbers = [0_i64; 13];
                for (at, number) in numbers.iter_mut().enumerate() {
                    *number = row.get(at)?;
                }
                Ok(numbers)
            })
            .optional()?;
        let (mut space, recount) = match space {
            None => {
                // What was erased here does not give its versions again.
                let version = row::unsigned(erase::version_of(self.connection, digest)?, "counter")?;
                (Space { version, floor: version, ..Space::default() }, 0)
            }
            Some(numbers) => {
                let [
                    id,
                    entries,
                    bytes,
                    expiring,
                    version,
                    floor,
                    changes,
                    vectors,
                    generation,
                    nonce,
                    recount,
                    used_at,
                    leaving,
                ] = numbers;
                let space = Space {
                    id,
                    entries: row::unsigned(entries, "counter")?,
                    bytes: row::unsigned(bytes, "counter")?,
                    expiring: row::unsigned(expiring, "counter")?,
                    vectors: row::unsigned(vectors, "counter")?,
                    version: row::unsigned(version, "counter")?,
                    floor: row::unsigned(floor, "counter")?,
                    changes,
                    generation: row::unsigned(generation, "counter")?,
                    nonce,
                    used_at,
                    leaving,
                    dirty: false,
                };
                (space, recount)
            }
        };
        if recount != 0 {
            self.recount(&mut space)?;
        }
        self.spaces.insert(*digest, space);
        Ok(space)
    }

    /// Remembers the state of a scope, to be written before the commit.
    pub(crate) fn keep(&mut self, digest: &ScopeDigest, space: Space) {
        self.spaces.insert(*digest, space);
    }

    /// A number that no set of rows has had before.
    pub(crate) fn fresh_space(&self) -> rusqlite::Result<i64> {
        self.statement("UPDATE sequence SET last = last + 1 WHERE name = 'space' RETURNING last")?
            .query_row([], |row| row.get(0))
    }

    /// Gives a scope its row, if it has none.
    pub(crate) fn found(&mut self, target: &Target, space: &mut Space) -> Result<(), Fault> {
        if space.id == 0 {
            if target.scope.kind == memory_core::ScopeKind::Run && self.has_ended(&target.digest)? {
                return Err(Fault::Refused(Error::run_ended()));
            }
            self.make_row(target, space)?;
        }
        Ok(())
    }

    /// Gives a scope that has none its row.
    pub(crate) fn make_row(&mut self, target: &Target, space: &mut Space) -> Result<(), Fault> {
        space.id = self.fresh_space()?;
        let Scope { tenant, kind, id } = &target.scope;
        self.statement(
            "INSERT INTO scope (digest, space, tenant, kind, name, entries, bytes, expiring, version, floor, changes) \
             VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, 0, 0, 0, 0)",
        )?
        .execute(params![
            target.digest.as_bytes(),
            space.id,
            tenant.as_str(),
            kind_number(*kind),
            id.as_str()
        ])?;
        self.wrote(2);
        Ok(())
    }

    /// Counts this moment as a use of a scope.
    fn used(&self, space: &mut Space) {
        space.used_at = space.used_at.max(self.now().as_millis());
    }

    /// The row of a key, live or not.
    pub(crate) fn old(&self, space: &Space, key: &Key) -> Result<Option<Old>, Fault> {
        if space.entries == 0 {
            return Ok(None);
        }
        let mut statement = self.statement(
            "SELECT version, born, created_at, expires_at, accesses, size, body \
             FROM entry WHERE space = ?1 AND key = ?2",
        )?;
        let mut rows = statement.query(params![space.id, key.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        Ok(Some(Old {
            version: row::unsigned(row.get(0)?, "version")?,
            born: row.get(1)?,
            created_at: row::time(row.get(2)?)?,
            expires_at: row.get::<_, Option<i64>>(3)?.map(row::time).transpose()?,
            accesses: row::unsigned(row.get(4)?, "access count")?,
            size: row::unsigned(row.get(5)?, "size")?,
            body: row.get(6)?,
        }))
    }

    /// The whole entry of a key, live or not.
    pub(crate) fn entry(&self, space: &Space, key: &Key) -> Result<Option<StoredEntry>, Fault> {
        let mut statement = self.statement(SELECT_ENTRY.get())?;
        let mut rows = statement.query(params![space.id, key.as_str()])?;
        Ok(rows.next()?.map(row::read).transpose()?)
    }

    /// Writes a row over the old one, if any, and counts it.
    pub(crate) fn put(
        &mut self,
        target: &Target,
        space: &mut Space,
        key: &Key,
        old: Option<&Old>,
        content: Content<'_>,
        history: History,
    ) -> Result<(), Fault> {
        self.found(target, space)?;
        let gone = match old {
            Some(_) => self.remove_vectors(space, key.as_str())?,
            None => Vec::new(),
        };
        space.changes += 1;
        self.used(space);
        space.drift(&self.context.watch);
        let born = history.born.unwrap_or(space.changes);
        let Content { value, metadata, source, text, size } = content;
        let length = key.as_str().len()
            + value.len_bytes()
            + metadata.map_or(0, str::len)
            + source.map_or(0, str::len)
            + text.map_or(0, str::len);
        let old_body = old.and_then(|old| old.body);
        let body = if length <= INLINE_BYTES {
            if let Some(id) = old_body {
                self.statement("DELETE FROM body WHERE id = ?1")?.execute([id])?;
            }
            None
        } else if let Some(id) = old_body {
            self.statement("UPDATE body SET metadata = ?2, text = ?3, value = ?4 WHERE id = ?1")?
                .execute(params![id, metadata, text, value.as_str()])?;
            Some(id)
        } else {
            Some(
                self.statement("INSERT INTO body (metadata, text, value) VALUES (?1, ?2, ?3)")?
                    .insert(params![metadata, text, value.as_str()])?,
            )
        };
        let inline = |content| if body.is_none() { content } else { None };
        let sql = match old {
            Some(_) => {
                "UPDATE entry SET version = ?3, born = ?4, created_at = ?5, updated_at = ?6, expires_at = ?7, \
                 accesses = ?8, size = ?9, body = ?10, source = ?11, metadata = ?12, text = ?13, value = ?14 \
                 WHERE space = ?1 AND key = ?2"
            }
            None => {
                "INSERT INTO entry (space, key, version, born, created_at, updated_at, expires_at, accesses, size, \
                 body, source, metadata, text, value) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
            }
        };
        self.statement(sql)?.execute(params![
            space.id,
            key.as_str(),
            signed(history.version),
            born,
            history.created_at.as_millis(),
            history.updated_at.as_millis(),
            history.expires_at.map(Timestamp::as_millis),
            signed(history.accesses),
            signed(size),
            body,
            source,
            inline(metadata),
            inline(text),
            inline(Some(value.as_str())),
        ])?;
        space.version = space.version.max(history.version);
        space.entries = space.entries + 1 - u64::from(old.is_some());
        space.bytes = (space.bytes + size).saturating_sub(old.map_or(0, |old| old.size));
        space.expiring = (space.expiring + u64::from(history.expires_at.is_some()))
            .saturating_sub(u64::from(old.is_some_and(|old| old.expires_at.is_some())));
        space.touch();
        self.wrote(1 + length / 4_096 * 2);
        let (digest, id) = (&target.digest, space.id);
        self.tell_vectors(digest, space, gone, Vec::new());
        if self.context.indexes.watches(digest) {
            let what = What::Put {
                key: key.clone(),
                version: history.version,
                value: value.clone(),
                text: text.map(str::to_owned),
                expires_at: history.expires_at,
            };
            self.changes.push((*digest, Change { space: id, number: space.changes, what }));
        }
        Ok(())
    }

    /// Removes a row and counts it out.
    pub(crate) fn remove(
        &mut self,
        target: &Target,
        space: &mut Space,
        key: &Key,
        old: &Old,
    ) -> Result<(), Fault> {
        self.statement("DELETE FROM entry WHERE space = ?1 AND key = ?2")?
            .execute(params![space.id, key.as_str()])?;
        if let Some(id) = old.body {
            self.statement("DELETE FROM body WHERE id = ?1")?.execute([id])?;
        }
        let gone = self.remove_vectors(space, key.as_str())?;
        space.changes += 1;
        self.used(space);
        space.drift(&self.context.watch);
        space.floor = space.floor.max(old.version);
        space.entries = space.entries.saturating_sub(1);
        space.bytes = space.bytes.saturating_sub(old.size);
        space.expiring = space.expiring.saturating_sub(u64::from(old.expires_at.is_some()));
        space.touch();
        self.wrote(1);
        self.tell_vectors(&target.digest, space, gone, Vec::new());
        if self.context.indexes.watches(&target.digest) {
            let change =
                Change { space: space.id, number: space.changes, what: What::Removed { key: key.clone() } };
            self.changes.push((target.digest, change));
        }
        Ok(())
    }

    /// Tells those who search by vectors of the change that was just counted. Where nothing was counted, as when
    /// expired rows are reclaimed, the change before it is named again.
    pub(crate) fn tell_vectors(
        &mut self,
        digest: &ScopeDigest,
        space: &Space,
        gone: Vec<i64>,
        stored: Vec<vector::feed::Stored>,
    ) {
        if self.context.matrices.watches(digest) {
            let change = vector::feed::Change { space: space.id, number: space.changes, gone, stored };
            self.vector_changes.push((*digest, change));
        }
    }

    /// Tells those who search by words that a change is none of theirs.
    pub(crate) fn tell_of_vectors_alone(&mut self, digest: &ScopeDigest, space: &Space) {
        if self.context.indexes.watches(digest) {
            let change = Change { space: space.id, number: space.changes, what: What::Embedded };
            self.changes.push((*digest, change));
        }
    }

    /// Rows of a scope that have expired but are still there: how many, and their bytes.
    pub(crate) fn expired(&self, space: &Space, now: Timestamp) -> Result<(u64, u64), Fault> {
        if space.expiring == 0 {
            return Ok((0, 0));
        }
        let (count, bytes) = self
            .statement(
                "SELECT count(*), coalesce(sum(size), 0) FROM entry WHERE space = ?1 AND expires_at <= ?2",
            )?
            .query_row(params![space.id, now.as_millis()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((row::unsigned(count, "count")?, row::unsigned(bytes, "size")?))
    }

    /// Entries and bytes of a scope that are live.
    pub(crate) fn live(&self, space: &Space, now: Timestamp) -> Result<(u64, u64), Fault> {
        let (entries, bytes) = self.expired(space, now)?;
        Ok((space.entries.saturating_sub(entries), space.bytes.saturating_sub(bytes)))
    }

    /// Removes up to `limit` expired rows of a scope, which nobody can notice. Returns how many.
    pub(crate) fn reclaim(
        &mut self,
        digest: &ScopeDigest,
        space: &mut Space,
        now: Timestamp,
        limit: usize,
    ) -> Result<usize, Fault> {
        if space.expiring == 0 {
            return Ok(0);
        }
        let mut found = Vec::new();
        {
            let mut statement = self.statement(
                "SELECT key, version, size, body FROM entry WHERE space = ?1 AND expires_at <= ?2 LIMIT ?3",
            )?;
            let mut rows = statement.query(params![space.id, now.as_millis(), signed(limit as u64)])?;
            while let Some(row) = rows.next()? {
                let key: String = row.get(0)?;
                let version = row::unsigned(row.get(1)?, "version")?;
                let size = row::unsigned(row.get(2)?, "size")?;
                found.push((key, version, size, row.get::<_, Option<i64>>(3)?));
            }
        }
        let mut gone = Vec::new();
        for (key, version, size, body) in &found {
            gone.extend(self.remove_vectors(space, key)?);
            self.statement("DELETE FROM entry WHERE space = ?1 AND key = ?2")?
                .execute(params![space.id, key])?;
            if let Some(id) = body {
                self.statement("DELETE FROM body WHERE id = ?1")?.execute([id])?;
            }
            space.floor = space.floor.max(*version);
            space.entries = space.entries.saturating_sub(1);
            space.bytes = space.bytes.saturating_sub(*size);
            space.expiring = space.expiring.saturating_sub(1);
        }
        if !found.is_empty() {
            space.touch();
            self.wrote(found.len());
            if !gone.is_empty() {
                self.tell_vectors(digest, space, gone, Vec::new());
            }
        }
        Ok(found.len())
    }

    /// Checks a write of one entry against the quota, making room by reclaiming what has expired. The old row may be
    /// among that.
    #[allow(clippy::too_many_arguments, reason = "the facts of one write, which its caller goes on using")]
    pub(crate) fn allow(
        &mut self,
        target: &Target,
        space: &mut Space,
        key: &Key,
        quota: Quota,
        old: &mut Option<Old>,
        size: u64,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if quota.is_unlimited() {
            return Ok(());
        }
        let live = old.filter(|old| old.is_live(now));
        let after = |(entries, bytes): (u64, u64)| match live {
            Some(old) => (entries, (bytes + size).saturating_sub(old.size)),
            None => (entries + 1, bytes + size),
        };
        // An upper bound of what is live, and it is at hand.
        let most = (space.entries, space.bytes);
        if quota.check(most, after(most)).is_ok() {
            return Ok(());
        }
        if self.reclaim(&target.digest, space, now, RECLAIM)? > 0 {
            // Reclaiming stands even if the write is refused.
            self.keep(&target.digest, *space);
            *old = self.old(space, key)?;
        }
        let exact = self.live(space, now)?;
        Ok(quota.check(exact, after(exact))?)
    }

    /// Runs a part of an operation that is undone where it refuses.
    pub(crate) fn whole<T>(
        &mut self,
        digest: &ScopeDigest,
        part: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let before = self.space(digest)?;
        let (changes, vector_changes) = (self.changes.len(), self.vector_changes.len());
        self.statement("SAVEPOINT part")?.execute([])?;
        let result = part(self);
        if let Err(Fault::Refused(_)) = &result {
            self.statement("ROLLBACK TO part")?.execute([])?;
            self.spaces.insert(*digest, before);
            self.changes.truncate(changes);
            self.vector_changes.truncate(vector_changes);
        }
        if !matches!(result, Err(Fault::Engine(_))) {
            self.statement("RELEASE part")?.execute([])?;
        }
        result
    }

    /// Writes the state of the scopes that changed.
    pub(crate) fn write_back(&mut self) -> rusqlite::Result<()> {
        for (digest, space) in &mut self.spaces {
            if !space.dirty {
                continue;
            }
            self.connection
                .prepare_cached(
                    "UPDATE scope SET entries = ?2, bytes = ?3, expiring = ?4, version = ?5, floor = ?6, changes = ?7, \
                     vectors = ?8, generation = ?9, nonce = ?10, used_at = ?11, recount = 0 WHERE digest = ?1",
                )?
                .execute(params![
                    digest.as_bytes(),
                    signed(space.entries),
                    signed(space.bytes),
                    signed(space.expiring),
                    signed(space.version),
                    signed(space.floor),
                    space.changes,
                    signed(space.vectors),
                    signed(space.generation),
                    space.nonce,
                    space.used_at
                ])?;
            space.dirty = false;
        }
        if self.settled {
            self.context.accesses.committing();
        }
        Ok(())
    }

    /// Commits, and tells those who keep something in memory.
    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        let _barrier = (!self.changes.is_empty()).then(|| self.context.indexes.barrier());
        let _vector_barrier = (!self.vector_changes.is_empty()).then(|| self.context.matrices.barrier());
        self.statement("COMMIT")?.execute([])?;
        if self.settled {
            self.context.accesses.committed();
        }
        for (digest, change) in self.changes {
            self.context.indexes.feed(&digest, change);
        }
        for (digest, change) in self.vector_changes {
            self.context.matrices.feed(&digest, change);
        }
        self.context.signal.wrote(self.written);
        if self.garbage {
            self.context.signal.garbage();
        }
        Ok(())
    }
}

/// Rows of `scope` order by kind as `ScopeKind` does.
pub(crate) fn kind_number(kind: memory_core::ScopeKind) -> i64 {
    match kind {
        memory_core::ScopeKind::Agent => 0,
        memory_core::ScopeKind::User => 1,
        memory_core::ScopeKind::Run => 2,
    }
}

/// A statement that includes the entry columns.
pub(crate) struct Sql(std::sync::OnceLock<String>, &'static str);

impl Sql {
    /// `{columns}` in the text stands for [`row::COLUMNS`].
    pub(crate) const fn new(text: &'static str) -> Self {
        Self(std::sync::OnceLock::new(), text)
    }

    pub(crate) fn get(&self) -> &str {
        self.0.get_or_init(|| self.1.replace("{columns}", row::COLUMNS))
    }
}

static SELECT_ENTRY: Sql = Sql::new(
    "SELECT {columns} FROM entry e LEFT JOIN body b ON b.id = e.body WHERE e.space = ?1 AND e.key = ?2",
);
