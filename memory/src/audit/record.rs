//! Audit records.

use std::time::Duration;

use memory_core::layer::{Fact, Share};
use memory_core::{Error, EvictOutcome, Result, Scope, ScopeKind, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::gc::GcVictim;

/// How much a record contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditMode {
    /// Who, what, where, how much and the outcome. Keys and prefixes are redacted; no values, texts or statements.
    #[default]
    Metadata,
    /// Also the redacted input of the call.
    Full,
}

/// Counters of the records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditCounts {
    /// Written by every sink.
    pub written: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Refused by a sink (for example on a full disk), counted once per sink.
    pub failed: u64,
}

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditRecord {
    /// An operation.
    Call(Box<AuditCall>),
    /// A request over the HTTP API.
    Request(Box<AuditRequest>),
    /// A scope that garbage collection evicted, or tried to.
    Eviction(Box<AuditEviction>),
    /// A forget, without names.
    Forget(Box<AuditForget>),
    /// Operations whose records were dropped.
    Gap(AuditGap),
}

impl AuditRecord {
    pub(super) fn set_number(&mut self, number: u64) {
        match self {
            Self::Call(record) => record.number = number,
            Self::Request(record) => record.number = number,
            Self::Eviction(record) => record.number = number,
            Self::Forget(record) => record.number = number,
            Self::Gap(record) => record.number = number,
        }
    }
}

/// The record of a forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditForget {
    /// Numbered in the same sequence as other records.
    pub number: u64,
    /// When it was done.
    pub time: Timestamp,
    /// `forget`.
    pub op: &'static str,
    /// `tenant`, `scope` or `key`.
    pub target: &'static str,
    /// The digest that identifies the target, as in its tombstone.
    pub digest: String,
    /// Entries removed from the store.
    pub entries: u64,
    /// Places that could not be reached or where something remains.
    pub left: u64,
    /// `ok`, or the code of the error.
    pub outcome: &'static str,
}

/// The record of a request over the HTTP API: who asked for what, where, and how it ended. Neither mode records keys,
/// texts or statements, except the question of a `recall` in full mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditRequest {
    /// Numbered in the same sequence as other records.
    pub number: u64,
    /// When it was answered; for a stream, when the answer began.
    pub time: Timestamp,
    /// The operation's name in the API.
    pub op: &'static str,
    /// The id of the token, which is not secret.
    pub token: String,
    /// The tenant; `None` for an operation on the whole store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The kind of scope; `None` for an operation on a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeKind>,
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope_id: Option<String>,
    /// The number of entries, hits, facts or rows in the answer; `None` for other operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// The facts that a `recall` returned, without their text; at most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recalled: Vec<AuditFact>,
    /// In full mode, the redacted question of a `recall`, as `query`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// How long it took.
    pub micros: u64,
    /// `ok`, or the code of the error.
    pub outcome: &'static str,
}

/// Most facts of a `recall` that are recorded.
pub(super) const MAX_RECALLED: usize = 64;
/// Most characters of a question that are recorded.
const MAX_QUESTION: usize = 2_000;

impl AuditRequest {
    /// A request, identified by its token, that has not ended yet.
    #[must_use]
    pub fn new(token: &str, op: &'static str, tenant: Option<&TenantId>, scope: Option<&Scope>) -> Self {
        Self {
            number: 0,
            time: Timestamp::EPOCH,
            op,
            token: token.to_owned(),
            tenant: tenant.map(|tenant| tenant.as_str().to_owned()),
            scope: scope.map(|scope| scope.kind),
            scope_id: scope.map(|scope| scope.id.as_str().to_owned()),
            rows: None,
            recalled: Vec::new(),
            input: None,
            micros: 0,
            outcome: "ok",
        }
    }

    /// Adds the question of a `recall`. The auditor redacts it, and drops it in metadata mode.
    #[must_use]
    pub fn asked(mut self, question: &str) -> Self {
        let question: String = question.chars().take(MAX_QUESTION).collect();
        self.input = Some(serde_json::json!({ "query": question }));
        self
    }

    /// Records the facts that a `recall` returned.
    pub fn recalled(&mut self, scope: ScopeKind, facts: &[Fact]) {
        self.recalled = facts.iter().take(MAX_RECALLED).map(|fact| AuditFact::of(scope, fact)).collect();
    }

    /// Records how it ended, and after how long.
    #[must_use]
    pub fn ended(mut self, failed: Option<&Error>, after: Duration) -> Self {
        self.micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
        self.outcome = failed.map_or("ok", |error| error.kind().code());
        self
    }
}

/// The record of an eviction by garbage collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditEviction {
    /// Numbered in the same sequence as other records.
    pub number: u64,
    /// When it was done.
    pub time: Timestamp,
    /// `gc.evict`.
    pub op: &'static str,
    /// The tenant.
    pub tenant: String,
    /// The kind of scope.
    pub scope: ScopeKind,
    /// Its id.
    pub scope_id: String,
    /// Bytes that it held.
    pub bytes: u64,
    /// Its last use.
    pub last_used_at: Timestamp,
    /// `idle` or `max_bytes`.
    pub reason: &'static str,
    /// `ok`; `used`, `in_use` or `absent` if the scope was kept; or the code of an error.
    pub outcome: &'static str,
    /// The file with its last snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
}

impl AuditEviction {
    /// The outcome for a scope; the auditor adds number and time.
    pub(crate) fn of(victim: &GcVictim, outcome: &Result<EvictOutcome>) -> Self {
        Self {
            number: 0,
            time: Timestamp::EPOCH,
            op: "gc.evict",
            tenant: victim.scope.tenant.as_str().to_owned(),
            scope: victim.scope.kind,
            scope_id: victim.scope.id.as_str().to_owned(),
            bytes: victim.bytes,
            last_used_at: victim.last_used_at,
            reason: victim.reason.as_str(),
            outcome: match outcome {
                Ok(EvictOutcome::Kept(why)) => why.as_str(),
                Ok(_) => "ok",
                Err(error) => error.kind().code(),
            },
            snapshot: victim.snapshot.as_ref().map(|path| path.display().to_string()),
        }
    }
}

/// An operation, whatever its outcome.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditCall {
    /// Counts from 1 in each process: a missing number means a missing line.
    pub number: u64,
    /// When the call started.
    pub time: Timestamp,
    /// The tenant.
    pub tenant: String,
    /// The agent.
    pub agent: String,
    /// The user, if the run has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The run.
    pub run: String,
    /// The root of its spawn tree, if that is another run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_run: Option<String>,
    /// The runtime's trace id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The operation; absent if the input named no valid one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<&'static str>,
    /// The kind of scope; absent if the input named no valid one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeKind>,
    /// The key, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key prefix, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The kind of SQL statement (`select`, `insert`, `create_table`); absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<&'static str>,
    /// The tables named in the statement, redacted; at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// Rows returned or written, if the answer says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Bytes of the call's input.
    pub bytes_in: u64,
    /// Bytes of its answer.
    pub bytes_out: u64,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// `ok`, the code of the refusal, or `cancelled` if the caller did not wait.
    pub outcome: &'static str,
    /// For a refused SQL statement: the rule or layer that refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<String>,
    /// The backend that answered instead of an unreachable one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The facts that a `recall` returned, without their text; at most 64.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recalled: Vec<AuditFact>,
    /// In full mode the redacted input: an object if it was one, otherwise a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// In full mode, why the input is missing: it was too large to record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_omitted: Option<&'static str>,
}

/// A fact that a `recall` returned. Its text is in the store for as long as it is remembered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditFact {
    /// Its id.
    pub id: String,
    /// The kind of scope it belongs to.
    pub scope: ScopeKind,
    /// Its score.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Its similarity to the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f64>,
    /// The components of the score.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
}

impl AuditFact {
    pub(crate) fn of(scope: ScopeKind, fact: &Fact) -> Self {
        Self {
            id: fact.id.as_str().to_owned(),
            scope,
            score: fact.score,
            similarity: fact.similarity,
            shares: fact.shares.clone(),
        }
    }
}

/// Records that were dropped because the queue was full, or that the sink refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditGap {
    /// Numbered in the same sequence as other records.
    pub number: u64,
    /// When it was noticed.
    pub time: Timestamp,
    /// Number of missing records.
    pub dropped: u64,
}
