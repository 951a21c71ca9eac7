//! One write transaction: the state of its scopes, and the changes to publish after its commit.

use std::collections::HashMap;
use std::sync::Arc;

use memory_core::access::AccessCounts;
use memory_core::{Clock, Error, ScopeDigest, ScopeKind, Timestamp};
use rusqlite::{CachedStatement, Connection};

use super::background::Signal;
use super::feed::{Follower, StoredVector, TextChange, TextEdit, VectorChange};
use super::scope::{EndedRun, Space, Target};
use crate::config::SqliteConfig;
use crate::error::Fault;
use crate::file::watch::Watch;

/// What every transaction needs from the open database.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: SqliteConfig,
    pub(crate) texts: Arc<dyn Follower<TextChange>>,
    pub(crate) vectors: Arc<dyn Follower<VectorChange>>,
    pub(crate) accesses: Arc<AccessCounts>,
    pub(crate) signal: Arc<Signal>,
    pub(crate) watch: Arc<Watch>,
}

/// A running write transaction.
pub(crate) struct Batch<'c> {
    connection: &'c Connection,
    context: &'c Context,
    spaces: HashMap<ScopeDigest, Space>,
    text_changes: Vec<(ScopeDigest, TextChange)>,
    vector_changes: Vec<(ScopeDigest, VectorChange)>,
    /// Access counts were written; they are removed from memory after the commit.
    wrote_accesses: bool,
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
            text_changes: Vec::new(),
            vector_changes: Vec::new(),
            wrote_accesses: false,
            garbage: false,
            written: 0,
            displaced: context.watch.is_displaced(),
        }
    }

    /// Whether the file was renamed or deleted before the transaction began.
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

    /// Counts rows that were written, for the checkpointer.
    pub(crate) fn wrote(&mut self, rows: usize) {
        self.written += rows;
    }

    /// Records that access counts were written in this transaction.
    pub(crate) fn wrote_accesses(&mut self) {
        self.wrote_accesses = true;
    }

    /// Records that there are rows to reclaim.
    pub(crate) fn leaves_garbage(&mut self) {
        self.garbage = true;
    }

    /// The state of a scope; all zeros if it has none yet. Changes take effect with [`keep`](Self::keep).
    pub(crate) fn space(&mut self, digest: &ScopeDigest) -> Result<Space, Fault> {
        if let Some(space) = self.spaces.get(digest) {
            return Ok(*space);
        }
        let space = Space::read(self.connection, digest)?;
        self.spaces.insert(*digest, space);
        Ok(space)
    }

    /// Keeps the state of a scope, which is written before the commit.
    pub(crate) fn keep(&mut self, digest: &ScopeDigest, space: Space) {
        self.spaces.insert(*digest, space);
    }

    /// A space number that was never used.
    pub(crate) fn fresh_space(&self) -> rusqlite::Result<i64> {
        self.statement("UPDATE sequence SET last = last + 1 WHERE name = 'space' RETURNING last")?
            .query_row([], |row| row.get(0))
    }

    /// Creates a scope's row if it has none.
    ///
    /// # Errors
    /// `Refused` for the scope of a run that has ended.
    pub(crate) fn ensure_row(&mut self, target: &Target, space: &mut Space) -> Result<(), Fault> {
        if space.id == 0 {
            self.admit(target)?;
            self.insert_row(target, space)?;
        }
        Ok(())
    }

    /// Refuses a write to the scope of a run that has ended (RUN-1).
    pub(crate) fn admit(&mut self, target: &Target) -> Result<(), Fault> {
        if target.scope.kind == ScopeKind::Run
            && self.space(&target.digest)?.id == 0
            && self.has_ended(&target.digest)?
        {
            return Err(Fault::Refused(Error::run_ended()));
        }
        Ok(())
    }

    /// Inserts the missing row of a scope, even of an ended run.
    pub(crate) fn insert_row(&mut self, target: &Target, space: &mut Space) -> Result<(), Fault> {
        space.id = self.fresh_space()?;
        Space::insert(self.connection, target, space.id)?;
        self.wrote(2);
        Ok(())
    }

    /// How long writes to the scope of an ended run are refused, in milliseconds.
    pub(crate) fn fence(&self) -> i64 {
        i64::try_from(self.context.config.run_fence_ms).unwrap_or(i64::MAX)
    }

    /// Whether writes to a run's scope are refused because it has ended.
    pub(crate) fn has_ended(&self, digest: &ScopeDigest) -> Result<bool, Fault> {
        let fence = self.fence();
        if fence == 0 {
            return Ok(false);
        }
        let ended = EndedRun::read(self.connection, digest)?;
        Ok(ended.is_some_and(|ended| ended.at.saturating_add(fence) > self.now().as_millis()))
    }

    /// Publishes the change just counted to the text indexes.
    pub(crate) fn publish_text(
        &mut self,
        digest: &ScopeDigest,
        space: &Space,
        edit: impl FnOnce() -> TextEdit,
    ) {
        if self.context.texts.follows(digest) {
            let change = TextChange { space: space.id, number: space.changes, edit: edit() };
            self.text_changes.push((*digest, change));
        }
    }

    /// Publishes the change just counted to the matrices. If none was counted, as when expired rows are reclaimed, the
    /// previous number is repeated.
    pub(crate) fn publish_vectors(
        &mut self,
        digest: &ScopeDigest,
        space: &Space,
        removed: Vec<i64>,
        stored: Vec<StoredVector>,
    ) {
        if self.context.vectors.follows(digest) {
            let change = VectorChange { space: space.id, number: space.changes, removed, stored };
            self.vector_changes.push((*digest, change));
        }
    }

    /// Runs part of an operation, and rolls that part back if it is refused.
    pub(crate) fn atomically<T>(
        &mut self,
        digest: &ScopeDigest,
        part: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let before = self.space(digest)?;
        let (text_changes, vector_changes) = (self.text_changes.len(), self.vector_changes.len());
        self.statement("SAVEPOINT part")?.execute([])?;
        let result = part(self);
        if let Err(Fault::Refused(_)) = &result {
            self.statement("ROLLBACK TO part")?.execute([])?;
            self.spaces.insert(*digest, before);
            self.text_changes.truncate(text_changes);
            self.vector_changes.truncate(vector_changes);
        }
        if !matches!(result, Err(Fault::Engine(_))) {
            self.statement("RELEASE part")?.execute([])?;
        }
        result
    }

    /// Writes the state of the scopes that changed.
    pub(crate) fn write_back(&mut self) -> rusqlite::Result<()> {
        for (digest, space) in self.spaces.iter_mut().filter(|(_, space)| space.dirty) {
            space.write(self.connection, digest)?;
        }
        if self.wrote_accesses {
            self.context.accesses.committing();
        }
        Ok(())
    }

    /// Commits, and publishes the changes to the caches.
    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        let Context { texts, vectors, accesses, signal, .. } = self.context;
        let _text_barrier = (!self.text_changes.is_empty()).then(|| texts.barrier());
        let _vector_barrier = (!self.vector_changes.is_empty()).then(|| vectors.barrier());
        self.statement("COMMIT")?.execute([])?;
        if self.wrote_accesses {
            accesses.committed();
        }
        for (digest, change) in self.text_changes {
            texts.feed(&digest, change);
        }
        for (digest, change) in self.vector_changes {
            vectors.feed(&digest, change);
        }
        signal.wrote(self.written);
        if self.garbage {
            signal.garbage();
        }
        Ok(())
    }
}
