//! Changes to the agents' database by others, and many replicas at once.

use memory_core::sql::{SqlFacet as _, SqlScopesQuery, StatementOptions};
use memory_core::{ErrorKind, Scope, TenantId};
use memory_postgres::{PostgresProvider, SqlConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::support;
use crate::support::sql::{self, exec, rows, run_of};

async fn names(place: &sql::Place) -> (String, String) {
    let row = place.client().await.query_one("SELECT hex FROM mem_sql.scopes LIMIT 1", &[]).await.unwrap();
    let hex: String = row.get(0);
    (format!("mem_r_{hex}"), format!("mem_s_{hex}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_or_role_dropped_by_hand_is_recreated() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    // Of no other test: a role that owns something in another database cannot be dropped.
    let scope = Scope::agent("public", "dropped-by-hand").unwrap();
    exec(&provider, &scope, "CREATE TABLE t (n int)").await.unwrap();
    let (role, schema) = names(&place).await;
    let client = place.client().await;

    client.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.unwrap();
    let error = exec(&provider, &scope, "INSERT INTO t VALUES (1)").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    exec(&provider, &scope, "CREATE TABLE t (n int)").await.unwrap();
    exec(&provider, &scope, "INSERT INTO t VALUES (1)").await.unwrap();

    client
        .batch_execute(&format!(
            "DROP OWNED BY {role} CASCADE; DROP SCHEMA {schema} CASCADE; DROP ROLE {role}"
        ))
        .await
        .unwrap();
    exec(&provider, &scope, "CREATE TABLE t (n int)").await.unwrap();
    exec(&provider, &scope, "INSERT INTO t VALUES (2)").await.unwrap();
    assert_eq!(rows(&provider, &scope, "SELECT n FROM t").await.unwrap(), "[[2]]");
}

/// Roles are the whole server's: two databases with a scope of one name have one role.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_scope_leaves_the_sessions_of_another_database_alone() {
    let (Some(here), Some(there)) =
        (sql::Place::made(support::SERVER).await, sql::Place::made(support::SERVER).await)
    else {
        return;
    };
    let (here, there) = (
        PostgresProvider::open(here.config()).await.unwrap(),
        PostgresProvider::open(there.config()).await.unwrap(),
    );
    let scope = Scope::agent("public", "same-name").unwrap();
    for provider in [&here, &there] {
        exec(provider, &scope, "CREATE TABLE t (n int)").await.unwrap();
    }
    let run = run_of(&scope);
    let state = here.begin(&run, &scope, None).await.unwrap();
    let within = StatementOptions::default().in_tx(state.tx.clone());
    here.exec(&run, &scope, "INSERT INTO t VALUES (1)", &[], within).await.unwrap();
    there.drop_sql_scope(&scope).await.unwrap();
    here.commit(&run, &scope, &state.tx).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_closed_by_others_cost_only_transactions() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let scope = Scope::agent("public", "a").unwrap();
    exec(&provider, &scope, "CREATE TABLE t (n int)").await.unwrap();
    let client = place.client().await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename::text LIKE 'mem\\_r\\_%' \
               AND datname = current_database()";
    for n in 0..3 {
        client.query(end, &[]).await.unwrap();
        exec(&provider, &scope, &format!("INSERT INTO t VALUES ({n})")).await.unwrap();
    }
    let run = run_of(&scope);
    let state = provider.begin(&run, &scope, None).await.unwrap();
    let within = || StatementOptions::default().in_tx(state.tx.clone());
    provider.exec(&run, &scope, "INSERT INTO t VALUES (9)", &[], within()).await.unwrap();
    client.query(end, &[]).await.unwrap();
    let error = provider.exec(&run, &scope, "INSERT INTO t VALUES (10)", &[], within()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionLost, "{error}");
    let error = provider.commit(&run, &scope, &state.tx).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionLost, "{error}");
    assert_eq!(rows(&provider, &scope, "SELECT count(*) FROM t").await.unwrap(), "[[3]]");
    // A statement running when its session ends has no effect.
    let slow = provider.exec(
        &run,
        &scope,
        "INSERT INTO t SELECT a FROM generate_series(1, 6000) a, generate_series(1, 6000) b",
        &[],
        StatementOptions::default(),
    );
    let ender = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        client.query(end, &[]).await.unwrap();
    };
    let mut hurried = Box::pin(slow);
    tokio::select! {
        ended = &mut hurried => panic!("36 million rows in 300 ms: {ended:?}"),
        () = ender => {}
    }
    drop(hurried);
    assert_eq!(rows(&provider, &scope, "SELECT count(*) FROM t").await.unwrap(), "[[3]]");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_whose_process_had_to_be_terminated_is_a_timeout() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let provider = PostgresProvider::open(place.config()).await.unwrap();
    let scope = Scope::agent("public", "a").unwrap();
    exec(&provider, &scope, "CREATE TABLE t (n int)").await.unwrap();
    let run = run_of(&scope);
    // It notices a cancel only when it ends, and a terminate not much later.
    let slow = "SELECT array_length(array_fill(0, ARRAY[100000000]), 1)";
    for _ in 0..4 {
        let mut options = StatementOptions::default();
        options.timeout = Some(std::time::Duration::from_millis(100));
        let Err(error) = provider.query(&run, &scope, slow, &[], options).await else { continue };
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
}

/// Forwards connections to a server. A cancel request is announced, and held until it is let go.
async fn holding_cancel_requests(server: String, held: UnboundedSender<oneshot::Sender<()>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (server, held) = (server.clone(), held.clone());
            tokio::spawn(async move {
                let mut head = [0; 8];
                client.read_exact(&mut head).await.unwrap();
                if i32::from_be_bytes(head[4..].try_into().unwrap()) == 80_877_102 {
                    let (let_go, waits) = oneshot::channel();
                    let _ = held.send(let_go);
                    let _ = waits.await;
                }
                let mut upstream = TcpStream::connect(server).await.unwrap();
                upstream.write_all(&head).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_cancel_request_hits_no_later_statement() {
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let url = place.url();
    let server = url.split(['@', '/']).nth(3).unwrap();
    let (held, mut arrivals) = unbounded_channel();
    let port = holding_cancel_requests(server.to_owned(), held).await;
    let proxied = url.replace(server, &format!("127.0.0.1:{port}"));
    let mut config = place.config();
    if let Some(sql) = &mut config.sql {
        *sql = SqlConfig::new(format!("{proxied}?sslmode=disable")).with_key_file(place.key_file());
    }
    let provider = PostgresProvider::open(config).await.unwrap();
    let scope = Scope::agent("public", "late-cancel").unwrap();
    let other = Scope::agent("public", "late-cancel-other").unwrap();
    let run = run_of(&scope);
    let count =
        |n: u32| format!("SELECT count(*) FROM generate_series(1, {n}) a, generate_series(1, 1000) b");
    let (short, long) = (count(100), count(2_000));
    for scope in [&scope, &other] {
        rows(&provider, scope, &short).await.unwrap();
    }
    for _ in 0..3 {
        let tx = provider.begin(&run, &scope, None).await.unwrap().tx;
        let within = || StatementOptions::default().in_tx(tx.clone());
        let mut dropped = provider.query(&run, &scope, &short, &[], within());
        tokio::select! {
            biased;
            _ = &mut dropped => continue,
            () = std::future::ready(()) => drop(dropped),
        }
        let mut next = provider.query(&run, &scope, "SELECT 1", &[], within());
        // The dropped statement may have ended before it had to be cancelled.
        let done = tokio::select! {
            biased;
            let_go = arrivals.recv() => {
                // Far longer than what was dropped and what comes next.
                let early = tokio::select! {
                    biased;
                    done = &mut next => Some(done),
                    counted = rows(&provider, &other, &long) => {
                        counted.unwrap();
                        None
                    }
                };
                let_go.unwrap().send(()).unwrap();
                match early {
                    // Where the wait for the request took too long.
                    Some(done) => Err(done.expect_err("sent before the cancel request was carried out")),
                    None => next.await,
                }
            }
            done = &mut next => done,
        };
        // On a busy machine the dropped statement runs after the next one, and its held request ends the transaction then.
        let ended = match done {
            Ok(_) => provider.commit(&run, &scope, &tx).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            assert_eq!(error.kind(), ErrorKind::TransactionLost, "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn four_replicas_create_many_scopes_at_once() {
    const SCOPES: usize = 240;
    let Some(place) = sql::Place::made(support::SERVER).await else { return };
    let mut replicas = Vec::new();
    for _ in 0..4 {
        let mut config = place.config();
        if let Some(sql) = &mut config.sql {
            sql.connections = 16;
        }
        replicas.push(std::sync::Arc::new(PostgresProvider::open(config).await.unwrap()));
    }
    let begun = std::time::Instant::now();
    let mut tasks = Vec::new();
    for (at, replica) in replicas.iter().enumerate() {
        for lane in 0..8 {
            let replica = std::sync::Arc::clone(replica);
            tasks.push(tokio::spawn(async move {
                // Each scope is used by two replicas at about the same time.
                for number in (0..SCOPES).filter(|number| number % 16 == lane * 2 + at % 2) {
                    let scope = Scope::agent("public", &format!("s{number}")).unwrap();
                    exec(&replica, &scope, "CREATE TABLE IF NOT EXISTS t (n int)").await.unwrap();
                    exec(&replica, &scope, "INSERT INTO t VALUES (1)").await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    println!("{SCOPES} scopes by four replicas in {:?}", begun.elapsed());
    let mut query = SqlScopesQuery::default();
    query.limit = 1_000;
    let page = replicas[0].sql_scopes(&TenantId::new("public").unwrap(), query).await.unwrap();
    assert_eq!(page.scopes.len(), SCOPES);
    let scope = Scope::agent("public", "s7").unwrap();
    assert_eq!(rows(&replicas[3], &scope, "SELECT count(*) FROM t").await.unwrap(), "[[2]]");
    // Roles belong to the whole server and are dropped with their scopes.
    let client = place.client().await;
    for page in 0..SCOPES.div_ceil(100) {
        let drop = format!(
            "DO $$ DECLARE h text; BEGIN FOR h IN SELECT hex FROM mem_sql.scopes ORDER BY hex OFFSET {} LIMIT 100 LOOP \
             EXECUTE format('DROP OWNED BY %I CASCADE', 'mem_r_' || h); EXECUTE format('DROP SCHEMA %I CASCADE', 'mem_s_' || h); \
             EXECUTE format('DROP ROLE %I', 'mem_r_' || h); END LOOP; END $$",
            page * 100
        );
        client.batch_execute(&drop).await.unwrap();
    }
}
