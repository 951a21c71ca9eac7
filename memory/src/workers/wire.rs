//! The messages between the two processes: one JSON document per line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memory_core::sql::{DumpStream, RestoreOptions, SqlValue, StatementOptions, TxId};
use memory_core::{Cursor, Error, Failure, Result, RunContext, Scope, ScopeId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::stream::next;

/// Longest line of a request: a statement and its arguments, escaped.
pub(super) const MAX_REQUEST_BYTES: usize = 256 << 20;
/// Bytes of a dump in one reply before encoding; a single line may exceed it.
const PART_BYTES: usize = 1 << 20;

/// From the parent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) call: Call,
}

/// A run comes without its credentials, which SQL does not need. `Dump` opens a dump, which `Next` reads. `Restore` is
/// answered when it has ended; `Part` feeds it and `Finish` ends its input. `Cancel` says that the caller no longer
/// waits for that call, and has no reply.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Call {
    Exec(Statement),
    Query(Statement),
    Begin { run: RunContext, scope: Scope, parent: Option<TxId> },
    Commit { run: RunContext, scope: Scope, tx: TxId },
    Rollback { run: RunContext, scope: Scope, tx: TxId },
    DescribeTables { run: RunContext, scope: Scope },
    SqlScopes { tenant: TenantId, cursor: Option<Cursor>, limit: usize },
    DropSqlScope { scope: Scope },
    SqlUsage { scope: Scope },
    Dump { scope: Scope },
    Next { of: u64 },
    Restore { scope: Scope, options: RestoreOptions },
    Part { of: u64, lines: Vec<String> },
    Finish { of: u64, whole: bool },
    EndRun { tenant: TenantId, root_run: ScopeId },
    Cancel { of: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Statement {
    pub(super) run: RunContext,
    pub(super) scope: Scope,
    pub(super) sql: String,
    pub(super) args: Vec<SqlValue>,
    pub(super) options: StatementOptions,
}

/// From the child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    pub(super) id: u64,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Ok(Box<RawValue>),
    Error(Failure),
}

impl Outcome {
    pub(super) fn of<T: Serialize>(result: Result<T>) -> Self {
        let written = result.and_then(|value| {
            serde_json::value::to_raw_value(&value)
                .map_err(|error| Error::internal("an answer has no JSON form").with_source(error))
        });
        match written {
            Ok(value) => Self::Ok(value),
            Err(error) => Self::Error(Failure::from(&error)),
        }
    }
}

/// A part of a dump.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Lines {
    /// In base64, since a dump's lines are bytes.
    pub(super) lines: Vec<String>,
    pub(super) end: bool,
}

impl Lines {
    /// The next part of a dump.
    pub(super) async fn of(dump: &mut DumpStream) -> Result<Self> {
        let (mut part, mut bytes) = (Self::default(), 0);
        while bytes < PART_BYTES {
            let Some(line) = next(dump).await.transpose()? else {
                part.end = true;
                break;
            };
            bytes += line.len();
            part.lines.push(STANDARD.encode(line));
        }
        Ok(part)
    }
}

/// The original lines of a part.
pub(super) fn decoded<C: FromIterator<Vec<u8>>>(lines: &[String]) -> Result<C> {
    lines
        .iter()
        .map(|line| STANDARD.decode(line))
        .collect::<Result<_, _>>()
        .map_err(|error| Error::invalid("a dump's line is not base64").with_source(error))
}
