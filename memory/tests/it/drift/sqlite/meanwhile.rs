//! Writes during a backup.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use memory::drift::backup::Backup;
use memory::{
    DriftPolicy, Hook, Interposed, Memory, Next, Record, RecordStream, Reply, Request, Result, async_trait,
};

use super::support::{Agent, Fixture, json, key, text};

/// Writes with SQL while a scope is read for its backup.
#[derive(Debug)]
struct WritesMeanwhile(PathBuf, Arc<Mutex<u32>>);

struct Meanwhile {
    records: RecordStream,
    foreign: rusqlite::Connection,
    written: Arc<Mutex<u32>>,
}

impl memory::Stream for Meanwhile {
    type Item = Result<Record>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let item = std::task::ready!(self.records.as_mut().poll_next(context));
        *self.written.lock().unwrap() += 1;
        if *self.written.lock().unwrap() % 5_000 != 1 {
            return std::task::Poll::Ready(item);
        }
        // Never blocks: it fails unless the lock is free.
        self.foreign.execute_batch("UPDATE entry SET value = '\"later\"' WHERE key >= 'k099990'").unwrap();
        std::task::Poll::Ready(item)
    }
}

#[async_trait]
impl Hook for WritesMeanwhile {
    async fn around(&self, request: Request, next: Next<'_>) -> Result<Reply> {
        match next.run(request).await? {
            Reply::ExportScope(records) => {
                let foreign = rusqlite::Connection::open(&self.0).unwrap();
                foreign.busy_timeout(std::time::Duration::ZERO).unwrap();
                let written = Arc::clone(&self.1);
                Ok(Reply::ExportScope(Box::pin(Meanwhile { records, foreign, written })))
            }
            other => Ok(other),
        }
    }
}

#[tokio::test]
async fn scenarios_24_and_25_a_backup_blocks_nobody_and_is_consistent() {
    let Some(fixture) = Fixture::new().await else { return };
    let item = |n: u32| memory::NewEntry::new(key(&format!("k{n:06}")), json("\"before\""));
    for from in (0..100_000).step_by(5_000) {
        let items = (from..from + 5_000).map(item).collect();
        fixture.backend().bulk_insert(&fixture.scope, items, Default::default()).await.unwrap();
    }
    let written = Arc::new(Mutex::new(0));
    let hook = WritesMeanwhile(fixture.path.clone(), Arc::clone(&written));
    let memory = Memory::new(Arc::new(Interposed::new(fixture.memory.clone(), hook))).unwrap();
    let session = fixture.session(DriftPolicy::Row);
    let agent = Agent(session.guard(memory.backend().unwrap()), &fixture.scope);
    agent.read("k000000").await;
    fixture.other_sets("k000000", "\"changed\"").await;
    let error = agent.set("k000000", "1").await.unwrap_err();
    assert_eq!(*written.lock().unwrap(), 100_001);
    let backup = Backup::load(&PathBuf::from(text(&error, "drift_backup"))).await.unwrap();
    assert_eq!(backup.records.len(), 100_000);
    let later = backup.records.iter().filter(|record| record.entry.value.as_str() == "\"later\"").count();
    assert_eq!(later, 0, "what was written meanwhile is not in it");
    assert_eq!(fixture.value("k099999").await.unwrap(), "\"later\"");
}
