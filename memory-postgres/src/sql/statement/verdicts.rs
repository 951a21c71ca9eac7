//! Checks statements, and caches the verdicts. Also numbers the placeholders.

use std::sync::Arc;

use memory_core::{Error, Result};
use memory_sql::refused;
use memory_validator::{Dialect, Mode, Numbered, Policy, Stages, StatementKind, Validator};

/// The validator's findings about a statement.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) kind: StatementKind,
    /// The text with `$n` for each `?`: this is what was checked and what runs.
    pub(crate) text: Arc<str>,
    /// Number of arguments.
    pub(crate) arguments: usize,
    /// Whether it reads the position of a sequence in this session.
    pub(crate) reads_positions: bool,
}

/// Memory for the host's own statements.
const OF_HOST_BYTES: usize = 512 << 10;

/// The policy, and recent verdicts.
#[derive(Debug)]
pub(crate) struct Verdicts {
    policy: Arc<Policy>,
    known: memory_sql::Verdicts<Judged>,
    /// The host's own statements, which are not verdicts.
    of_host: memory_sql::Verdicts<Judged>,
}

impl Verdicts {
    /// How often a verdict was known, and how often it was not.
    pub(crate) fn uses(&self) -> (u64, u64) {
        self.known.uses()
    }

    pub(crate) fn new(bytes: usize, shared: &[String]) -> Self {
        let policy = shared.iter().fold(policy(), |policy, name| policy.with_read_only_schema(name));
        Self {
            policy: Arc::new(policy),
            known: memory_sql::Verdicts::new(bytes),
            of_host: memory_sql::Verdicts::new(OF_HOST_BYTES),
        }
    }

    /// Checks a text for this scope, whose own schema it may name. Such a verdict holds only for this scope and is not
    /// cached.
    pub(crate) async fn judge_in(&self, own: &str, sql: &str, mode: Mode, stages: Stages) -> Result<Judged> {
        match self.judge(sql, mode, stages).await {
            Err(_) if sql.contains(own) => {
                let policy = Policy::clone(&self.policy).with_schema(own);
                decided(sql, mode, Arc::new(policy), stages).await
            }
            judged => judged,
        }
    }

    /// A statement of the host's own, which is not checked: its placeholders are numbered.
    pub(crate) fn of_own(&self, sql: &str) -> Result<Judged> {
        if let Some(judged) = self.of_host.get(sql, Mode::Exec) {
            return Ok(judged);
        }
        let numbered = Numbered::of(sql, &self.policy.limits).map_err(refused)?;
        let (text, arguments) = numbered.into_parts();
        let kind = StatementKind::of_own(sql);
        let judged = Judged { kind, text: text.into(), arguments, reads_positions: false };
        self.of_host.put(sql, Mode::Exec, judged.clone(), sql.len() * 2 + 160);
        Ok(judged)
    }

    /// Checks a text.
    /// Fails with `statement_refused`, `read_only`, `too_large`.
    async fn judge(&self, sql: &str, mode: Mode, stages: Stages) -> Result<Judged> {
        if stages == Stages::ALL
            && let Some(judged) = self.known.get(sql, mode)
        {
            return Ok(judged);
        }
        let judged = decided(sql, mode, Arc::clone(&self.policy), stages).await?;
        if stages == Stages::ALL {
            self.known.put(sql, mode, judged.clone(), sql.len() * 2 + 160);
        }
        Ok(judged)
    }
}

/// Checks on a blocking thread, since a parser needs a large stack and time.
async fn decided(sql: &str, mode: Mode, policy: Arc<Policy>, stages: Stages) -> Result<Judged> {
    let text = sql.to_owned();
    let work = tokio::task::spawn_blocking(move || decide(&text, mode, &policy, stages));
    work.await.map_err(|error| {
        Error::unavailable("the statement could not be read now; try again").with_source(error)
    })?
}

/// The policy for agents.
pub(crate) fn policy() -> Policy {
    Policy::new(Dialect::Postgres)
}

fn decide(sql: &str, mode: Mode, policy: &Policy, stages: Stages) -> Result<Judged> {
    let numbered = Numbered::of(sql, &policy.limits).map_err(refused)?;
    let kind = if stages.gate || stages.grammar || stages.walk {
        let verdict = Validator::check_stages(numbered.text(), Dialect::Postgres, mode, policy, stages);
        let accepted = verdict.into_result();
        accepted.map_err(|refusal| refused(numbered.refusal_in(sql, refusal)))?.kind
    } else {
        StatementKind::Select
    };
    let (text, arguments) = numbered.into_parts();
    let reads_positions = reads_positions(&text);
    Ok(Judged { kind, text: text.into(), arguments, reads_positions })
}

/// Whether a text contains `currval` or `lastval` anywhere; an escape in a quoted name could spell them too.
fn reads_positions(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("val") && (text.contains("currval") || text.contains("lastval")) || text.contains("u&\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_sequence_positions_are_recognised() {
        for sql in ["SELECT lastval()", "INSERT INTO t VALUES (CurrVal('s'))", "SELECT U&\"\\006castval\"()"]
        {
            assert!(reads_positions(sql), "{sql}");
        }
        assert!(!reads_positions("INSERT INTO t VALUES (nextval('s'), 'interval')"));
    }
}
