//! The messages between the two processes: one JSON document per line.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memory_core::sql::{DumpStream, RestoreOptions, SqlValue, StatementOptions, TxId};
use memory_core::{Cursor, Error, ErrorKind, Result, Retry, RunContext, Scope, ScopeId, ScopeKind, TenantId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

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

/// `Dump` opens a dump, which `Next` reads. `Restore` is answered when it has ended; `Part` feeds it and `Finish` ends its
/// input. `Cancel` says that the caller no longer waits for that call, and has no reply.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Call {
    Exec(Statement),
    Query(Statement),
    Begin {
        run: Caller,
        #[serde(deserialize_with = "stored")]
        scope: Scope,
        parent: Option<TxId>,
    },
    Commit {
        run: Caller,
        #[serde(deserialize_with = "stored")]
        scope: Scope,
        tx: TxId,
    },
    Rollback {
        run: Caller,
        #[serde(deserialize_with = "stored")]
        scope: Scope,
        tx: TxId,
    },
    DescribeTables {
        run: Caller,
        #[serde(deserialize_with = "stored")]
        scope: Scope,
    },
    SqlScopes {
        tenant: TenantId,
        cursor: Option<Cursor>,
        limit: usize,
    },
    DropSqlScope {
        #[serde(deserialize_with = "stored")]
        scope: Scope,
    },
    SqlUsage {
        #[serde(deserialize_with = "stored")]
        scope: Scope,
    },
    Dump {
        #[serde(deserialize_with = "stored")]
        scope: Scope,
    },
    Next {
        of: u64,
    },
    Restore {
        #[serde(deserialize_with = "stored")]
        scope: Scope,
        options: RestoreOptions,
    },
    Part {
        of: u64,
        lines: Vec<String>,
    },
    Finish {
        of: u64,
        whole: bool,
    },
    EndRun {
        tenant: TenantId,
        root_run: ScopeId,
    },
    Cancel {
        of: u64,
    },
}

/// A scope of any kind: what this process wrote, the other may read, also those of the runtime's own tables.
fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Scope, D::Error> {
    #[derive(Deserialize)]
    struct Stored {
        tenant: TenantId,
        kind: String,
        id: ScopeId,
    }
    let Stored { tenant, kind, id } = Stored::deserialize(deserializer)?;
    let kind = ScopeKind::from_stored(&kind).map_err(D::Error::custom)?;
    Ok(Scope::new(tenant, kind, id))
}

/// A run without its credentials, which SQL does not need.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Caller {
    tenant: TenantId,
    agent: ScopeId,
    user: Option<ScopeId>,
    run: ScopeId,
    root_run: ScopeId,
    trace: Option<String>,
}

impl From<&RunContext> for Caller {
    fn from(run: &RunContext) -> Self {
        Self {
            tenant: run.tenant.clone(),
            agent: run.agent.clone(),
            user: run.user.clone(),
            run: run.run.clone(),
            root_run: run.root_run.clone(),
            trace: run.trace.clone(),
        }
    }
}

impl From<Caller> for RunContext {
    fn from(caller: Caller) -> Self {
        let mut run = Self::new(caller.tenant, caller.agent, caller.run);
        run.user = caller.user;
        run.root_run = caller.root_run;
        run.trace = caller.trace;
        run
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Statement {
    pub(super) run: Caller,
    #[serde(deserialize_with = "stored")]
    pub(super) scope: Scope,
    pub(super) sql: String,
    pub(super) args: Vec<SqlValue>,
    tx: Option<TxId>,
    timeout_ms: Option<u64>,
    max_rows: usize,
    max_bytes: usize,
    quota_bytes: Option<u64>,
}

impl Statement {
    pub(super) fn new(
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Self {
        Self {
            run: run.into(),
            scope: scope.clone(),
            sql: sql.to_owned(),
            args: args.to_vec(),
            tx: options.tx,
            timeout_ms: options
                .timeout
                .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1)),
            max_rows: options.max_rows,
            max_bytes: options.max_bytes,
            quota_bytes: options.quota_bytes,
        }
    }

    pub(super) fn options(&self) -> StatementOptions {
        let mut options = StatementOptions::default();
        options.tx = self.tx.clone();
        options.timeout = self.timeout_ms.map(Duration::from_millis);
        options.max_rows = self.max_rows;
        options.max_bytes = self.max_bytes;
        options.quota_bytes = self.quota_bytes;
        options
    }
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

/// An error, without its cause.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    kind: ErrorKind,
    message: String,
    details: Map<String, Value>,
    /// Milliseconds; `None`: never.
    retry_after: Option<u64>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
            details: error.details().clone(),
            retry_after: match error.retry() {
                Retry::Never => None,
                Retry::Now => Some(0),
                Retry::After(wait) => Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1)),
            },
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let retry = match failure.retry_after {
            None => Retry::Never,
            Some(0) => Retry::Now,
            Some(wait) => Retry::After(Duration::from_millis(wait)),
        };
        let error = Self::new(failure.kind, failure.message).with_retry(retry);
        failure.details.into_iter().fold(error, |error, (name, value)| error.with_detail(&name, value))
    }
}

/// A part of a dump.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Lines {
    /// In base64: a dump's lines are bytes.
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

/// The lines of a part as they were.
pub(super) fn decoded<C: FromIterator<Vec<u8>>>(lines: &[String]) -> Result<C> {
    lines
        .iter()
        .map(|line| STANDARD.decode(line))
        .collect::<Result<_, _>>()
        .map_err(|error| Error::invalid("a dump's line is not base64").with_source(error))
}
