//! The possible height of a text's syntax tree, estimated from its tokens.
//!
//! Brackets and chains of operators are capped, but a chain of chains is as high as their sum, and a tree is built,
//! copied and dropped recursively, partly by code that does not check its stack.

use crate::gate::token::{Kind, Lexed, Role};
use crate::verdict::{Refusal, Stage};

/// The highest allowed tree, which is parsed, read and dropped within a few megabytes of stack.
const HIGHEST: usize = 3_000;

/// Operators in a row whose left side the portable grammar copies, with quadratic work.
const COPYING: usize = 50;

#[derive(Clone, Copy, Default)]
struct Level {
    /// Operators since the last comma or clause.
    run: usize,
    /// The highest bracket since then.
    inner: usize,
    /// The highest run with its brackets so far.
    highest: usize,
    /// Queries and tables joined.
    compounds: usize,
    /// `GLOB`, `MATCH` and `REGEXP` since the last comma or clause.
    copying: usize,
}

impl Level {
    fn settle(&mut self) {
        self.highest = self.highest.max(self.run + self.inner);
        (self.run, self.inner, self.copying) = (0, 0, 0);
    }

    fn height(mut self) -> usize {
        self.settle();
        self.highest + self.compounds + 1
    }
}

/// Refuses a tree that could become too high.
pub(crate) fn check(lexed: &Lexed<'_>) -> Result<(), Refusal> {
    let mut outer: Vec<Level> = Vec::new();
    let mut here = Level::default();
    for token in lexed.tokens.iter().copied() {
        match token.kind {
            Kind::Open => {
                outer.push(here);
                here = Level::default();
            }
            Kind::Close => {
                let height = here.height();
                here = outer.pop().unwrap_or_default();
                // Brackets may follow each other, each applied to what precedes it: `a[1](2)`.
                here.run += 1;
                here.inner = here.inner.max(height);
            }
            Kind::Comma | Kind::Semicolon => here.settle(),
            Kind::Operator => here.run += 1,
            Kind::Word => match token.role {
                Role::Operator | Role::SoftOperator => {
                    here.run += 1;
                    if lexed.text(token).len() > 3 && is_copying(lexed.text(token)) {
                        here.copying += 1;
                    }
                }
                Role::Compound => {
                    here.settle();
                    here.compounds += 1;
                }
                Role::Clause => here.settle(),
                // A value may start with words: CASE, CAST, INTERVAL.
                Role::Case => here.inner += 1,
                Role::None | Role::Soft | Role::Hard | Role::End => {}
            },
            _ => {}
        }
        if here.run + here.inner + here.compounds > HIGHEST || here.copying > COPYING {
            return Err(Refusal::new(
                Stage::Grammar,
                "too_long",
                lexed.position(token),
                lexed.text(token).chars().take(32).collect::<String>(),
            )
            .because("operators and brackets build on each other for too long")
            .instead("use a list (`IN (…)`, rows of `VALUES`), a table of values, or several statements"));
        }
    }
    Ok(())
}

fn is_copying(word: &str) -> bool {
    ["glob", "match", "regexp"].iter().any(|copying| word.eq_ignore_ascii_case(copying))
}
