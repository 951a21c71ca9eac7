//! What the drift guard knows about its database.
//!
//! The database's functions compare versions and tokens, and the current result of `guard_sign` with its result when
//! the store was opened. If those differ, triggers were disabled for a while, or this is a different server: from then
//! on [`crate::kv::drift`] compares contents too.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::{ContentDigest, DriftChange};
use memory_core::{DriftCheck, DriftToken, Error, Result, ScopeDigest};
use tokio_postgres::Row;

use crate::connect::Connections;
use crate::error::{Effect, malformed};
use crate::schema::named;
use crate::store::columns::{column, signed};

/// Scopes whose last count is cached.
const COUNTED: usize = 1_024;

/// What an open store knows about its database.
#[derive(Debug)]
pub(crate) struct Guard {
    database: u128,
    /// The result of `guard_sign` when the store was opened; `None` if the triggers were not intact.
    opened: Option<i64>,
    /// Whether it has changed since.
    moved: AtomicBool,
    /// Its result when a scope's counters were last verified.
    counted: Mutex<HashMap<ScopeDigest, i64>>,
}

impl Guard {
    /// Reads the guard of a database whose tables are up to date.
    /// Fails with `corrupt` if the guard's own row is gone; the server's errors.
    pub(crate) async fn read(connections: &Connections, schema: &str) -> Result<Self> {
        let connection = connections.take().await?;
        let sql = named(
            "SELECT replace(g.id::text, '-', ''), @schema@.guard_sign(), g.triggers = @schema@.guard_print() \
             FROM @schema@.guard g",
            schema,
            None,
        );
        let rows = connection.query(&sql, &[], Effect::None).await?;
        let Some(row) = rows.first() else {
            return Err(Error::corrupt(
                "the row of the table `guard` is gone; run `memory postgres provision --apply`, or restore the database from a copy",
            ));
        };
        let stands: bool = column(row, 2, "guard")?;
        if !stands {
            tracing::warn!(
                "the triggers that record changes by other programs were altered: guarded writes are \
                 refused until `memory postgres provision --apply` has recreated them"
            );
        }
        let sign: Option<i64> = column(row, 1, "guard")?;
        Ok(Self {
            database: id(row, 0)?,
            opened: sign.filter(|_| stands),
            moved: AtomicBool::new(false),
            counted: Mutex::default(),
        })
    }

    /// A token of this database.
    pub(crate) fn token(&self, generation: i64, nonce: i64) -> Result<DriftToken> {
        let generation = u64::try_from(generation).map_err(|_| malformed("counter"))?;
        Ok(DriftToken::new(self.database, generation, nonce.cast_unsigned()))
    }

    /// The tokens before and after a write, from four columns of its row.
    pub(crate) fn tokens(&self, row: &Row, at: usize) -> Result<(DriftToken, DriftToken)> {
        let token = |at| {
            let number = |at| column::<Option<i64>>(row, at, "counter");
            self.token(number(at)?.unwrap_or_default(), number(at + 1)?.unwrap_or_default())
        };
        Ok((token(at)?, token(at + 2)?))
    }

    /// How a write changed the token, if the caller asked for it.
    pub(crate) fn token_change(
        &self,
        check: &DriftCheck,
        row: &Row,
        at: usize,
        digest: impl FnOnce() -> Option<ContentDigest>,
    ) -> Result<Option<DriftChange>> {
        if !check.tells() {
            return Ok(None);
        }
        let (before, after) = self.tokens(row, at)?;
        Ok(Some(DriftChange::new(before, after, digest())))
    }

    /// The generation and nonce that a check expects of its scope.
    pub(crate) fn expected(&self, check: &DriftCheck) -> Option<(i64, i64)> {
        let DriftCheck::Strict(token, _) = check else { return None };
        // No scope has a generation below 0, so a token of another database never matches.
        let generation = match token.database == self.database {
            true => token.generation.map_or(0, |generation| signed(generation.get())),
            false => -1,
        };
        Some((generation, token.nonce.cast_signed()))
    }

    /// The expected result of `guard_sign`, unless it has ever differed.
    pub(crate) fn trusted(&self) -> Option<i64> {
        self.opened.filter(|_| !self.moved.load(Ordering::Relaxed))
    }

    /// Records that `guard_sign` has changed.
    pub(crate) fn distrust(&self) {
        self.moved.store(true, Ordering::Relaxed);
    }

    /// Whether a column holds this database's id.
    pub(crate) fn is_this_database(&self, row: &Row, at: usize) -> Result<bool> {
        Ok(id(row, at)? == self.database)
    }

    /// Whether a scope's counters were verified since `guard_sign` first returned this.
    pub(crate) fn was_counted(&self, scope: &ScopeDigest, sign: i64) -> bool {
        self.counted().get(scope) == Some(&sign)
    }

    /// Records that a scope's counters were verified.
    pub(crate) fn note_counted(&self, scope: ScopeDigest, sign: i64) {
        let mut counted = self.counted();
        if counted.len() >= COUNTED {
            counted.clear();
        }
        counted.insert(scope, sign);
    }

    fn counted(&self) -> MutexGuard<'_, HashMap<ScopeDigest, i64>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn id(row: &Row, at: usize) -> Result<u128> {
    u128::from_str_radix(column(row, at, "database id")?, 16).map_err(|_| malformed("database id"))
}
