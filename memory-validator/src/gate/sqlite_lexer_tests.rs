//! SQLite's lexer, compared with the scanner of the grammar: both derive from `tokenize.c`.

#[path = "../../tests/support/mod.rs"]
mod support;

use sqlite3_parser::lexer::Scanner;
use sqlite3_parser::lexer::sql::Tokenizer;
use support::shapes::{CHAINS, LISTS, NESTS};

use super::names::sqlite_name as name;
use super::sqlite_lexer::lex;
use super::token::{Kind, Lexed};
use crate::policy::Limits;

/// The scanner's tokens, or `None` if it refuses.
fn scanned(sql: &str) -> Option<Vec<(usize, usize)>> {
    let mut scanner = Scanner::new(Tokenizer::new());
    let mut cuts = Vec::new();
    loop {
        match scanner.scan(sql.as_bytes()) {
            Ok((start, Some(_), end)) => cuts.push((start, end)),
            Ok((_, None, _)) => return Some(cuts),
            Err(_) => return None,
        }
    }
}

fn cuts(lexed: &Lexed<'_>) -> Vec<(usize, usize)> {
    lexed.tokens.iter().map(|token| (token.start as usize, token.end as usize)).collect()
}

fn kinds(sql: &str) -> Vec<Kind> {
    lex(sql, &Limits::default()).tokens.iter().map(|token| token.kind).collect()
}

/// Compares the tokens if neither refuses; returns whether only the scanner, which the parser uses, refuses.
fn compare(sql: &str) -> bool {
    let lexed = lex(sql, &Limits::default());
    if lexed.over.is_some() || lexed.fault.is_some() {
        return false;
    }
    let end = lexed.tokens.last().map_or(0, |token| token.end as usize);
    let Some(scanned) = scanned(&sql[..end]) else { return true };
    assert_eq!(scanned, cuts(&lexed), "{sql}");
    false
}

#[test]
fn both_cut_the_corpora_alike() {
    for file in ["sqlite_attacks.jsonl", "sqlite_legit.jsonl", "sqlite_public_sample.jsonl.gz"] {
        for line in support::corpus(file).into_iter().flatten() {
            assert!(!compare(&line.sql), "{}", line.sql);
        }
    }
}

#[test]
fn both_cut_statements_of_every_shape_alike() {
    for (_, make) in CHAINS.iter().chain(NESTS).chain(LISTS) {
        [0, 1, 2, 3, 10].into_iter().for_each(|n| assert!(!compare(&make(n)) || make(n).ends_with("/*")));
    }
}

#[test]
fn both_cut_short_texts_alike() {
    let parts = [
        "a", "'", "\"", "`", "[", "]", "x", "0", "1", "_", ".", "e", "+", "-", ">", "<", "=", "!", "|", "/",
        "*", "?", "$", ":", "@", " ", "\n", "\r", ";", "é",
    ];
    for a in parts {
        for b in parts {
            for c in parts {
                for d in ["", "'", "x", "1", "*/", "\n", " a"] {
                    // A misplaced digit separator is refused by the engine too, only later.
                    let sql = format!("{a}{b}{c}{d}");
                    assert!(!compare(&sql) || sql.contains(['_', '/', '$', ':', '@']), "{sql}");
                }
            }
        }
    }
}

#[test]
fn quotes_are_doubled_to_stand_for_themselves_and_brackets_are_not() {
    assert_eq!(kinds("'it''s'"), [Kind::Text]);
    assert_eq!(kinds("\"a\"\"b\" `c``d` [e]"), [Kind::Quoted, Kind::Quoted, Kind::Quoted]);
    assert_eq!(kinds("[a]]"), [Kind::Quoted, Kind::Illegal]);
    assert_eq!(kinds("'open"), [Kind::Illegal]);
    assert_eq!(
        (name("\"A\"\"B\""), name("[A]"), name("`A``b`"), name("'A''b'")),
        ("a\"b".into(), "a".into(), "a`b".into(), "a'b".into())
    );
    assert_eq!(name("Straße"), "straße");
}

#[test]
fn comments_end_where_the_engine_ends_them() {
    assert_eq!(kinds("1 -- a\rb\n2"), [Kind::Number, Kind::Number]);
    assert_eq!(kinds("1 /* /* */ 2"), [Kind::Number, Kind::Number]);
    assert_eq!(kinds("1 /*/ 2 */ 3"), [Kind::Number, Kind::Number]);
    assert_eq!(kinds("1 /* 2"), [Kind::Number]);
    assert_eq!(kinds("1 /*"), [Kind::Number, Kind::Operator, Kind::Operator]);
}

#[test]
fn numbers_bytes_and_arguments() {
    assert_eq!(kinds("0x1F 1_000 .5 1.e3 1e+5"), [Kind::Number; 5]);
    assert_eq!(kinds("1a"), [Kind::Illegal]);
    assert_eq!(kinds("x'0F' X''"), [Kind::Blob, Kind::Blob]);
    assert_eq!(kinds("x'0'"), [Kind::Illegal]);
    assert_eq!(kinds("x'0g' 1"), [Kind::Illegal, Kind::Number]);
    assert_eq!(kinds("? ?12 $1 :a @a $a::b(c)"), [Kind::Parameter; 6]);
    assert_eq!(kinds("$a( b"), [Kind::Illegal, Kind::Word]);
}

#[test]
fn the_byte_order_mark_is_a_space_only_where_a_token_could_begin() {
    assert_eq!(kinds("\u{feff}a"), [Kind::Word]);
    assert_eq!(kinds("a\u{feff}b"), [Kind::Word]);
    for sql in ["\u{feff}a", "a\u{feff}b", "a \u{feff} b"] {
        assert!(lex(sql, &Limits::default()).fault.is_some());
    }
    for sql in ["'\u{feff}'", "\"\u{feff}a\"", "/*\u{feff}*/ a", "-- \u{202e}\na"] {
        assert!(lex(sql, &Limits::default()).fault.is_none());
    }
}
