//! Statements without data, for logs.

use crate::gate;
use crate::gate::token::Kind;
use crate::policy::{Dialect, Limits};

/// The text with `mark` in place of every literal (text, bytes, numbers) and without comments. Names, keywords and
/// parameters stay. A text over the default caps, which is not tokenized, becomes just `mark`.
///
/// ```
/// use memory_validator::{Dialect, without_literals};
/// let sql = "INSERT INTO people VALUES ('Ann', 42, ?) -- a note";
/// assert_eq!(without_literals(sql, Dialect::Sqlite, "_"), "INSERT INTO people VALUES (_, _, ?)");
/// ```
#[must_use]
pub fn without_literals(sql: &str, dialect: Dialect, mark: &str) -> String {
    let Ok(lexed) = gate::lex(sql, dialect, &Limits::default()) else { return mark.to_owned() };
    let mut text = String::with_capacity(sql.len());
    let mut end = 0;
    for token in &lexed.tokens {
        let start = usize::try_from(token.start).unwrap_or(usize::MAX);
        if start > end {
            // Between tokens there is only white space or a comment.
            let between = sql.get(end..start).unwrap_or_default();
            let is_space = between.bytes().all(|byte| byte.is_ascii_whitespace());
            text.push_str(if is_space { between } else { " " });
        }
        match token.kind {
            Kind::Text | Kind::Blob | Kind::Number | Kind::Illegal => text.push_str(mark),
            _ => text.push_str(lexed.text(*token)),
        }
        end = usize::try_from(token.end).unwrap_or(usize::MAX);
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_literal_and_no_comment_stays() {
        for (dialect, sql, clean) in [
            (
                Dialect::Sqlite,
                "SELECT 'it''s' || x'00ff', 1.5e3 FROM \"a b\"",
                "SELECT # || #, # FROM \"a b\"",
            ),
            (Dialect::Sqlite, "SELECT [it's], 'secret'", "SELECT [it's], #"),
            (Dialect::Sqlite, "SELECT a /* 'secret' */ FROM t -- secret", "SELECT a FROM t"),
            (Dialect::Sqlite, "SELECT ?1, $2 LIMIT 10", "SELECT ?1, $2 LIMIT #"),
            (Dialect::Postgres, "SELECT $$se'cret$$, E'a\\'secret', $1", "SELECT #, #, $1"),
        ] {
            assert_eq!(without_literals(sql, dialect, "#"), clean, "{sql}");
        }
    }

    #[test]
    fn what_is_cut_off_or_too_long_shows_nothing() {
        for sql in ["SELECT 'secret", "SELECT /* secret", "SELECT x'secret"] {
            assert!(!without_literals(sql, Dialect::Sqlite, "#").contains("secret"), "{sql}");
        }
        assert_eq!(without_literals(&format!("SELECT '{}'", "s".repeat(2 << 20)), Dialect::Sqlite, "#"), "#");
    }
}
