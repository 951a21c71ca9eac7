//! The validator and the engine agree: the engine's authorizer denies no statement that the validator accepts, nor does
//! such a statement leave a trace outside the agent's tables, open a transaction, or take long.
//!
//! Only the engine knows the shadow tables of virtual tables, so a denial that names one is not a finding. Nor is one
//! of a table that the statement does not name: `ANALYZE` reads every table, and one of these has a name that no agent
//! can give.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use memory_sqlite::lab::{Layers, ScratchDatabase};
use memory_validator::{Dialect, Mode, Policy, StatementKind, Validator, Verdict};

use crate::generate::Choices;

const SCRIPT: &str = "
    CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c);
    INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20), (3, 'z', NULL);
    CREATE TABLE w(k TEXT PRIMARY KEY, v, n INT DEFAULT 0) WITHOUT ROWID;
    INSERT INTO w VALUES ('a', 1, 1), ('b', x'00ff', 2);
    CREATE TABLE au(id INTEGER PRIMARY KEY AUTOINCREMENT, v REFERENCES t(a) ON DELETE CASCADE);
    INSERT INTO au(v) VALUES (1);
    CREATE INDEX t_b ON t(b, c);
    CREATE VIEW vw AS SELECT a, b FROM t WHERE c IS NOT NULL;
    CREATE TRIGGER tr AFTER INSERT ON w BEGIN UPDATE t SET c = new.n WHERE a = new.n; END;
    CREATE TRIGGER io INSTEAD OF INSERT ON vw BEGIN INSERT INTO t(b) VALUES (new.b); END;
    CREATE VIRTUAL TABLE ft USING fts5(title, body);
    INSERT INTO ft VALUES ('one', 'hello world');
    CREATE VIRTUAL TABLE rt USING rtree(id, x0, x1);
    INSERT INTO rt VALUES (1, 0.0, 1.0);
    CREATE TABLE _mem_meta(k TEXT PRIMARY KEY, v);
    INSERT INTO _mem_meta VALUES ('quota', '1');
";

/// Longest statement that is tried: longer ones are only slower.
const MOST: usize = 20_000;
const TIMEOUT: Duration = Duration::from_millis(200);
/// Time limit for one statement, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

thread_local! {
    static DATABASE: RefCell<ScratchDatabase> = RefCell::new(ScratchDatabase::new(SCRIPT, Layers::ALL).expect("a sandbox"));
}

/// Tries one statement.
pub fn run(data: &[u8]) {
    let sql = match Choices::of(data) {
        Some(mut choices) => statement(&mut choices),
        None => String::from_utf8_lossy(data).into_owned(),
    };
    if sql.len() > MOST {
        return;
    }
    for mode in [Mode::Query, Mode::Exec] {
        try_one(&sql, mode);
    }
}

fn try_one(sql: &str, mode: Mode) {
    let policy = Policy::new(Dialect::Sqlite);
    let Verdict::Accepted(accepted) = Validator::check(sql, Dialect::Sqlite, mode, &policy) else { return };
    assert!(mode == Mode::Exec || accepted.kind.reads_only(), "a query that writes: {sql}");
    DATABASE.with_borrow_mut(|trial| {
        let started = Instant::now();
        let ran = trial.run(sql, &[], mode, TIMEOUT);
        assert!(started.elapsed() < PATIENCE, "{:?} for {sql}", started.elapsed());
        let Err(error) = ran else { return };
        let layer = error.details().get("layer").and_then(|layer| layer.as_str()).unwrap_or_default();
        if layer == "authorizer" || layer == "readonly" {
            let construct = error.details().get("construct").and_then(|name| name.as_str()).unwrap_or_default();
            let named = accepted.relations.iter().any(|relation| relation.name.eq_ignore_ascii_case(construct));
            let unnamed = construct.starts_with("_mem_")
                && !named
                && (accepted.kind == StatementKind::Analyze || !sql.contains("_mem_"));
            assert!(unnamed || names_a_part(construct), "accepted ({mode:?}), then {layer}: {error}: {sql}");
        }
    });
}

/// Whether this may be a shadow table of a virtual table.
fn names_a_part(construct: &str) -> bool {
    const PARTS: [&str; 8] =
        ["_data", "_idx", "_content", "_docsize", "_config", "_node", "_rowid", "_parent"];
    let construct = construct.to_ascii_lowercase();
    PARTS.iter().any(|part| construct.ends_with(part))
}

const TABLES: [&str; 28] = [
    "t", "w", "au", "vw", "ft", "rt", "main.t", "\"t\"", "[w]", "`au`", "'t'", "T", "x", "cte", "temp.t",
    "sqlite_schema", "sqlite_master", "main.sqlite_master", "sqlite_sequence", "sqlite_stat1", "_mem_meta",
    "ft_data", "rt_node", "memory_entries", "pragma_table_info", "pragma_database_list", "json_each", "dbstat",
];
const COLUMNS: [&str; 16] = [
    "a", "b", "c", "k", "v", "n", "id", "rowid", "*", "t.a", "\"b\"", "title", "rank", "x0", "new.a", "old.a",
];
const FUNCTIONS: [&str; 44] = [
    "abs", "upper", "length", "count", "sum", "group_concat", "max", "coalesce", "json", "json_extract",
    "json_group_array", "json_patch", "date", "strftime", "printf", "replace", "trim", "instr", "substr", "hex", "unhex",
    "quote", "zeroblob", "randomblob", "typeof", "row_number", "rank", "lag", "bm25", "highlight", "snippet", "like",
    "glob", "sqrt", "vec_dot", "soundex", "sqlite_version", "last_insert_rowid", "load_extension", "fts3_tokenizer",
    "sqlite_log", "readfile", "match", "nosuch",
];
const LITERALS: [&str; 14] = [
    "1", "0", "-5", "1.5e3", "'s'", "''", "'it''s'", "x'00'", "NULL", "TRUE", "?", "?2", "CURRENT_TIMESTAMP", "0x1F",
];

/// A statement from roughly SQLite's grammar, with good and bad names.
fn statement(c: &mut Choices<'_>) -> String {
    let mut s = match c.below(12) {
        0 => "EXPLAIN ".to_owned(),
        1 => "EXPLAIN QUERY PLAN ".to_owned(),
        2 => format!("WITH cte AS ({}) ", select(c, 3)),
        3 => format!("WITH RECURSIVE cte(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM cte LIMIT {}) ", c.below(20)),
        _ => String::new(),
    };
    s += &match c.below(20) {
        0..=5 => select(c, 0),
        6 => insert(c),
        7 => update(c),
        8 => delete(c),
        9 => create_table(c),
        10 => format!("CREATE VIEW {} AS {}", name(c), select(c, 1)),
        11 => format!(
            "CREATE {}INDEX {} ON {}({}){}",
            c.one_of(["", "UNIQUE "]),
            name(c),
            bare(c),
            expr(c, 1),
            where_(c)
        ),
        12 => trigger(c),
        13 => format!(
            "CREATE VIRTUAL TABLE {} USING {}({})",
            name(c),
            c.one_of(["fts5", "rtree", "rtree_i32", "fts4", "dbstat", "FTS5", "json_each"]),
            c.one_of([
                "a, b",
                "id, x, y",
                "x, content='t', content_rowid='a'",
                "x, content='sqlite_master'",
                "x, content=''",
                "x, tokenize='porter'",
                "x UNINDEXED, y, prefix='2 3'",
                "x, content=\"_mem_meta\"",
                ""
            ])
        ),
        14 => format!(
            "DROP {} {}{}",
            c.one_of(["TABLE", "VIEW", "INDEX", "TRIGGER"]),
            c.one_of(["", "IF EXISTS "]),
            c.one_of(["t", "vw", "t_b", "tr", "ft", "ft_data", "sqlite_master", "_mem_meta", "nosuch", "rt", "io", "w"])
        ),
        15 => format!(
            "ALTER TABLE {} {}",
            bare(c),
            c.one_of([
                "RENAME TO y",
                "RENAME TO sqlite_y",
                "RENAME b TO bb",
                "RENAME COLUMN c TO cc",
                "ADD COLUMN d TEXT DEFAULT 'q'",
                "ADD d AS (a + 1)",
                "ADD d CHECK (d > 0)",
                "DROP COLUMN c",
                "DROP n",
                "RENAME TO _mem_y",
                "ADD d REFERENCES t(a)"
            ])
        ),
        16 => format!("{} {}", c.one_of(["ANALYZE", "REINDEX"]), c.one_of(["", "t", "main", "t_b", "temp", "main.t", "_mem_meta", "nocase"])),
        17 => format!("REPLACE INTO {} VALUES ({}, {}, {})", bare(c), expr(c, 1), expr(c, 1), expr(c, 1)),
        18 => format!("VALUES ({}), ({})", expr(c, 1), expr(c, 1)),
        _ => c.one_of(["PRAGMA user_version", "ATTACH 'x' AS y", "VACUUM", "BEGIN", "COMMIT", "SAVEPOINT s", "DETACH y"]).to_owned(),
    };
    if c.below(8) == 0 {
        s += c.one_of([";", "; ", " -- end", " /* end */", "; SELECT 1"]);
    }
    s
}

fn bare(c: &mut Choices<'_>) -> &'static str {
    c.one_of(TABLES)
}

fn name(c: &mut Choices<'_>) -> &'static str {
    c.one_of(["y", "y2", "main.y", "\"y z\"", "temp.y", "sqlite_y", "_mem_y", "ft_data", "y_data", "memory_entries", "IF NOT EXISTS y", "pragma_y"])
}

fn where_(c: &mut Choices<'_>) -> String {
    if c.below(3) == 0 { format!(" WHERE {}", expr(c, 1)) } else { String::new() }
}

fn returning(c: &mut Choices<'_>) -> String {
    if c.below(4) == 0 { format!(" RETURNING {}", expr(c, 2)) } else { String::new() }
}

fn or(c: &mut Choices<'_>) -> &'static str {
    c.one_of(["", "", "", "OR IGNORE ", "OR REPLACE ", "OR FAIL ", "OR ABORT ", "OR ROLLBACK "])
}

fn insert(c: &mut Choices<'_>) -> String {
    let (or, table) = (or(c), bare(c));
    let columns = c.one_of(["", "(b)", "(a, b, c)", "(k, v)", "(v)", "(title, body)"]);
    let rows = match c.below(4) {
        0 => "DEFAULT VALUES".to_owned(),
        1 => select(c, 1),
        2 => format!("VALUES ({})", expr(c, 1)),
        _ => format!("VALUES ({}, {}), ({}, {})", expr(c, 2), expr(c, 2), expr(c, 2), expr(c, 2)),
    };
    let upsert = match c.below(5) {
        0 => " ON CONFLICT DO NOTHING".to_owned(),
        1 => format!(" ON CONFLICT(k) DO UPDATE SET v = {}", expr(c, 2)),
        _ => String::new(),
    };
    format!("INSERT {or}INTO {table}{columns} {rows}{upsert}{}", returning(c))
}

fn update(c: &mut Choices<'_>) -> String {
    let from = if c.below(5) == 0 { format!(" FROM {}", bare(c)) } else { String::new() };
    format!("UPDATE {}{} SET {} = {}{from}{}{}", or(c), bare(c), c.one_of(["b", "c", "v", "n", "k", "body", "sql"]), expr(c, 1), where_(c), returning(c))
}

fn delete(c: &mut Choices<'_>) -> String {
    format!("DELETE FROM {}{}{}", bare(c), where_(c), returning(c))
}

fn create_table(c: &mut Choices<'_>) -> String {
    let temp = c.one_of(["", "", "", "TEMP ", "TEMPORARY "]);
    if c.below(5) == 0 {
        return format!("CREATE {temp}TABLE {} AS {}", name(c), select(c, 1));
    }
    let constraint = match c.below(8) {
        0 => format!(" CHECK ({})", expr(c, 2)),
        1 => format!(" DEFAULT ({})", expr(c, 2)),
        2 => format!(" AS ({})", expr(c, 2)),
        3 => format!(" REFERENCES {}(a)", bare(c)),
        4 => c.one_of([" UNIQUE ON CONFLICT ROLLBACK", " NOT NULL ON CONFLICT FAIL", " PRIMARY KEY"]).to_owned(),
        _ => String::new(),
    };
    format!(
        "CREATE {temp}TABLE {}(a{}, b{constraint}){}",
        name(c),
        c.one_of(["", " INTEGER PRIMARY KEY", " INTEGER PRIMARY KEY AUTOINCREMENT", " TEXT", " ANY"]),
        c.one_of(["", "", " STRICT", " WITHOUT ROWID"])
    )
}

fn trigger(c: &mut Choices<'_>) -> String {
    let body = match c.below(5) {
        0 => insert(c),
        1 => update(c),
        2 => delete(c),
        3 => format!("SELECT RAISE({}, 'no')", c.one_of(["ABORT", "FAIL", "ROLLBACK"])),
        _ => select(c, 2),
    };
    format!(
        "CREATE {}TRIGGER {} {} {} ON {}{} BEGIN {body}; END",
        c.one_of(["", "", "TEMP "]),
        name(c),
        c.one_of(["AFTER", "BEFORE", "INSTEAD OF"]),
        c.one_of(["INSERT", "UPDATE", "DELETE", "UPDATE OF b"]),
        bare(c),
        if c.below(3) == 0 { format!(" WHEN {}", expr(c, 2)) } else { String::new() }
    )
}

fn select(c: &mut Choices<'_>, depth: u8) -> String {
    let mut s = format!("SELECT {}{}", c.one_of(["", "DISTINCT "]), expr(c, depth));
    if c.below(3) == 0 {
        s += &format!(", {} AS z", expr(c, depth));
    }
    if c.below(5) > 0 {
        s += &format!(" FROM {}", source(c, depth));
    }
    s += &where_(c);
    match c.below(8) {
        0 => s += &format!(" GROUP BY {}", expr(c, depth + 1)),
        1 => s += &format!(" GROUP BY 1 HAVING {}", expr(c, depth + 1)),
        2 if depth < 3 => s += &format!(" UNION {}", select(c, depth + 1)),
        3 if depth < 3 => s += &format!(" EXCEPT {}", select(c, depth + 1)),
        _ => {}
    }
    if c.below(4) == 0 {
        s += &format!(" ORDER BY {}", expr(c, depth + 1));
    }
    if c.below(4) == 0 {
        s += &format!(" LIMIT {}", c.below(5));
    }
    s
}

fn source(c: &mut Choices<'_>, depth: u8) -> String {
    match c.below(10) {
        0 if depth < 3 => format!("({}) AS q", select(c, depth + 1)),
        1 => format!("{} JOIN {} ON {}", bare(c), bare(c), expr(c, 2)),
        2 => format!("{}, {}", bare(c), bare(c)),
        3 => format!("{}({})", c.one_of(["json_each", "json_tree", "pragma_table_info", "pragma_index_list", "ft", "pragma_journal_mode", "generate_series"]), expr(c, 3)),
        4 => format!("{} LEFT JOIN {} USING (a)", bare(c), bare(c)),
        5 => format!("{} NOT INDEXED", bare(c)),
        _ => bare(c).to_owned(),
    }
}

fn expr(c: &mut Choices<'_>, depth: u8) -> String {
    if depth > 3 || !c.more() {
        return c.one_of(LITERALS).to_owned();
    }
    let next = depth + 1;
    match c.below(20) {
        0..=3 => c.one_of(LITERALS).to_owned(),
        4..=7 => c.one_of(COLUMNS).to_owned(),
        8 | 9 => format!("{}({})", c.one_of(FUNCTIONS), expr(c, next)),
        10 => format!("{}({}, {})", c.one_of(FUNCTIONS), expr(c, next), expr(c, next)),
        11 => format!("{}() OVER (ORDER BY {})", c.one_of(FUNCTIONS), expr(c, next)),
        12 => format!(
            "{} {} {}",
            expr(c, next),
            c.one_of(["+", "||", "=", "<", "AND", "OR", "->", "->>", "<<", "IS", "LIKE", "GLOB", "MATCH", "REGEXP", "%", "IS NOT DISTINCT FROM"]),
            expr(c, next)
        ),
        13 => format!("({})", select(c, next)),
        14 => format!("EXISTS ({})", select(c, next)),
        15 => format!("{} IN ({}, {})", expr(c, next), expr(c, next), expr(c, next)),
        16 => format!("{} IN {}", expr(c, next), bare(c)),
        17 => format!("CASE WHEN {} THEN {} ELSE {} END", expr(c, next), expr(c, next), expr(c, next)),
        18 => format!("CAST({} AS {})", expr(c, next), c.one_of(["TEXT", "INTEGER", "BLOB", "REAL"])),
        _ => format!("{} COLLATE {}", expr(c, next), c.one_of(["nocase", "binary", "rtrim", "nosuch"])),
    }
}
