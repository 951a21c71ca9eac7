//! SQL in worker processes: the same answers, and the effects of a process that ends.

use std::path::Path;
use std::time::Duration;

use memory::workers::WorkerOptions;
use memory::{ErrorKind, Memory, RunContext, Scope, ScopeId, ScopeKind, SqlFacet, TenantId};
use memory_core::sql::{RestoreOptions, SqlScopesQuery, SqlValue, StatementOptions, TxId};

struct Place {
    folder: tempfile::TempDir,
    memory: Memory,
}

async fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let memory = open(folder.path(), &[]).await;
    Place { folder, memory }
}

async fn open(folder: &Path, more: &[&str]) -> Memory {
    let url = format!("sqlite:{}", folder.join("memory.db").display());
    let arguments = ["sql-worker", "--url", &url].into_iter().chain(more.iter().copied());
    let options = WorkerOptions::new(crate::PROGRAM, arguments).with_processes(2);
    memory::open(&url).await.unwrap().with_sql_workers(options).unwrap()
}

fn run() -> RunContext {
    RunContext::new(TenantId::new("acme").unwrap(), id("planner"), id("run-1"))
}

fn id(id: &str) -> ScopeId {
    ScopeId::new(id).unwrap()
}

fn scope(name: &str) -> Scope {
    Scope::new(TenantId::new("acme").unwrap(), ScopeKind::User, id(name))
}

fn sql(memory: &Memory) -> &dyn SqlFacet {
    memory.sql().unwrap()
}

async fn exec(memory: &Memory, scope: &Scope, text: &str, tx: Option<&TxId>) -> memory::Result<u64> {
    let mut options = StatementOptions::default();
    options.tx = tx.cloned();
    sql(memory).exec(&run(), scope, text, &[], options).await.map(|done| done.rows_affected)
}

async fn count(memory: &Memory, scope: &Scope, text: &str) -> memory::Result<Vec<Vec<SqlValue>>> {
    sql(memory).query(&run(), scope, text, &[], StatementOptions::default()).await.map(|rows| rows.rows)
}

/// Kills every worker process of this test's store.
fn kill_workers(folder: &Path) -> usize {
    let mark = folder.display().to_string();
    let mut killed = 0;
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.contains("sql-worker") && line.contains(&mark) {
            let id = entry.file_name().to_string_lossy().into_owned();
            assert!(std::process::Command::new("kill").args(["-9", &id]).status().unwrap().success());
            killed += 1;
        }
    }
    killed
}

#[tokio::test]
async fn values_pass_between_the_processes_without_loss() {
    let place = place().await;
    let here = scope("ada");
    exec(&place.memory, &here, "CREATE TABLE t(v)", None).await.unwrap();
    let values = [
        SqlValue::Null,
        SqlValue::Int(i64::MIN),
        SqlValue::Int(9_007_199_254_740_993),
        SqlValue::Real(0.1 + 0.2),
        SqlValue::Real(f64::INFINITY),
        SqlValue::Text("a\u{0}\"\\\u{1F600}\u{2028}".to_owned()),
        SqlValue::Blob(vec![0, 159, 255, 10]),
    ];
    for value in &values {
        let insert = "INSERT INTO t VALUES (?)";
        let args = std::slice::from_ref(value);
        sql(&place.memory).exec(&run(), &here, insert, args, StatementOptions::default()).await.unwrap();
    }
    let rows = count(&place.memory, &here, "SELECT v FROM t ORDER BY rowid").await.unwrap();
    assert_eq!(rows.into_iter().flatten().collect::<Vec<_>>(), values);
}

#[tokio::test]
async fn each_scope_has_its_own_database_and_all_are_listed() {
    let place = place().await;
    for name in ["ada", "bob", "cai", "dee"] {
        exec(&place.memory, &scope(name), "CREATE TABLE t AS SELECT 1 AS x", None).await.unwrap();
    }
    exec(&place.memory, &scope("ada"), "DELETE FROM t", None).await.unwrap();
    assert_eq!(count(&place.memory, &scope("bob"), "SELECT x FROM t").await.unwrap().len(), 1);
    let tenant = TenantId::new("acme").unwrap();
    let page = sql(&place.memory).sql_scopes(&tenant, SqlScopesQuery::default()).await.unwrap();
    assert_eq!(page.scopes.len(), 4);
    assert!(sql(&place.memory).drop_sql_scope(&scope("bob")).await.unwrap());
    assert!(!sql(&place.memory).drop_sql_scope(&scope("bob")).await.unwrap());
}

#[tokio::test]
async fn refusals_keep_their_code_and_details() {
    let place = place().await;
    let refused = exec(&place.memory, &scope("ada"), "ATTACH 'x' AS y", None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::StatementRefused);
    assert_eq!(refused.details().get("stage").and_then(|stage| stage.as_str()), Some("gate"), "{refused:?}");
}

#[tokio::test]
async fn a_transaction_ends_with_its_process_and_says_so() {
    let place = place().await;
    let here = scope("ada");
    exec(&place.memory, &here, "CREATE TABLE t(a)", None).await.unwrap();
    let tx = sql(&place.memory).begin(&run(), &here, None).await.unwrap().tx;
    exec(&place.memory, &here, "INSERT INTO t VALUES (1)", Some(&tx)).await.unwrap();
    assert!(kill_workers(place.folder.path()) >= 1);
    let lost = loop {
        // The end of the process may be noticed after the call is made.
        match exec(&place.memory, &here, "INSERT INTO t VALUES (2)", Some(&tx)).await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(lost.kind(), ErrorKind::TransactionLost, "{lost:?}");
    assert!(count(&place.memory, &here, "SELECT a FROM t").await.unwrap().is_empty());
    exec(&place.memory, &here, "INSERT INTO t VALUES (3)", None).await.unwrap();
    assert_eq!(count(&place.memory, &here, "SELECT a FROM t").await.unwrap(), [[SqlValue::Int(3)]]);
}

#[tokio::test]
async fn a_cancelled_call_ends_and_its_scope_keeps_serving() {
    let place = place().await;
    let here = scope("ada");
    exec(&place.memory, &here, "CREATE TABLE t(a)", None).await.unwrap();
    let endless =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) INSERT INTO t SELECT max(x) FROM n";
    let gone =
        tokio::time::timeout(Duration::from_millis(200), exec(&place.memory, &here, endless, None)).await;
    assert!(gone.is_err());
    exec(&place.memory, &here, "INSERT INTO t VALUES (7)", None).await.unwrap();
    assert_eq!(count(&place.memory, &here, "SELECT a FROM t").await.unwrap(), [[SqlValue::Int(7)]]);
}

#[tokio::test]
async fn a_dump_of_one_scope_restores_into_another() {
    let place = place().await;
    let (from, to) = (scope("ada"), scope("bob"));
    exec(&place.memory, &from, "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)", None).await.unwrap();
    let fill = "INSERT INTO t SELECT value, printf('%.*c', 300, 'x') FROM json_each('[1,2,3,4,5,6,7,8,9]'), \
                (SELECT 1 UNION ALL SELECT 2) ON CONFLICT DO NOTHING";
    // After a join the conflict clause needs a WHERE, or ON is parsed as part of the join.
    let fill = fill.replace(" ON CONFLICT", " WHERE true ON CONFLICT");
    exec(&place.memory, &from, &fill, None).await.unwrap();
    let dump = sql(&place.memory).dump(&from).await.unwrap();
    let restored = sql(&place.memory).restore(&to, dump, RestoreOptions::default()).await.unwrap();
    assert_eq!((restored.tables, restored.rows, restored.skipped.len()), (1, 9, 0));
    let rows = count(&place.memory, &to, "SELECT count(*), sum(length(b)) FROM t").await.unwrap();
    assert_eq!(rows, [[SqlValue::Int(9), SqlValue::Int(2_700)]]);
    let dump = sql(&place.memory).dump(&from).await.unwrap();
    let conflict = sql(&place.memory).restore(&to, dump, RestoreOptions::default()).await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict, "{conflict:?}");
}

#[tokio::test]
async fn the_end_of_a_run_ends_its_transactions_and_its_database() {
    let place = place().await;
    let (tenant, root) = (TenantId::new("acme").unwrap(), id("run-1"));
    let of_run = Scope::new(tenant.clone(), ScopeKind::Run, root.clone());
    exec(&place.memory, &of_run, "CREATE TABLE t(a)", None).await.unwrap();
    let tx = sql(&place.memory).begin(&run(), &scope("ada"), None).await.unwrap().tx;
    place.memory.end_run(&tenant, &root).await.unwrap();
    let lost = exec(&place.memory, &scope("ada"), "CREATE TABLE u(a)", Some(&tx)).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::TransactionLost);
    assert!(count(&place.memory, &of_run, "SELECT * FROM t").await.is_err());
}

#[tokio::test]
async fn a_bounded_process_serves() {
    let place = place().await;
    let memory = open(place.folder.path(), &["--memory-bytes", "1073741824"]).await;
    exec(&memory, &scope("ada"), "CREATE TABLE t AS SELECT 1 AS x", None).await.unwrap();
    assert_eq!(count(&memory, &scope("ada"), "SELECT x FROM t").await.unwrap(), [[SqlValue::Int(1)]]);
}
