//! Statements that are as deep, long or wide as possible.

/// A form of statement, made with a number of repeated parts.
pub type Shape = (&'static str, fn(usize) -> String);

fn chain(before: &str, part: &str, after: &str, n: usize) -> String {
    format!("{before}{}{after}", part.repeat(n))
}

/// Forms whose tree leans further to one side with every part.
pub const CHAINS: &[Shape] = &[
    ("concat", |n| chain("SELECT 'a'", "||'a'", "", n)),
    ("plus", |n| chain("SELECT 1", "+1", "", n)),
    ("or", |n| chain("SELECT 1 WHERE a=1", " OR a", "", n)),
    ("and", |n| chain("SELECT 1 WHERE a", " AND a", "", n)),
    ("arrow", |n| chain("SELECT '{}' ", "->'a' ", "", n)),
    ("between", |n| chain("SELECT 1 ", "BETWEEN 1 AND 1 ", "", n)),
    ("like", |n| chain("SELECT a ", "LIKE a ", "", n)),
    ("glob", |n| chain("SELECT 'a' ", "GLOB 'a' ", "", n)),
    ("match", |n| chain("SELECT 1 ", "MATCH 1 ", "", n)),
    ("escape", |n| chain("SELECT 1 ", "LIKE 1 ESCAPE 1 ", "", n)),
    ("is", |n| chain("SELECT 1 ", "IS 1 ", "", n)),
    ("is not", |n| chain("SELECT 1 ", "IS NOT 1 ", "", n)),
    ("isnull", |n| chain("SELECT 1 ", "ISNULL ", "", n)),
    ("notnull", |n| chain("SELECT 1 ", "NOT NULL ", "", n)),
    ("collate", |n| chain("SELECT 1 ", "COLLATE binary ", "", n)),
    ("in list", |n| chain("SELECT 1 ", "IN (1) ", "", n)),
    ("in table", |n| chain("SELECT 1 ", "IN t ", "", n)),
    ("not", |n| chain("SELECT ", "NOT ", "1", n)),
    ("minus", |n| chain("SELECT ", "- ", "1", n)),
    ("tilde", |n| chain("SELECT ", "~", "1", n)),
    ("plus sign", |n| chain("SELECT ", "+", "1", n)),
    ("union", |n| chain("SELECT 1", " UNION ALL SELECT 1", "", n)),
    ("except", |n| chain("SELECT 1", " EXCEPT SELECT 1", "", n)),
    ("values union", |n| chain("VALUES (1)", " UNION VALUES (1)", "", n)),
    ("join", |n| chain("SELECT 1 FROM t", " JOIN t ON 1", "", n)),
    ("left join", |n| chain("SELECT 1 FROM t", " LEFT JOIN t USING (a)", "", n)),
    ("type", |n| chain("CREATE TABLE t(a ", "b ", ")", n)),
    ("cast type", |n| chain("SELECT CAST(1 AS ", "b ", ")", n)),
];

/// Forms that nest one level deeper with every part.
pub const NESTS: &[Shape] = &[
    ("brackets", |n| format!("SELECT {}1{}", "(".repeat(n), ")".repeat(n))),
    ("rows", |n| format!("SELECT {}1{}", "(1,".repeat(n), ")".repeat(n))),
    ("calls", |n| format!("SELECT {}1{}", "abs(".repeat(n), ")".repeat(n))),
    ("queries", |n| format!("SELECT {}1{}", "(SELECT ".repeat(n), ")".repeat(n))),
    ("from queries", |n| format!("SELECT 1 FROM {}t{}", "(SELECT 1 FROM ".repeat(n), ")".repeat(n))),
    ("from brackets", |n| format!("SELECT 1 FROM {}t{}", "(".repeat(n), ")".repeat(n))),
    ("exists", |n| format!("SELECT {}1{}", "EXISTS (SELECT ".repeat(n), ")".repeat(n))),
    ("in queries", |n| format!("SELECT {}1{}", "1 IN (SELECT ".repeat(n), ")".repeat(n))),
    ("case", |n| format!("SELECT {}1{}", "CASE WHEN 1 THEN ".repeat(n), " END".repeat(n))),
    ("case operands", |n| format!("SELECT {}1{}", "CASE ".repeat(n), " WHEN 1 THEN 1 END".repeat(n))),
    ("case named end", |n| format!("SELECT {}1{}", "CASE WHEN end=1 THEN ".repeat(n), " END".repeat(n))),
    ("case end end", |n| {
        format!("SELECT {}1{}", "CASE end WHEN end THEN end ELSE ".repeat(n), " END".repeat(n))
    }),
    ("casts", |n| format!("SELECT {}1{}", "CAST(".repeat(n), " AS INT)".repeat(n))),
    ("with", |n| format!("{}SELECT 1{}", "WITH a AS (".repeat(n), ") SELECT 1".repeat(n))),
    ("check", |n| format!("CREATE TABLE t(a CHECK({}1{}))", "(".repeat(n), ")".repeat(n))),
    ("filter", |n| format!("SELECT {}1{}", "count(1) FILTER (WHERE ".repeat(n), ")".repeat(n))),
    ("over", |n| format!("SELECT {}1{}", "sum(1) OVER (ORDER BY ".repeat(n), ")".repeat(n))),
];

/// Forms that stay flat, however many parts they have.
pub const LISTS: &[Shape] = &[
    ("in", |n| chain("SELECT 1 IN (1", ",1", ")", n)),
    ("in texts", |n| chain("SELECT 1 IN ('a'", ",'a'", ")", n)),
    ("values", |n| chain("INSERT INTO t VALUES (1)", ",(1)", "", n)),
    ("row", |n| chain("INSERT INTO t VALUES (1", ",1", ")", n)),
    ("columns", |n| chain("SELECT 1", ",1", "", n)),
    ("stars", |n| chain("SELECT *", ",*", " FROM t", n)),
    ("arguments", |n| chain("SELECT max(1", ",1", ")", n)),
    ("comma joins", |n| chain("SELECT 1 FROM t", ",t", "", n)),
    ("joined queries", |n| chain("SELECT 1 FROM t", ",(SELECT 1)", "", n)),
    ("case arms", |n| chain("SELECT CASE", " WHEN 1 THEN 1", " END", n)),
    ("expressions", |n| chain("WITH c AS (SELECT 1)", ",c AS (SELECT 1)", " SELECT 1", n)),
    ("names of expressions", |n| {
        let names: Vec<String> = (0..n).map(|at| format!("c{at} AS (SELECT 1 FROM c0)")).collect();
        format!("WITH c AS (SELECT 1){}{} SELECT 1", if n > 0 { "," } else { "" }, names.join(","))
    }),
    ("order", |n| chain("SELECT 1 ORDER BY 1", ",1", "", n)),
    ("group", |n| chain("SELECT 1 GROUP BY 1", ",1", "", n)),
    ("windows", |n| chain("SELECT 1 FROM t WINDOW w AS ()", ",w AS ()", "", n)),
    ("window words", |n| chain("SELECT 1", ",window", "", n)),
    ("sets", |n| chain("UPDATE t SET a=1", ",a=1", "", n)),
    ("upserts", |n| chain("INSERT INTO t VALUES (1)", " ON CONFLICT (a) DO NOTHING", "", n)),
    ("trigger", |n| chain("CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1;", "SELECT 1;", "END", n)),
    ("foreign keys", |n| chain("CREATE TABLE t(a", " REFERENCES t", ")", n)),
    ("checks", |n| chain("CREATE TABLE t(a", " CHECK(1)", ")", n)),
    ("table checks", |n| chain("CREATE TABLE t(a", ", CHECK(1)", ")", n)),
    ("options", |n| chain("CREATE VIRTUAL TABLE t USING fts5(a", ",a", ")", n)),
    ("index", |n| chain("CREATE INDEX i ON t(a", ",a+1", ")", n)),
    ("semicolons", |n| chain("SELECT 1", ";", "", n)),
    ("comments", |n| chain("SELECT 1", "/**/", "", n)),
    ("comment openers", |n| chain("SELECT 1 /*", "/*", "", n)),
    ("stars of comments", |n| chain("SELECT 1 /*", "*", "", n)),
    ("line comments", |n| chain("SELECT 1", "--\n", "", n)),
    ("parameters", |n| chain("SELECT ?", ",?", "", n)),
    ("opening brackets", |n| chain("SELECT 1", "(", "", n)),
    ("closing brackets", |n| chain("SELECT 1", ")", "", n)),
    ("square brackets", |n| chain("SELECT 1", "[", "", n)),
    ("quotes", |n| chain("SELECT 1", "'", "", n)),
    ("double quotes", |n| chain("SELECT 1", "\"\"\"", "", n)),
    ("colons", |n| chain("SELECT ", "$a::", "", n)),
    ("hexadecimal", |n| chain("SELECT x'", "00", "'", n)),
    ("digits", |n| chain("SELECT 1", "0", "", n)),
    ("dots", |n| chain("SELECT a", ".a", "", n)),
    ("names", |n| chain("INSERT INTO t(a", ",a", ") VALUES (1)", n)),
    ("text names", |n| chain("INSERT INTO t('a'", ",'a'", ") VALUES (1)", n)),
    ("defined columns", |n| chain("CREATE TABLE t(a INT", ",a INT", ")", n)),
];
