//! Rows of literals, which the grammar need not parse one by one.
//!
//! A large INSERT is mostly rows, and the tokens of a row of literals and parameters say everything about it. If all
//! rows are like that, the grammar sees the statement with only the first row; the engine gets the whole text.

use crate::gate::token::{Kind, Lexed, Token};

/// The number of rows from which this pays off.
const ROWS: usize = 8;

/// The text with only its first row, if it inserts many rows of literals and parameters.
pub(super) fn with_one_row(lexed: &Lexed<'_>, text: &str) -> Option<String> {
    if !(lexed.is_word(0, "insert") || lexed.is_word(0, "replace")) {
        return None;
    }
    let values = (0..lexed.tokens.len()).find(|at| lexed.is_word(*at, "values"))?;
    let mut tokens = lexed.tokens.get(values + 1..)?;
    let (mut rows, mut first) = (0_usize, None);
    while let Some(end) = row(lexed, tokens) {
        let close = tokens.get(end)?;
        rows += 1;
        first = first.or(Some(close.end));
        tokens = tokens.get(end + 1..)?;
        match tokens.first() {
            Some(comma) if comma.kind == Kind::Comma => tokens = tokens.get(1..)?,
            _ => {
                let first = usize::try_from(first?).ok()?;
                let last = usize::try_from(close.end).ok()?;
                return (rows >= ROWS).then(|| Some([text.get(..first)?, text.get(last..)?].concat()))?;
            }
        }
    }
    None
}

/// The end of the row that starts here; `None` if it is not a row of literals and parameters.
fn row(lexed: &Lexed<'_>, tokens: &[Token]) -> Option<usize> {
    if tokens.first()?.kind != Kind::Open {
        return None;
    }
    let mut at = 1;
    loop {
        let mut token = *tokens.get(at)?;
        if token.kind == Kind::Operator && matches!(lexed.text(token), "-" | "+") {
            at += 1;
            token = *tokens.get(at)?;
            if token.kind != Kind::Number {
                return None;
            }
        }
        let plain = match token.kind {
            Kind::Number | Kind::Text | Kind::Blob | Kind::Parameter => true,
            Kind::Word => lexed.text(token).eq_ignore_ascii_case("null"),
            _ => false,
        };
        if !plain {
            return None;
        }
        match tokens.get(at + 1)?.kind {
            Kind::Comma => at += 2,
            Kind::Close => return Some(at + 1),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::with_one_row;
    use crate::gate;
    use crate::policy::{Dialect, Limits};

    fn short(sql: &str) -> Option<String> {
        with_one_row(&gate::lex(sql, Dialect::Sqlite, &Limits::default()).unwrap(), sql)
    }

    fn insert(row: &str, count: usize, tail: &str) -> String {
        format!("INSERT INTO t (a, b) VALUES {}{tail}", vec![row; count].join(", "))
    }

    #[test]
    fn many_rows_of_literals_and_parameters_are_shown_by_their_first() {
        for row in ["(1, 'x')", "(?, $1)", "(-1.5, NULL)", "( x'00' , null )", "('), (', +1)"] {
            for tail in ["", " ON CONFLICT DO NOTHING", " RETURNING a", ";"] {
                assert_eq!(short(&insert(row, 8, tail)), Some(insert(row, 1, tail)), "{row} {tail}");
            }
            assert_eq!(short(&insert(row, 7, "")), None, "{row}");
        }
    }

    #[test]
    fn every_row_that_holds_anything_else_is_read_by_the_grammar() {
        let rows = "(1, 2), ".repeat(20);
        for other in [
            "(1, load_extension('x'))",
            "(1, (SELECT 1))",
            "(1, a)",
            "(1 2)",
            "()",
            "(1,)",
            "(- 'a')",
            "(1, 'a' || 'b')",
        ] {
            for sql in [
                format!("INSERT INTO t VALUES {rows}{other}"),
                format!("INSERT INTO t VALUES {other}, {rows}(1, 2)"),
                format!("INSERT INTO t VALUES {rows}{other}, {rows}(1, 2)"),
            ] {
                assert_eq!(short(&sql), None, "{sql}");
            }
        }
        assert_eq!(short(&format!("INSERT INTO t VALUES {rows}")), None);
        assert_eq!(short(&format!("WITH a AS (SELECT 1) INSERT INTO t VALUES {rows}(1, 2)")), None);
        assert_eq!(short(&format!("SELECT * FROM (VALUES {rows}(1, 2))")), None);
    }

    #[test]
    fn a_name_that_is_values_hides_no_row() {
        let rows = "(1, 2), ".repeat(20);
        assert_eq!(short(&format!("INSERT INTO \"values\" SELECT f(1), (2) FROM t, {rows}(3, 4)")), None);
    }
}
