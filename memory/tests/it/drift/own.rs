//! A store's own work is not drift; unreadable entries are not absent; a backup blocks nobody.

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use memory::drift::backup::Backup;
use memory::{
    Backend as _, BackendExt as _, DriftPolicy, ErrorKind, GetOptions, Hook, Interposed, Memory, NewEntry,
    Next, Provider, Record, RecordStream, Reply, Request, Result, Scope, SetOptions, Ttl, async_trait,
};

use super::support::{Agent, BOTH, EVERY, Fixture, MANY, Meddler, json, key, text};

#[tokio::test]
async fn scenario_31_housekeeping_is_not_drift() {
    for policy in BOTH {
        let Some(fixture) = Fixture::new().await else { return };
        let provider = fixture.provider();
        let memory = Memory::new(Arc::clone(&provider) as Arc<dyn Provider>).unwrap();
        let session = fixture.session(policy);
        let agent = Agent::on(&memory, &session, &fixture);
        let brief = SetOptions::default().with_ttl(Ttl::After(Duration::from_secs(1)));
        for n in 0..100 {
            agent
                .guarded()
                .set(&agent.scope, &key(&format!("b{n}")), json("1"), brief.clone())
                .await
                .unwrap();
        }
        agent.set("k", "1").await.unwrap();
        fixture.clock.advance(2);
        for _ in 0..3 {
            agent.read("k").await;
        }
        assert_eq!(provider.sweep().await.unwrap(), 100);
        provider.flush().await.unwrap();
        let other = Scope::agent("acme", "gone").unwrap();
        provider.put(&other, &key("k"), json("1")).await.unwrap();
        provider.drop_scope(&other).await.unwrap();
        provider.sweep().await.unwrap();
        agent.set("k", "2").await.unwrap();
    }
}

#[tokio::test]
async fn scenario_28_an_unreadable_entry_is_an_error_not_absent() {
    let Some(agent) = Agent::new(DriftPolicy::Row).await else { return };
    agent.set("k", "1").await.unwrap();
    agent.foreign_runs("UPDATE entry SET value = 'no JSON'");
    let unread = agent.guarded().get(&agent.scope, &key("k"), GetOptions::default()).await.unwrap_err();
    assert_eq!(unread.kind(), ErrorKind::Corrupt);
    // It is still guarded by the earlier read.
    let refused = agent.set("k", "2").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DriftDetected);
    assert!(refused.details()["drift_backup"].is_null(), "what cannot be read cannot be saved");
    let unread = agent.backend().get(&agent.scope, &key("k"), GetOptions::default()).await.unwrap_err();
    assert_eq!(unread.kind(), ErrorKind::Corrupt, "nothing was written");
}

/// Writes with SQL while a scope is read for its backup.
#[derive(Debug)]
struct WritesMeanwhile(String, Arc<Mutex<u32>>);

struct Meanwhile {
    records: RecordStream,
    meddler: Meddler,
    read: Arc<Mutex<u32>>,
}

impl memory::Stream for Meanwhile {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = std::task::ready!(self.records.as_mut().poll_next(context));
        *self.read.lock().unwrap() += 1;
        if *self.read.lock().unwrap() % EVERY == 1 {
            let last = MANY - 10;
            self.meddler.runs(&format!("UPDATE entry SET value = '\"later\"' WHERE key >= 'k{last:06}'"));
        }
        Poll::Ready(item)
    }
}

#[async_trait]
impl Hook for WritesMeanwhile {
    async fn around(&self, request: Request, next: Next<'_>) -> Result<Reply> {
        match next.run(request).await? {
            Reply::ExportScope(records) => {
                let (meddler, read) = (Meddler::new(&self.0), Arc::clone(&self.1));
                Ok(Reply::ExportScope(Box::pin(Meanwhile { records, meddler, read })))
            }
            other => Ok(other),
        }
    }
}

#[tokio::test]
async fn scenarios_24_and_25_a_backup_blocks_nobody_and_is_consistent() {
    let Some(fixture) = Fixture::new().await else { return };
    let item = |n: u32| NewEntry::new(key(&format!("k{n:06}")), json("\"before\""));
    for from in (0..MANY).step_by(2_000) {
        let items = (from..from + 2_000).map(item).collect();
        fixture.backend().bulk_insert(&fixture.scope, items, Default::default()).await.unwrap();
    }
    let read = Arc::default();
    let hook = WritesMeanwhile(fixture.place(), Arc::clone(&read));
    let memory = Memory::new(Arc::new(Interposed::new(fixture.memory.clone(), hook))).unwrap();
    let session = fixture.session(DriftPolicy::Row);
    let agent = Agent::on(&memory, &session, &fixture);
    agent.read("k000000").await;
    fixture.other_sets("k000000", "\"changed\"").await;
    let error = agent.set("k000000", "1").await.unwrap_err();
    assert_eq!(*read.lock().unwrap(), MANY + 1);
    let backup = Backup::load(Path::new(&text(&error, "drift_backup"))).await.unwrap();
    assert_eq!(u32::try_from(backup.records.len()).unwrap(), MANY);
    let later = backup.records.iter().filter(|record| record.entry.value.as_str() == "\"later\"").count();
    assert_eq!(later, 0, "what was written meanwhile is not in it");
    assert_eq!(fixture.value(&format!("k{:06}", MANY - 1)).await.unwrap(), "\"later\"");
}
