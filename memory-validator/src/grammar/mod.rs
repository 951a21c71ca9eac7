//! The grammars. Each parses the text and hands the tree to its walk; the tree never leaves.

pub(crate) mod flat_tree;
pub(crate) mod location;
pub(crate) mod portable;
#[cfg(feature = "pg-grammar")]
pub(crate) mod postgres;
mod postgres_calls;
mod postgres_definitions;
mod postgres_phrases;
mod postgres_reading;
mod postgres_statements;
#[cfg(feature = "sqlite-grammar")]
pub(crate) mod sqlite;
#[cfg(feature = "sqlite-grammar")]
mod sqlite_insert_rows;
mod tree_height;

use crate::gate::token::Lexed;
#[cfg(any(feature = "sqlite-grammar", feature = "pg-grammar"))]
use crate::policy::Grammar;
use crate::policy::{Dialect, Mode, Policy};
use crate::stages::Stages;
use crate::verdict::{Accepted, Refusal};

/// Parses and walks. With `stages.grammar` off, text that does not parse is still refused, since there is nothing to
/// walk, but as a refusal of the walk; with `stages.walk` off, a tree is accepted unseen.
pub(crate) fn judge(
    lexed: &Lexed<'_>,
    mode: Mode,
    policy: &Policy,
    stages: Stages,
) -> Result<Accepted, Refusal> {
    match (lexed.dialect, policy.grammar) {
        #[cfg(feature = "sqlite-grammar")]
        (Dialect::Sqlite, Grammar::Engine) => sqlite::judge(lexed, mode, policy, stages),
        #[cfg(feature = "pg-grammar")]
        (Dialect::Postgres, Grammar::Engine) => postgres::judge(lexed, mode, policy, stages),
        (Dialect::Sqlite | Dialect::Postgres, _) => portable::judge(lexed, mode, policy, stages),
    }
}
