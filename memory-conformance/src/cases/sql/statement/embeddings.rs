//! EBD: texts bound as vectors.

use memory_core::embed::cosine;
use memory_core::sql::SqlValue;
use memory_core::{EmbedRole, ErrorKind, SqlDialect};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_some};
use crate::cx::Cx;
use crate::cx::database::{Database, text};
use crate::harness::embedder::{EmbedFault, TestEmbedder};

pub(crate) const CASES: &[Case] = &[
    case!("sql.embed.same-text-same-bytes", [Sql, SqlVectors], ["EBD-1"], |cx| {
        let db = notes(cx).await?;
        let same = "SELECT count(*) FROM notes WHERE e = $1";
        for note in SENTENCES {
            expect_eq!(
                db.value_with(same, &[embed(note)]).await?,
                SqlValue::Int(1),
                "rows with the vector of `{note}`"
            );
        }
        expect_eq!(
            db.value_with(same, &[embed("another")]).await?,
            SqlValue::Int(0),
            "rows with another vector"
        );
    }),
    case!("sql.embed.bytes-of-the-model", [Sql, SqlVectors], ["EBD-1"], |cx| {
        if cx.dialect() != SqlDialect::Sqlite {
            return Err(Stop::skipped("the dialect has a type of its own for vectors"));
        }
        let db = notes(cx).await?;
        let [first, ..] = SENTENCES;
        let due: Vec<u8> = cx.embedder().vector(first).iter().flat_map(|x| x.to_le_bytes()).collect();
        expect_eq!(
            db.value("SELECT e FROM notes WHERE id = 1").await?,
            SqlValue::Blob(due),
            "the bytes of an embedding"
        );
    }),
    case!("sql.embed.nearest-first", [Sql, SqlVectors], ["EBD-2"], |cx| {
        let db = notes(cx).await?;
        for question in ["ann drinks tea", "bicycles of bob", "train to zurich at noon"] {
            let mut due: Vec<(f64, i64)> =
                (1..).zip(SENTENCES).map(|(id, note)| (1.0 - cx.cosine(question, note), id)).collect();
            due.sort_by(|a, b| a.0.total_cmp(&b.0));
            let due: Vec<i64> = due.into_iter().map(|(_, id)| id).collect();
            let sql = format!("SELECT id FROM notes ORDER BY {}, id", distance(cx));
            let found: Vec<SqlValue> =
                db.query_with(&sql, &[embed(question)]).await?.rows.into_iter().flatten().collect();
            let due: Vec<SqlValue> = due.into_iter().map(SqlValue::Int).collect();
            expect_eq!(found, due, "notes by their distance to `{question}`");
        }
    }),
    case!("sql.embed.distances", [Sql, SqlVectors], ["EBD-2"], |cx| {
        let db = notes(cx).await?;
        let question = "ann drinks tea";
        let sql = format!("SELECT {} FROM notes WHERE id = $2", distance(cx));
        for (id, note) in (1..).zip(SENTENCES) {
            let due = 1.0 - cosine(&cx.embedder().vector(question), &cx.embedder().vector(note));
            match db.value_with(&sql, &[embed(question), SqlValue::Int(id)]).await? {
                SqlValue::Real(found) => {
                    check!((found - due).abs() < 1e-4, "the distance to `{note}` is {found}, expected {due}");
                }
                other => return Err(Stop::failed(format_args!("a distance is {other:?}"))),
            }
        }
    }),
    case!("sql.embed.several-in-place", [Sql, SqlVectors], ["EBD-1", "ARG-2"], |cx| {
        let db = notes(cx).await?;
        let args = [embed("first words"), text("between"), embed("second words"), embed("first words")];
        db.exec_with(
            "INSERT INTO notes (id, e, note) VALUES (10, $1, $2), (11, $3, $2), (12, $4, $2)",
            &args,
        )
        .await?;
        let found = |with: &'static str| {
            let db = db.clone();
            async move {
                let rows =
                    db.query_with("SELECT id FROM notes WHERE e = ? ORDER BY id", &[embed(with)]).await?;
                Ok::<_, Stop>(rows.rows.into_iter().flatten().collect::<Vec<_>>())
            }
        };
        expect_eq!(
            found("first words").await?,
            [SqlValue::Int(10), SqlValue::Int(12)],
            "rows of the first embedding"
        );
        expect_eq!(found("second words").await?, [SqlValue::Int(11)], "rows of the second embedding");
        expect_eq!(db.int("SELECT count(*) FROM notes WHERE note = 'between'").await?, 3);
    }),
    case!("sql.embed.failure-runs-nothing", [Sql, SqlVectors], ["EBD-3"], |cx| {
        let db = notes(cx).await?;
        for kind in [ErrorKind::Unavailable, ErrorKind::RateLimited, ErrorKind::Timeout] {
            cx.embedder().fail_always(Some(EmbedFault::Error(kind)));
            let sql = "INSERT INTO notes (id, e) VALUES (99, ?)";
            let error =
                expect_some!(db.exec_with(sql, &[embed("late words")]).await.err(), "an embedder that fails");
            expect_eq!(error.kind(), kind, "the kind of the embedder's failure");
            cx.embedder().fail_always(None);
            expect_eq!(db.count("notes").await?, 4, "rows after the embedder failed");
        }
        for fault in [EmbedFault::Dimension, EmbedFault::NotANumber, EmbedFault::TooFew, EmbedFault::Zero] {
            cx.embedder().fail_always(Some(fault));
            let stored =
                db.exec_with("INSERT INTO notes (id, e) VALUES (99, ?)", &[embed("odd words")]).await;
            cx.embedder().fail_always(None);
            check!(stored.is_err(), "what an embedder answered wrongly ({fault:?}) was stored");
            expect_eq!(db.count("notes").await?, 4, "rows after {fault:?}");
        }
    }),
    case!("sql.embed.roles", [Sql, SqlVectors], ["EBD-5"], |cx| {
        let cx = &cx.on(cx.open_with(TestEmbedder::new().telling_roles_apart()).await?);
        let db = notes(cx).await?;
        let [note, ..] = SENTENCES;
        let embedder = cx.embedder();
        let due = 1.0 - cosine(&embedder.vector_as(note, EmbedRole::Query), &embedder.vector(note));
        let sql = format!("SELECT {} FROM notes WHERE id = 1", distance(cx));
        match db.value_with(&sql, &[embed(note)]).await? {
            SqlValue::Real(found) => {
                check!(due > 0.01, "the suite's embedder does not tell roles apart");
                check!(
                    (found - due).abs() < 1e-4,
                    "the distance to itself as a query is {found}, expected {due}"
                );
            }
            other => return Err(Stop::failed(format_args!("a distance is {other:?}"))),
        }
    }),
    case!("sql.embed.asked-only-then", [Sql, SqlVectors], ["EBD-4"], |cx| {
        let db = notes(cx).await?;
        let calls = cx.embedder().calls();
        db.exec_with("INSERT INTO notes (id, note) VALUES (?, ?)", &[SqlValue::Int(50), text("bare words")])
            .await?;
        db.rows("SELECT note FROM notes").await?;
        db.exec("DELETE FROM notes WHERE id = 50").await?;
        expect_eq!(
            cx.embedder().calls(),
            calls,
            "calls of the embedder by statements without such an argument"
        );
        db.query_with("SELECT count(*) FROM notes WHERE e = ?", &[embed("asked words")]).await?;
        check!(cx.embedder().calls() > calls, "the embedder was not called");
    }),
];

const SENTENCES: [&str; 4] = [
    "ann drinks green tea in the morning",
    "bob repairs bicycles",
    "ann drinks black tea",
    "the train to zurich leaves at noon",
];

fn embed(text: &str) -> SqlValue {
    SqlValue::Embed(text.to_owned())
}

/// A table of sentences with their embeddings.
async fn notes<'a>(cx: &'a Cx) -> CaseResult<Database<'a>> {
    crate::cx::vectors::owned(cx)?;
    let db = cx.database()?;
    let vector = format!("vector({})", TestEmbedder::DIMENSIONS);
    let column = cx.in_dialect("BLOB", vector.as_str());
    db.exec(&format!("CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT, e {column})")).await?;
    for (id, note) in (1..).zip(SENTENCES) {
        let args = [SqlValue::Int(id), text(note), embed(note)];
        db.exec_with("INSERT INTO notes VALUES (?, ?, ?)", &args).await?;
    }
    Ok(db)
}

fn distance(cx: &Cx) -> &'static str {
    cx.in_dialect("vec_distance_cosine(e, $1)", "e <=> $1")
}
