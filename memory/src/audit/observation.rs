//! A finished call, sent to the auditor's thread, where it becomes a record.

use std::time::Duration;

use memory_core::{ScopeKind, SqlDialect, Timestamp};

use super::record::{AuditCall, AuditMode};
use super::redact::Redactor;
use super::statement::{About, Statement};
use crate::tool::ops::ToolOp;

/// A finished call.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) time: Timestamp,
    pub(super) elapsed: Duration,
    pub(super) tenant: String,
    pub(super) agent: String,
    pub(super) user: Option<String>,
    pub(super) run: String,
    pub(super) root_run: Option<String>,
    pub(super) trace: Option<String>,
    pub(super) op: Option<&'static str>,
    pub(super) scope: Option<ScopeKind>,
    pub(super) key: Option<String>,
    pub(super) prefix: Option<String>,
    /// How to parse this backend's statements, if it has SQL.
    pub(super) statement: Option<Statement>,
    pub(super) sql: Option<String>,
    pub(super) rows: Option<u64>,
    pub(super) bytes_in: usize,
    pub(super) bytes_out: usize,
    pub(super) outcome: &'static str,
    pub(super) refused_by: Option<String>,
    pub(super) fallback: Option<String>,
    pub(super) content: Content,
}

/// The input of a call, as far as the mode requires it.
pub(super) enum Content {
    /// The mode does not include it.
    Unwanted,
    Input(String),
    /// Too large, or the queue is too full.
    Omitted,
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Content")
    }
}

impl Observation {
    pub(super) fn content_bytes(&self) -> usize {
        let content = match &self.content {
            Content::Input(input) => input.len(),
            Content::Unwanted | Content::Omitted => 0,
        };
        content + self.sql.as_ref().map_or(0, String::len)
    }

    pub(super) fn omit_content(&mut self) {
        if let Content::Input(_) = self.content {
            self.content = Content::Omitted;
        }
        self.sql = None;
    }

    pub(super) fn record(self, number: u64, mode: AuditMode, redactor: &Redactor) -> AuditCall {
        let redacted = |text: Option<String>| text.map(|text| redactor.text(&text).into_owned());
        let (input, input_omitted) = match (mode, self.content) {
            (AuditMode::Full, Content::Input(input)) => {
                (Some(shown(&input, self.op, self.statement, redactor)), None)
            }
            (AuditMode::Full, Content::Omitted) => {
                (None, Some("the input is over 256 KiB, or too many inputs were waiting"))
            }
            _ => (None, None),
        };
        let about = match (self.statement, &self.sql) {
            (Some(statement), Some(sql)) => statement.about(sql, redactor),
            _ => About::default(),
        };
        AuditCall {
            number,
            time: self.time,
            tenant: self.tenant,
            agent: self.agent,
            user: self.user,
            run: self.run,
            root_run: self.root_run,
            trace: redacted(self.trace),
            op: self.op,
            scope: self.scope,
            key: redacted(self.key),
            prefix: redacted(self.prefix),
            statement: about.kind,
            tables: about.tables,
            rows: self.rows,
            bytes_in: self.bytes_in as u64,
            bytes_out: self.bytes_out as u64,
            micros: u64::try_from(self.elapsed.as_micros()).unwrap_or(u64::MAX),
            outcome: self.outcome,
            refused_by: self.refused_by,
            fallback: self.fallback,
            input,
            input_omitted,
        }
    }
}

/// A call's input as shown in a record: for a statement what it does, never its data.
fn shown(
    input: &str,
    op: Option<&str>,
    statement: Option<Statement>,
    redactor: &Redactor,
) -> serde_json::Value {
    let is_sql = op.is_some_and(|op| op == ToolOp::SqlExec.as_str() || op == ToolOp::SqlQuery.as_str());
    let Some(mut value) = is_sql.then(|| serde_json::from_str::<serde_json::Value>(input).ok()).flatten()
    else {
        return redactor.input(input);
    };
    statement.unwrap_or(Statement { dialect: SqlDialect::Sqlite }).redact(&mut value);
    redactor.input(&value.to_string())
}
