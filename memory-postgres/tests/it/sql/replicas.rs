//! A replica killed during agents' SQL: its uncommitted work is undone, and the next replica need not wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::sql::{SqlFacet as _, SqlValue, StatementOptions};
use memory_core::{RunContext, Scope};
use memory_postgres::{PostgresConfig, PostgresProvider, SqlConfig};

use crate::support;
use crate::support::child;
use crate::support::child::Child;
use crate::support::sql;

/// Longest time that a dead replica may block another one.
const PATIENCE: Duration = Duration::from_secs(5);

fn scope() -> Scope {
    Scope::agent("public", "replicas").unwrap()
}

fn run() -> RunContext {
    sql::run_of(&scope())
}

async fn exec(provider: &PostgresProvider, sql: &str, options: StatementOptions) {
    provider.exec(&run(), &scope(), sql, &[], options).await.unwrap();
}

async fn count(provider: &PostgresProvider) -> i64 {
    let options = StatementOptions::default();
    let rows = provider.query(&run(), &scope(), "SELECT count(*) FROM t", &[], options).await.unwrap();
    match rows.rows[0][..] {
        [SqlValue::Int(count)] => count,
        ref other => panic!("{other:?}"),
    }
}

/// Opens a transaction and writes, or starts a long statement, and reports it.
async fn be_killed(role: &str, given: &str) {
    let (urls, key) = given.rsplit_once(' ').unwrap();
    let (entries, agents) = urls.split_once(' ').unwrap();
    let config = PostgresConfig::new(entries).with_sql(SqlConfig::new(agents).with_key_file(key));
    let provider = PostgresProvider::open(config).await.unwrap();
    let options = match role {
        "alone" => StatementOptions::default(),
        _ => {
            let open = provider.begin(&run(), &scope(), None).await.unwrap();
            StatementOptions::default().in_tx(open.tx)
        }
    };
    let insert = "INSERT INTO t SELECT g FROM generate_series(1, 1000) g";
    if role != "alone" {
        exec(&provider, insert, options.clone()).await;
    }
    child::say("begun");
    match role {
        // Between two statements.
        "between" => std::future::pending::<()>().await,
        // In the middle of a statement.
        _ => exec(&provider, "INSERT INTO t SELECT g FROM generate_series(1, 100000000) g", options).await,
    }
}

/// Waits until the server runs the long statement.
async fn is_at_work(place: &sql::Place) {
    const WORKING: &str = "SELECT 1 FROM pg_stat_activity \
         WHERE datname = current_database() AND state = 'active' AND query LIKE 'INSERT INTO t SELECT g FROM%'";
    let client = place.client().await;
    let begun = Instant::now();
    while client.query(WORKING, &[]).await.unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the statement never began");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_killed_in_a_transaction_leaves_nothing_and_blocks_nobody() {
    if let Some((role, given)) = child::role() {
        return be_killed(&role, &given).await;
    }
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    exec(&provider, "CREATE TABLE t (n bigint)", StatementOptions::default()).await;
    exec(&provider, "INSERT INTO t VALUES (0)", StatementOptions::default()).await;
    let given = place.given();
    for (round, role) in ["between", "within", "alone", "between", "within", "alone"].into_iter().enumerate()
    {
        let given = given.clone();
        let mut replica = tokio::task::spawn_blocking(move || {
            let test = "sql::replicas::a_replica_killed_in_a_transaction_leaves_nothing_and_blocks_nobody";
            let mut replica = Child::start(test, role, &given);
            while replica.line().as_deref() != Some("begun") {}
            replica
        })
        .await
        .unwrap();
        if role != "between" {
            is_at_work(&place).await;
        }
        tokio::task::spawn_blocking(move || replica.kill()).await.unwrap();
        let begun = Instant::now();
        exec(&provider, "INSERT INTO t VALUES (-1)", StatementOptions::default()).await;
        let waited = begun.elapsed();
        println!("killed {role} statements: the next writer waited {waited:?}");
        assert!(waited < PATIENCE, "a dead replica held the scope for {waited:?}");
        assert_eq!(count(&provider).await, i64::try_from(round).unwrap() + 2, "killed {role} statements");
    }
}

/// ARG-10.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_waited_for_a_definition_takes_its_arguments_by_it() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = Arc::new(PostgresProvider::open(place.config()).await.unwrap());
    let scope = Scope::agent("t", "waits").unwrap();
    sql::exec(&provider, &scope, "CREATE TABLE t (v text)").await.unwrap();
    sql::exec(&provider, &scope, "INSERT INTO t VALUES (NULL)").await.unwrap();
    let ask = || {
        let (provider, scope) = (Arc::clone(&provider), scope.clone());
        async move {
            let args = [SqlValue::Text("007".into())];
            let sql = "SELECT coalesce(v, $1) FROM t";
            let rows =
                provider.query(&sql::run_of(&scope), &scope, sql, &args, StatementOptions::default()).await;
            serde_json::to_string(&rows.unwrap().rows).unwrap()
        }
    };
    for _ in 0..3 {
        assert_eq!(ask().await, r#"[["007"]]"#);
    }
    // As another replica does it, slowly.
    let (other, watch) = (place.client().await, place.client().await);
    let hex: String = other.query_one("SELECT hex FROM mem_sql.scopes", &[]).await.unwrap().get(0);
    let define = format!(
        "BEGIN; ALTER TABLE mem_s_{hex}.t ALTER v TYPE bigint USING NULL; \
         UPDATE mem_sql.scopes SET definitions = nextval('mem_sql.generations')"
    );
    other.batch_execute(&define).await.unwrap();
    let asked = tokio::spawn(ask());
    let waits =
        format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'mem_s_{hex}.t'::regclass");
    while watch.query_one(&waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(asked.await.unwrap(), "[[7]]");
}
