//! What cases ask of shared state.

use async_trait::async_trait;
use memory_core::{Result, Timestamp};
use memory_governed::{
    Actor, Anchor, AsOf, Bucket, Note, NoteSource, Outcome, Pending, PendingStatus, Promotion, Rebuilt,
    Report, Row, StoredNote, Verified, Why,
};

use super::stages::Stages;

/// Most deferred writes that a case looks at.
const MOST: usize = 200;

/// Shared state, as agents and people use it. Everything is done by the stages unless it is overridden, which only
/// mutants do.
#[async_trait]
#[allow(missing_docs, clippy::missing_errors_doc, reason = "each is the stage's own, documented there")]
pub trait SharedState: Send + Sync {
    /// The stages that do the work.
    fn stages(&self) -> &Stages;

    async fn note(&self, by: &Actor, source: NoteSource, words: &str, at: Option<Timestamp>) -> Result<Note> {
        self.stages().notes.note(by, source, words, at).await
    }

    async fn notes(&self, agent: &str) -> Result<Vec<StoredNote>> {
        self.stages().notes.notes(agent, "run").await
    }

    async fn promote_one(&self) -> Result<Option<Promotion>> {
        self.stages().pipeline.promote_one().await
    }

    async fn promote(&self, most: usize) -> Result<Report> {
        self.stages().pipeline.promote(most).await
    }

    async fn row(&self, bucket: Bucket, id: &str) -> Result<Option<Row>> {
        self.stages().shared.row(bucket, id).await
    }

    async fn rows(&self, bucket: Bucket, ended: bool) -> Result<Vec<Row>> {
        self.stages().shared.bucket(bucket, ended).await
    }

    async fn as_of(&self, bucket: Bucket, at: AsOf) -> Result<Vec<Row>> {
        self.stages().shared.as_of(bucket, at).await
    }

    async fn why(&self, bucket: Bucket, id: &str) -> Result<Why> {
        self.stages().shared.why(bucket, id).await
    }

    async fn pending(&self, status: PendingStatus) -> Result<Vec<Pending>> {
        self.stages().queue.list(status, MOST).await
    }

    async fn deferred(&self, id: &str) -> Result<Option<Pending>> {
        self.stages().queue.show(id).await
    }

    async fn bind(&self, id: &str, target: &str, by: &Actor) -> Result<Outcome> {
        self.stages().review.bind(id, target, by).await
    }

    async fn reject(&self, id: &str, reason: &str, by: &Actor) -> Result<Outcome> {
        self.stages().review.reject(id, reason, by).await
    }

    async fn verify(&self, anchor: Option<&Anchor>) -> Result<Verified> {
        self.stages().ledger.verify(anchor).await
    }

    async fn anchor(&self) -> Result<Anchor> {
        self.stages().ledger.anchor().await
    }

    async fn digest(&self) -> Result<String> {
        self.stages().ledger.digest().await
    }

    async fn rebuild(&self) -> Result<Rebuilt> {
        self.stages().ledger.rebuild().await
    }

    async fn forget(&self, note_id: &str) -> Result<bool> {
        self.stages().notes.forget(note_id).await
    }
}

impl SharedState for Stages {
    fn stages(&self) -> &Stages {
        self
    }
}
