//! What a record says.

use memory_core::{EvictOutcome, Result, ScopeKind, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::gc::GcVictim;

/// How much a record says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditMode {
    /// Who, what, where, how much and how it ended; keys and prefixes redacted, no value, text or statement.
    #[default]
    Metadata,
    /// The redacted input of the call too.
    Full,
}

/// What happened to the records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditCounts {
    /// Written by every sink.
    pub written: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Refused by a sink (a full disk, say), counted once for each sink.
    pub failed: u64,
}

/// One line of the audit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditRecord {
    /// An operation.
    Call(Box<AuditCall>),
    /// A scope that garbage collection evicted, or tried to.
    Eviction(Box<AuditEviction>),
    /// What was forgotten, without its name.
    Forget(Box<AuditForget>),
    /// Operations whose records were dropped.
    Gap(AuditGap),
}

impl AuditRecord {
    pub(super) fn set_number(&mut self, number: u64) {
        match self {
            Self::Call(record) => record.number = number,
            Self::Eviction(record) => record.number = number,
            Self::Forget(record) => record.number = number,
            Self::Gap(record) => record.number = number,
        }
    }
}

/// That something was forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditForget {
    /// Counts on with the other records.
    pub number: u64,
    /// When it was done.
    pub time: Timestamp,
    /// `forget`.
    pub op: &'static str,
    /// `tenant`, `scope` or `key`.
    pub target: &'static str,
    /// The digest that identifies the target, as in its tombstone.
    pub digest: String,
    /// Entries that went from the store.
    pub entries: u64,
    /// Places that could not be reached, or in which something is left.
    pub left: u64,
    /// `ok`, or the code of the error that ended it.
    pub outcome: &'static str,
}

/// What garbage collection did to a scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditEviction {
    /// Counts on with the other records.
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
    /// `ok`; why it stays, `used`, `in_use` or `absent`; or the code of an error.
    pub outcome: &'static str,
    /// The file with its last snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
}

impl AuditEviction {
    /// What became of a scope; number and time are the auditor's.
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

/// An operation, however it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct AuditCall {
    /// Counts up by one from 1 for each record of this process: a missing number is a missing line.
    pub number: u64,
    /// When the call came.
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
    /// The root of its spawn tree, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_run: Option<String>,
    /// The runtime's trace id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The operation; absent where the input named none that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<&'static str>,
    /// The kind of scope asked for; absent where it was none that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeKind>,
    /// The key, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The key prefix, redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// What kind of SQL statement it was (`select`, `insert`, `create_table`); absent where that cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<&'static str>,
    /// The tables that the statement names, redacted; at most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<String>,
    /// Rows answered or written, as far as the answer tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Bytes of the call's input.
    pub bytes_in: u64,
    /// Bytes of its answer.
    pub bytes_out: u64,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// `ok`, the code of the refusal, or `cancelled` where the caller did not wait for the end.
    pub outcome: &'static str,
    /// Of a refused SQL statement: the rule, or the layer, that refused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<String>,
    /// The backend that answered in the place of the one that could not be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// In full mode the call's input, redacted: an object where it was one, else a string.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// In full mode, where the input was too large to record: why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_omitted: Option<&'static str>,
}

/// Records that the queue had no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditGap {
    /// Counts on with the other records.
    pub number: u64,
    /// When it was noticed.
    pub time: Timestamp,
    /// How many records are missing.
    pub dropped: u64,
}
