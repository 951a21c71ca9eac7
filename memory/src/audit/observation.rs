//! A finished call on its way to the auditor's thread, where it becomes a record.

use memory_core::SqlDialect;

use super::record::{AuditCall, AuditMode};
use super::redact::Redactor;
use super::statement::{About, Statement};
use crate::tool::ops::ToolOp;

/// A finished call.
#[derive(Debug)]
pub(super) struct Observation {
    /// Not redacted yet; what comes from the statement and the input is still missing.
    pub(super) call: AuditCall,
    /// How to parse this backend's statements, if it has SQL.
    pub(super) statement: Option<Statement>,
    pub(super) sql: Option<String>,
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

    pub(super) fn record(self, mode: AuditMode, redactor: &Redactor) -> AuditCall {
        let Self { mut call, statement, sql, content } = self;
        match (mode, content) {
            (AuditMode::Full, Content::Input(input)) => {
                call.input = Some(shown(&input, call.op, statement, redactor));
            }
            (AuditMode::Full, Content::Omitted) => {
                call.input_omitted = Some("the input is over 256 KiB, or too many inputs were waiting");
            }
            _ => {}
        }
        let about = match (statement, &sql) {
            (Some(statement), Some(sql)) => statement.about(sql, redactor),
            _ => About::default(),
        };
        (call.statement, call.tables) = (about.kind, about.tables);
        for text in [&mut call.trace, &mut call.key, &mut call.prefix].into_iter().flatten() {
            *text = redactor.text(text).into_owned();
        }
        call
    }
}

/// A call's input as shown in a record. For a statement: what it does, never its data.
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
