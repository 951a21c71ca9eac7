//! Which functions exist, what they return, and how long they take at worst.

use std::time::{Duration, Instant};

use memory_core::ErrorKind;
use memory_core::sql::SqlValue;
use memory_validator::{Dialect, Policy};
use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::TestDatabase;

/// Longest time of one call, which a deadline cannot interrupt.
const BOUND: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });

/// CPU time of this thread if the system offers it, so that other work on the machine does not count.
fn spent() -> Duration {
    static BEGAN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|told| told.split(' ').next()?.parse().ok())
        .map_or_else(|| BEGAN.elapsed(), Duration::from_nanos)
}

/// A text of this many characters.
fn long(character: char, count: usize) -> String {
    format!("printf('%.*c',{count},'{character}')")
}

#[test]
fn no_function_takes_long_on_the_longest_values() {
    let database = TestDatabase::new();
    let (a, half) = (long('a', 4_000_000), long('a', 2_000_000));
    let keys = |count: usize, value: &str| {
        format!(
            "(WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c LIMIT {count}) \
             SELECT json_group_object('k'||x, {value}) FROM c)"
        )
    };
    let deep = |count: usize| {
        format!("replace({},'x','[')||'1'||replace({},'x',']')", long('x', count), long('x', count))
    };
    let pattern = |body: &str| format!("replace({}, 'x', '{body}')", long('x', 4_900 / body.len()));
    let calls = [
        format!("length(trim({a}, {half}||'b'))"),
        format!("length(trim({a}, 'b'||{half}))"),
        format!("length(ltrim({a}, char(0x10ffff)||{half}))"),
        format!("length(rtrim({a}, 'b'||{half}))"),
        format!("instr({a}, {half}||'b')"),
        format!("instr({a}, 'b'||{half})"),
        format!("instr(CAST({a} AS BLOB), CAST({half}||'b' AS BLOB))"),
        format!("length(replace({a}, {half}||'b', 'x'))"),
        format!("length(replace({a}, 'aab', 'x'))"),
        format!("length(replace({a}, 'a', 'bb'))"),
        format!("length(unhex({a}, {half}))"),
        format!("length(unhex('b'||{a}, 'b'||{a}))"),
        format!("{a} LIKE '%'||{}||'b'", long('a', 4_900)),
        format!("{a} LIKE '%'||{}||'b%'", long('a', 4_900)),
        format!("{a} LIKE {}||'b'", pattern("%a")),
        format!("{a} LIKE '%'||{}||'b%'", pattern("_a")),
        format!("{a} LIKE '%'||{}||'b%'", pattern("a_%")),
        format!("{a} GLOB '*'||{}||'b'", long('a', 4_900)),
        format!("{a} GLOB '*'||{}||'b*'", pattern("[a-z]")),
        format!("{a} GLOB '*'||{}||'b*'", pattern("[^b-z]?")),
        format!("replace({half},'a','é') GLOB '*'||{}||'b*'", pattern("[à-ý]")),
        format!("{a} LIKE '%'||{}||'b' ESCAPE '!'", pattern("!%")),
        format!("length(json_patch({}, {}))", keys(100_000, "1"), keys(100_000, "2")),
        format!("length(json_patch({}, {}))", keys(4_000, "1"), keys(4_000, "2")),
        format!("length(jsonb_patch({}, {}))", keys(4_000, "1"), keys(4_000, "2")),
        format!("length(json_pretty({}, {half}))", keys(100_000, "1")),
        format!("length(json_pretty({}, '        '))", keys(100_000, "1")),
        format!("length(json_pretty({}))", deep(900)),
        format!("json_valid({})", deep(900_000)),
        format!("json_valid({})", deep(999)),
        format!("length(json({}))", keys(150_000, "1")),
        format!("length(jsonb({}))", keys(150_000, "1")),
        format!("json_extract({}, '$.k150000')", keys(150_000, "1")),
        format!("json_type({}, '$.k150000')", keys(150_000, "1")),
        format!("length(json_set({}, '$.new', 1))", keys(150_000, "1")),
        format!("length(json_remove({}, '$.k1'))", keys(150_000, "1")),
        format!("length(json_quote({a}))"),
        format!("length(json_array({half}, {half}))"),
        format!("json_array_length('['||rtrim(replace({}, 'a', '1,'), ',')||']')", long('a', 1_900_000)),
        format!("json_extract('['||rtrim(replace({}, 'a', '1,'), ',')||']', '$[#-1]')", long('a', 1_900_000)),
        format!("json_error_position({a})"),
        format!("length(json('\"'||replace({},'a','\\u0041')||'\"'))", long('a', 600_000)),
        format!("length(upper({a})||'')"),
        format!("length(hex({half}))"),
        format!("length(quote({half}))"),
        format!("length(unistr(replace({},'a','\\0041')))", long('a', 700_000)),
        format!("soundex({a})"),
        format!("length(concat({half}, {half}))"),
        format!("length(concat_ws({half}, 1, 2))"),
        format!("length(substr({a}, -1000000, 500000))"),
        format!("unicode({a})"),
        "length(printf('%4000000d', 1))".to_owned(),
        "length(printf('%.4000000f', 1.5))".to_owned(),
        "length(printf('%.100000000f', 1.5))".to_owned(),
        "length(format('%.*f%.*f', 1900000, 1.1, 1900000, 1e300))".to_owned(),
        "length(format('%!.1000000000g', 1.5))".to_owned(),
        format!("length(format(replace({},'a','%d')))", long('a', 1_900_000)),
        format!("length(format(replace({},'a','%f')))", long('a', 400_000)),
        format!("length(format('%,!4000000s', {half}))"),
        format!("length(strftime(replace({},'a','%w'), 'now'))", long('a', 1_900_000)),
        format!("length(strftime(replace({},'a','%J'), 'now'))", long('a', 200_000)),
        format!("length(strftime(replace({},'a','%s'), '2024-01-01'))", long('a', 300_000)),
        format!("date({a})"),
        format!("date('now', {a})"),
        "date('now', '+999999999 months', 'weekday 6', 'start of year')".to_owned(),
        "timediff('9999-12-31', '-4713-11-24')".to_owned(),
        "length(randomblob(4000000))".to_owned(),
        "length(zeroblob(4000000))".to_owned(),
        format!("abs({a})"),
        format!("round({a}, 30)"),
        format!("CAST({} AS INTEGER)", long('9', 4_000_000)),
        format!("CAST({} AS REAL)", long('9', 4_000_000)),
        format!("CAST('0.'||{} AS NUMERIC)", long('0', 3_900_000)),
        format!("{a} = {a}||''"),
        format!("{a} COLLATE NOCASE < {a}||'b' COLLATE NOCASE"),
        format!("vec_distance_cosine({}, zeroblob(4000000))", "zeroblob(4000000)"),
        format!("vec_distance_l2('['||rtrim(replace({a},'aaaa','1,'),',')||']', zeroblob(4000000))"),
        "length(vec_to_json(zeroblob(4000000)))".to_owned(),
        format!("vec_length({a})"),
        "power(1e300, 1e300)".to_owned(),
    ];
    for call in calls {
        let began = spent();
        let answer = database.query(&format!("SELECT {call}"), &[]);
        let elapsed = spent().saturating_sub(began);
        let told = match &answer {
            Ok(rows) => format!("{:?}", rows.rows).chars().take(60).collect(),
            Err(error) => error.to_string(),
        };
        println!("{elapsed:?} {} -> {told}", call.chars().take(120).collect::<String>());
        assert!(elapsed < BOUND, "{elapsed:?}: {call}");
        assert!(
            answer.is_ok() || !told.contains("syntax error") && !told.contains("no such"),
            "{call}: {told}"
        );
    }
}

#[test]
fn aggregates_and_sorts_end_within_their_memory() {
    let mut database = TestDatabase::new();
    database.timeout = Duration::from_secs(1);
    let rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c)";
    for body in [
        "SELECT group_concat(x) FROM c",
        "SELECT json_group_array(x) FROM c",
        "SELECT json_group_object(x, x) FROM c",
        "SELECT string_agg(x, printf('%.*c', 1000, 'x')) FROM c",
        "SELECT x FROM c ORDER BY random()",
        "SELECT count(*) FROM (SELECT DISTINCT random() FROM c)",
        "SELECT count(*) FROM (SELECT random() AS r, count(*) FROM c GROUP BY r)",
        "SELECT count(DISTINCT random()) FROM c",
        "SELECT median(x) FROM c",
        "SELECT percentile(-x, 50) OVER (ORDER BY x) FROM c",
        "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM c",
    ] {
        let began = Instant::now();
        let ended = database.query(&format!("{rows} {body}"), &[]);
        let elapsed = began.elapsed();
        println!("{elapsed:?} {body} -> {:?}", ended.as_ref().map(|_| ()).map_err(ToString::to_string));
        assert!(ended.is_err(), "{body}");
        assert!(elapsed < database.timeout + BOUND, "{elapsed:?}: {body}");
    }
}

#[test]
fn full_text_queries_end_at_their_deadline() {
    let mut database = TestDatabase::new();
    database.load("CREATE VIRTUAL TABLE ft USING fts5(body); INSERT INTO ft VALUES ('a b c'), ('a a a');");
    database.timeout = Duration::from_secs(1);
    for query in [
        format!("replace({}, 'x', 'a ')", long('x', 1_900_000)),
        format!("replace({}, 'x', 'a OR ')||'a'", long('x', 800_000)),
        format!("replace({}, 'x', 'a AND ')||'a'", long('x', 600_000)),
        format!("replace({}, 'x', 'a NOT ')||'a'", long('x', 600_000)),
        format!("replace({}, 'x', '(')", long('x', 3_900_000)),
        format!("'NEAR('||replace({}, 'x', 'a ')||', 10)'", long('x', 1_900_000)),
        format!("'\"'||replace({}, 'x', 'a ')||'\"'", long('x', 1_900_000)),
        format!("'{{'||replace({}, 'x', 'body ')||'}} : a'", long('x', 700_000)),
    ] {
        for sql in [
            format!("SELECT count(*) FROM ft WHERE ft MATCH {query}"),
            format!("SELECT highlight(ft, 0, '<', '>') FROM ft({query})"),
        ] {
            let began = Instant::now();
            let answer = database.query(&sql, &[]);
            let elapsed = began.elapsed();
            println!(
                "{elapsed:?} {} -> {:?}",
                sql.chars().take(90).collect::<String>(),
                answer.map(|_| ()).map_err(|error| error.to_string())
            );
            assert!(elapsed < database.timeout + BOUND, "{elapsed:?}: {sql}");
        }
    }
}

/// The engine has every function on the policy's list, under the authorizer.
#[test]
fn the_engine_has_every_function_of_the_policy() {
    let mut sandbox = TestDatabase::new().writer();
    let has: std::collections::BTreeSet<String> = sandbox
        .with_runtime_rights(|conn| {
            let mut names = conn.prepare("SELECT DISTINCT lower(name) FROM pragma_function_list").unwrap();
            Ok(names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect())
        })
        .unwrap();
    let policy = Policy::new(Dialect::Sqlite);
    // Functions of full-text tables only.
    let of_tables = ["bm25", "highlight", "snippet"];
    let missing: Vec<_> = policy
        .functions
        .iter()
        .filter(|name| !has.contains(*name) && !of_tables.contains(&name.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    let denied: Vec<_> = has.iter().filter(|name| !policy.functions.contains(*name)).collect();
    println!("denied to agents: {denied:?}");
    for name in ["load_extension", "fts3_tokenizer", "sqlite_log", "sqlite_compileoption_get"] {
        assert!(!policy.functions.contains(name), "{name}");
    }
}

/// Asserts that SQLite itself and the sandbox give the same result.
fn same(database: &mut super::Sandbox, original: &Connection, function: &str, args: &[Value]) {
    let marks: Vec<String> = (1..=args.len()).map(|at| format!("?{at}")).collect();
    let sql = format!("SELECT quote({function}({}))", marks.join(", "));
    let ask = |conn: &Connection| {
        conn.query_row(&sql, rusqlite::params_from_iter(args), |row| row.get::<_, Option<String>>(0))
            .map_err(|error| matches!(error, rusqlite::Error::SqliteFailure(..)))
    };
    let expected = ask(original);
    let answer = database.with_runtime_rights(|conn| Ok(ask(conn))).unwrap();
    assert_eq!(answer, expected, "{function}({args:?})");
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<i16>().prop_map(|value| Value::Integer(i64::from(value))),
        1 => (-1e4..1e4_f64).prop_map(Value::Real),
        6 => "[aAbB%_é0-2 ]{0,6}".prop_map(Value::Text),
        2 => "[*?\\[\\]^ab-]{0,6}".prop_map(Value::Text),
        1 => prop::collection::vec(prop_oneof![Just(0x61_u8), Just(0x62)], 0..5).prop_map(Value::Blob),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 2_000 }))]
    #[test]
    fn replacements_answer_as_sqlite_does(args in prop::collection::vec(value(), 3)) {
        thread_local! {
            static PAIR: (std::cell::RefCell<super::Sandbox>, Connection) =
                (std::cell::RefCell::new(TestDatabase::new().writer()), Connection::open_in_memory().unwrap());
        }
        PAIR.with(|(database, original)| {
            let database = &mut database.borrow_mut();
            for function in ["trim", "ltrim", "rtrim", "instr", "like", "glob", "unhex"] {
                same(database, original, function, &args[..2]);
            }
            same(database, original, "replace", &args);
            same(database, original, "like", &args);
        });
    }
}

#[test]
fn json_functions_answer_as_sqlite_does() {
    let mut database = TestDatabase::new().writer();
    let original = Connection::open_in_memory().unwrap();
    let texts = [
        "{}",
        r#"{"a":1,"b":{"c":[1,2]}}"#,
        r#"{"b":{"c":null},"d":"x"}"#,
        "[1,{\"a\":2}]",
        "5",
        "{a:1,}",
        "nope",
    ];
    for document in texts {
        for other in texts {
            let args = [Value::Text(document.into()), Value::Text(other.into())];
            same(&mut database, &original, "json_patch", &args);
            same(&mut database, &original, "jsonb_patch", &args);
        }
        same(
            &mut database,
            &original,
            "json_pretty",
            &[Value::Text(document.into()), Value::Text("  ".into())],
        );
    }
    let database = TestDatabase::new();
    let nested = database.value(r#"SELECT json_object('a', json_patch('{"x":1}', '{"y":2}'))"#).unwrap();
    assert_eq!(nested, SqlValue::Text(r#"{"a":{"x":1,"y":2}}"#.into()));
}

#[test]
fn mathematical_functions_answer_as_sqlite_does() {
    let database = TestDatabase::new();
    let real = |value: f64| SqlValue::Real(value);
    let cases = [
        ("ceil(1.2)", real(2.0)),
        ("ceil(7)", SqlValue::Int(7)),
        ("ceiling(-1.5)", real(-1.0)),
        ("floor(-1.5)", real(-2.0)),
        ("floor('2.5')", real(2.0)),
        ("trunc(-1.9)", real(-1.0)),
        ("trunc(9223372036854775807)", SqlValue::Int(i64::MAX)),
        ("sqrt(2)", real(2_f64.sqrt())),
        ("sqrt(-1)", SqlValue::Null),
        ("ln(0)", SqlValue::Null),
        ("log(100)", real(2.0)),
        ("log(2, 8)", real(3.0)),
        ("log(1, 8)", SqlValue::Null),
        ("log10(1000)", real(3.0)),
        ("log2(8)", real(3.0)),
        ("mod(11, 3.5)", real(0.5)),
        ("mod(1, 0)", SqlValue::Null),
        ("pow(2, 10)", real(1024.0)),
        ("power(2, 0.5)", real(2_f64.sqrt())),
        ("pi()", real(std::f64::consts::PI)),
        ("degrees(pi())", real(180.0)),
        ("radians(180)", real(std::f64::consts::PI)),
        ("exp(0)", real(1.0)),
        ("acos(2)", SqlValue::Null),
        ("atan2(1, 1)", real(std::f64::consts::FRAC_PI_4)),
        ("sin(NULL)", SqlValue::Null),
        ("cos('x')", SqlValue::Null),
        ("tanh(0)", real(0.0)),
        ("asinh(0)", real(0.0)),
    ];
    for (call, expected) in cases {
        assert_eq!(database.value(&format!("SELECT {call}")).unwrap(), expected, "{call}");
    }
}

#[test]
fn percentiles_answer_as_sqlite_does() {
    let database = TestDatabase::new();
    let rows = "WITH t(x) AS (VALUES (9), (1.5), (NULL), (3), (-2), (7))";
    let cases = [
        ("median(x)", Some(3.0)),
        ("percentile(x, 50)", Some(3.0)),
        ("percentile(x, 0)", Some(-2.0)),
        ("percentile(x, 100.0)", Some(9.0)),
        ("percentile(x, '25')", Some(1.5)),
        ("percentile(x, 60)", Some(4.6)),
        ("percentile_cont(x, 0.6)", Some(4.6)),
        ("percentile_disc(x, 0.6)", Some(3.0)),
        ("percentile_disc(x, 1)", Some(9.0)),
        ("median(x) FILTER (WHERE x > 3)", Some(8.0)),
        ("median(x) FILTER (WHERE x > 99)", None),
    ];
    for (call, expected) in cases {
        match (database.value(&format!("{rows} SELECT {call} FROM t")).unwrap(), expected) {
            (SqlValue::Real(found), Some(expected)) => {
                assert!((found - expected).abs() < 1e-9, "{call}: {found}");
            }
            (found, expected) => assert_eq!((found, expected), (SqlValue::Null, None), "{call}"),
        }
    }
    for bad in [
        "percentile(x, 101)",
        "percentile(x, -1)",
        "percentile(x, NULL)",
        "percentile_cont(x, 50)",
        "percentile(x, 50 + coalesce(x, 0))",
        "median('a' || x)",
        "median(x * 1e308 * 1e308)",
    ] {
        let error = database.query(&format!("{rows} SELECT {bad} FROM t"), &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}: {error}");
    }
}

#[test]
fn percentiles_slide_with_a_window() {
    let database = TestDatabase::new();
    let numbers: Vec<f64> = (0_u32..200).map(|at| f64::from(at * 7_919 % 211)).collect();
    let values: Vec<String> = numbers.iter().enumerate().map(|(at, x)| format!("({at}, {x})")).collect();
    let sql = format!(
        "WITH t(i, x) AS (VALUES {}) SELECT percentile(x, 30) OVER (ORDER BY i ROWS BETWEEN 6 PRECEDING AND 3 FOLLOWING) FROM t",
        values.join(", ")
    );
    let rows = database.query(&sql, &[]).unwrap().rows;
    assert_eq!(rows.len(), numbers.len());
    for (at, row) in rows.iter().enumerate() {
        let mut frame = numbers[at.saturating_sub(6)..(at + 4).min(numbers.len())].to_vec();
        frame.sort_by(f64::total_cmp);
        let place = 0.3 * f64::from(u32::try_from(frame.len() - 1).unwrap());
        let low = place.floor();
        let index = (0..frame.len()).find(|at| f64::from(u32::try_from(*at).unwrap()) == low).unwrap();
        let high = frame.get(index + 1).copied().unwrap_or(frame[index]);
        let expected = frame[index] + (high - frame[index]) * (place - low);
        let [SqlValue::Real(found)] = row.as_slice() else { panic!("{row:?}") };
        assert!((found - expected).abs() < 1e-9, "row {at}: {found}, not {expected}");
    }
}

#[test]
fn vectors_are_compared_as_blobs_or_as_text() {
    let database = TestDatabase::new();
    let value = |call: &str| database.value(&format!("SELECT {call}")).unwrap();
    assert_eq!(value("vec_length(vec_f32('[1, 2, 3]'))"), SqlValue::Int(3));
    assert_eq!(value("vec_to_json(vec_f32('[1, 2.5, -3]'))"), SqlValue::Text("[1,2.5,-3]".into()));
    assert_eq!(value("hex(vec_f32('[1]'))"), SqlValue::Text("0000803F".into()));
    assert_eq!(value("vec_dot('[1, 2]', vec_f32('[3, 4]'))"), SqlValue::Real(11.0));
    assert_eq!(value("vec_distance_L2('[0, 0]', '[3, 4]')"), SqlValue::Real(5.0));
    assert_eq!(value("vec_distance_cosine('[1, 0]', '[0, 1]')"), SqlValue::Real(1.0));
    assert_eq!(value("vec_distance_cosine('[1, 0]', '[0, 0]')"), SqlValue::Null);
    assert_eq!(value("vec_distance_cosine('[1e30, 0]', '[0, 1e30]')"), SqlValue::Real(1.0));
    assert_eq!(value("vec_distance_cosine('[1e-30, 1]', '[1e-30, 0]')"), SqlValue::Real(1.0));
    assert_eq!(value("vec_distance_cosine(NULL, '[0, 0]')"), SqlValue::Null);
    for bad in [
        "vec_dot('[1]', '[1, 2]')",
        "vec_dot(x'00', x'00')",
        "vec_f32('[1,')",
        "vec_f32(5)",
        "vec_f32('[1e99]')",
    ] {
        let error = database.query(&format!("SELECT {bad}"), &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}");
    }
    let many: Vec<String> = (0_u16..37).map(|number| number.to_string()).collect();
    let many = format!("'[{}]'", many.join(","));
    let expected = (0..37).map(f64::from).map(|x| x * x).sum::<f64>();
    assert_eq!(value(&format!("vec_dot({many}, vec_f32({many}))")), SqlValue::Real(expected));
}

#[test]
fn each_row_has_its_own_escape() {
    let database = TestDatabase::new();
    database.load("CREATE TABLE t(e); INSERT INTO t VALUES ('!'), ('?'), (NULL), ('!')");
    let told = "SELECT group_concat(coalesce('10%' LIKE '10!%' ESCAPE e, '-'), '') FROM t";
    assert_eq!(database.value(told).unwrap(), SqlValue::Text("10-1".into()));
}

/// A pattern that is not literal advances 64 characters at a time, at worst for longer than the deadline.
#[test]
fn a_long_pattern_ends_at_the_deadline() {
    let mut database = TestDatabase::new();
    database.timeout = Duration::from_millis(100);
    let text = format!("replace({}, 'a', '{}')", long('a', 4_000), "a".repeat(1_000));
    for pattern in [
        format!("LIKE '%'||replace({}, 'x', '_a')||'b%'", long('x', 2_400)),
        format!("GLOB '*'||replace({}, 'x', '?a')||'b*'", long('x', 2_400)),
    ] {
        let rows = "(SELECT value FROM json_each('[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20]'))";
        let began = Instant::now();
        let error = database.query(&format!("SELECT sum({text} {pattern}) FROM {rows}"), &[]).unwrap_err();
        let elapsed = began.elapsed();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(elapsed < Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 }), "{elapsed:?}");
    }
}
