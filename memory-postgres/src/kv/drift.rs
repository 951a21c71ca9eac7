//! The drift guard: what a write compares with what its caller saw, in the write's own transaction.
//!
//! The functions compare versions and tokens, and what `guard_sign` tells with what it told when the store was opened. Once
//! that is another, triggers were away for a while, or the server is not the one it was: then contents are compared too,
//! here, under the same locks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::drift::{ContentDigest, DriftChange, DriftReason, Seen};
use memory_core::{DriftCheck, DriftState, DriftToken, Error, ErrorKind, Expect, Key, Result, ScopeDigest};
use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Row};

use crate::connect::{Connections, Transaction, is_transient};
use crate::error::{Effect, malformed};
use crate::kv::row::{self, column, signed, unsigned};
use crate::kv::target::{ATTEMPTS, Target, Value};
use crate::schema::named;
use crate::store::Store;

/// What `kv_set` and the like answer where what `guard_sign` tells has moved; nothing was written.
const MOVED: i16 = 14;
/// What they are told where the rows of a scope are not what was counted.
const SILENT: i16 = 15;
/// What they are told of an entry whose content is another.
const CHANGED: i16 = 10;
/// Scopes whose last count is remembered.
const COUNTED: usize = 1_024;

/// What the store knows of its database for as long as it is open.
#[derive(Debug)]
pub(crate) struct Guard {
    database: u128,
    /// What `guard_sign` told when the store was opened; `None`: the triggers were not as they are to be.
    opened: Option<i64>,
    /// It has told something else since.
    moved: AtomicBool,
    /// What it told when a scope was last counted and found right.
    counted: Mutex<HashMap<ScopeDigest, i64>>,
}

impl Guard {
    /// Of a database whose tables are of this version.
    ///
    /// # Errors
    /// `corrupt` where the guard's own row is gone; as the server answers.
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
            return Err(Error::new(
                ErrorKind::Corrupt,
                "the row of the table `guard` is gone; run `memory postgres provision --apply`, or restore the database from a copy",
            ));
        };
        let stands: bool = column(row, 2, "guard")?;
        if !stands {
            tracing::warn!(
                "the triggers by which changes of other programs are noticed are not as they were made: guarded writes are \
                 refused until `memory postgres provision --apply` has made them anew"
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
    fn token(&self, generation: i64, nonce: i64) -> Result<DriftToken> {
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

    /// What a write did to the token, where that is to be told.
    pub(crate) fn told(
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
        // No scope is at a generation below 0: it is another database's.
        let generation = match token.database == self.database {
            true => token.generation.map_or(0, |generation| signed(generation.get())),
            false => -1,
        };
        Some((generation, token.nonce.cast_signed()))
    }

    /// As long as nothing was ever moved: what `guard_sign` is to tell.
    fn trusted(&self) -> Option<i64> {
        self.opened.filter(|_| !self.moved.load(Ordering::Relaxed))
    }

    fn counted(&self) -> MutexGuard<'_, HashMap<ScopeDigest, i64>> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn id(row: &Row, at: usize) -> Result<u128> {
    u128::from_str_radix(column(row, at, "database id")?, 16).map_err(|_| malformed("database id"))
}

/// Why a function refused, by its outcome.
pub(crate) fn reason(outcome: i16) -> Option<DriftReason> {
    match outcome {
        CHANGED => Some(DriftReason::Changed),
        11 => Some(DriftReason::Vanished),
        12 => Some(DriftReason::Appeared),
        13 => Some(DriftReason::ScopeChanged),
        SILENT => Some(DriftReason::Silent),
        _ => None,
    }
}

/// What the functions are told that a caller saw of one entry: its version, 0 where there was none, and its expiry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    pub(crate) version: Option<i64>,
    pub(crate) until: Option<i64>,
}

impl Sight {
    /// DRF-16: where something is expected that alone is compared.
    pub(crate) fn of(check: &DriftCheck, expect: Expect) -> Self {
        match check {
            DriftCheck::Row(_) if expect != Expect::Any => Self::default(),
            DriftCheck::Row(Seen::Absent) => Self { version: Some(0), until: None },
            DriftCheck::Row(Seen::Entry { version, expires_at, .. }) => {
                Self { version: Some(signed(*version)), until: expires_at.map(|at| at.as_millis()) }
            }
            DriftCheck::Off | DriftCheck::Observe | DriftCheck::Strict(..) => Self::default(),
        }
    }
}

/// What the functions are told of a scope: what is compared, and its token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    /// 2 entries, 3 the scope.
    pub(crate) drift: i16,
    pub(crate) generation: Option<i64>,
    pub(crate) nonce: Option<i64>,
}

impl Comparison {
    pub(crate) fn of(guard: &Guard, check: &DriftCheck) -> Self {
        let Some((generation, nonce)) = guard.expected(check) else {
            return Self { drift: 2, generation: None, nonce: None };
        };
        Self { drift: 3, generation: Some(generation), nonce: Some(nonce) }
    }
}
impl Comparison {
    /// Whether it is `strict`.
    pub(crate) fn is_of_the_scope(&self) -> bool {
        self.drift == 3
    }

    /// With what was seen of one entry, as the functions that write one take it.
    pub(crate) fn of_one<'a>(&'a self, sight: &'a Sight) -> [Value<'a>; 5] {
        [
            (&self.drift, Type::INT2),
            (&sight.version, Type::INT8),
            (&sight.until, Type::INT8),
            (&self.generation, Type::INT8),
            (&self.nonce, Type::INT8),
        ]
    }
}

/// What a guarded write may have to look at, of one of its items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) key: &'a Key,
    pub(crate) seen: Option<Seen>,
}

/// DRF: the state of a scope.
pub(crate) async fn state(store: &Store, target: &Target) -> Result<DriftState> {
    let texts = target.texts();
    let connection = store.connections.read().await?;
    let rows = connection.query(&store.statements.drift_state, &target.values(&texts), Effect::None).await?;
    let Some(row) = rows.first() else { return Ok(DriftState::new(store.guard.token(0, 0)?, 0)) };
    let token = store.guard.token(column(row, 0, "counter")?, column(row, 1, "counter")?)?;
    Ok(DriftState::new(token, unsigned(row, 2, "counter")?))
}

impl Store {
    /// The row of a statement that compares and writes. `values` are all but its last two: what was found here, and what
    /// `guard_sign` is to tell.
    ///
    /// # Errors
    /// `drift_detected` where the store itself cannot be relied upon; what else has drifted is the row's to tell.
    pub(crate) async fn write_checked(
        &self,
        target: &Target,
        items: &[Item<'_>],
        strict: bool,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Row> {
        if let Some(sign) = self.guard.trusted() {
            let found: Option<Vec<Option<i16>>> = None;
            let row = self.write(sql, &extended(values, &found, &sign)).await?;
            if column::<i16>(&row, 0, "outcome")? != MOVED {
                return Ok(row);
            }
            self.guard.moved.store(true, Ordering::Relaxed);
            tracing::warn!(
                "triggers of the memory were switched or made anew, or the server was started anew: contents are compared from now on"
            );
        }
        let mut attempt = 1;
        loop {
            let mut connection = self.connections.take().await?;
            let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
            let written = match self.look(&transaction, target, items, strict, sql, values).await {
                Ok(row) => transaction.commit().await.map(|()| row),
                Err(error) => {
                    transaction.rollback().await;
                    Err(error)
                }
            };
            match written {
                Err(error) if attempt < ATTEMPTS && is_transient(&error) => attempt += 1,
                done => return done,
            }
        }
    }

    /// Looks at what the functions do not, and then has them write.
    async fn look(
        &self,
        transaction: &Transaction<'_>,
        target: &Target,
        items: &[Item<'_>],
        strict: bool,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Row> {
        let texts = target.texts();
        let rows = transaction.query(&self.statements.look, &target.values(&texts)).await?;
        let Some(looked) = rows.first() else { return Err(malformed("guard")) };
        let number = |at| column::<Option<i64>>(looked, at, "counter");
        let token = self.guard.token(number(3)?.unwrap_or_default(), number(4)?.unwrap_or_default())?;
        if id(looked, 0)? != self.guard.database {
            return Err(DriftReason::FileReplaced.refusal(token));
        }
        let (Some(sign), Some(true)) = (number(1)?, column::<Option<bool>>(looked, 2, "guard")?) else {
            return Err(DriftReason::Triggers.refusal(token));
        };
        let mut found: Option<Vec<Option<i16>>> = None;
        if let Some(space) = number(5)? {
            found = self.changed(transaction, target, space, items).await?;
            if strict && !self.counts_hold(transaction, target, looked, sign).await? {
                found = Some(vec![Some(SILENT); items.len()]);
            }
        }
        let rows = transaction.query(sql, &extended(values, &found, &sign)).await?;
        rows.into_iter().next().ok_or_else(|| malformed("outcome"))
    }

    /// Which items say something else than was seen, though their version is the same.
    async fn changed(
        &self,
        transaction: &Transaction<'_>,
        target: &Target,
        space: i64,
        items: &[Item<'_>],
    ) -> Result<Option<Vec<Option<i16>>>> {
        let seen: HashMap<&str, (u64, ContentDigest)> = items
            .iter()
            .filter_map(|item| match item.seen {
                Some(Seen::Entry { version, digest: Some(digest), .. }) => {
                    Some((item.key.as_str(), (version, digest)))
                }
                _ => None,
            })
            .collect();
        if seen.is_empty() {
            return Ok(None);
        }
        let keys: Vec<&str> = seen.keys().copied().collect();
        let tenant = target.tenant();
        let values: [Value<'_>; 3] = [(&tenant, Type::TEXT), (&space, Type::INT8), (&keys, Type::TEXT_ARRAY)];
        let mut changed = Vec::new();
        for stored in &transaction.query(&self.statements.entries_of, &values).await? {
            let key: &str = column(stored, 2, "key")?;
            let Some((version, digest)) = seen.get(key) else { continue };
            // What cannot be read is not what was.
            let same = row::read(stored).is_ok_and(|stored| {
                stored.entry.version != *version || ContentDigest::of_entry(&stored.entry) == *digest
            });
            if !same {
                changed.push(key.to_owned());
            }
        }
        if changed.is_empty() {
            return Ok(None);
        }
        let of = |item: &Item<'_>| changed.iter().any(|key| key == item.key.as_str()).then_some(CHANGED);
        Ok(Some(items.iter().map(of).collect()))
    }

    /// Whether the rows of a scope are what its counters say, counted once for each time that `guard_sign` moved.
    async fn counts_hold(
        &self,
        transaction: &Transaction<'_>,
        target: &Target,
        looked: &Row,
        sign: i64,
    ) -> Result<bool> {
        if self.guard.counted().get(&target.digest) == Some(&sign) {
            return Ok(true);
        }
        let (tenant, space) = (target.tenant(), column::<Option<i64>>(looked, 5, "space")?);
        let values: [Value<'_>; 2] = [(&tenant, Type::TEXT), (&space, Type::INT8)];
        let rows = transaction.query(&self.statements.counted, &values).await?;
        let Some(counted) = rows.first() else { return Err(malformed("count")) };
        let number = |row: &Row, at| column::<Option<i64>>(row, at, "count");
        let holds = (0..3).try_fold(true, |holds, at| {
            Ok::<_, Error>(holds && number(counted, at)? == number(looked, 6 + at)?)
        })? && number(counted, 3)? <= number(looked, 9)?;
        if holds {
            let mut remembered = self.guard.counted();
            if remembered.len() >= COUNTED {
                remembered.clear();
            }
            remembered.insert(target.digest, sign);
        }
        Ok(holds)
    }
}

fn extended<'a>(values: &[Value<'a>], found: &'a Option<Vec<Option<i16>>>, sign: &'a i64) -> Vec<Value<'a>> {
    let mut values = values.to_vec();
    let own: [Value<'a>; 2] = [(found, Type::INT2_ARRAY), (sign, Type::INT8)];
    values.extend(own);
    values
}
