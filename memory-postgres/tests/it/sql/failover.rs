//! Agents' SQL while the primary is killed and its synchronous standby takes over: no acknowledged statement is lost,
//! none is half done, and the next one finds the new primary.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use memory_core::sql::{SqlFacet as _, SqlValue, StatementOptions};
use memory_core::{Error, ErrorKind, RunContext, Scope};
use memory_postgres::{PostgresConfig, PostgresProvider, SqlConfig};

use crate::support;
use crate::support::server::{Server, pair};
use crate::support::sql;

const WRITERS: usize = 4;

fn scope(writer: usize) -> Scope {
    Scope::agent("acme", &format!("failover-{writer}")).unwrap()
}

fn run() -> RunContext {
    sql::run_of(&scope(0))
}

fn options() -> StatementOptions {
    let mut options = StatementOptions::default();
    options.timeout = Some(Duration::from_secs(5));
    options
}

/// The standby first: clients must find the host that takes writes.
fn both(primary: &Server, standby: &Server, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/{database}", standby.port, primary.port)
}

/// The rows a writer knows of.
#[derive(Debug, Default)]
struct Told {
    acknowledged: Vec<i64>,
    unknown: Vec<i64>,
}

/// Writes two rows per statement, or in a transaction of two statements, until stopped.
async fn write(provider: &PostgresProvider, writer: usize, stop: &AtomicBool, count: &AtomicUsize) -> Told {
    let (scope, run) = (scope(writer), run());
    let mut told = Told::default();
    for number in 0_i64.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let args = [SqlValue::Int(number)];
        let done = if number % 3 == 0 {
            in_transaction(provider, &run, &scope, &args).await
        } else {
            let insert = "INSERT INTO t VALUES ($1, 1), ($1, 2)";
            provider.exec(&run, &scope, insert, &args, options()).await.map(drop)
        };
        match done {
            Ok(()) => {
                told.acknowledged.push(number);
                count.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => told.unknown.push(number),
            Err(error) => {
                let honest = matches!(
                    error.kind(),
                    ErrorKind::Unavailable | ErrorKind::TransactionLost | ErrorKind::Timeout
                );
                assert!(honest, "{error:?}");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    told
}

async fn in_transaction(
    provider: &PostgresProvider,
    run: &RunContext,
    scope: &Scope,
    args: &[SqlValue],
) -> Result<(), Error> {
    let open = provider.begin(run, scope, None).await?;
    let within = || options().in_tx(open.tx.clone());
    for part in ["INSERT INTO t VALUES ($1, 1)", "INSERT INTO t VALUES ($1, 2)"] {
        if let Err(error) = provider.exec(run, scope, part, args, within()).await {
            // If it is still open it must not block the next.
            let _ = provider.rollback(run, scope, &open.tx).await;
            return Err(error);
        }
    }
    provider.commit(run, scope, &open.tx).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_statement_is_lost_and_agents_continue() {
    let Some((mut primary, standby)) = pair().await else { return };
    let admin = support::connect(&primary.url("postgres")).await;
    admin.batch_execute("CREATE DATABASE agents TEMPLATE template0").await.unwrap();
    let key = sql::key_file();
    let mut of_sql = SqlConfig::new(both(&primary, &standby, "agents")).with_key_file(key.path());
    of_sql.connections = 16;
    let config = PostgresConfig::new(both(&primary, &standby, "postgres"))
        .with_wait_timeout(Duration::from_secs(2))
        .with_sql(of_sql);
    let provider = Arc::new(PostgresProvider::open(config).await.unwrap());
    for writer in 0..WRITERS {
        let create = "CREATE TABLE t (n bigint, part int)";
        provider.exec(&run(), &scope(writer), create, &[], options()).await.unwrap();
    }

    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (provider, stop, count) = (Arc::clone(&provider), Arc::clone(&stop), Arc::clone(&count));
            tokio::spawn(async move { write(&provider, writer, &stop, &count).await })
        })
        .collect();
    let patience = Instant::now() + Duration::from_secs(90);
    let wait_for = async |wanted: usize| {
        while count.load(Ordering::SeqCst) < wanted {
            assert!(Instant::now() < patience, "{} rows: {}", count.load(Ordering::SeqCst), standby.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    wait_for(100).await;
    primary.kill();
    standby.promote();
    let before = count.load(Ordering::SeqCst);
    wait_for(before + 100).await;
    stop.store(true, Ordering::SeqCst);

    let mut rows_in_all = 0;
    for (writer, told) in writers.into_iter().enumerate() {
        let told = told.await.unwrap();
        let mut every = options();
        every.max_rows = 100_000;
        let select = "SELECT n, count(*) FROM t GROUP BY n";
        let rows = provider.query(&run(), &scope(writer), select, &[], every).await.unwrap().rows;
        let mut there = Vec::new();
        for row in rows {
            let [SqlValue::Int(number), SqlValue::Int(parts)] = row[..] else { panic!("{row:?}") };
            assert_eq!(parts, 2, "{number} is there in part");
            there.push(number);
        }
        for number in &told.acknowledged {
            assert!(there.contains(number), "{number} was acknowledged, and is lost");
        }
        for number in &there {
            assert!(
                told.acknowledged.contains(number) || told.unknown.contains(number),
                "{number} is there, and was said not to be"
            );
        }
        rows_in_all += there.len();
    }
    println!("{rows_in_all} pairs of rows; {before} before the failover");
}
