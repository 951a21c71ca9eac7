//! Shared state as the cases use it, and the stages of `memory-governed` that implement it over one provider.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::host::HostTables;
#[cfg(feature = "mutants")]
use memory_core::host::Session;
use memory_core::{Clock, IdGen, Provider, Result, TenantId, Timestamp};
use memory_governed::{
    Actor, Anchor, AsOf, Bucket, Calibrated, Eraser, Forgotten, Interpreter, Ledger, Note, NoteSource,
    Options, Outcome, Pending, PendingMemoryQueue, PendingStatus, Promotion, PromotionPipeline, Rebuilt,
    Report, Resolver, Review, Row, SharedMemory, Space, StoredNote, Verified, Why, WorkingMemory,
};

/// The parts that the stages of a shared space are built from. A mutant changes them.
#[non_exhaustive]
pub struct Setup {
    /// Whose space it is.
    pub tenant: TenantId,
    /// Says what a note asks for.
    pub interpreter: Arc<dyn Interpreter>,
    /// Says which row it means.
    pub resolver: Arc<dyn Resolver>,
    /// How patient it is.
    pub options: Options,
    /// What cases talk to.
    pub wrap: fn(Stages) -> Box<dyn SharedState>,
}

impl Setup {
    /// The unmodified stages with this interpreter.
    #[must_use]
    pub fn new(tenant: TenantId, interpreter: Arc<dyn Interpreter>) -> Self {
        Self {
            tenant,
            interpreter,
            resolver: Arc::new(Calibrated::new()),
            options: Options::default(),
            wrap: |stages| Box::new(stages),
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("tenant", &self.tenant)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The name of the space that cases use.
const SPACE: &str = "shared";

/// The stages of one space.
pub struct Stages {
    pub(crate) notes: WorkingMemory,
    pub(crate) pipeline: PromotionPipeline,
    pub(crate) queue: PendingMemoryQueue,
    pub(crate) review: Review,
    pub(crate) shared: SharedMemory,
    pub(crate) ledger: Ledger,
    pub(crate) eraser: Eraser,
    pub(crate) space: Space,
    tables: HostTables,
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stages").field("space", &self.space).finish_non_exhaustive()
    }
}

impl Stages {
    /// Opens the space and its stages, with the time and ids of the provider.
    ///
    /// # Errors
    /// As [`Space::open`].
    pub(crate) async fn open(
        provider: Arc<dyn Provider>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
        setup: Setup,
    ) -> Result<Box<dyn SharedState>> {
        let Setup { tenant, interpreter, resolver, options, wrap } = setup;
        let tables = HostTables::new(Arc::clone(&provider), &tenant, SPACE)?;
        let space = Space::open(provider, &tenant, SPACE, clock, ids, options).await?;
        let queue = PendingMemoryQueue::new(&space, Arc::clone(&resolver));
        Ok(wrap(Self {
            notes: WorkingMemory::new(&space),
            pipeline: PromotionPipeline::new(&space, interpreter, resolver),
            review: Review::new(queue.clone()),
            queue,
            shared: SharedMemory::new(&space),
            ledger: Ledger::new(&space),
            eraser: Eraser::new(&space),
            space,
            tables,
        }))
    }

    /// Statements on the tables behind the stages, to see what a defect leaves there.
    #[cfg(feature = "mutants")]
    pub(crate) fn behind(&self) -> Session<'_> {
        self.tables.plain()
    }

    /// The scope of the tables.
    #[must_use]
    pub fn scope(&self) -> &memory_core::Scope {
        self.tables.scope()
    }
}

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

    async fn forget(&self, note_id: &str, by: &Actor) -> Result<Forgotten> {
        self.stages().eraser.note(note_id, by, false).await
    }

    async fn forget_row(&self, bucket: Bucket, id: &str, by: &Actor, is_trial: bool) -> Result<Forgotten> {
        self.stages().eraser.row(bucket, id, by, is_trial).await
    }
}

impl SharedState for Stages {
    fn stages(&self) -> &Stages {
        self
    }
}
