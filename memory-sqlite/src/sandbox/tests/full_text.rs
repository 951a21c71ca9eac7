//! `highlight` and `snippet`: the same results as FTS5's own, in bounded time.

use std::time::{Duration, Instant};

use memory_core::ErrorKind;
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::{Layers, TestDatabase};

const TABLES: [&str; 6] = [
    "fts5(a, b)",
    "fts5(a, b, tokenize='porter')",
    "fts5(a, b, tokenize='trigram')",
    "fts5(a, b, columnsize=0)",
    "fts5(a, b, detail=column)",
    "fts5(a, b, content='')",
];

const CALLS: [&str; 12] = [
    "highlight(ft, 0, '<', '>')",
    "highlight(ft, 1, '[[', ']]')",
    "highlight(ft, 0, NULL, '>')",
    "highlight(ft, 7, '<', '>')",
    "highlight(ft, -1, '<', '>')",
    "highlight(ft, 0, '<')",
    "snippet(ft, -1, '<', '>', '…', 3)",
    "snippet(ft, 0, '<', '>', '…', 8)",
    "snippet(ft, 1, '', '', '', 64)",
    "snippet(ft, -1, '<', '>', '…', 0)",
    "snippet(ft, 0, '<', '>', '…', 1000)",
    "snippet(ft, 9, '<', '>', '…', 5)",
];

/// The values, or `None` for an error: FTS5's own reports some unrelated errors as `out of memory`.
fn answers(conn: &Connection, call: &str, query: Option<&str>) -> Option<Vec<Value>> {
    let (filter, args): (_, Vec<&str>) = match query {
        Some(query) => ("WHERE ft MATCH ?1", vec![query]),
        None => ("", vec![]),
    };
    let read = || -> rusqlite::Result<Vec<Value>> {
        let mut statement = conn.prepare(&format!("SELECT {call} FROM ft {filter} ORDER BY rowid"))?;
        statement.query_map(rusqlite::params_from_iter(args.iter()), |row| row.get(0))?.collect()
    };
    read().ok()
}

/// Text of few words, so that phrases overlap and sentences end.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "ab", "running", "Äpfel", "abab"]),
        2 => prop::sample::select(vec![".", ": ", ".\n", "-", "", " \t"]),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.join(" "))
}

fn query() -> impl Strategy<Value = Option<String>> {
    let queries = vec![
        "a",
        "b",
        "a b",
        "a OR b",
        "\"a b\"",
        "\"a a\" OR a",
        "a* OR run",
        "NEAR(a b, 2)",
        "b : a",
        "\"b a\" + b",
        "aba OR bab",
        "^a",
        "äpfel OR a",
        "\"a b a\" OR \"b a b\"",
        "a AND NOT",
    ];
    prop_oneof![
        9 => prop::sample::select(queries).prop_map(|query| Some(query.to_owned())),
        1 => Just(None),
    ]
}

/// Two connections with the same tables: one with our functions, one with FTS5's own.
fn pair() -> (Connection, Connection) {
    let own = Connection::open_in_memory().unwrap();
    let ours = Connection::open_in_memory().unwrap();
    super::super::functions::register(&ours, Layers::ALL).unwrap();
    (ours, own)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 150 } else { 5_000 }))]
    #[test]
    fn they_answer_as_fts5_does(
        rows in prop::collection::vec((text(), text()), 1..3),
        queries in prop::collection::vec(query(), 4),
        table in prop::sample::select(TABLES.to_vec()),
    ) {
        let (ours, own) = pair();
        for conn in [&ours, &own] {
            conn.execute_batch(&format!("CREATE VIRTUAL TABLE ft USING {table}")).unwrap();
            for (a, b) in &rows {
                conn.execute("INSERT INTO ft(a, b) VALUES (?1, ?2)", [a, b]).unwrap();
            }
        }
        for query in &queries {
            for call in CALLS {
                let (ours, own) = (answers(&ours, call, query.as_deref()), answers(&own, call, query.as_deref()));
                prop_assert_eq!(ours, own, "{} {:?} {}", call, query, table);
            }
        }
    }
}

/// FTS5's own take hours on these, in one instruction.
#[test]
fn a_row_with_many_matches_takes_no_longer_than_the_deadline() {
    let mut database = TestDatabase::new();
    database.load(
        "CREATE VIRTUAL TABLE ft USING fts5(body); \
         INSERT INTO ft SELECT replace(printf('%.*c', 400000, 'x'), 'x', 'a ');",
    );
    database.timeout = Duration::from_secs(1);
    let most = database.timeout + Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 1 });
    for query in ["a", "a a a a a a a", "\"a a\" OR a", "NEAR(a a a)"] {
        for call in ["snippet(ft, 0, '<', '>', '…', 64)", "highlight(ft, 0, '<', '>')", "bm25(ft)"] {
            let began = Instant::now();
            let answer = database.query(&format!("SELECT {call} FROM ft WHERE ft MATCH '{query}'"), &[]);
            let elapsed = began.elapsed();
            println!("{elapsed:?} {call} {query} -> {:?}", answer.as_ref().map(|_| ()));
            assert!(elapsed < most, "{elapsed:?}: {call} {query}");
            if let Err(error) = answer {
                assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::TooLarge), "{error}");
            }
        }
    }
}

#[test]
fn markers_cannot_exceed_the_longest_value() {
    let database = TestDatabase::new();
    database.load(
        "CREATE VIRTUAL TABLE ft USING fts5(body); \
         INSERT INTO ft SELECT replace(printf('%.*c', 2000, 'x'), 'x', 'a b ');",
    );
    for call in [
        "highlight(ft, 0, printf('%.*c', 1000000, '<'), '>')",
        "snippet(ft, 0, printf('%.*c', 1000000, '<'), '>', '', 64)",
    ] {
        let error = database.query(&format!("SELECT {call} FROM ft WHERE ft MATCH 'a'"), &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    }
}
