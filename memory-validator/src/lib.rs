//! Decides which SQL an agent may run.
//!
//! Agents may write SQL; the question is whether a statement stays inside its scope. Everything that the [`Policy`]
//! does not allow by name is refused. Three stages examine the text, and each can refuse it alone: a *gate* before any
//! parser (sizes, depths, tokens as the engine sees them, names), a *grammar* (the engine's own if available), and a
//! *walk* over the tree that knows every kind of node.
//!
//! The verdict is about the original text: run that text, never one rendered from a tree.
//!
//! ```
//! use memory_validator::{Dialect, Mode, Policy, Validator, Verdict};
//!
//! let policy = Policy::new(Dialect::Sqlite);
//! let verdict = Validator::check("SELECT name FROM people", Dialect::Sqlite, Mode::Query, &policy);
//! assert!(matches!(verdict, Verdict::Accepted(_)));
//!
//! let verdict = Validator::check("ATTACH 'other.db' AS o", Dialect::Sqlite, Mode::Exec, &policy);
//! let Verdict::Refused(refusal) = verdict else { panic!("accepted") };
//! assert_eq!(refusal.position.offset, 0);
//! ```

#[cfg(all(test, feature = "sqlite-grammar"))]
extern crate self as memory_validator;

mod fts5_options;
mod gate;
mod grammar;
mod literals;
mod placeholders;
mod policy;
mod refusals;
mod stages;
mod validator;
mod verdict;
mod walk;

pub use literals::without_literals;
pub use placeholders::{Numbered, Placeholder, placeholders};
pub use policy::{Dialect, Grammar, Limits, Mode, Policy};
pub use stages::Stages;
pub use validator::{SHORT_STACK_BYTES, STACK_BYTES, Validator};
pub use verdict::{Accepted, Access, Position, Refusal, Relation, Stage, StatementKind, Verdict};

/// The gate's tokens, for tests and fuzz targets.
#[doc(hidden)]
pub mod lab {
    use crate::gate::{self, token::Kind};
    use crate::validator::here;
    use crate::{Dialect, Limits, Mode, Policy, Stages, Verdict};

    /// Runs chosen stages on the caller's stack.
    pub fn check_here(sql: &str, dialect: Dialect, mode: Mode, policy: &Policy, stages: Stages) -> Verdict {
        here(sql, dialect, mode, policy, stages)
    }

    /// Start, end and kind (`word`, `quoted`, `text`, `operator`, `other`) of each token; empty if a cap is exceeded.
    #[must_use]
    pub fn tokens(sql: &str, dialect: Dialect) -> Vec<(usize, usize, &'static str)> {
        let Ok(lexed) = gate::lex(sql, dialect, &Limits::default()) else { return Vec::new() };
        let at = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
        let kind = |kind: Kind| match kind {
            Kind::Word => "word",
            Kind::Quoted => "quoted",
            Kind::Text => "text",
            Kind::Operator => "operator",
            _ => "other",
        };
        lexed.tokens.iter().map(|token| (at(token.start), at(token.end), kind(token.kind))).collect()
    }
}
