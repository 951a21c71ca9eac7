//! What the validator says about a text, remembered.

use std::sync::{Mutex, PoisonError};

use memory_core::{Error, ErrorKind, Result};
use memory_validator::{Accepted, Dialect, Mode, Policy, Refusal, Stages, StatementKind, Validator};

use super::two_ages::TwoAges;

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
        let verdict = if stages == Stages::ALL {
            Validator::check_here(sql, Dialect::Sqlite, mode, &self.policy)
        } else {
            Validator::check_stages(sql, Dialect::Sqlite, mode, &self.policy, stages)
        };
        let Accepted { kind, .. } = verdict.into_result().map_err(refused)?;
        let judged = Judged { kind };
        if stages == Stages::ALL {
            let weight = sql.len() + 96;
            self.of(mode).lock().unwrap_or_else(PoisonError::into_inner).put(sql.into(), judged, weight);
        }
        Ok(judged)
    }

    fn of(&self, mode: Mode) -> &Mutex<TwoAges<Box<str>, Judged>> {
        match mode {
            Mode::Exec => &self.exec,
            Mode::Query => &self.query,
        }
    }
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
