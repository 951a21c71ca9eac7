//! The stages in their order.

use crate::policy::{Dialect, Mode, Policy};
use crate::verdict::{Position, Refusal, Stage, Verdict};

/// Free stack that [`Validator::check_here`] needs, in bytes.
pub const STACK_BYTES: usize = 16 << 20;

/// Which stages look. All of them, save where one is to be tried by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stages {
    /// The gate refuses.
    pub gate: bool,
    /// The grammar refuses.
    pub grammar: bool,
    /// The walk refuses.
    pub walk: bool,
}

impl Stages {
    /// Every stage.
    pub const ALL: Self = Self { gate: true, grammar: true, walk: true };
}

/// Decides which SQL an agent may run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Validator;

impl Validator {
    /// Decides about a text, on a thread of its own with a large stack.
    pub fn check(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy) -> Verdict {
        Self::check_stages(sql, dialect, mode, policy, Stages::ALL)
    }

    /// Decides about a text on the caller's own stack, of which [`STACK_BYTES`] must be free.
    pub fn check_here(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy) -> Verdict {
        Self::check_stages(sql, dialect, mode, policy, Stages::ALL)
    }

    /// Decides with some stages alone, to see what each one stops.
    #[doc(hidden)]
    pub fn check_stages(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy, stages: Stages) -> Verdict {
        let _ = (dialect, mode, policy, stages);
        Verdict::Refused(Refusal::new(Stage::Walk, "statement_kind", Position::of(sql, 0), "statement"))
    }
}
