//! Checks statements, and caches the verdicts.

use memory_core::{Error, Result};
use memory_sql::refused;
use memory_validator::{Accepted, Dialect, Mode, Policy, Stages, StatementKind, Validator, Verdict};

use crate::sandbox::Sandbox;

/// Most full-text tables that one statement may call as functions.
const MAX_CALLED: usize = 16;

/// The validator's findings about a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) kind: StatementKind,
}

/// The policy, and recent verdicts.
#[derive(Debug)]
pub(crate) struct Verdicts {
    policy: Policy,
    known: memory_sql::Verdicts<Judged>,
}

impl Verdicts {
    pub(crate) fn new<'a>(bytes: usize, shared: impl Iterator<Item = &'a str>) -> Self {
        let mut policy = Policy::new(Dialect::Sqlite);
        for name in shared {
            policy.schemas.insert(name.to_owned());
            policy.read_only_schemas.insert(name.to_owned());
        }
        Self { policy, known: memory_sql::Verdicts::new(bytes) }
    }

    /// How often a verdict was known, and how often it was not.
    pub(crate) fn uses(&self) -> (u64, u64) {
        self.known.uses()
    }

    /// The cached verdict about a text.
    pub(crate) fn known(&self, sql: &str, mode: Mode) -> Option<Judged> {
        self.known.get(sql, mode)
    }

    /// Checks a text. The stack must have [`memory_validator::STACK_BYTES`] free.
    /// Fails with `statement_refused`, `read_only`, `too_large`.
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

    /// Like [`Verdicts::judge`], for a text that runs on this connection: its database's full-text tables may be called
    /// as functions, `FROM notes('word')`. Such a name may mean something else later, so the verdict is not cached.
    /// Fails as [`Verdicts::judge`] does, or with the engine's errors when reading the schema.
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
        // Each round allows one more name.
        for _ in 0..MAX_CALLED {
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

    /// Checks a short text on any stack; `None` if it is not short, or is refused.
    pub(crate) fn judge_short(&self, sql: &str, mode: Mode) -> Option<Judged> {
        let verdict = Validator::check_short(sql, Dialect::Sqlite, mode, &self.policy)?;
        let judged = Judged { kind: verdict.into_result().ok()?.kind };
        self.remember(sql, mode, judged);
        Some(judged)
    }

    fn remember(&self, sql: &str, mode: Mode, judged: Judged) {
        self.known.put(sql, mode, judged, sql.len() + 96);
    }
}

fn check(sql: &str, mode: Mode, policy: &Policy, stages: Stages) -> Verdict {
    if stages == Stages::ALL {
        Validator::check_here(sql, Dialect::Sqlite, mode, policy)
    } else {
        Validator::check_stages(sql, Dialect::Sqlite, mode, policy, stages)
    }
}

/// The name for which a text was refused, if it was called as a table function.
pub(crate) fn called(error: &Error) -> Option<&str> {
    let text = |name| error.details().get(name).and_then(serde_json::Value::as_str);
    text("rule").filter(|rule| *rule == "table_function")?;
    text("construct")?.strip_suffix('(')
}
