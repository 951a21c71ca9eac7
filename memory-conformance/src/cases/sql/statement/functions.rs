//! SQL-10: what the engine's operators and functions return, including where a backend replaces them with its own.

use memory_core::sql::SqlValue;
use memory_core::{ErrorKind, SqlDialect};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind};
use crate::cx::database::{Database, text};

pub(crate) const CASES: &[Case] = &[
    case!("sql.function.patterns", [Sql], ["SQL-10"], |cx, db: Database| {
        let both = [
            ("'abc' LIKE 'a%'", true),
            ("'abc' LIKE 'b%'", false),
            ("'abc' LIKE '%c'", true),
            ("'abc' LIKE '%b'", false),
            ("'abc' LIKE 'a_c'", true),
            ("'abbc' LIKE 'a_c'", false),
            ("'abcdef' LIKE 'a%cd%f'", true),
            ("'abcdef' LIKE 'a%dc%f'", false),
            ("'xaab' LIKE '%a_b%'", true),
            ("'xaab' LIKE '%a_c%'", false),
            ("'10%' LIKE '10!%' ESCAPE '!'", true),
            ("'10x' LIKE '10!%' ESCAPE '!'", false),
        ];
        truths(&db, &both).await?;
        let sqlite: &[_] = &[
            ("'ABC' LIKE 'abc'", true),
            ("'abc' GLOB 'A*'", false),
            ("'abc' GLOB '[a-c]?c'", true),
            ("'abc' GLOB '[^a]*'", false),
            ("'-' GLOB '[a-]'", true),
            ("'xayb' GLOB '*[b-z]b'", true),
            ("'x\u{e9}b' GLOB '*[\u{e0}-\u{fd}]b*'", true),
        ];
        let postgres: &[_] = &[("'ABC' LIKE 'abc'", false), ("'ABC' ILIKE 'abc'", true)];
        truths(&db, cx.in_dialect(sqlite, postgres)).await?;
    }),
    case!("sql.function.long-patterns", [Sql], ["SQL-10"], |_cx, db: Database| {
        let (many, late) = ("ab".repeat(40), format!("{}aab", "x".repeat(40_000)));
        let matched = "SELECT CASE WHEN ? LIKE ? THEN 1 ELSE 0 END";
        for (value, pattern, due) in [
            (format!("x{many}y"), format!("%{}%", "_b".repeat(40)), 1),
            (format!("x{many}y"), format!("%{}c%", "_b".repeat(40)), 0),
            (late.clone(), "%a_b%".to_owned(), 1),
            (late, "%a_c%".to_owned(), 0),
        ] {
            let found = db.value_with(matched, &[text(value), text(pattern.clone())]).await?;
            expect_eq!(found, SqlValue::Int(due), "whether a long text matches {pattern}");
        }
    }),
    case!("sql.function.numbers", [Sql], ["SQL-10"], |cx, db: Database| {
        let both = [
            ("power(2, 10)", 1_024.0),
            ("mod(17, 5)", 2.0),
            ("sqrt(16)", 4.0),
            ("ln(1)", 0.0),
            ("exp(ln(7))", 7.0),
            ("log(100)", 2.0),
            ("atan2(1, 1)", std::f64::consts::FRAC_PI_4),
            ("degrees(pi())", 180.0),
            ("floor(-1.5)", -2.0),
            ("ceil(1.2)", 2.0),
            ("trunc(-1.5)", -1.0),
        ];
        for (expression, due) in both {
            let found = real(&db, &format!("SELECT CAST({expression} AS DOUBLE PRECISION)")).await?;
            check!((found - due).abs() < 1e-9, "{expression} is {found} instead of {due}");
        }
        if cx.dialect() == SqlDialect::Sqlite {
            for outside in ["ln(0)", "sqrt(-1)", "log(1, 8)", "power('x', 2)"] {
                let found = db.value(&format!("SELECT {outside}")).await?;
                expect_eq!(found, SqlValue::Null, "{outside}");
            }
        }
    }),
    case!("sql.function.texts", [Sql], ["SQL-10"], |cx, db: Database| {
        let both = [
            ("replace('banana', 'an', '<>')", "b<><>a"),
            ("replace('banana', 'x', '<>')", "banana"),
            ("ltrim('xxaxx', 'x')", "axx"),
            ("rtrim('xxaxx', 'x')", "xxa"),
            ("upper('banana')", "BANANA"),
            ("substr('banana', 3, 2)", "na"),
        ];
        for (expression, due) in both {
            expect_eq!(db.value(&format!("SELECT {expression}")).await?, text(due), "{expression}");
        }
        let place = cx.in_dialect("instr('banana', 'nan')", "strpos('banana', 'nan')");
        expect_eq!(db.int(&format!("SELECT {place}")).await?, 3, "{place}");
        if cx.dialect() == SqlDialect::Sqlite {
            for (number, due) in [("12.5", 3), ("-12.5", 4), ("15", 0)] {
                let place = format!("instr({number}, '.')");
                expect_eq!(db.int(&format!("SELECT {place}")).await?, due, "{place}");
            }
        }
    }),
    case!("sql.function.percentiles", [Sql], ["SQL-10"], |cx, db: Database| {
        db.exec("CREATE TABLE t (x DOUBLE PRECISION)").await?;
        db.exec("INSERT INTO t VALUES (9), (-2), (3), (7), (NULL), (1)").await?;
        for (share, continuous, discrete) in [("0.5", 3.0, 3.0), ("0.6", 4.6, 3.0), ("1", 9.0, 9.0)] {
            for (name, due) in [("percentile_cont", continuous), ("percentile_disc", discrete)] {
                let call = cx.in_dialect(
                    format!("{name}(x, {share})"),
                    format!("{name}({share}) WITHIN GROUP (ORDER BY x)"),
                );
                let found = real(&db, &format!("SELECT {call} FROM t")).await?;
                check!((found - due).abs() < 1e-9, "{call} is {found} instead of {due}");
            }
        }
        if cx.dialect() == SqlDialect::Sqlite {
            for wrong in ["median('x')", "median(9e999)", "percentile(x, 101)"] {
                let failed = db.query(&format!("SELECT {wrong} FROM t")).await;
                expect_kind!(failed, ErrorKind::InvalidArgument, "{wrong}");
            }
        }
    }),
    case!("sql.function.found-words", [Sql], ["SQL-10"], |cx, db: Database| {
        let marked = "one <b>two</b> three four";
        if cx.dialect() != SqlDialect::Sqlite {
            let call = "SELECT ts_headline('simple', 'one two three four', to_tsquery('simple', 'two'))";
            expect_eq!(db.value(call).await?, text(marked), "the words found");
            return Ok(());
        }
        db.exec("CREATE VIRTUAL TABLE t USING fts5(words)").await?;
        db.exec("INSERT INTO t VALUES ('one two three four'), ('two. five six seven eight nine ten')")
            .await?;
        db.exec("INSERT INTO t VALUES ('aa bb cc dd ee ff gg hh ii jj kk')").await?;
        let highlight = "SELECT highlight(t, 0, '<b>', '</b>') FROM t('two AND three')";
        let marked = marked.replace("three", "<b>three</b>");
        expect_eq!(db.value(highlight).await?, text(marked), "the words found");
        for (query, tokens, due) in [
            ("seven", 3, "\u{2026}five six <b>seven</b>\u{2026}"),
            ("six AND eight", 3, "\u{2026}<b>six</b> seven <b>eight</b>\u{2026}"),
            ("five", 3, "two. <b>five</b> six\u{2026}"),
            ("ten", 3, "\u{2026}eight nine <b>ten</b>"),
            ("ff", 4, "\u{2026}ee <b>ff</b> gg hh\u{2026}"),
        ] {
            let snippet =
                format!("SELECT snippet(t, 0, '<b>', '</b>', '\u{2026}', {tokens}) FROM t('{query}')");
            expect_eq!(db.value(&snippet).await?, text(due), "the words around {query}");
        }
        let ranked = db.ints("SELECT rowid FROM t('two') ORDER BY bm25(t)").await?;
        expect_eq!(ranked, [1, 2], "the shorter text first");
    }),
    case!("sql.function.vectors", [Sql], ["SQL-10"], |cx, db: Database| {
        if cx.dialect() != SqlDialect::Sqlite {
            return Err(Stop::skipped("PostgreSQL's are pgvector's own"));
        }
        let (a, b) = ("'[1,2,3,4,5,6,7,8,9,10]'", "'[2,0,3,4,5,6,7,8,9,12]'");
        for (expression, due) in [
            (format!("vec_distance_l2({a}, {b})"), 3.0),
            (format!("vec_dot({a}, {b})"), 402.0),
            (format!("vec_distance_cosine({a}, {a})"), 0.0),
            (format!("vec_length({a})"), 10.0),
        ] {
            let found = real(&db, &format!("SELECT CAST({expression} AS REAL)")).await?;
            check!((found - due).abs() < 1e-4, "{expression} is {found} instead of {due}");
        }
        let back = db.value("SELECT vec_to_json(vec_f32('[0.5,-1,2]'))").await?;
        expect_eq!(back, text("[0.5,-1,2]"), "a vector as JSON");
    }),
];

/// Whether each of these holds.
async fn truths(db: &Database<'_>, expected: &[(&str, bool)]) -> CaseResult {
    for (expression, due) in expected {
        let found = db.int(&format!("SELECT CASE WHEN {expression} THEN 1 ELSE 0 END")).await?;
        expect_eq!(found == 1, *due, "{expression}");
    }
    Ok(())
}

async fn real(db: &Database<'_>, sql: &str) -> CaseResult<f64> {
    match db.value(sql).await? {
        SqlValue::Real(found) => Ok(found),
        other => Err(Stop::failed(format_args!("`{sql}` is {other:?} instead of a real"))),
    }
}
