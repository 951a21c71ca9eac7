//! What holds for every text.

#![allow(clippy::indexing_slicing, reason = "helpers of tests")]

use memory_validator::{Access, Dialect, Mode, Policy, Stage, StatementKind, Validator, Verdict, lab};
use proptest::prelude::*;

/// Statements of many kinds, allowed and not.
const STATEMENTS: &[&str] = &[
    "SELECT a, b FROM t WHERE c = 'x' AND d LIKE 'y%' ORDER BY a DESC LIMIT 3",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 5) SELECT x FROM c",
    "SELECT k -> '$.a', count(*) FILTER (WHERE k IS NOT NULL) OVER (PARTITION BY b) FROM main.t AS q",
    "INSERT INTO t(a, b) VALUES (1, 'one'), (2, 'two') ON CONFLICT(a) DO UPDATE SET b = excluded.b RETURNING *",
    "UPDATE t SET (a, b) = (1, 2) FROM u WHERE t.id = u.id",
    "DELETE FROM t WHERE a IN (SELECT a FROM u)",
    "CREATE TABLE IF NOT EXISTS n(id INTEGER PRIMARY KEY, v VARCHAR(20) NOT NULL DEFAULT 'q', CHECK (length(v) < 9)) STRICT",
    "CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE u SET n = n + 1; DELETE FROM w WHERE x = 'y'; END",
    "CREATE VIEW v(a) AS SELECT a FROM t",
    "ALTER TABLE t RENAME COLUMN a TO b",
    "EXPLAIN QUERY PLAN SELECT 1",
    "ATTACH 'x' AS y",
    "PRAGMA user_version = 1",
    "SELECT load_extension('x')",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM t, 'pragma_database_list'",
    "INSERT OR ROLLBACK INTO t VALUES (1)",
    "UPDATE sqlite_schema SET sql = ''",
    "CREATE TEMP TABLE x(a)",
    "SELECT 1; SELECT 2",
    "SELECT 1 FROM _mem_meta",
    "DROP TABLE temp.t",
];

fn decide(sql: &str, mode: Mode) -> Verdict {
    Validator::check_here(sql, Dialect::Sqlite, mode, &Policy::new(Dialect::Sqlite))
}

/// A verdict without positions, which move with the text.
fn gist(verdict: Verdict) -> String {
    match verdict {
        Verdict::Accepted(accepted) => format!("{accepted:?}"),
        Verdict::Refused(refusal) => {
            format!(
                "{:?} {} {} {}",
                refusal.stage,
                refusal.rule,
                refusal.construct.to_lowercase(),
                refusal.writes
            )
        }
    }
}

fn spaces() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        " ",
        "\n",
        "\t",
        "\r\n",
        "\u{c}",
        "  ",
        "/**/",
        "/* '; DROP */",
        "--\n",
        "-- \" ;\n",
    ])
}

/// The text of a statement with different spaces, comments and letter case between and in its bare words.
fn disguised(sql: &str, spaces: &[&str], upper: &[bool]) -> String {
    let mut text = String::new();
    for (index, (start, end, kind)) in lab::tokens(sql, Dialect::Sqlite).into_iter().enumerate() {
        text.push_str(spaces[index % spaces.len()]);
        let token = &sql[start..end];
        if kind == "word" && upper[index % upper.len()] {
            text.push_str(&token.to_uppercase());
        } else {
            text.push_str(token);
        }
    }
    text
}

fn soup() -> impl Strategy<Value = String> {
    const WORDS: &str = "SELECT FROM WHERE t \"t\" [t] `t` 't' x'00' ( ) , ; . * = || -> 1 0x1F 1_000 1e5 ? ?1 $1 :a @a \
        $a::b(c) CASE WHEN THEN END UNION ALL JOIN ON USING IN NOT NULL LIKE BETWEEN AND OR INSERT INTO \
        VALUES UPDATE SET DELETE CREATE TABLE VIEW INDEX TRIGGER VIRTUAL BEGIN WITH RECURSIVE AS EXPLAIN \
        QUERY PLAN OVER FILTER WINDOW abs json_each fts5 /* */ 数据 \" ' [ COLLATE CAST RAISE ROLLBACK ALTER \
        ADD COLUMN REFERENCES PRIMARY KEY DEFAULT CHECK CONSTRAINT CONFLICT DO NOTHING RETURNING ORDER BY \
        LIMIT OFFSET GROUP HAVING EXISTS ISNULL temp main _mem_x";
    let words: Vec<&str> = WORDS.split(' ').chain(["--\n", "\u{feff}", "\u{200b}"]).collect();
    let words = prop::sample::select(words);
    prop::collection::vec(words, 0..60).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gets_the_same_verdict_twice(sql in "\\PC{0,200}", write in any::<bool>()) {
        let mode = if write { Mode::Exec } else { Mode::Query };
        prop_assert_eq!(decide(&sql, mode), decide(&sql, mode));
    }

    #[test]
    fn any_bytes_get_a_verdict(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decide(&String::from_utf8_lossy(&bytes), Mode::Exec);
    }

    #[test]
    fn any_tokens_get_a_verdict(sql in soup(), write in any::<bool>()) {
        let mode = if write { Mode::Exec } else { Mode::Query };
        prop_assert_eq!(decide(&sql, mode), decide(&sql, mode));
    }

    #[test]
    fn a_query_that_is_accepted_is_accepted_where_writing_is_allowed(sql in soup()) {
        if let Verdict::Accepted(accepted) = decide(&sql, Mode::Query) {
            prop_assert!(accepted.kind.reads_only());
            prop_assert!(accepted.relations.iter().all(|relation| relation.access == Access::Read));
            prop_assert_eq!(decide(&sql, Mode::Exec), Verdict::Accepted(accepted));
        }
    }

    #[test]
    fn spaces_comments_and_letter_case_never_matter(
        at in 0..STATEMENTS.len(),
        spaces in prop::collection::vec(spaces(), 1..8),
        upper in prop::collection::vec(any::<bool>(), 1..8),
    ) {
        let sql = STATEMENTS[at];
        let other = disguised(sql, &spaces, &upper);
        prop_assert_eq!(gist(decide(sql, Mode::Exec)), gist(decide(&other, Mode::Exec)), "{}", other);
    }

    #[test]
    fn what_a_value_says_never_matters(
        at in 0..STATEMENTS.len(),
        value in prop_oneof![
            Just("'; DROP TABLE t; --".to_owned()),
            Just("load_extension('x')".to_owned()),
            Just("/* */ ATTACH".to_owned()),
            Just("\u{feff}\u{202e}\u{200b}".to_owned()),
            "\\PC{0,30}",
        ],
    ) {
        let sql = STATEMENTS[at];
        let literal = format!("'{}'", value.replace('\'', "''"));
        for (context, before, after) in [("a value", "SELECT ", " || a FROM t"), ("a comparison", "DELETE FROM t WHERE a = ", "")] {
            let plain = gist(decide(&format!("{before}'x'{after}"), Mode::Exec));
            let other = gist(decide(&format!("{before}{literal}{after}"), Mode::Exec));
            prop_assert_eq!(plain, other, "{}", context);
        }
        let comment = value.replace(['*', '\0'], "");
        let commented = format!("{sql} /* {comment} */");
        prop_assert_eq!(gist(decide(sql, Mode::Exec)), gist(decide(&commented, Mode::Exec)));
        let line = value.replace(['\n', '\0'], "");
        let commented = format!("{sql} -- {line}");
        prop_assert_eq!(gist(decide(sql, Mode::Exec)), gist(decide(&commented, Mode::Exec)));
    }

    #[test]
    fn a_hidden_character_between_tokens_is_refused(
        at in 0..STATEMENTS.len(),
        place in any::<prop::sample::Index>(),
        odd in prop::sample::select(vec!['\u{feff}', '\u{200b}', '\u{a0}', '\u{2028}', '\u{202e}', '\u{3000}', '\u{85}', '\u{b}']),
    ) {
        let sql = STATEMENTS[at];
        let starts: Vec<usize> = lab::tokens(sql, Dialect::Sqlite).into_iter().map(|(start, ..)| start).collect();
        let start = starts[place.index(starts.len())];
        let other = format!("{}{odd}{}", &sql[..start], &sql[start..]);
        let Verdict::Refused(refusal) = decide(&other, Mode::Exec) else { panic!("accepted {other:?}") };
        prop_assert_eq!((refusal.stage, refusal.rule), (Stage::Gate, "character"));
        prop_assert_eq!(refusal.position.offset, start);
    }
}

/// A clause that looks back at the words before it finds fewer than it expects.
#[test]
fn a_statement_whose_first_words_are_missing_gets_a_verdict() {
    let more = ["CREATE TABLE IF NOT EXISTS t(a)", "SELECT NOT EXISTS n(a)"];
    for sql in STATEMENTS.iter().chain(&more) {
        for at in std::iter::once(0).chain(sql.match_indices(' ').map(|(at, _)| at)) {
            for mode in [Mode::Query, Mode::Exec] {
                let verdict = gist(decide(&sql[at..], mode));
                assert!(!verdict.starts_with("Grammar parser "), "{}: {verdict}", &sql[at..]);
            }
        }
    }
}

#[test]
fn an_accepted_statement_is_described() {
    let Verdict::Accepted(accepted) = decide(
        "WITH q AS (SELECT * FROM Orders) INSERT INTO main.\"Big\" SELECT * FROM q JOIN json_each('[]') RETURNING id",
        Mode::Exec,
    ) else {
        panic!("refused")
    };
    assert_eq!(accepted.kind, StatementKind::Insert);
    assert!(accepted.returning);
    let relations: Vec<(Option<&str>, &str, Access)> = accepted
        .relations
        .iter()
        .map(|relation| (relation.schema.as_deref(), relation.name.as_str(), relation.access))
        .collect();
    assert_eq!(relations, [(None, "orders", Access::Read), (Some("main"), "big", Access::Write)]);
}

#[test]
fn a_refusal_names_the_construct_its_place_and_what_to_do() {
    let Verdict::Refused(refusal) = decide("SELECT a,\n  load_extension('secret')", Mode::Query) else {
        panic!("accepted")
    };
    assert_eq!(
        refusal.to_string(),
        "`load_extension(` at line 2, column 3: this function is not on the list of allowed functions; the available \
         extensions are already loaded"
    );
}

#[test]
fn a_refusal_never_tells_a_value() {
    for sql in
        ["SELECT 'top secret", "SELECT 1 'top secret' 'top secret'", "SELECT x'top secret'", "'top secret'"]
    {
        let Verdict::Refused(refusal) = decide(sql, Mode::Exec) else { panic!("accepted {sql}") };
        assert!(!format!("{refusal:?}").contains("secret"), "{refusal:?}");
    }
}
