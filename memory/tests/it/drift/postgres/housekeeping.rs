//! A session's and a store's own work is not drift; failures leave what was seen; backups are consistent.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use memory::drift::backup::Backup;
use memory::{
    Backend as _, DriftPolicy, ErrorKind, GetOptions, Hook, Interposed, Memory, NewEntry, Next, Record,
    RecordStream, Reply, Request, Result, SetOptions, Ttl, async_trait,
};

use super::support::{Agent, BOTH, Fixture, foreign_runs, json, key, provider, text};

#[tokio::test]
async fn scenario_08_a_failed_write_keeps_what_was_seen() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        let session = fixture.session(policy);
        let agent = Agent::of(&session, &fixture);
        agent.set("k", "1").await.unwrap();
        let observed = session.status(&fixture.scope).observed;
        let stranger = fixture.client().await;
        stranger.batch_execute("BEGIN; LOCK TABLE memory.scope").await.unwrap();
        assert_eq!(agent.set("k", "2").await.unwrap_err().kind(), ErrorKind::Timeout);
        assert_eq!(session.status(&fixture.scope).observed, observed);
        stranger.batch_execute("ROLLBACK").await.unwrap();
        agent.set("k", "3").await.unwrap();
    }
}

#[tokio::test]
async fn scenario_31_housekeeping_is_not_drift() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        let session = fixture.session(policy);
        let agent = Agent(session.guard(&*fixture.provider), &fixture.scope);
        let brief = SetOptions::default().with_ttl(Ttl::After(Duration::from_secs(1)));
        for n in 0..100 {
            agent.0.set(agent.1, &key(&format!("b{n}")), json("1"), brief.clone()).await.unwrap();
        }
        agent.set("k", "1").await.unwrap();
        fixture.clock.advance(2);
        for _ in 0..3 {
            agent.0.get(agent.1, &key("k"), GetOptions::default()).await.unwrap();
        }
        assert_eq!(fixture.provider.sweep().await.unwrap(), 100);
        fixture.provider.flush().await.unwrap();
        let other = memory::Scope::agent("acme", "gone").unwrap();
        fixture.provider.set(&other, &key("k"), json("1"), SetOptions::default()).await.unwrap();
        fixture.provider.drop_scope(&other).await.unwrap();
        fixture.provider.sweep().await.unwrap();
        agent.set("k", "2").await.unwrap();
    }
}

/// Writes with SQL while a scope is read for its backup.
#[derive(Debug)]
struct WritesMeanwhile(String);

struct Meanwhile {
    records: RecordStream,
    url: String,
    read: usize,
}

impl memory::Stream for Meanwhile {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = std::task::ready!(self.records.as_mut().poll_next(context));
        self.read += 1;
        if self.read % 500 == 1 {
            // It would wait for a lock until it is cancelled.
            foreign_runs(
                &self.url,
                "SET statement_timeout = '5s'; UPDATE entry SET value = '\"later\"' WHERE key >= 'k01990'",
            );
        }
        Poll::Ready(item)
    }
}

#[async_trait]
impl Hook for WritesMeanwhile {
    async fn around(&self, request: Request, next: Next<'_>) -> Result<Reply> {
        match next.run(request).await? {
            Reply::ExportScope(records) => {
                Ok(Reply::ExportScope(Box::pin(Meanwhile { records, url: self.0.clone(), read: 0 })))
            }
            other => Ok(other),
        }
    }
}

#[tokio::test]
async fn scenarios_24_and_25_a_backup_blocks_nobody_and_is_consistent() {
    let Some(fixture) = Fixture::new().await else { return };
    let items = (0..2_000).map(|n| NewEntry::new(key(&format!("k{n:05}")), json("\"before\""))).collect();
    fixture.backend().bulk_insert(&fixture.scope, items, Default::default()).await.unwrap();
    let hook = WritesMeanwhile(fixture.database.url());
    let memory = Memory::new(Arc::new(Interposed::new(fixture.memory.clone(), hook))).unwrap();
    let session = fixture.session(DriftPolicy::Row);
    let agent = Agent(session.guard(memory.backend().unwrap()), &fixture.scope);
    agent.read("k00000").await;
    fixture.other_sets("k00000", "\"changed\"").await;
    let error = agent.set("k00000", "1").await.unwrap_err();
    let backup = Backup::load(&PathBuf::from(text(&error, "drift_backup"))).await.unwrap();
    assert_eq!(backup.records.len(), 2_000);
    let later = backup.records.iter().filter(|record| record.entry.value.as_str() == "\"later\"").count();
    assert_eq!(later, 0, "what was written meanwhile is not in it");
    assert_eq!(fixture.value("k01999").await.unwrap(), "\"later\"");
}

#[tokio::test]
async fn scenario_28_an_unreadable_entry_is_an_error_not_absent() {
    let Some(fixture) = Fixture::new().await else { return };
    let session = fixture.session(DriftPolicy::Row);
    let agent = Agent::of(&session, &fixture);
    agent.set("k", "1").await.unwrap();
    fixture.foreign_runs("UPDATE entry SET value = 'no JSON'");
    let unread = agent.0.get(agent.1, &key("k"), GetOptions::default()).await.unwrap_err();
    assert_eq!(unread.kind(), ErrorKind::Corrupt);
    let refused = agent.set("k", "2").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DriftDetected);
    assert!(refused.details()["drift_backup"].is_null(), "what cannot be read cannot be saved");
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
        let agent = Agent(session.guard(&*writes), &fixture.scope);
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
