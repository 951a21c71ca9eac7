//! DAT: values pass in both directions without loss.

use memory_core::sql::SqlValue;
use memory_core::{ErrorKind, Json, SqlDialect};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind};
use crate::cx::Cx;
use crate::cx::database::{Database, text};

pub(crate) const CASES: &[Case] = &[
    case!("sql.value.null", [Sql], ["DAT-1"], |cx| {
        let db = column(cx, "TEXT").await?;
        come_back(&db, &[SqlValue::Null, text(""), SqlValue::Null]).await?;
        expect_eq!(db.int("SELECT count(*) FROM t WHERE v IS NULL").await?, 2, "rows whose value is NULL");
        expect_eq!(db.int("SELECT count(*) FROM t WHERE v = ''").await?, 1, "rows whose value is empty");
        expect_eq!(
            db.value("SELECT max(v) FROM t WHERE id > 100").await?,
            SqlValue::Null,
            "an aggregate of no row"
        );
    }),
    case!("sql.value.integers", [Sql], ["DAT-2"], |cx| {
        let db = column(cx, "BIGINT").await?;
        let exact =
            [0, 1, -1, i64::MAX, i64::MIN, (1 << 53) + 1, -(1 << 53) - 1, i64::MAX - 1, 4_294_967_297];
        come_back(&db, &exact.map(SqlValue::Int)).await?;
    }),
    case!("sql.value.integers-of-the-engine", [Sql], ["DAT-2"], |cx, db: Database| {
        expect_eq!(db.int("SELECT 9007199254740993").await?, 9_007_199_254_740_993, "an integer of the text");
        let sum = "SELECT CAST(? AS BIGINT) + 1";
        let value = db.value_with(sum, &[SqlValue::Int(9_007_199_254_740_992)]).await?;
        expect_eq!(value, SqlValue::Int(9_007_199_254_740_993), "2^53 plus 1");
    }),
    case!("sql.value.reals", [Sql], ["DAT-3"], |cx| {
        let db = column(cx, "DOUBLE PRECISION").await?;
        let mut values = vec![
            0.5,
            0.1,
            -1.5e-7,
            1.797_693_134_862_315_7e308,
            -2.225_073_858_507_201_4e-308,
            5e-324,
            9_007_199_254_740_993.0,
            1e22,
            std::f64::consts::PI,
            f64::INFINITY,
            f64::NEG_INFINITY,
        ];
        let mut random = cx.random();
        values.extend(
            std::iter::repeat_with(|| f64::from_bits(random.bits())).filter(|x| x.is_finite()).take(40),
        );
        let values: Vec<SqlValue> = values.into_iter().map(SqlValue::Real).collect();
        come_back(&db, &values).await?;
        expect_eq!(
            db.value("SELECT CAST(3 AS DOUBLE PRECISION)").await?,
            SqlValue::Real(3.0),
            "a whole number as a real"
        );
    }),
    case!("sql.value.not-a-number", [Sql], ["DAT-3"], |cx| {
        let db = column(cx, "DOUBLE PRECISION").await?;
        let stored = db.exec_with("INSERT INTO t (id, v) VALUES (1, ?)", &[SqlValue::Real(f64::NAN)]).await;
        match stored {
            Ok(_) => {
                let back = db.value("SELECT v FROM t").await?;
                check!(matches!(back, SqlValue::Real(x) if x.is_nan()), "NaN came back as {back:?}");
            }
            refused => {
                expect_kind!(refused, ErrorKind::InvalidArgument, "NaN on an engine without it");
                expect_eq!(db.count("t").await?, 0, "rows of a statement that was refused");
            }
        }
    }),
    case!("sql.value.texts", [Sql], ["DAT-4"], |cx| {
        let db = column(cx, "TEXT").await?;
        let values = [
            "",
            " outer ",
            "it's \"quoted\" \\ and $1 ?",
            "line\r\nend\ttab\u{b}",
            "\u{e9} and e\u{301}",
            "\u{feff}\u{200b}\u{202e}\u{10ffff}\u{d7ff}\u{e000}",
            "\u{1f469}\u{200d}\u{1f680} \u{4e2d}\u{6587}",
            "123",
            "1e5",
            "true",
            "null",
            "\u{1}\u{7f}\u{85}",
        ];
        come_back(&db, &values.map(text)).await?;
        let long = text("0123456789".repeat(20_000));
        db.exec_with("INSERT INTO t (id, v) VALUES (100, ?)", std::slice::from_ref(&long)).await?;
        check!(
            db.value("SELECT v FROM t WHERE id = 100").await? == long,
            "200,000 characters came back otherwise"
        );
    }),
    case!("sql.value.text-with-nul", [Sql], ["DAT-4"], |cx| {
        let db = column(cx, "TEXT").await?;
        for (id, nul) in ["a\0b", "\0", "a\0", "\0a", "a\0\0'; DROP TABLE t; --"].into_iter().enumerate() {
            let id = SqlValue::Int(i64::try_from(id).unwrap_or(0));
            let args = [id.clone(), text(nul)];
            let stored = db.exec_with("INSERT INTO t (id, v) VALUES ($1, $2)", &args).await;
            if cx.dialect() == SqlDialect::Sqlite || stored.is_ok() {
                stored?;
                let back = db.value_with("SELECT v FROM t WHERE id = ?", &[id]).await?;
                expect_eq!(back, text(nul), "a text with NUL");
            } else {
                expect_kind!(
                    stored,
                    ErrorKind::InvalidArgument,
                    "a text with NUL on an engine that cannot store it"
                );
            }
        }
    }),
    case!("sql.value.bytes", [Sql], ["DAT-5"], |cx| {
        let db = column(cx, cx.in_dialect("BLOB", "BYTEA")).await?;
        let all: Vec<u8> = (0..=255).collect();
        let values = [vec![], vec![0], vec![0xff, 0xfe], all, vec![0; 5_000], b"\xc3\x28".to_vec()];
        come_back(&db, &values.map(SqlValue::Blob)).await?;
    }),
    case!("sql.value.bytes-that-are-text", [Sql], ["DAT-5"], |cx| {
        let db = column(cx, cx.in_dialect("BLOB", "BYTEA")).await?;
        let values = ["plain", "1234", "\u{e9}\u{4e2d}", "{\"a\":1}"];
        come_back(&db, &values.map(|value| SqlValue::Blob(value.as_bytes().to_vec()))).await?;
    }),
    case!("sql.value.booleans", [Sql], ["DAT-6"], |cx| {
        let db = column(cx, "BOOLEAN").await?;
        db.exec_with(
            "INSERT INTO t (id, v) VALUES (1, ?), (2, ?)",
            &[SqlValue::Bool(true), SqlValue::Bool(false)],
        )
        .await?;
        let back: Vec<SqlValue> =
            db.rows("SELECT v FROM t ORDER BY id").await?.into_iter().flatten().collect();
        let (own, numbers) =
            ([SqlValue::Bool(true), SqlValue::Bool(false)], [SqlValue::Int(1), SqlValue::Int(0)]);
        expect_eq!(back, cx.in_dialect(numbers, own), "true and false");
        expect_eq!(db.int("SELECT id FROM t WHERE v").await?, 1, "the row that is true");
    }),
    case!("sql.value.numerics", [Sql], ["DAT-7"], |cx| {
        let db = column(cx, cx.in_dialect("TEXT", "NUMERIC")).await?;
        let digits = ["1.10", "-0.000000000000000000001", "123456789012345678901234567890.123456789", "7"];
        for (id, digits) in digits.into_iter().enumerate() {
            let id = SqlValue::Int(i64::try_from(id).unwrap_or(0));
            let args = [id.clone(), SqlValue::Numeric(digits.to_owned())];
            db.exec_with("INSERT INTO t (id, v) VALUES (?, ?)", &args).await?;
            let due = cx.in_dialect(text(digits), SqlValue::Numeric(digits.to_owned()));
            expect_eq!(db.value_with("SELECT v FROM t WHERE id = ?", &[id]).await?, due, "a decimal number");
        }
    }),
    case!("sql.value.json", [Sql], ["DAT-8"], |cx| {
        let db = column(cx, cx.in_dialect("TEXT", "JSON")).await?;
        let document = Json::parse(r#"{"b":[1,2.50,"x"],"a":9007199254740993,"c":null}"#)?;
        let args = [SqlValue::Json(document.clone())];
        db.exec_with("INSERT INTO t (id, v) VALUES (1, ?)", &args).await?;
        let member = cx.in_dialect("SELECT v ->> '$.b[2]' FROM t", "SELECT v -> 'b' ->> 2 FROM t");
        expect_eq!(db.value(member).await?, text("x"), "a member of a `$json` argument");
        let back = match db.value("SELECT v FROM t").await? {
            SqlValue::Text(text) => Json::parse(text)?,
            SqlValue::Json(json) => json,
            other => return Err(Stop::failed(format_args!("a `$json` argument came back as {other:?}"))),
        };
        expect_eq!(back.as_str(), document.as_str(), "the text of a `$json` argument");
    }),
    case!("sql.value.text-that-is-none", [Sql], ["DAT-9"], |cx| {
        if cx.dialect() != SqlDialect::Sqlite {
            return Err(Stop::skipped("the engine makes no such text"));
        }
        let db = cx.database()?;
        for hex in ["ff41", "c328", "80", "eda080"] {
            match db.value(&format!("SELECT CAST(x'{hex}' AS TEXT)")).await {
                Ok(SqlValue::Blob(bytes)) => {
                    let back: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    expect_eq!(back, hex, "text that is not UTF-8");
                }
                Ok(other) => {
                    return Err(Stop::failed(format_args!("text of the bytes {hex} came back as {other:?}")));
                }
                Err(_) => {
                    let refused = db.query(&format!("SELECT CAST(x'{hex}' AS TEXT)")).await;
                    expect_kind!(refused, ErrorKind::InvalidArgument, "text of the bytes {hex}");
                }
            }
            expect_eq!(db.int("SELECT 1").await?, 1, "the next statement");
        }
    }),
    case!("sql.value.as-json", [Sql], ["DAT-10", "DAT-2", "DAT-5"], |cx, db: Database| {
        db.exec(cx.in_dialect(
            "CREATE TABLE t (a BIGINT, b TEXT, c BLOB, d TEXT, e DOUBLE PRECISION)",
            "CREATE TABLE t (a BIGINT, b TEXT, c BYTEA, d TEXT, e DOUBLE PRECISION)",
        ))
        .await?;
        let sent = r#"[{"$int":"9007199254740993"},"it's",{"$blob":"AP8="},null,{"$real":"-Infinity"}]"#;
        let args: Vec<SqlValue> = serde_json::from_str(sent)?;
        db.exec_with("INSERT INTO t VALUES (?, ?, ?, ?, ?)", &args).await?;
        let rows = db.query("SELECT a, b, c, d, e FROM t").await?;
        let due = r#"{"columns":["a","b","c","d","e"],"rows":[[9007199254740993,"it's",{"$blob":"AP8="},null,{"$real":"-Infinity"}]],"truncated":false}"#;
        expect_eq!(serde_json::to_string(&rows)?, due, "the answer as JSON");
    }),
    case!("sql.value.returned", [Sql], ["DAT-2", "DAT-4", "DAT-5", "SQL-4"], |cx, db: Database| {
        db.exec(cx.in_dialect(
            "CREATE TABLE t (a BIGINT, b TEXT, c BLOB)",
            "CREATE TABLE t (a BIGINT, b TEXT, c BYTEA)",
        ))
        .await?;
        let args = [SqlValue::Int(i64::MIN), text("\u{e9}"), SqlValue::Blob(b"plain".to_vec())];
        let outcome = db.exec_with("INSERT INTO t VALUES (?, ?, ?) RETURNING a, b, c", &args).await?;
        let rows = outcome.returning.unwrap_or_default().rows;
        expect_eq!(rows, [args], "values that RETURNING answers");
    }),
];

/// A table of one column of that type.
async fn column<'a>(cx: &'a Cx, declared: &str) -> CaseResult<Database<'a>> {
    let db = cx.database()?;
    db.exec(&format!("CREATE TABLE t (id INTEGER PRIMARY KEY, v {declared})")).await?;
    Ok(db)
}

/// Stores each value and expects it back.
async fn come_back(db: &Database<'_>, values: &[SqlValue]) -> CaseResult {
    for (id, value) in values.iter().enumerate() {
        let id = SqlValue::Int(i64::try_from(id).unwrap_or(0));
        db.exec_with("INSERT INTO t (id, v) VALUES (?, ?)", &[id.clone(), value.clone()]).await?;
        let back = db.value_with("SELECT v FROM t WHERE id = ?", &[id]).await?;
        expect_eq!(back, *value, "what was stored");
    }
    // Together, as rows of one result.
    let back: Vec<SqlValue> = db.rows("SELECT v FROM t ORDER BY id").await?.into_iter().flatten().collect();
    expect_eq!(back, values, "all that was stored");
    Ok(())
}
