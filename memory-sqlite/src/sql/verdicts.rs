//! What the validator says about a text, remembered.

use std::sync::{Mutex, PoisonError};

use memory_core::{Error, ErrorKind, Result};
use memory_validator::{Accepted, Dialect, Mode, Policy, Refusal, Stages, StatementKind, Validator, Verdict};

use super::two_ages::TwoAges;
use crate::sandbox::Sandbox;

/// Full-text tables that one statement calls.
const MOST_CALLED: usize = 16;

/// What a text of a statement was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) kind: StatementKind,
}

/// The policy, and the verdicts about texts seen lately.
#[derive(Debug)]
pub(crate) struct Verdicts {
    policy: Policy,
    exec: Mutex<TwoAges<Box<str>, Judged>>,
    query: Mutex<TwoAges<Box<str>, Judged>>,
}

impl Verdicts {
    pub(crate) fn new<'a>(bytes: usize, shared: impl Iterator<Item = &'a str>) -> Self {
        let mut policy = Policy::new(Dialect::Sqlite);
        for name in shared {
            policy.schemas.insert(name.to_owned());
            policy.read_only_schemas.insert(name.to_owned());
        }
        let ages = || Mutex::new(TwoAges::new(bytes / 2));
        Self { policy, exec: ages(), query: ages() }
    }

    /// What is known of a text without looking at it.
    pub(crate) fn known(&self, sql: &str, mode: Mode) -> Option<Judged> {
        self.of(mode).lock().unwrap_or_else(PoisonError::into_inner).get(sql)
    }

    /// Decides about a text, on a stack of which [`memory_validator::STACK_BYTES`] are free.
    ///
    /// # Errors
    /// `statement_refused`, `read_only`, `too_large`.
    pub(crate) fn judge(&self, sql: &str, mode: Mode, stages: Stages) -> Result<Judged> {
        if stages == Stages::ALL
            && let Some(judged) = self.known(sql, mode)
        {
            return Ok(judged);
        }
        let verdict = check(sql, mode, &self.policy, stages);
        let Accepted { kind, .. } = verdict.into_result().map_err(refused)?;
        let judged = Judged { kind };
        if stages == Stages::ALL {
            self.remember(sql, mode, judged);
        }
        Ok(judged)
    }

    /// As [`Verdicts::judge`], where the text runs on this connection: the full-text tables of its database may be called
    /// as functions, `FROM notes('word')`. What they are called may be the name of anything else tomorrow, so that is not
    /// remembered.
    ///
    /// # Errors
    /// As [`Verdicts::judge`], and what the engine has against reading the schema.
    pub(crate) fn judge_on(
        &self,
        sandbox: &Sandbox,
        sql: &str,
        mode: Mode,
        stages: Stages,
    ) -> Result<Judged> {
        let mut error = match self.judge(sql, mode, stages) {
            Err(error) if called(&error).is_some() => error,
            judged => return judged,
        };
        let mut policy = self.policy.clone();
        // Each time round one more name is known.
        for _ in 0..MOST_CALLED {
            let Some(name) = called(&error) else { break };
            if !sandbox.is_virtual(name)? {
                break;
            }
            policy = policy.with_table_function(name);
            match check(sql, mode, &policy, stages).into_result() {
                Ok(Accepted { kind, .. }) => return Ok(Judged { kind }),
                Err(refusal) => error = refused(refusal),
            }
        }
        Err(error)
    }

    /// Decides about a short text on any stack; `None`: it is not short, or it is refused.
    pub(crate) fn judge_short(&self, sql: &str, mode: Mode) -> Option<Judged> {
        let verdict = Validator::check_short(sql, Dialect::Sqlite, mode, &self.policy)?;
        let judged = Judged { kind: verdict.into_result().ok()?.kind };
        self.remember(sql, mode, judged);
        Some(judged)
    }

    fn remember(&self, sql: &str, mode: Mode, judged: Judged) {
        let weight = sql.len() + 96;
        self.of(mode).lock().unwrap_or_else(PoisonError::into_inner).put(sql.into(), judged, weight);
    }

    fn of(&self, mode: Mode) -> &Mutex<TwoAges<Box<str>, Judged>> {
        match mode {
            Mode::Exec => &self.exec,
            Mode::Query => &self.query,
        }
    }
}

fn check(sql: &str, mode: Mode, policy: &Policy, stages: Stages) -> Verdict {
    if stages == Stages::ALL {
        Validator::check_here(sql, Dialect::Sqlite, mode, policy)
    } else {
        Validator::check_stages(sql, Dialect::Sqlite, mode, policy, stages)
    }
}

/// The name for which a text was refused, where that was called as a table function.
pub(crate) fn called(error: &Error) -> Option<&str> {
    let text = |name| error.details().get(name).and_then(serde_json::Value::as_str);
    text("rule").filter(|rule| *rule == "table_function")?;
    text("construct")?.strip_suffix('(')
}

fn refused(refusal: Refusal) -> Error {
    let kind = if refusal.writes { ErrorKind::ReadOnly } else { ErrorKind::StatementRefused };
    Error::new(kind, refusal.to_string())
        .with_detail("stage", refusal.stage.name())
        .with_detail("rule", refusal.rule)
        .with_detail("construct", refusal.construct)
        .with_detail("line", refusal.position.line)
        .with_detail("column", refusal.position.column)
        .with_detail("instead", refusal.instead)
}
