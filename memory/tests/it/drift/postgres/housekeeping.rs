//! A failed write keeps what was seen, and a write without drift scans nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory::{Backend as _, ErrorKind, Memory, NewEntry, Provider};

use super::support::{Agent, BOTH, Fixture, json, key, provider};

#[tokio::test]
async fn scenario_08_a_failed_write_keeps_what_was_seen() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        let observed = agent.session.status(&agent.scope).observed;
        let stranger = agent.client().await;
        stranger.batch_execute("BEGIN; LOCK TABLE memory.scope").await.unwrap();
        assert_eq!(agent.set("k", "2").await.unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(agent.session.status(&agent.scope).observed, observed);
        stranger.batch_execute("ROLLBACK").await.unwrap();
        agent.set("k", "3").await.unwrap();
    }
}

/// Rows read from all tables by any plan, as counted by the server for closed connections.
async fn reads(fixture: &Fixture) -> i64 {
    let client = fixture.client().await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while connections(&client).await > 0 {
        assert!(Instant::now() < deadline, "connections are not closed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let row = client
        .query_one(
            "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int8 FROM pg_stat_user_tables \
             WHERE schemaname = 'memory'",
            &[],
        )
        .await
        .unwrap();
    row.get(0)
}

/// Connections to this database other than the current one.
async fn connections(client: &tokio_postgres::Client) -> i64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
               AND backend_type = 'client backend'";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_write_without_drift_scans_nothing() {
    const WRITES: i64 = 50;
    let Some(fixture) = Fixture::new().await else { return };
    fixture.provider.close().await.unwrap();
    let loads = provider(&fixture.database.url(), &fixture.clock).await;
    let items = (0..10_000).map(|n| NewEntry::new(key(&format!("k{n}")), json("1"))).collect();
    loads.bulk_insert(&fixture.scope, items, Default::default()).await.unwrap();
    loads.close().await.unwrap();
    fixture.foreign_runs("ANALYZE");
    for policy in BOTH {
        let before = reads(&fixture).await;
        let writes = provider(&fixture.database.url(), &fixture.clock).await;
        let session = fixture.session(policy);
        let memory = Memory::new(Arc::clone(&writes) as Arc<dyn Provider>).unwrap();
        let agent = Agent::on(&memory, &session, &fixture);
        for n in 0..WRITES {
            let name = format!("k{}", 100 * n);
            agent.read(&name).await.unwrap();
            agent.set(&name, "2").await.unwrap();
        }
        writes.close().await.unwrap();
        let after = reads(&fixture).await;
        let rows = after - before;
        assert!(rows > 2 * WRITES, "the server counts them");
        assert!(rows < 20 * WRITES, "{policy:?}: {rows} rows for {WRITES} reads and writes");
    }
}
