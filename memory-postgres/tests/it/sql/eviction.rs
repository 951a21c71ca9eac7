//! Eviction and ended runs with agents' SQL: two databases without common transactions (GC-3 to GC-15, RUN-1, RUN-2).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memory_core::sql::{SqlFacet as _, SqlScopesQuery};
use memory_core::{
    Backend as _, BackendExt as _, Clock as _, EraseTarget, ErrorKind, EvictOutcome, GetOptions, Json, Kept,
    Key, Provider as _, Scope, ScopeUse, ScopeUsesQuery, Timestamp,
};
use memory_postgres::{PostgresConfig, PostgresProvider};
use tokio_postgres::Client;

use crate::support;
use crate::support::sql::{self, exec, rows, run_of};
use crate::support::{TestClock, clock};

const HOUR: Duration = Duration::from_secs(3_600);

/// Two databases, and a clock shared by all replicas.
struct World {
    place: sql::Place,
    clock: Arc<TestClock>,
}

impl World {
    async fn new() -> Option<Self> {
        let world = Self { place: sql::Place::made(support::SERVER).await?, clock: clock() };
        // The tables are as old as the clock says.
        drop(world.replica().await);
        let (entries, _) = world.clients().await;
        let now = world.clock.now().as_millis();
        entries.execute("UPDATE memory.uses_since SET since = $1", &[&now]).await.unwrap();
        Some(world)
    }

    async fn replica(&self) -> PostgresProvider {
        PostgresProvider::open_with_clock(self.place.config(), self.clock.clone()).await.unwrap()
    }

    /// Both databases, as left by a process that stops halfway.
    async fn clients(&self) -> (Client, Client) {
        (support::connect(&self.place.config().url).await, self.place.client().await)
    }

    /// The state of an eviction or run end that dies before the decision.
    async fn ask(&self) -> i64 {
        let (_, agents) = self.clients().await;
        let hex: String = agents.query_one("SELECT hex FROM mem_sql.scopes", &[]).await.unwrap().get(0);
        agents.query_one("SELECT mark FROM mem_sql.leave($1, false)", &[&hex]).await.unwrap().get(0)
    }

    /// And after the decision.
    async fn decide(&self, scope: &Scope) {
        let token = self.ask().await;
        let (entries, agents) = self.clients().await;
        let hex: String = agents.query_one("SELECT hex FROM mem_sql.scopes", &[]).await.unwrap().get(0);
        let kind = ["agent", "user", "run"].iter().position(|kind| *kind == scope.kind.as_str()).unwrap();
        let row = entries
            .query_one(
                "SELECT outcome FROM memory.kv_evict($1, $2, $3, $4, $4, NULL, 0, $5, $6)",
                &[
                    &scope.tenant.as_str(),
                    &i16::try_from(kind).unwrap(),
                    &scope.id.as_str(),
                    &self.clock.now().as_millis(),
                    &hex,
                    &token,
                ],
            )
            .await
            .unwrap();
        assert_eq!(row.get::<_, i16>(0), 0);
    }

    async fn count(&self, table: &str) -> i64 {
        let (entries, agents) = self.clients().await;
        let client = if table.starts_with("mem_sql") { agents } else { entries };
        client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await.unwrap().get(0)
    }
}

fn key() -> Key {
    Key::new("k").unwrap()
}

async fn fill(provider: &PostgresProvider, scope: &Scope) {
    provider.put(scope, &key(), Json::from(1)).await.unwrap();
    exec(provider, scope, "CREATE TABLE t (n int)").await.unwrap();
    exec(provider, scope, "INSERT INTO t VALUES (7)").await.unwrap();
}

async fn uses(provider: &PostgresProvider, scope: &Scope) -> Vec<ScopeUse> {
    provider.scope_uses(&scope.tenant, ScopeUsesQuery::default()).await.unwrap().scopes
}

async fn databases(provider: &PostgresProvider, scope: &Scope) -> usize {
    provider.sql_scopes(&scope.tenant, SqlScopesQuery::default()).await.unwrap().scopes.len()
}

async fn has_entry(provider: &PostgresProvider, scope: &Scope) -> bool {
    provider.get(scope, &key(), GetOptions::default()).await.unwrap().is_some()
}

fn ada() -> Scope {
    Scope::user("acme", "ada").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_of_one_replica_keeps_the_scope_from_another() {
    let Some(world) = World::new().await else { return };
    let (one, other, scope) = (world.replica().await, world.replica().await, ada());
    fill(&one, &scope).await;
    world.clock.advance(HOUR);
    assert_eq!(rows(&other, &scope, "SELECT n FROM t").await.unwrap(), "[[7]]");
    // Nothing was flushed, and the replica that read has exited.
    drop(other);
    let before = Timestamp::from_millis_clamped(world.clock.now().as_millis() - 1);
    let kept = one.evict(&scope, before).await.unwrap();
    assert_eq!(kept, EvictOutcome::Kept(Kept::Used { last_used_at: world.clock.now() }));
    // A pending question blocks nobody.
    exec(&one, &scope, "INSERT INTO t VALUES (8)").await.unwrap();
    world.clock.advance(HOUR);
    let bytes = uses(&one, &scope).await[0].bytes();
    assert_eq!(one.evict(&scope, world.clock.now()).await.unwrap(), EvictOutcome::Evicted { bytes });
    assert_eq!((uses(&one, &scope).await.len(), databases(&one, &scope).await), (0, 0));
    assert_eq!((world.count("memory.leaving").await, world.count("memory.scope_use").await), (0, 0));
    assert!(!has_entry(&one, &scope).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_another_replica_keeps_the_scope_whatever_its_age() {
    let Some(world) = World::new().await else { return };
    let (one, other, scope) = (world.replica().await, world.replica().await, ada());
    one.put(&scope, &key(), Json::from(1)).await.unwrap();
    // The database's first transaction, with nothing committed.
    let open = other.begin(&run_of(&scope), &scope, None).await.unwrap();
    world.clock.advance(HOUR);
    assert_eq!(one.evict(&scope, world.clock.now()).await.unwrap(), EvictOutcome::Kept(Kept::InUse));
    other.rollback(&run_of(&scope), &scope, &open.tx).await.unwrap();
    assert!(one.evict(&scope, world.clock.now()).await.unwrap().is_evicted());
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_without_entries_are_listed_and_evicted() {
    let Some(world) = World::new().await else { return };
    let one = world.replica().await;
    let scopes: Vec<Scope> = ["a", "b", "c", "d"].iter().map(|id| Scope::user("acme", id).unwrap()).collect();
    for (at, scope) in scopes.iter().enumerate() {
        if at != 1 {
            exec(&one, scope, "CREATE TABLE t (n int)").await.unwrap();
        }
        if at < 2 {
            one.put(scope, &key(), Json::from(1)).await.unwrap();
        }
    }
    for limit in 1..=4 {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let mut query = ScopeUsesQuery::default();
            (query.limit, query.cursor) = (limit, cursor);
            let page = one.scope_uses(&scopes[0].tenant, query).await.unwrap();
            assert!(page.scopes.len() <= limit);
            found.extend(
                page.scopes.into_iter().map(|one| (one.scope, one.entry_bytes > 0, one.sql_bytes > 0)),
            );
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let wanted = [(true, true), (true, false), (false, true), (false, true)];
        let wanted: Vec<_> =
            scopes.iter().cloned().zip(wanted).map(|(scope, (a, b))| (scope, a, b)).collect();
        assert_eq!(found, wanted, "pages of {limit}");
    }
    // As an older version created them.
    let (entries, _) = world.clients().await;
    entries
        .batch_execute("DELETE FROM memory.scope_use; UPDATE memory.uses_since SET since = 0")
        .await
        .unwrap();
    let since: i64 = entries.query_one("SELECT sql_since FROM memory.uses_since", &[]).await.unwrap().get(0);
    for one in uses(&one, &scopes[0]).await {
        let wanted = if one.sql_bytes > 0 { since } else { 0 };
        assert_eq!(one.last_used_at.as_millis(), wanted, "{}", one.scope);
    }
    let kept = one.evict(&scopes[3], Timestamp::from_millis_clamped(since)).await.unwrap();
    assert!(matches!(kept, EvictOutcome::Kept(Kept::Used { .. })), "{kept:?}");
    world.clock.advance(HOUR);
    assert!(one.evict(&scopes[3], world.clock.now()).await.unwrap().is_evicted());
}

#[tokio::test(flavor = "multi_thread")]
async fn uses_of_dropped_scopes_are_removed_and_those_of_databases_kept() {
    let Some(world) = World::new().await else { return };
    let (one, kept, gone) = (world.replica().await, ada(), Scope::user("acme", "bob").unwrap());
    exec(&one, &kept, "CREATE TABLE t (n int)").await.unwrap();
    exec(&one, &gone, "CREATE TABLE t (n int)").await.unwrap();
    assert!(one.drop_sql_scope(&gone).await.unwrap());
    world.clock.advance(HOUR);
    one.reclaim().await.unwrap();
    assert_eq!(world.count("memory.scope_use").await, 2, "who makes it anew at this moment finds it");
    world.clock.advance(HOUR * 30);
    one.reclaim().await.unwrap();
    assert_eq!(world.count("memory.scope_use").await, 1);
    let last_used = uses(&one, &kept).await[0].last_used_at.as_millis();
    assert_eq!(last_used, world.clock.now().as_millis() - 31 * 3_600_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_that_died_before_the_decision_has_no_effect() {
    let Some(world) = World::new().await else { return };
    let (one, other, scope) = (world.replica().await, world.replica().await, ada());
    fill(&one, &scope).await;
    fill_again(&other, &scope).await;
    for round in 0..4 {
        world.clock.advance(HOUR);
        world.ask().await;
        match round {
            0 => assert_eq!(rows(&other, &scope, "SELECT count(*) FROM t").await.unwrap(), "[[2]]"),
            1 => drop(exec(&one, &scope, "INSERT INTO t VALUES (9)").await.unwrap()),
            2 => {
                let open = other.begin(&run_of(&scope), &scope, None).await.unwrap();
                other.commit(&run_of(&scope), &scope, &open.tx).await.unwrap();
            }
            _ => {
                // Reading decides nothing.
                assert_eq!(databases(&one, &scope).await, 1);
                assert_eq!(one.describe_tables(&run_of(&scope), &scope).await.unwrap().len(), 1);
                assert!(one.sql_usage(&scope).await.unwrap().bytes > 0);
                assert_eq!(one.reclaim().await.unwrap().unfinished, 0);
                assert_eq!(world.count("memory.leaving WHERE goes").await, 0);
            }
        }
        assert!(has_entry(&one, &scope).await);
        assert_eq!(rows(&one, &scope, "SELECT min(n) FROM t").await.unwrap(), "[[7]]", "round {round}");
    }
    // A later one settles what another left.
    world.ask().await;
    world.clock.advance(HOUR);
    assert!(one.evict(&scope, world.clock.now()).await.unwrap().is_evicted());
    assert_eq!(world.count("mem_sql.scopes").await, 0);
}

async fn fill_again(provider: &PostgresProvider, scope: &Scope) {
    exec(provider, scope, "INSERT INTO t VALUES (8)").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_that_died_after_the_decision_is_never_seen_half_done() {
    let Some(world) = World::new().await else { return };
    let (one, other, scope) = (world.replica().await, world.replica().await, ada());
    for round in 0..8 {
        fill(&one, &scope).await;
        fill_again(&other, &scope).await;
        world.clock.advance(HOUR);
        world.decide(&scope).await;
        assert_eq!(world.count("mem_sql.scopes").await, 1, "it is still to be removed");
        match round {
            0 => assert_eq!(databases(&other, &scope).await, 0),
            1 => assert_eq!(uses(&other, &scope).await, []),
            2 => assert_eq!(other.sql_usage(&scope).await.unwrap().bytes, 0),
            3 => assert!(other.describe_tables(&run_of(&scope), &scope).await.unwrap().is_empty()),
            4 => {
                let refused = rows(&other, &scope, "SELECT n FROM t").await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
            }
            5 => drop(exec(&other, &scope, "CREATE TABLE t (n int)").await.unwrap()),
            6 => {
                // Entries first: they restart, and the old database is not part of them.
                other.put(&scope, &key(), Json::from(2)).await.unwrap();
                let refused = rows(&other, &scope, "SELECT n FROM t").await.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
                other.drop_scope(&scope).await.unwrap();
            }
            _ => {
                assert_eq!(other.reclaim().await.unwrap().unfinished, 1);
                assert_eq!(other.reclaim().await.unwrap().unfinished, 0);
                assert_eq!(world.count("mem_sql.scopes").await, 0);
            }
        }
        assert!(!has_entry(&other, &scope).await);
        assert_eq!(world.count("memory.leaving").await, 0, "round {round}");
        one.drop_sql_scope(&scope).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_end_died_halfway_has_ended() {
    let Some(world) = World::new().await else { return };
    let (one, other) = (world.replica().await, world.replica().await);
    let run = Scope::run("acme", "r1").unwrap();
    fill(&one, &run).await;
    fill_again(&other, &run).await;
    let token = world.ask().await;
    let (entries, agents) = world.clients().await;
    let hex: String = agents.query_one("SELECT hex FROM mem_sql.scopes", &[]).await.unwrap().get(0);
    let now = world.clock.now().as_millis();
    let end = "SELECT memory.run_end('acme', 2::smallint, 'r1', $1, true, $2, $3)";
    entries.query_one(end, &[&now, &hex, &token]).await.unwrap();
    let refused = rows(&other, &run, "SELECT n FROM t").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    for provider in [&one, &other] {
        let late = exec(provider, &run, "CREATE TABLE u (n int)").await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::RunEnded, "{late}");
        assert_eq!(databases(provider, &run).await, 0);
    }
    one.end_run(&run.tenant, &run.id).await.unwrap();
    assert_eq!(world.count("memory.leaving").await, 0);
}

/// FGT-1: also the names of scopes that agents only read.
#[tokio::test(flavor = "multi_thread")]
async fn forgetting_a_tenant_removes_the_names_of_scopes_only_read() {
    let Some(world) = World::new().await else { return };
    let (one, read, written) = (world.replica().await, ada(), Scope::agent("acme", "planner").unwrap());
    assert_eq!(rows(&one, &read, "SELECT 1").await.unwrap(), "[[1]]");
    fill(&one, &written).await;
    let other = Scope::user("other", "ada").unwrap();
    fill(&one, &other).await;
    let erased = one.erase(&EraseTarget::Tenant(read.tenant.clone())).await.unwrap();
    assert_eq!(erased.databases, 1, "{erased:?}");
    assert_eq!(world.count("mem_sql.scopes WHERE tenant = 'acme'").await, 0);
    assert_eq!(databases(&one, &other).await, 1);
}

/// FGT-13: a process unaware of the databases says so, and forgets nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_without_the_sql_databases_forgets_no_scope() {
    let Some(world) = World::new().await else { return };
    let (one, scope) = (world.replica().await, ada());
    fill(&one, &scope).await;
    let key = Key::new("k").unwrap();
    one.put(&scope, &key, Json::from(1)).await.unwrap();
    let config = PostgresConfig::new(world.place.config().url);
    let without = PostgresProvider::open_with_clock(config, world.clock.clone()).await.unwrap();
    for target in [EraseTarget::Scope(scope.clone()), EraseTarget::Tenant(scope.tenant.clone())] {
        let refused = without.erase(&target).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        assert!(refused.message().contains("`sql.url`"), "{refused}");
    }
    assert!(one.get(&scope, &key, GetOptions::uncounted()).await.unwrap().is_some());
    assert_eq!(databases(&one, &scope).await, 1);
    // An entry is in one facet only.
    assert_eq!(without.erase(&EraseTarget::Key { scope: scope.clone(), key }).await.unwrap().entries, 1);
    // The database is gone for good.
    let (entries, _) = world.clients().await;
    entries.execute("UPDATE memory.uses_since SET sql_since = NULL", &[]).await.unwrap();
    let config = PostgresConfig::new(world.place.config().url);
    let without = PostgresProvider::open_with_clock(config, world.clock.clone()).await.unwrap();
    without.erase(&EraseTarget::Scope(scope)).await.unwrap();
}

/// GC-11: lost writes are always the oldest, never some in the middle, in either facet.
#[tokio::test(flavor = "multi_thread")]
async fn writes_concurrent_with_evictions_are_kept() {
    const WRITES: i64 = 120;
    let Some(world) = World::new().await else { return };
    // By the server's clock.
    let (entries, _) = world.clients().await;
    entries.batch_execute("UPDATE memory.uses_since SET since = 0, sql_since = 0").await.unwrap();
    let config = world.place.config().with_use_granularity(Duration::from_millis(10));
    let writer = PostgresProvider::open(config.clone()).await.unwrap();
    let evictor = PostgresProvider::open(config).await.unwrap();
    let (scope, done) = (ada(), Arc::new(AtomicBool::new(false)));
    let (of_evictor, over) = (scope.clone(), Arc::clone(&done));
    let evicting = tokio::spawn(async move {
        let mut gone = 0;
        while !over.load(Ordering::Acquire) {
            gone += u64::from(evictor.evict(&of_evictor, Timestamp::MAX).await.unwrap().is_evicted());
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        gone
    });
    for at in 0..WRITES {
        writer.put(&scope, &Key::new(format!("{at:04}")).unwrap(), Json::from(at)).await.unwrap();
        loop {
            match exec(&writer, &scope, &format!("INSERT INTO t VALUES ({at})")).await {
                Ok(_) => break,
                Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                    exec(&writer, &scope, "CREATE TABLE IF NOT EXISTS t (n int)").await.unwrap();
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        // About as long as the slack, so that evictions come just before the next write.
        if at % 5 == 0 {
            let pause = 60 + 4 * u64::try_from(at).unwrap();
            tokio::time::sleep(Duration::from_millis(pause % 180)).await;
        }
    }
    done.store(true, Ordering::Release);
    let gone = evicting.await.unwrap();
    assert!(gone > 0, "nothing was evicted");
    let entries: Vec<i64> = writer
        .list_all(&scope, "")
        .await
        .unwrap()
        .iter()
        .map(|entry| entry.key.as_str().parse().unwrap())
        .collect();
    assert_eq!(entries, (WRITES - i64::try_from(entries.len()).unwrap()..WRITES).collect::<Vec<_>>());
    let rows = match rows(&writer, &scope, "SELECT n FROM t ORDER BY n").await {
        Ok(rows) => serde_json::from_str::<Vec<Vec<i64>>>(&rows).unwrap().concat(),
        Err(_) => Vec::new(),
    };
    assert_eq!(rows, (WRITES - i64::try_from(rows.len()).unwrap()..WRITES).collect::<Vec<_>>());
    println!("{gone} evictions, {} entries and {} rows at the end", entries.len(), rows.len());
}
