//! Extracts facts from a connection's scopes in the background (`[recall.extract]`).

use std::sync::Arc;
use std::time::Duration;

use memory::Memory;
use memory::conversations::extract::{ExtractOptions, ExtractionQueue, ModelExtractor};
use memory::conversations::extraction_queue;
use memory_core::Scope;
use tokio::task::JoinHandle;

use crate::commands::drain;
use crate::terminal::note;

/// How often the scopes are checked.
const EVERY: Duration = Duration::from_secs(2);
/// The pause after a failure that would affect other turns too.
const REST: Duration = Duration::from_secs(600);
/// How long shutdown may take to let others take over.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to extract facts from, and how.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) extractor: ModelExtractor,
    pub(super) options: ExtractOptions,
    pub(super) scopes: Vec<Scope>,
}

/// The background task.
#[derive(Debug)]
pub(super) struct Extractions {
    queue: Arc<ExtractionQueue>,
    scopes: Vec<Scope>,
    task: JoinHandle<()>,
}

impl Extractions {
    /// Starts the task.
    pub(super) fn begin(memory: &Memory, plan: Plan) -> Self {
        let Plan { extractor, options, scopes } = plan;
        let queue = Arc::new(extraction_queue(memory, options));
        let (own, looked_at) = (Arc::clone(&queue), scopes.clone());
        let task = tokio::spawn(async move {
            loop {
                let mut pause = EVERY;
                for scope in &looked_at {
                    if let Err(error) = drain(&own, scope, &extractor).await {
                        note(&format!("memory: facts are drawn later: {error}"));
                        pause = REST;
                    }
                }
                tokio::time::sleep(pause).await;
            }
        });
        Self { queue, scopes, task }
    }

    /// Stops, and lets others take over unfinished work.
    pub(super) async fn end(self) {
        self.task.abort();
        let _ = self.task.await;
        let released = async {
            for scope in &self.scopes {
                // Otherwise others would wait for the lease to end.
                let _ = self.queue.release(scope).await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, released).await;
    }
}
