//! Random entries, schemas and rows for either dialect. Statements the engine refuses are skipped.

use std::time::Duration;

use memory::sql::{SqlValue, StatementOptions};
use memory::{Backend, Json, Key, Memory, RunContext, Scope, ScopeId, SetOptions, SqlDialect, Ttl};
use memory_conformance::random::Random;

const TEXTS: [&str; 10] = [
    "",
    "plain",
    "quote ' and \" and ; -- /* */",
    "line\nfeed\ttab\r",
    "Zürich 東京 😀 \u{200d}\u{301}",
    "\\u0041 \\x00 \\",
    "null",
    "{\"$blob\":\"AP8=\"}",
    "9007199254740993",
    "trailing space ",
];
const VALUES: [&str; 9] = [
    "null",
    "9007199254740993",
    "-0.0",
    "1e400",
    "\"\\u00e9\\ud83d\\ude00\"",
    "{\n \"b\" : 1.50,\n \"a\" : [ ]\n}",
    "{\"a\":1,\"a\":2}",
    "[true,false,null]",
    "\"\"",
];

fn text(random: &mut Random) -> String {
    let mut text = (*random.pick(&TEXTS).unwrap()).to_owned();
    if random.one_in(8) {
        text = text.repeat(200);
    }
    text
}

/// Random writes: sets, deletes, increments, lifetimes, metadata, long values.
pub(crate) async fn entries(kv: &dyn Backend, scope: &Scope, random: &mut Random) {
    for _ in 0..random.below(40) {
        let name = format!("k{}{}", random.below(12), random.pick(&["", "/é", "%_'\"", "\n"]).unwrap());
        let key = Key::new(name).unwrap();
        if random.one_in(6) {
            kv.delete(scope, &key, memory::DeleteOptions::default()).await.unwrap();
            continue;
        }
        let value = match random.below(3) {
            0 => Json::string(&text(random)),
            1 => Json::parse(random.bits().to_string()).unwrap(),
            _ => Json::parse(*random.pick(&VALUES).unwrap()).unwrap(),
        };
        let mut options = SetOptions::default();
        if random.one_in(3) {
            options.metadata.insert("text", *random.pick(&TEXTS).unwrap());
            options.metadata.insert("int", i64::from_ne_bytes(random.bits().to_ne_bytes()));
            options.metadata.insert("real", f64::from(u32::try_from(random.below(1 << 30)).unwrap()) / 7.0);
            options.metadata.insert("flag", random.one_in(2));
        }
        options.source = random.one_in(3).then(|| memory::Source::new("chat").unwrap());
        options.text = random.one_in(4).then(|| text(random));
        options.ttl =
            *random.pick(&[Ttl::Keep, Ttl::Never, Ttl::After(Duration::from_secs(86_400))]).unwrap();
        kv.set(scope, &key, value, options).await.unwrap();
        if random.one_in(4) {
            kv.get(scope, &key, memory::GetOptions::default()).await.unwrap();
        }
    }
}

fn run(scope: &Scope) -> RunContext {
    RunContext::new(scope.tenant.clone(), ScopeId::new("tester").unwrap(), ScopeId::new("run").unwrap())
}

async fn try_exec(memory: &Memory, scope: &Scope, sql: &str, args: &[SqlValue]) -> bool {
    let facet = memory.sql().unwrap();
    facet.exec(&run(scope), scope, sql, args, StatementOptions::default()).await.is_ok()
}

/// Creates and fills a random schema; returns the number of accepted statements.
pub(crate) async fn database(memory: &Memory, scope: &Scope, random: &mut Random) -> u64 {
    match memory.capabilities().sql_dialect {
        Some(SqlDialect::Sqlite) => sqlite(memory, scope, random).await,
        Some(SqlDialect::Postgres) => postgres(memory, scope, random).await,
        _ => 0,
    }
}

const NAMES: [&str; 7] =
    ["plain", "\"we ird\"", "\"Sel\"\"ect\"", "\"тест\"", "\"a;b--c\"", "\"UPPER\"", "\"1\""];

async fn sqlite(memory: &Memory, scope: &Scope, random: &mut Random) -> u64 {
    let mut taken = 0;
    let tables = 1 + random.index(5);
    for name in &NAMES[..tables] {
        let key = *random
            .pick(&[
                "id INTEGER PRIMARY KEY",
                "id INTEGER PRIMARY KEY AUTOINCREMENT",
                "id",
                "id TEXT UNIQUE",
                "\"id\" INTEGER NOT NULL DEFAULT (1 + 2) CHECK (\"id\" <> 13)",
            ])
            .unwrap();
        let (extra, tail) = *random
            .pick(&[
                ("", ""),
                ("", " STRICT"),
                (", g AS (length(b)) VIRTUAL", ""),
                (", g TEXT GENERATED ALWAYS AS (b || '!') STORED", ""),
                (", PRIMARY KEY (b, id)", " WITHOUT ROWID"),
                (", rowid TEXT", ""),
                (", FOREIGN KEY (c) REFERENCES plain (id) DEFERRABLE INITIALLY DEFERRED", ""),
            ])
            .unwrap();
        let kinds: [&str; 3] =
            if tail == " STRICT" { ["TEXT", "ANY", "BLOB"] } else { ["TEXT COLLATE NOCASE", "REAL", ""] };
        let [b, c, d] = kinds;
        let create = format!(
            "CREATE TABLE {name} ({key}, b {b} DEFAULT 'x''y', c {c}, \"d \"\" d\" {d}{extra}){tail}"
        );
        if !try_exec(memory, scope, &create, &[]).await {
            continue;
        }
        taken += 1;
        for _ in 0..random.below(12) {
            let mut value = || match random.below(8) {
                0 => SqlValue::Null,
                1 => SqlValue::Int(i64::from_ne_bytes(random.bits().to_ne_bytes())),
                2 => SqlValue::Int(i64::try_from(random.below(20)).unwrap()),
                3 => SqlValue::Real(f64::from_bits(random.bits())),
                4 => SqlValue::Real(*random.pick(&[f64::INFINITY, f64::NEG_INFINITY, -0.0, 5e-324]).unwrap()),
                5 => SqlValue::Blob(random.bits().to_ne_bytes().to_vec()),
                _ => SqlValue::Text(text(random)),
            };
            let args = [value(), value(), value(), value()];
            let insert = format!("INSERT INTO {name} (id, b, c, \"d \"\" d\") VALUES (?, ?, ?, ?)");
            try_exec(memory, scope, &insert, &args).await;
        }
        if random.one_in(2) {
            try_exec(
                memory,
                scope,
                &format!("DELETE FROM {name} WHERE id IN (SELECT max(id) FROM {name})"),
                &[],
            )
            .await;
        }
        for (n, sql) in [
            format!("CREATE INDEX \"i {name:.1}{taken}\" ON {name} (b, lower(c)) WHERE b IS NOT NULL"),
            format!("CREATE VIEW \"v{taken}\" AS SELECT b AS \"x y\", c FROM {name} WHERE c > 1"),
            format!(
                "CREATE TRIGGER \"t{taken}\" AFTER INSERT ON {name} BEGIN UPDATE {name} SET c = 1 WHERE b = 'a;b'; END"
            ),
            "ANALYZE".to_owned(),
        ]
        .iter()
        .enumerate()
        {
            if random.one_in(2 + n as u64 / 3) {
                taken += u64::from(try_exec(memory, scope, sql, &[]).await);
            }
        }
    }
    if random.one_in(3) {
        taken += u64::from(
            try_exec(memory, scope, "CREATE VIRTUAL TABLE words USING fts5(body, title)", &[]).await,
        );
        try_exec(memory, scope, "INSERT INTO words VALUES ('tea in Lisbon', 'a'), (NULL, 'b')", &[]).await;
    }
    taken
}

async fn postgres(memory: &Memory, scope: &Scope, random: &mut Random) -> u64 {
    let mut taken = 0;
    for sql in [
        "CREATE TYPE mood AS ENUM ('sad', 'o''k', 'Glück')",
        "CREATE DOMAIN small AS integer DEFAULT 7 CHECK (VALUE < 1000)",
        "CREATE SEQUENCE counter START 5 INCREMENT 3 MAXVALUE 1000 CYCLE",
    ] {
        if random.one_in(2) {
            taken += u64::from(try_exec(memory, scope, sql, &[]).await);
        }
    }
    let columns = [
        ("bigint", "9007199254740993|-1|NULL"),
        ("numeric(30,7)", "'1.10'|'NaN'|-12345678901234567890.1234567"),
        ("numeric", "1e-40|'Infinity'|0.00"),
        ("real", "'NaN'|1.1|'-Infinity'"),
        ("double precision", "0.1|-0.0::float8|5e-324|'Infinity'"),
        ("text", "''|'quote '' and \\ ; --'|'Zürich 東京 😀'|repeat('x', 5000)"),
        ("varchar(30)", "'a'|NULL"),
        ("character(5)", "'ab'|''"),
        ("bytea", "'\\x00ff'|''"),
        ("boolean", "true|false|NULL"),
        ("timestamptz", "'2026-01-01 12:34:56.789123+02'|'infinity'|'0044-03-15 BC'"),
        ("timestamp", "'2026-01-01 12:34:56.1'|'-infinity'"),
        ("date", "'2026-02-28'"),
        ("time", "'24:00'"),
        ("interval", "'1 mon -3 days 04:05:06.7'"),
        ("uuid", "'00112233-4455-6677-8899-aabbccddeeff'"),
        ("json", "'{ \"b\": 1.50, \"a\": [], \"a\": 2 }'"),
        ("jsonb", "'{\"n\": 9007199254740993}'"),
        ("integer[]", "'{1,NULL,3}'|'{{1,2},{3,4}}'|'{}'"),
        ("text[]", "ARRAY['a,b','\"',NULL,'']"),
        ("mood", "'o''k'|'Glück'"),
        ("small", "1|DEFAULT|NULL"),
        ("point", "'(1.5,-2)'"),
        ("inet", "'10.0.0.1/8'"),
        ("bit varying(8)", "B'1010'"),
        ("int4range", "'[1,5)'|'empty'"),
    ];
    for (n, name) in NAMES[..1 + random.index(4)].iter().enumerate() {
        let key = *random
            .pick(&[
                "id bigint PRIMARY KEY",
                "id bigint GENERATED BY DEFAULT AS IDENTITY (START WITH 10) PRIMARY KEY",
                "id bigserial UNIQUE",
                "id integer NOT NULL DEFAULT 3 CHECK (id <> 13)",
                "id bigint GENERATED ALWAYS AS IDENTITY",
            ])
            .unwrap();
        let chosen: Vec<(usize, &(&str, &str))> =
            (0..1 + random.index(6)).map(|at| (at, random.pick(&columns).unwrap())).collect();
        let mut declared: Vec<String> =
            chosen.iter().map(|(at, (kind, _))| format!("\"c {at}\" {kind}")).collect();
        if random.one_in(3) {
            declared.push("g bigint GENERATED ALWAYS AS (id * 2) STORED".to_owned());
        }
        let create = format!("CREATE TABLE {name} ({key}, {})", declared.join(", "));
        if !try_exec(memory, scope, &create, &[]).await {
            continue;
        }
        taken += 1;
        for row in 0..random.below(8) {
            let (mut names, mut values) = (Vec::new(), Vec::new());
            if !key.contains("ALWAYS") && random.one_in(2) {
                names.push("id".to_owned());
                values.push((row * 7).to_string());
            }
            for (at, (_, given)) in &chosen {
                let all: Vec<&str> = given.split('|').collect();
                names.push(format!("\"c {at}\""));
                values.push((*random.pick(&all).unwrap()).to_owned());
            }
            let insert = format!("INSERT INTO {name} ({}) VALUES ({})", names.join(", "), values.join(", "));
            try_exec(memory, scope, &insert, &[]).await;
        }
        for sql in [
            format!("CREATE INDEX \"i x{n}\" ON {name} (\"c 0\", id DESC) WHERE id > 1"),
            format!("CREATE VIEW \"v{n}\" AS SELECT id AS \"x y\" FROM {name} WHERE id > 1"),
            format!("CREATE MATERIALIZED VIEW m{n} AS SELECT count(*) AS n FROM {name}"),
            format!("COMMENT ON TABLE {name} IS 'what''s in it'"),
            format!("ALTER TABLE {name} ADD CONSTRAINT \"ch k\" CHECK (id < 1000000)"),
            format!("ALTER TABLE {name} ADD FOREIGN KEY (\"c 0\") REFERENCES plain (id) DEFERRABLE"),
        ] {
            if random.one_in(3) {
                taken += u64::from(try_exec(memory, scope, &sql, &[]).await);
            }
        }
    }
    taken
}

/// The rows of every table and view by queries, not a dump: as text, in which NaN equals NaN.
pub(crate) async fn rows(memory: &Memory, scope: &Scope) -> Vec<String> {
    let facet = memory.sql().unwrap();
    let mut all = Vec::new();
    for table in facet.describe_tables(&run(scope), scope).await.unwrap() {
        let sql = format!("SELECT * FROM \"{}\" ORDER BY 1, 2", table.name.replace('"', "\"\""));
        let sql = if table.columns.len() < 2 { sql.replace(" ORDER BY 1, 2", "") } else { sql };
        let rows = facet.query(&run(scope), scope, &sql, &[], StatementOptions::default()).await;
        // A type without an order is read in any order; invalid UTF-8 is refused on both sides.
        let rows = match rows {
            Ok(rows) => Ok(rows),
            Err(_) => {
                let sql = sql.replace(" ORDER BY 1, 2", "");
                facet.query(&run(scope), scope, &sql, &[], StatementOptions::default()).await
            }
        }
        .map_err(|error| error.message().to_owned());
        all.push(format!("{} {:?} {:?} {rows:?}", table.name, table.columns, table.indexes));
    }
    all
}
