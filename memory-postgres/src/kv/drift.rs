//! The drift guard: compares what the caller saw with what is stored, in the write's own transaction.

use std::collections::HashMap;

use memory_core::{ContentDigest, DriftReason, Seen};
use memory_core::{DriftCheck, DriftState, Error, Expect, Key, Result};
use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Row};

use crate::connect::{Transaction, is_transient};
use crate::error::{Effect, malformed};
use crate::kv::row;
use crate::store::columns::{column, signed, unsigned};
use crate::store::guard::Guard;
use crate::store::parameters::Value;
use crate::store::scope_ref::ScopeRef;
use crate::store::{ATTEMPTS, Store};

/// The outcome of a function that wrote nothing because `guard_sign` had changed.
const MOVED: i16 = 14;

/// Passed to the functions for a scope whose rows disagree with its counters.
const SILENT: i16 = 15;

/// Passed to the functions for an entry whose content has changed.
const CHANGED: i16 = 10;

/// The reason for a function's outcome, if it refused for drift.
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

/// What the caller saw of one entry, in the form that the functions take: its version (0 if there was none; below 0 if
/// it was not read: -1 minus the version at which the session began) and its expiry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    pub(crate) version: Option<i64>,
    pub(crate) until: Option<i64>,
}

impl Sight {
    /// DRF-16: a precondition replaces the check.
    pub(crate) fn of(check: &DriftCheck, expect: Expect) -> Self {
        match check {
            DriftCheck::Row(_) if expect != Expect::Any => Self::default(),
            DriftCheck::Row(Seen::Unread(began)) => {
                Self { version: Some(signed(*began).saturating_neg().saturating_sub(1)), until: None }
            }
            DriftCheck::Row(Seen::Absent) => Self { version: Some(0), until: None },
            DriftCheck::Row(Seen::Entry { version, expires_at, .. }) => {
                Self { version: Some(signed(*version)), until: expires_at.map(|at| at.as_millis()) }
            }
            DriftCheck::Off | DriftCheck::Observe | DriftCheck::Strict(..) => Self::default(),
        }
    }
}

/// What the functions compare: entries or the scope, and the scope's token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    /// 2 compares entries, 3 the scope.
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
    /// Whether the check is `strict`.
    pub(crate) fn is_strict(&self) -> bool {
        self.drift == 3
    }

    /// With what was seen of one entry, as passed to the functions for one entry.
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

/// One item of a guarded write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) key: &'a Key,
    pub(crate) seen: Option<Seen>,
}

/// DRF: the state of a scope.
pub(crate) async fn state(store: &Store, target: &ScopeRef) -> Result<DriftState> {
    let connection = store.connections.read().await?;
    let rows = connection.query(&store.statements.drift_state, &target.values(), Effect::None).await?;
    let Some(row) = rows.first() else { return Ok(DriftState::new(store.guard.token(0, 0)?, 0)) };
    let token = store.guard.token(column(row, 0, "counter")?, column(row, 1, "counter")?)?;
    Ok(DriftState::new(token, unsigned(row, 2, "counter")?))
}

impl Store {
    /// Runs a statement that compares and writes, and returns its row. `values` are all its parameters except the last
    /// two: the findings from here, and the expected result of `guard_sign`.
    /// Fails with `drift_detected` if the store itself cannot be trusted. Any other drift is in the row.
    pub(crate) async fn write_checked(
        &self,
        target: &ScopeRef,
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
            self.guard.distrust();
            tracing::warn!(
                "the memory's triggers were switched off or recreated, or the server restarted: contents are compared from now on"
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

    /// Compares contents, which the functions do not do, and then lets them write.
    async fn look(
        &self,
        transaction: &Transaction<'_>,
        target: &ScopeRef,
        items: &[Item<'_>],
        strict: bool,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Row> {
        let rows = transaction.query(&self.statements.look, &target.values()).await?;
        let Some(looked) = rows.first() else { return Err(malformed("guard")) };
        let number = |at| column::<Option<i64>>(looked, at, "counter");
        let token = self.guard.token(number(3)?.unwrap_or_default(), number(4)?.unwrap_or_default())?;
        if !self.guard.is_this_database(looked, 0)? {
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

    /// The items whose content changed although their version did not.
    async fn changed(
        &self,
        transaction: &Transaction<'_>,
        target: &ScopeRef,
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
            // An entry that cannot be decoded has changed.
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

    /// Whether a scope's rows agree with its counters; counted once for each value of `guard_sign`.
    async fn counts_hold(
        &self,
        transaction: &Transaction<'_>,
        target: &ScopeRef,
        looked: &Row,
        sign: i64,
    ) -> Result<bool> {
        if self.guard.was_counted(&target.digest, sign) {
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
            self.guard.note_counted(target.digest, sign);
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
