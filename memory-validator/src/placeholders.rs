//! The parameters of a statement.

use std::ops::Range;

use crate::gate;
use crate::gate::token::{Kind, Lexed, Role, Token};
use crate::policy::{Dialect, Limits};
use crate::verdict::{Position, Refusal};

/// A parameter in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placeholder {
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// The number of its argument, from 1.
    pub number: usize,
}

/// The parameters of a text in order: `?`, `?2` and `$2` on SQLite, `$2` and `?` on PostgreSQL. Those in literals and
/// comments do not count.
///
/// # Behavior
/// - A `?` without a number takes the argument after the highest one so far.
/// - On PostgreSQL, `?` is also an operator on JSON. There, a `?` on its own is a placeholder where a value must follow
///   (after an operator, an opening bracket, a comma, a keyword), and an operator after a value: `meta ? 'key'`. The
///   same applies next to other signs: `a=?`, `'%'||?||'%'`. `?|`, `?&` and `@?` are always operators, and so is `?-`
///   before a space. If both are needed, `$1` leaves no doubt.
///
/// # Errors
/// A text over a cap.
pub fn placeholders(sql: &str, dialect: Dialect, limits: &Limits) -> Result<Vec<Placeholder>, Refusal> {
    let lexed = gate::lex(sql, dialect, limits)?;
    let mut found = Vec::new();
    let mut highest = 0_usize;
    let mut before: Option<Token> = None;
    for token in lexed.tokens.iter().copied() {
        let text = lexed.text(token);
        let offset = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        let start = offset(token.start);
        let spans = match token.kind {
            Kind::Parameter => std::iter::once(start..offset(token.end)).collect(),
            // `?- segment`: an operator before its only operand.
            Kind::Operator
                if text == "?-"
                    && dialect == Dialect::Postgres
                    && sql
                        .get(offset(token.end)..)
                        .is_some_and(|rest| rest.starts_with(char::is_whitespace)) =>
            {
                Vec::new()
            }
            Kind::Operator if dialect == Dialect::Postgres => {
                within_operator(text, ends_value(&lexed, before))
                    .map(|at| start + at..start + at + 1)
                    .collect()
            }
            _ => Vec::new(),
        };
        // If a value comes last, its token may be an operator's.
        let stands_last = spans.last().is_some_and(|last| last.end == offset(token.end));
        for span in spans {
            let digits = text.get(1..).filter(|_| token.kind == Kind::Parameter);
            let number = digits.and_then(|digits| digits.parse().ok()).unwrap_or(highest.saturating_add(1));
            highest = highest.max(number);
            found.push(Placeholder { span, number });
        }
        before = Some(if stands_last { Token { kind: Kind::Parameter, ..token } } else { token });
    }
    Ok(found)
}

/// A PostgreSQL statement with `$n` for each `?`: what is judged, and what the server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    text: String,
    arguments: usize,
    /// Where each placeholder is now, and where it was.
    moved: Vec<(Range<usize>, Range<usize>)>,
}

impl Numbered {
    /// Numbers the placeholders of a text.
    ///
    /// # Errors
    /// As [`placeholders`].
    pub fn of(sql: &str, limits: &Limits) -> Result<Self, Refusal> {
        let mut numbered =
            Self { text: String::with_capacity(sql.len() + 8), arguments: 0, moved: Vec::new() };
        let mut done = 0;
        for Placeholder { span, number } in placeholders(sql, Dialect::Postgres, limits)? {
            numbered.arguments = numbered.arguments.max(number);
            numbered.text.push_str(sql.get(done..span.start).unwrap_or_default());
            let start = numbered.text.len();
            numbered.text.push('$');
            numbered.text.push_str(&number.to_string());
            done = span.end;
            // `?AND` is two words, `$1AND` none.
            let next = sql.get(done..).and_then(|rest| rest.chars().next());
            if next.is_some_and(|next| next.is_alphanumeric() || next == '_' || next == '$') {
                numbered.text.push(' ');
            }
            numbered.moved.push((start..numbered.text.len(), span));
        }
        numbered.text.push_str(sql.get(done..).unwrap_or_default());
        Ok(numbered)
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, and how many arguments it takes.
    #[must_use]
    pub fn into_parts(self) -> (String, usize) {
        (self.text, self.arguments)
    }

    /// A refusal of the text with its position in `sql`, from which the text was made.
    #[must_use]
    pub fn refusal_in(&self, sql: &str, mut refusal: Refusal) -> Refusal {
        let offset = refusal.position.offset;
        let offset = match self.moved.iter().rev().find(|(now, _)| now.start <= offset) {
            Some((now, was)) if offset < now.end => was.start,
            Some((now, was)) => was.end + (offset - now.end),
            None => offset,
        };
        refusal.position = Position::of(sql, offset);
        refusal
    }
}

/// Where question marks stand for values within a PostgreSQL operator, which includes every sign that it can: `a=?`,
/// `'%'||?||'%'`. None in an operator that itself contains one.
fn within_operator(text: &str, after_value: bool) -> impl Iterator<Item = usize> {
    let mut value = after_value;
    let mut places = Vec::new();
    for (at, sign) in text.char_indices() {
        if sign != '?' {
            value = false;
        } else if value {
            // `meta ? 'key'`, `a ?|| b`.
            places.clear();
            break;
        } else {
            places.push(at);
            value = true;
        }
    }
    if matches!(text, "@?" | "?|" | "?&") {
        places.clear();
    }
    places.into_iter()
}

/// Whether a value may end with a token, so that an operator follows.
fn ends_value(lexed: &Lexed<'_>, token: Option<Token>) -> bool {
    let Some(token) = token else { return false };
    match token.kind {
        Kind::Word => match token.role {
            Role::None | Role::Soft | Role::End => true,
            // `NULL ? …`; other keywords start or join something.
            Role::Hard => lexed.text(token).eq_ignore_ascii_case("null"),
            Role::Operator | Role::SoftOperator | Role::Compound | Role::Clause | Role::Case => false,
        },
        Kind::Quoted | Kind::Text | Kind::Blob | Kind::Number | Kind::Parameter | Kind::Close => true,
        Kind::Operator | Kind::Open | Kind::Comma | Kind::Dot | Kind::Semicolon | Kind::Illegal => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Numbered, placeholders};
    use crate::policy::{Dialect, Limits};
    use crate::verdict::{Position, Refusal, Stage};

    fn numbers(sql: &str, dialect: Dialect) -> Vec<(String, usize)> {
        let found = placeholders(sql, dialect, &Limits::default()).expect("within the caps");
        found.into_iter().map(|place| (sql[place.span].to_owned(), place.number)).collect()
    }

    fn postgres(sql: &str) -> Vec<(String, usize)> {
        numbers(sql, Dialect::Postgres)
    }

    fn of(places: &[(&str, usize)]) -> Vec<(String, usize)> {
        places.iter().map(|(text, number)| ((*text).to_owned(), *number)).collect()
    }

    #[test]
    fn a_question_mark_takes_the_next_argument() {
        let expected = of(&[("?", 1), ("?", 2), ("?", 3)]);
        let sql = "SELECT ? FROM t WHERE a = ? LIMIT ?";
        assert_eq!(postgres(sql), expected);
        assert_eq!(numbers(sql, Dialect::Sqlite), expected);
    }

    #[test]
    fn numbers_are_kept_and_counted_from() {
        assert_eq!(numbers("SELECT ?3, $1, ?", Dialect::Sqlite), of(&[("?3", 3), ("$1", 1), ("?", 4)]));
        assert_eq!(postgres("SELECT $2, $1, ?"), of(&[("$2", 2), ("$1", 1), ("?", 3)]));
    }

    #[test]
    fn after_a_value_it_is_an_operator_of_postgres() {
        assert_eq!(postgres("SELECT meta ? 'k', (meta) ? 'k', '{}'::jsonb ? $1"), of(&[("$1", 1)]));
        assert_eq!(postgres("SELECT meta ? ?, meta ?| ?, meta @? ?"), of(&[("?", 1), ("?", 2), ("?", 3)]));
    }

    #[test]
    fn a_place_may_touch_other_signs() {
        assert_eq!(
            postgres("SELECT 1 WHERE a=?AND b>=? AND c LIKE '%'||?||'%'"),
            of(&[("?", 1), ("?", 2), ("?", 3)])
        );
        assert_eq!(
            postgres("SELECT ?||?, -?, d->>?, ?-1"),
            of(&[("?", 1), ("?", 2), ("?", 3), ("?", 4), ("?", 5)])
        );
        assert_eq!(postgres("SELECT l ?|| m, a ?-| b, ?| c, d@? $1, ?- e, a ?- b"), of(&[("$1", 1)]));
    }

    #[test]
    fn in_literals_and_comments_it_is_nothing() {
        assert_eq!(postgres("SELECT '?', $$ ? $1 $$, \"?\" /* ? */ -- $9"), of(&[]));
        assert_eq!(numbers("SELECT '?', \"?\", [?] /* ? */ -- $9", Dialect::Sqlite), of(&[]));
    }

    fn numbered(sql: &str) -> Numbered {
        Numbered::of(sql, &Limits::default()).expect("within the caps")
    }

    #[test]
    fn places_are_numbered_and_nothing_else_is_touched() {
        let sql = "SELECT ?,'?', \"?\" /* ? */, meta ? 'k' FROM t WHERE a=?AND b = $3";
        let due = "SELECT $1,'?', \"?\" /* ? */, meta ? 'k' FROM t WHERE a=$2 AND b = $3";
        assert_eq!(numbered(sql).into_parts(), (due.to_owned(), 3));
        assert_eq!(numbered("SELECT 1").into_parts(), ("SELECT 1".to_owned(), 0));
    }

    #[test]
    fn a_refusal_names_the_column_of_the_text_that_was_sent() {
        let sql = "SELECT ?, ?, a=?AND b\nFROM t WHERE ? FOR UPDATE";
        let numbered = numbered(sql);
        for word in ["SELECT", "?, a", "AND b", "FROM", "FOR UPDATE"] {
            let due = Position::of(sql, sql.find(word).expect("it is there"));
            let now = numbered.text().find(&word.replace("?, a", "$2, a")).expect("it is there");
            let refusal = Refusal::new(Stage::Walk, "rule", Position::of(numbered.text(), now), "construct");
            assert_eq!(numbered.refusal_in(sql, refusal).position, due, "{word}");
        }
    }
}
