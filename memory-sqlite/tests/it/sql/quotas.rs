//! A disk that fills up in the middle of a statement, and embedded arguments.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::support::child::{self, Child};
use crate::support::embedders::Directions;
use crate::support::files::folder;
use crate::support::sql::{Sql, transaction_of};
use crate::support::{TestClock, block_on, fast, quiet};
use memory_core::sql::{SqlValue, StatementOptions};
use memory_core::{ErrorKind, Provider as _};
use memory_sqlite::SqliteProvider;

/// In the child: files may not grow beyond a size, as on a full disk.
fn under_a_file_size_limit() {
    let sql = Sql::open(Path::new(&child::given("DATABASE")), quiet());
    sql.exec("CREATE TABLE t (a)");
    sql.exec("INSERT INTO t VALUES ('kept')");
    let huge = "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500) SELECT hex(zeroblob(10000)) FROM n";
    let error = sql.try_exec(huge).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::QuotaExceeded),
        "{error:?}"
    );
    assert_eq!(sql.texts("SELECT a FROM t"), ["kept"]);
    let tx = sql.begin();
    sql.exec_in(&tx, "INSERT INTO t VALUES ('in')");
    let error = sql.try_exec_in(&tx, huge).unwrap_err();
    let told = transaction_of(&error).expect("the state of the transaction is told").to_owned();
    match sql.commit(&tx) {
        Ok(_) => assert_eq!(told, "open"),
        Err(error) => assert_eq!((told.as_str(), error.kind()), ("lost", ErrorKind::TransactionLost)),
    }
    let rows = sql.int("SELECT count(*) FROM t");
    assert_eq!(rows, if told == "open" { 2 } else { 1 });
    sql.exec("INSERT INTO t VALUES ('after')");
    assert_eq!(sql.int("SELECT count(*) FROM t"), rows + 1);
    child::say(&format!("{:?}, transaction {told}", error.kind()));
    sql.close();
}

#[test]
fn a_disk_that_is_full_in_the_midst_of_a_statement_leaves_nothing_of_it() {
    if child::role().is_some() {
        return under_a_file_size_limit();
    }
    let test = child::this_test!();
    let folder = folder();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\""]);
    let mut command = child::wrapped(shell, test, "full");
    command.env("DATABASE", folder.path().join("memory.db"));
    println!("{}", Child::start(&mut command).finish().join("; "));
}

#[test]
fn texts_are_embedded_by_one_call_before_anything_runs() {
    let folder = folder();
    let embedder = Arc::new(Directions::new(8));
    let provider = SqliteProvider::open(folder.path().join("memory.db"), fast(), TestClock::new()).unwrap();
    let sql = Sql::over(provider.with_embedder(embedder.clone()));
    assert!(sql.checked.capabilities().sql_vectors);
    sql.exec("CREATE TABLE t (text, v BLOB)");
    let embed = |text: &str| SqlValue::Embed(text.to_owned());
    let text = |text: &str| SqlValue::Text(text.to_owned());
    sql.run_with("INSERT INTO t VALUES (?, ?), (?, ?)", &[text("a"), embed("a"), text("b"), embed("b")]);
    assert_eq!(embedder.calls(), [2]);
    let order = "SELECT text FROM t ORDER BY vec_distance_cosine(v, ?)";
    let rows = sql.try_query_with(order, &[embed("b")], StatementOptions::default()).unwrap();
    assert_eq!(rows.rows, [[text("b")], [text("a")]]);
    let stored = sql.rows("SELECT v FROM t WHERE text = 'a'").remove(0).remove(0);
    let expected: Vec<u8> = embedder.vector("a").iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(stored, SqlValue::Blob(expected));
    // Refused statements cost no embedding, and what cannot be embedded does not run.
    embedder.calls();
    assert!(block_on(sql.exec_async("PRAGMA x = ?", &[embed("a")], StatementOptions::default())).is_err());
    assert!(embedder.calls().is_empty());
    embedder.refuse("long");
    let error = block_on(sql.exec_async(
        "INSERT INTO t VALUES ('c', ?)",
        &[embed("long")],
        StatementOptions::default(),
    ));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(sql.int("SELECT count(*) FROM t"), 2);
}
