//! The stages in their order.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::gate;
use crate::grammar;
use crate::policy::{Dialect, Mode, Policy};
use crate::stages::Stages;
use crate::verdict::{Accepted, Position, Refusal, Stage, StatementKind, Verdict};

/// Free stack that [`Validator::check_here`] needs, in bytes.
pub const STACK_BYTES: usize = 16 << 20;

/// Free stack that [`Validator::check_short`] needs, in bytes.
pub const SHORT_STACK_BYTES: usize = 512 << 10;
/// Longest text that it decides about, in bytes.
const SHORT_BYTES: usize = 512;
/// Most tokens of such a text; no tree made from it is higher.
const SHORT_TOKENS: usize = 48;

/// Decides which SQL an agent may run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validator;

impl Validator {
    /// Decides about a text, on a separate thread with a large stack.
    pub fn check(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy) -> Verdict {
        Self::check_stages(sql, dialect, mode, policy, Stages::ALL)
    }

    /// Decides about a text on the caller's stack, which needs [`STACK_BYTES`] free: for callers that decide often and
    /// keep a thread for it.
    pub fn check_here(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy) -> Verdict {
        here(sql, dialect, mode, policy, Stages::ALL)
    }

    /// Decides about a short text on the caller's stack, which needs [`SHORT_STACK_BYTES`] free; `None` if it has more
    /// than 512 bytes or 48 tokens, and so may need more. The verdict is that of [`Validator::check`].
    pub fn check_short(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy) -> Option<Verdict> {
        if sql.len() > SHORT_BYTES {
            return None;
        }
        let mut limits = policy.limits.clone();
        limits.tokens = limits.tokens.min(SHORT_TOKENS);
        // Tokenizing does not recurse.
        gate::lex(sql, dialect, &limits).ok()?;
        Some(here(sql, dialect, mode, policy, Stages::ALL))
    }

    /// Decides with some of the stages, to see what each one stops. The caps always apply: without them no parser is
    /// safe.
    #[doc(hidden)]
    pub fn check_stages(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy, stages: Stages) -> Verdict {
        let decided = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .name("memory-validator".to_owned())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, || guarded(sql, dialect, mode, policy, stages))
                .ok()
                .and_then(|thread| thread.join().ok())
        });
        match decided {
            Some(Ok(accepted)) => Verdict::Accepted(accepted),
            Some(Err(refusal)) => Verdict::Refused(refusal),
            None => Verdict::Refused(
                Refusal::new(Stage::Grammar, "thread", Position::of(sql, 0), "statement")
                    .because("no thread could be started to check it")
                    .instead("try again"),
            ),
        }
    }
}

/// Decides with some stages on the caller's stack.
pub(crate) fn here(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy, stages: Stages) -> Verdict {
    match guarded(sql, dialect, mode, policy, stages) {
        Ok(accepted) => Verdict::Accepted(accepted),
        Err(refusal) => Verdict::Refused(refusal),
    }
}

type Decision = Result<Accepted, Refusal>;

/// If a parser panics, the text is refused.
fn guarded(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy, stages: Stages) -> Decision {
    catch_unwind(AssertUnwindSafe(|| decide(sql, dialect, mode, policy, stages))).unwrap_or_else(|_| {
        Err(Refusal::new(Stage::Grammar, "parser", Position::of(sql, 0), "statement")
            .because("the parser failed on it")
            .instead("write it in another way"))
    })
}

fn decide(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy, stages: Stages) -> Decision {
    let lexed = gate::lex(sql, dialect, &policy.limits)?;
    if stages.gate {
        gate::check(&lexed, mode, policy)?;
    }
    if !(stages.grammar || stages.walk) {
        // Only reached when stages are tried alone.
        return Ok(Accepted::new(StatementKind::Select));
    }
    grammar::judge(&lexed, mode, policy, stages)
}
