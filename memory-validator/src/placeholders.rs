//! Where a statement takes its arguments.

use std::ops::Range;

use crate::gate;
use crate::gate::token::{Kind, Lexed, Role, Token};
use crate::policy::{Dialect, Limits};
use crate::verdict::Refusal;

/// A place that an argument is put into.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placeholder {
    /// The bytes of the text that it takes.
    pub span: Range<usize>,
    /// Which argument, from 1.
    pub number: usize,
}

/// The places of arguments in a text, in their order: `?`, `?2` and `$2` on SQLite, `$2` and `?` on PostgreSQL. Those
/// in literals and comments are none.
///
/// # Behavior
/// - A `?` without a number takes the argument after the highest one so far.
/// - On PostgreSQL `?` is an operator on JSON too. There a `?` by itself is a place where a value must follow (after an
///   operator, an opening bracket, a comma, a key word), and an operator after a value: `meta ? 'key'`. So it is among
///   other signs: `a=?`, `'%'||?||'%'`. `?|`, `?&` and `@?` are always operators. Where both are wanted, `$1` leaves no doubt.
///
/// # Errors
/// A text that passes a cap.
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
            Kind::Operator if dialect == Dialect::Postgres => {
                within_operator(text, ends_value(&lexed, before))
                    .map(|at| start + at..start + at + 1)
                    .collect()
            }
            _ => Vec::new(),
        };
        // Where a value stands last, its token may be an operator's.
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

/// Where in an operator of PostgreSQL's, which takes in every sign that it can, question marks stand for values: `a=?`,
/// `'%'||?||'%'`. None in an operator that has one by itself.
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
            // `NULL ? …`; other key words begin or join something.
            Role::Hard => lexed.text(token).eq_ignore_ascii_case("null"),
            Role::Operator | Role::SoftOperator | Role::Compound | Role::Clause | Role::Case => false,
        },
        Kind::Quoted | Kind::Text | Kind::Blob | Kind::Number | Kind::Parameter | Kind::Close => true,
        Kind::Operator | Kind::Open | Kind::Comma | Kind::Dot | Kind::Semicolon | Kind::Illegal => false,
    }
}

#[cfg(test)]
mod tests {
    use super::placeholders;
    use crate::policy::{Dialect, Limits};

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
        assert_eq!(postgres("SELECT l ?|| m, a ?-| b, ?| c, d@? $1"), of(&[("$1", 1)]));
    }

    #[test]
    fn in_literals_and_comments_it_is_nothing() {
        assert_eq!(postgres("SELECT '?', $$ ? $1 $$, \"?\" /* ? */ -- $9"), of(&[]));
        assert_eq!(numbers("SELECT '?', \"?\", [?] /* ? */ -- $9", Dialect::Sqlite), of(&[]));
    }
}
