//! Eviction and ended runs with replicas (GC-3 to GC-6, GC-14, GC-15, RUN-1, RUN-4).

use std::sync::Arc;
use std::time::Duration;

use memory_core::{
    Backend as _, BackendExt as _, Clock as _, ErrorKind, EvictOutcome, GetOptions, Json, Kept, Key,
    Provider as _, Scope, ScopeUse, ScopeUsesQuery, SetOptions, Timestamp, Ttl,
};
use memory_postgres::PostgresProvider;

use crate::support::{Database, TestClock, clock, drop_role, older, program};

const HOUR: Duration = Duration::from_secs(3_600);

async fn replica(database: &Database, clock: &Arc<TestClock>) -> PostgresProvider {
    PostgresProvider::open_with_clock(database.config(), clock.clone()).await.unwrap()
}

fn key() -> Key {
    Key::new("k").unwrap()
}

async fn reads(provider: &PostgresProvider, scope: &Scope) -> bool {
    provider.get(scope, &key(), GetOptions::default()).await.unwrap().is_some()
}

async fn uses(provider: &PostgresProvider, scope: &Scope) -> Vec<ScopeUse> {
    provider.scope_uses(&scope.tenant, ScopeUsesQuery::default()).await.unwrap().scopes
}

fn just_before(clock: &TestClock) -> Timestamp {
    Timestamp::from_millis_clamped(clock.now().as_millis() - 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_of_one_replica_keeps_the_scope_from_another() {
    let Some(database) = Database::fresh().await else { return };
    let clock = clock();
    let (one, other) = (replica(&database, &clock).await, replica(&database, &clock).await);
    let scope = Scope::user("acme", "ada").unwrap();
    one.put(&scope, &key(), Json::from(1)).await.unwrap();
    clock.advance(HOUR);
    assert!(reads(&other, &scope).await);
    // Nothing was flushed, and the replica that read has exited.
    drop(other);
    let kept = one.evict(&scope, just_before(&clock)).await.unwrap();
    assert_eq!(kept, EvictOutcome::Kept(Kept::Used { last_used_at: clock.now() }));
    assert!(reads(&one, &scope).await);
    clock.advance(HOUR);
    assert!(one.evict(&scope, clock.now()).await.unwrap().is_evicted());
    assert!(!reads(&one, &scope).await);
    assert_eq!(uses(&one, &scope).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_uses_stay_within_the_slack_and_are_written_by_a_flush() {
    let Some(database) = Database::fresh().await else { return };
    let clock = clock();
    let one = replica(&database, &clock).await;
    let scope = Scope::user("acme", "ada").unwrap();
    one.put(&scope, &key(), Json::from(1)).await.unwrap();
    let client = database.client().await;
    for minutes in [2, 3, 4, 9, 11, 30] {
        clock.advance(Duration::from_secs(60 * minutes));
        assert!(reads(&one, &scope).await);
        let row = client.query_one("SELECT used_at FROM memory.scope_use", &[]).await.unwrap();
        let behind = clock.now().as_millis() - row.get::<_, i64>(0);
        assert!(behind < 600_000, "{minutes} minutes later: {behind} ms behind");
        assert_eq!(uses(&one, &scope).await[0].last_used_at, clock.now());
    }
    clock.advance(Duration::from_secs(120));
    assert!(reads(&one, &scope).await);
    one.flush().await.unwrap();
    let row = client.query_one("SELECT used_at FROM memory.scope_use", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), clock.now().as_millis());
}

#[tokio::test(flavor = "multi_thread")]
async fn older_scopes_count_as_used_when_the_tables_were_migrated() {
    let Some(database) = Database::fresh().await else { return };
    let one = PostgresProvider::open(database.config()).await.unwrap();
    let scope = Scope::user("acme", "ada").unwrap();
    one.put(&scope, &key(), Json::from(1)).await.unwrap();
    let client = database.client().await;
    client.batch_execute("DELETE FROM memory.scope_use").await.unwrap();
    let row = client.query_one("SELECT since FROM memory.uses_since", &[]).await.unwrap();
    let since = Timestamp::from_millis_clamped(row.get(0));
    assert_eq!(uses(&one, &scope).await[0].last_used_at, since);
    // By the server's clock, which cannot be moved: it was used recently.
    let kept = one.evict(&scope, Timestamp::MAX).await.unwrap();
    assert_eq!(kept, EvictOutcome::Kept(Kept::Used { last_used_at: since }));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_evicted_if_agents_sql_is_served_elsewhere() {
    let Some(database) = Database::fresh().await else { return };
    let clock = clock();
    let one = replica(&database, &clock).await;
    let scope = Scope::user("acme", "ada").unwrap();
    one.put(&scope, &key(), Json::from(1)).await.unwrap();
    clock.advance(HOUR);
    // Like a replica opened with a database for agents' SQL.
    database.client().await.batch_execute("UPDATE memory.uses_since SET sql_since = 0").await.unwrap();
    assert_eq!(one.evict(&scope, clock.now()).await.unwrap(), EvictOutcome::Kept(Kept::InUse));
    let other = replica(&database, &clock).await;
    assert!(!other.capabilities().eviction && !other.capabilities().run_fence);
    assert_eq!(other.evict(&scope, clock.now()).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_while_replicas_write_to_it_stays_ended() {
    let Some(database) = Database::fresh().await else { return };
    let clock = clock();
    let replicas: Arc<[PostgresProvider]> =
        [replica(&database, &clock).await, replica(&database, &clock).await].into();
    for round in 0..20 {
        let run = Scope::run("acme", &format!("r{round}")).unwrap();
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (replicas, run) = (Arc::clone(&replicas), run.clone());
                tokio::spawn(async move {
                    for at in 0..20 {
                        let key = Key::new(format!("{writer}-{at}")).unwrap();
                        let put = replicas[writer % 2].put(&run, &key, Json::from(1)).await;
                        if let Err(error) = put {
                            assert_eq!(error.kind(), ErrorKind::RunEnded, "{error:?}");
                        }
                    }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        replicas[0].end_run(&run.tenant, &run.id).await.unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(replicas[1].list_all(&run, "").await.unwrap().len(), 0, "round {round}");
    }
    clock.advance(HOUR * 24);
    assert_eq!(replicas[1].reclaim().await.unwrap().fences, 20);
    let again = Scope::run("acme", "r0").unwrap();
    assert!(replicas[1].put(&again, &key(), Json::from(1)).await.unwrap().created);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_partitioned_tables_only_dropped_and_expired_rows_are_removed() {
    let Some(database) = Database::fresh().await else { return };
    older::partitioned(&database).await;
    let clock = clock();
    let provider = replica(&database, &clock).await;
    let scopes: Vec<Scope> = (0..12).map(|n| Scope::agent(&format!("t{n}"), "ada").unwrap()).collect();
    let late = SetOptions::default().with_ttl(Ttl::After(HOUR));
    for n in 0..20 {
        for scope in &scopes {
            let options = if scope.tenant.as_str() == "t1" { late.clone() } else { SetOptions::default() };
            provider.set(scope, &Key::new(format!("k{n}")).unwrap(), Json::from(1), options).await.unwrap();
        }
    }
    assert!(database.client().await.query_one("SELECT 1 FROM memory.entry_3 LIMIT 1", &[]).await.is_ok());
    provider.drop_scope(&scopes[0]).await.unwrap();
    clock.advance(HOUR * 2);
    provider.sweep().await.unwrap();
    let mut left = Vec::new();
    for scope in &scopes {
        left.push(provider.list_all(scope, "").await.unwrap().len());
    }
    assert_eq!(left, [0, 0, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20]);
    let rows = database.client().await.query_one("SELECT count(*) FROM memory.entry", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 200, "and they are removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_ownership_keeps_working_across_a_migration() {
    let Some(database) = Database::fresh().await else { return };
    older::tables(&database, 2).await;
    let (role, config) = program(&database).await;
    // As the older version provisioned it.
    let client = database.client().await;
    client
        .batch_execute(&format!(
            "GRANT USAGE ON SCHEMA memory TO {role}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA memory TO {role}; \
             GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA memory TO {role}; \
             REVOKE INSERT, UPDATE, DELETE ON memory.migration, memory.guard FROM {role}"
        ))
        .await
        .unwrap();
    drop(PostgresProvider::open(database.config()).await.unwrap());
    let one =
        PostgresProvider::open(config.with_migrate(false).with_use_granularity(Duration::from_millis(1)))
            .await
            .unwrap();
    let (scope, run) = (Scope::user("acme", "ada").unwrap(), Scope::run("acme", "r").unwrap());
    one.put(&scope, &key(), Json::from(1)).await.unwrap();
    one.put(&run, &key(), Json::from(1)).await.unwrap();
    one.end_run(&run.tenant, &run.id).await.unwrap();
    let late = one.put(&run, &key(), Json::from(1)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::RunEnded, "{late:?}");
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(one.evict(&scope, Timestamp::MAX).await.unwrap().is_evicted());
    one.reclaim().await.unwrap();
    one.close().await.unwrap();
    drop_role(&database, &role).await;
}
