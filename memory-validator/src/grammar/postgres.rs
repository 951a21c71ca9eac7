//! PostgreSQL's own grammar.

use crate::gate::token::Lexed;
use crate::policy::{Mode, Policy};
use crate::validator::Stages;
use crate::verdict::{Accepted, Position, Refusal, Stage};

/// Parses and walks.
pub(crate) fn judge(
    lexed: &Lexed<'_>,
    mode: Mode,
    policy: &Policy,
    stages: Stages,
) -> Result<Accepted, Refusal> {
    let _ = (mode, policy, stages);
    Err(Refusal::new(Stage::Grammar, "dialect", Position::of(lexed.sql, 0), "statement")
        .because("this grammar is not served yet"))
}
