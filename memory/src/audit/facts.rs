//! Facts about a call, collected while it runs. Everything slow is left to the auditor's thread.

use std::time::Instant;

use memory_core::{Error, Result, RunContext, ScopeKind, SqlDialect};
use serde::Deserialize;
use serde::de::{IgnoredAny, SeqAccess, Visitor};

use super::auditor::Auditor;
use super::observation::{Content, Observation};
use super::record::{AuditCall, AuditFact, AuditMode, MAX_RECALLED};
use super::statement::Statement;
use crate::tool::ops::{DEFAULT_SCOPE, ToolOp};

/// Larger inputs, in bytes, are recorded without their content.
const MAX_CONTENT: usize = 256 << 10;
/// The outcome of a call whose future was dropped.
const CANCELLED: &str = "cancelled";

/// Facts about one call, which become a record when dropped: a cancelled call is recorded as such.
pub(crate) struct Facts<'a> {
    auditor: &'a Auditor,
    input: &'a str,
    started: Instant,
    statement: Option<Statement>,
    sql: Option<String>,
    call: AuditCall,
}

impl<'a> Facts<'a> {
    pub(crate) fn begin(
        auditor: &'a Auditor,
        run: &RunContext,
        dialect: Option<SqlDialect>,
        input: &'a str,
    ) -> Self {
        let call = AuditCall {
            time: auditor.now(),
            tenant: run.tenant.as_str().to_owned(),
            agent: run.agent.as_str().to_owned(),
            user: run.user.as_ref().map(|user| user.as_str().to_owned()),
            run: run.run.as_str().to_owned(),
            root_run: (run.root_run != run.run).then(|| run.root_run.as_str().to_owned()),
            trace: run.trace.clone(),
            bytes_in: input.len() as u64,
            outcome: CANCELLED,
            ..AuditCall::default()
        };
        let statement = dialect.map(|dialect| Statement { dialect });
        Self { auditor, input, started: Instant::now(), statement, sql: None, call }
    }

    /// Records what is called. `field` returns a field's JSON text. If no scope is named, an operation that has one
    /// uses the default.
    pub(crate) fn called<'f>(
        &mut self,
        op: ToolOp,
        has_scope: bool,
        field: impl Fn(&str) -> Option<&'f str>,
    ) {
        let string = |name| field(name).and_then(|raw| serde_json::from_str::<String>(raw).ok());
        self.call.op = Some(op.as_str());
        self.call.key = string("key");
        self.call.prefix = string("prefix");
        self.sql = string("sql").filter(|sql| sql.len() <= MAX_CONTENT);
        self.call.scope = match field("scope") {
            // If there are several, each fact names its own.
            None => {
                has_scope.then_some(DEFAULT_SCOPE).filter(|_| field("scopes").is_none_or(|raw| raw == "null"))
            }
            Some(raw) => serde_json::from_str(raw).ok(),
        };
    }

    /// Records a command on files, by its path.
    pub(crate) fn touched(&mut self, op: &'static str, scope: ScopeKind, path: Option<String>) {
        (self.call.op, self.call.scope, self.call.key) = (Some(op), Some(scope), path);
    }

    /// Records which backend answered in place of the usual one.
    #[cfg(feature = "sqlite")]
    pub(crate) fn fell_back(&mut self, who: String) {
        self.call.fallback = Some(who);
    }

    /// Records the facts given to the caller.
    pub(crate) fn recalled(&mut self, facts: impl Iterator<Item = AuditFact>) {
        self.call.recalled = facts.take(MAX_RECALLED).collect();
    }

    /// Records the outcome, and the size of the answer.
    pub(crate) fn ended(&mut self, result: &Result<String>, bytes_out: usize) {
        self.call.bytes_out = bytes_out as u64;
        match result {
            Ok(answer) => (self.call.outcome, self.call.rows) = ("ok", rows_of(answer)),
            Err(error) => {
                self.call.outcome = error.kind().code();
                self.call.refused_by = self.sql.as_ref().and_then(|_| refused_by(error));
            }
        }
    }
}

impl Drop for Facts<'_> {
    fn drop(&mut self) {
        let mut call = std::mem::take(&mut self.call);
        call.micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let content = match self.auditor.mode() {
            AuditMode::Metadata => Content::Unwanted,
            AuditMode::Full if self.input.len() > MAX_CONTENT => Content::Omitted,
            AuditMode::Full => Content::Input(self.input.to_owned()),
        };
        self.auditor.take(Observation { call, statement: self.statement, sql: self.sql.take(), content });
    }
}

/// The validator's rule or the engine's layer that refused a statement.
fn refused_by(error: &Error) -> Option<String> {
    let detail = |name: &str| error.details().get(name).and_then(serde_json::Value::as_str);
    match (detail("stage"), detail("rule")) {
        (Some(stage), Some(rule)) => Some(format!("{stage}:{rule}")),
        _ => detail("layer").map(str::to_owned),
    }
}

/// The number of rows in an answer: the length of its list, or the number it states.
fn rows_of(answer: &str) -> Option<u64> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Answer {
        found: Option<bool>,
        deleted: Option<bool>,
        #[serde(
            alias = "hits",
            alias = "facts",
            alias = "rows",
            alias = "scopes",
            alias = "ids",
            alias = "outcomes",
            alias = "events",
            alias = "pending"
        )]
        entries: Option<Length>,
        #[serde(alias = "rows_affected", alias = "forgotten")]
        count: Option<u64>,
        version: Option<IgnoredAny>,
    }
    let answer: Answer = serde_json::from_str(answer).ok()?;
    let of_one = |yes: bool| u64::from(yes);
    answer
        .count
        .or(answer.entries.map(|length| length.0))
        .or(answer.found.map(of_one))
        .or(answer.deleted.map(of_one))
        .or(answer.version.map(|_| 1))
}

/// The length of a list.
struct Length(u64);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Length;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Length, A::Error> {
                let mut length = 0;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    length += 1;
                }
                Ok(Length(length))
            }
        }
        deserializer.deserialize_seq(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_from_the_answer() {
        for (answer, rows) in [
            (r#"{"found":true,"key":"a","value":[1,2],"version":3}"#, Some(1)),
            (r#"{"found":false,"value":null}"#, Some(0)),
            (r#"{"entries":[{},{}],"truncated":false}"#, Some(2)),
            (r#"{"hits":[],"mode":"lexical"}"#, Some(0)),
            (r#"{"count":7,"created":2,"items":[]}"#, Some(7)),
            (r#"{"rows_affected":4}"#, Some(4)),
            (r#"{"deleted":true}"#, Some(1)),
            (r#"{"version":1,"created":true}"#, Some(1)),
            (r#"{"note_id":"n","status":"done","outcomes":[{}]}"#, Some(1)),
            (r#"{"row":{},"events":[{},{}],"dependents":[],"truncated":false}"#, Some(2)),
            (r#"{"pending":[],"truncated":false}"#, Some(0)),
            (r#"{"provider":"sqlite"}"#, None),
        ] {
            assert_eq!(rows_of(answer), rows, "{answer}");
        }
    }
}
