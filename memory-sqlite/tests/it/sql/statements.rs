//! An agent's statements on its scope's database.

use crate::support::files::folder;
use crate::support::sql::Sql;
use crate::support::{agent, fast};
use memory_core::ErrorKind;

#[test]
fn a_full_text_table_of_the_scope_may_be_called_as_a_function_and_nothing_else_may() {
    let folder = folder();
    let sql = Sql::open(&folder.path().join("memory.db"), fast());
    sql.exec("CREATE VIRTUAL TABLE Notes USING fts5(text)");
    sql.exec("CREATE VIRTUAL TABLE other USING fts5(text)");
    sql.exec("CREATE TABLE plain (text)");
    sql.exec("INSERT INTO notes VALUES ('a brown fox'), ('a dog')");
    sql.exec("INSERT INTO other VALUES ('fox')");
    assert_eq!(sql.texts("SELECT text FROM notes('fox')"), ["a brown fox"]);
    assert_eq!(sql.texts("SELECT n.text FROM notes('fox') AS n, main.other('fox')"), ["a brown fox"]);
    sql.exec("CREATE VIEW foxes AS SELECT text FROM \"notes\"('fox') ORDER BY rank");
    sql.exec("INSERT INTO plain SELECT text FROM notes('dog')");
    assert_eq!(
        sql.texts("SELECT text FROM foxes UNION ALL SELECT text FROM plain"),
        ["a brown fox", "a dog"]
    );
    for refused in [
        "SELECT * FROM plain('x')",
        "SELECT * FROM missing('x')",
        "SELECT * FROM foxes('x')",
        "SELECT * FROM notes('fox'), generate_series(1, 2)",
        "SELECT notes('fox')",
        "SELECT * FROM notes_content('x')",
        "SELECT * FROM sqlite_dbpage('main')",
    ] {
        let error = sql.try_query(refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StatementRefused, "{refused}: {error:?}");
    }
    // What a name may be called as holds only for this scope, and only now.
    assert!(sql.at(agent("bob")).try_query("SELECT text FROM notes('fox')").is_err());
    sql.exec("DROP VIEW foxes");
    sql.exec("DROP TABLE notes");
    assert!(sql.try_query("SELECT text FROM notes('fox')").is_err());
}

#[test]
fn short_queries_that_are_new_answer_as_any_other() {
    let folder = folder();
    let sql = Sql::open(&folder.path().join("memory.db"), fast());
    sql.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)");
    for n in 0..100 {
        sql.exec(&format!("INSERT INTO t VALUES ({n}, 'text {n}')"));
        assert_eq!(sql.texts(&format!("SELECT b FROM t WHERE a = {n}")), [format!("text {n}")]);
        assert!(sql.texts(&format!("SELECT b FROM t WHERE a = {n} + 1")).is_empty());
        assert!(sql.try_query(&format!("SELECT c FROM t WHERE a = {n}")).is_err());
    }
    sql.exec("DROP TABLE t");
    assert!(sql.try_query("SELECT b FROM t WHERE a = 1000").is_err());
}

#[test]
fn an_explained_statement_names_no_address_of_this_process() {
    let folder = folder();
    let sql = Sql::open(&folder.path().join("memory.db"), fast());
    sql.exec("CREATE VIRTUAL TABLE notes USING fts5(text)");
    for explained in ["SELECT * FROM notes", "SELECT * FROM json_each('[]')", "SELECT * FROM memory_entries"]
    {
        let rows = format!("{:?}", sql.try_query(&format!("EXPLAIN {explained}")).unwrap().rows);
        assert!(rows.contains("\"vtab\"") && !rows.contains("vtab:"), "{rows}");
    }
    sql.exec("CREATE TABLE plain (a)");
    let plan = format!("{:?}", sql.try_query("EXPLAIN QUERY PLAN SELECT * FROM plain").unwrap().rows);
    assert!(plan.contains("SCAN plain"), "{plan}");
}
