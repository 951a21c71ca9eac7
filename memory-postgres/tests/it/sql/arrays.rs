//! Arguments: arrays, and the types that numbers get.

use memory_conformance::random::Random;
use memory_core::sql::{SqlFacet as _, SqlValue, StatementOptions};
use memory_core::{Checked, ErrorKind, Json, Provider as _, RunContext, Scope};
use memory_postgres::PostgresProvider;
use serde_json::{Value, json};

use crate::support;
use crate::support::sql;

/// A text, mostly of characters with a meaning in an array literal.
fn text(random: &mut Random) -> String {
    const PARTS: [&str; 20] = [
        "NULL", "null", "{", "}", ",", "\"", "\\", "'", " ", "\t", "\n", ";", "[1:2]=", "a", "B", "0", "é",
        "🦀", "$1", "--",
    ];
    (0..random.below(5)).map(|_| PARTS[random.index(20)]).collect()
}

fn element(random: &mut Random, kind: u64) -> Value {
    if random.one_in(6) {
        return Value::Null;
    }
    match kind {
        0 => json!(text(random)),
        1 => json!(random.bits().cast_signed() >> random.below(64)),
        2 => json!(f64::from(i32::try_from(random.below(2_000_000)).unwrap() - 1_000_000) / 1024.0),
        _ => json!(random.below(2) == 0),
    }
}

async fn opened(place: &sql::Place) -> (Checked<PostgresProvider>, Scope, RunContext) {
    let provider = Checked::new(PostgresProvider::open(place.config()).await.unwrap()).unwrap();
    let scope = Scope::agent("arrays", "a").unwrap();
    let run = sql::run_of(&scope);
    (provider, scope, run)
}

fn argument(json: &Value) -> SqlValue {
    SqlValue::from_json(&Json::parse(json.to_string()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_json_array_comes_back_through_unnest() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let (provider, scope, run) = opened(&place).await;
    let mut random = Random::named("arrays");
    for round in 0..300 {
        let kind = random.below(4);
        let elements: Vec<Value> = (0..random.below(12)).map(|_| element(&mut random, kind)).collect();
        let typed = ["text", "bigint", "double precision", "boolean"][usize::try_from(kind).unwrap()];
        let sql = format!("SELECT v FROM unnest($1::{typed}[]) WITH ORDINALITY AS u (v, at) ORDER BY at");
        let given = argument(&json!(elements));
        let rows = provider
            .query(&run, &scope, &sql, std::slice::from_ref(&given), StatementOptions::default())
            .await;
        let back: Vec<SqlValue> = rows
            .unwrap_or_else(|error| panic!("{round}: {given:?}: {error:?}"))
            .rows
            .into_iter()
            .flatten()
            .collect();
        let due: Vec<SqlValue> = elements.iter().map(argument).collect();
        assert_eq!(back, due, "{round}: {given:?}");
    }
}

/// The type of a parameter is cached by the statement's text: another array must not inherit it.
#[tokio::test(flavor = "multi_thread")]
async fn elements_of_another_type_do_not_inherit_the_type_of_an_earlier_call() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let (provider, scope, run) = opened(&place).await;
    let options = StatementOptions::default;
    provider.exec(&run, &scope, "CREATE TABLE t (n int, s text)", &[], options()).await.unwrap();
    provider.exec(&run, &scope, "INSERT INTO t VALUES (1, '1'), (2, 'b')", &[], options()).await.unwrap();
    let count = async |sql: &str, array: Value| {
        provider
            .query(&run, &scope, sql, &[argument(&array)], options())
            .await
            .map(|rows| rows.rows[0][0].clone())
    };
    let by_number = "SELECT count(*) FROM t WHERE n = ANY (?)";
    for (array, found) in [
        (json!([1, 2]), 2),
        (json!([1.5, 2.0]), 1),
        (json!([1, null]), 1),
        (json!([]), 0),
        (json!(["2"]), 1),
        (json!([3_000_000_000_i64, 1]), 1),
        (json!([{"$numeric": "2.0"}, {"$numeric": "0.1"}]), 1),
    ] {
        assert_eq!(count(by_number, array.clone()).await.unwrap(), SqlValue::Int(found), "{array}");
    }
    let by_text = "SELECT count(*) FROM t WHERE s = ANY (?)";
    for (array, found) in [(json!(["1", "b"]), 2), (json!([1, 2]), 1), (json!(["b", null]), 1)] {
        assert_eq!(count(by_text, array.clone()).await.unwrap(), SqlValue::Int(found), "{array}");
    }
    let refused = count("SELECT count(*) FROM t WHERE n = ?", json!([1])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused:?}");
    let refused = count(by_number, json!(["x"])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused:?}");
}

/// A number out of the range of its type is tried again as another type.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_out_of_range_decides_nothing_for_the_next_call() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let (provider, scope, run) = opened(&place).await;
    for (divisor, due) in [(2.0, SqlValue::Int(3)), (1e10, SqlValue::Real(7e-10)), (2.0, SqlValue::Int(3))] {
        let args = [SqlValue::Real(divisor)];
        let rows = provider.query(&run, &scope, "SELECT 7 / ?", &args, StatementOptions::default()).await;
        assert_eq!(rows.unwrap().rows, [[due]], "7 / {divisor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_in_a_text_is_what_the_engine_prints() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let (provider, scope, run) = opened(&place).await;
    let options = StatementOptions::default;
    provider.exec(&run, &scope, "CREATE TABLE t (a char(30), b name)", &[], options()).await.unwrap();
    for real in [2.5, -0.000_012, 1e15, 1e21, 0.123_456_789_012_345_66] {
        let compare = "INSERT INTO t VALUES ($1, $2) RETURNING a = CAST($3 AS double precision)::text, b::text = CAST($3 AS double precision)::text";
        let args = vec![SqlValue::Real(real); 3];
        let kept = provider.exec(&run, &scope, compare, &args, options()).await.unwrap().returning.unwrap();
        assert_eq!(kept.rows, [[SqlValue::Bool(true), SqlValue::Bool(true)]], "{real}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_over_the_size_limit_of_an_argument_is_too_large() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let (provider, scope, run) = opened(&place).await;
    let text = SqlValue::Text("x".repeat(1 << 20));
    let array = SqlValue::Array(vec![text; 6]);
    let refused = provider
        .query(&run, &scope, "SELECT cardinality($1::text[])", &[array], StatementOptions::default())
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::TooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_between_statements_is_counted() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let (provider, scope, run) = opened(&place).await;
    let uses = || {
        let figures = provider.figures();
        ["session_hits", "session_misses", "parameter_types_hits", "parameter_types_misses"].map(|what| {
            let name = format!("postgres_sql_{what}_total");
            figures.iter().find(|figure| figure.name == name).unwrap().value
        })
    };
    let options = StatementOptions::default;
    provider.exec(&run, &scope, "CREATE TABLE t (a text)", &[], options()).await.unwrap();
    let [hits, misses, known, asked] = uses();
    assert!(misses > 0, "a session was opened");
    // The first looks nothing up: its session does not know the scope's definitions yet.
    for sql in ["SELECT 7 / ?", "SELECT 7 / ?", "SELECT 8 / ?", "SELECT 8 / ?"] {
        provider.query(&run, &scope, sql, &[SqlValue::Real(2.0)], options()).await.unwrap();
    }
    assert_eq!(uses(), [hits + 4, misses, known + 2, asked + 1]);
}
