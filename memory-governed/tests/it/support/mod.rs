//! A space on each store, and simple deciders.

mod deciders;

pub(crate) use deciders::{Exact, Literal};
pub(crate) use memory_fakes::on_both_stores;
pub(crate) use memory_fakes::stores::{Kept, Store, opened};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use memory_core::sql::{SqlValue, StatementOptions};
use memory_core::{Clock, IdGen, Provider, Result, RunContext, ScopeId, Timestamp};
use memory_governed::{
    Actor, Bucket, Eraser, Ledger, Note, NoteSource, Options, Outcome, PendingMemoryQueue, Promotion,
    PromotionPipeline, Review, Row, SharedMemory, Space, Trust, WorkingMemory,
};
use serde_json::{Value, json};

/// A clock moved by tests.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        // Each reading is a millisecond later, so that earlier things are older.
        Timestamp::from_millis_clamped(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Ids that never repeat, in any process.
#[derive(Debug)]
pub(crate) struct TestIds;

impl IdGen for TestIds {
    fn fresh(&self) -> u128 {
        static COUNT: AtomicI64 = AtomicI64::new(0);
        static START: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
        let count = u128::try_from(COUNT.fetch_add(1, Ordering::SeqCst)).unwrap();
        let start = u128::try_from(*START.get_or_init(real_time)).unwrap() & 0xffff_ffff;
        // Spread, so that jitter and prefixes differ.
        let low = count.wrapping_mul(0x9e37_79b9_7f4a_7c15) & u128::from(u64::MAX);
        (u128::from(std::process::id()) << 96) | (start << 64) | low
    }
}

/// A space with its stages.
pub(crate) struct World {
    pub(crate) store: Kept,
    pub(crate) space: Space,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) notes: WorkingMemory,
    pub(crate) pipeline: PromotionPipeline,
    pub(crate) queue: PendingMemoryQueue,
    pub(crate) review: Review,
    pub(crate) shared: SharedMemory,
    pub(crate) ledger: Ledger,
    pub(crate) eraser: Eraser,
}

pub(crate) fn actor(agent: &str, trust: Trust) -> Actor {
    Actor { agent: agent.to_owned(), run: "run".to_owned(), trust }
}

pub(crate) fn person() -> Actor {
    actor("pat", Trust::Person)
}

pub(crate) async fn space_on(
    provider: Arc<dyn Provider>,
    clock: Arc<TestClock>,
    options: Options,
) -> Result<Space> {
    Space::open(provider, &"acme".parse().unwrap(), "shared", clock, Arc::new(TestIds), options).await
}

impl World {
    pub(crate) async fn on(store: Kept) -> Self {
        Self::with(store, Options::default()).await
    }

    pub(crate) async fn with(store: Kept, options: Options) -> Self {
        let clock = Arc::new(TestClock(AtomicI64::new(1_800_000_000_000)));
        let space = space_on(Arc::clone(&store.provider), Arc::clone(&clock), options).await.unwrap();
        Self::of(store, space, clock)
    }

    pub(crate) fn of(store: Kept, space: Space, clock: Arc<TestClock>) -> Self {
        let queue = PendingMemoryQueue::new(&space, Arc::new(Exact));
        Self {
            notes: WorkingMemory::new(&space),
            pipeline: PromotionPipeline::new(&space, Arc::new(Literal), Arc::new(Exact)),
            review: Review::new(queue.clone()),
            queue,
            shared: SharedMemory::new(&space),
            ledger: Ledger::new(&space),
            eraser: Eraser::new(&space),
            store,
            space,
            clock,
        }
    }

    /// The same space with other options.
    pub(crate) async fn again(self, options: Options) -> Self {
        let space =
            space_on(Arc::clone(&self.store.provider), Arc::clone(&self.clock), options).await.unwrap();
        Self::of(self.store, space, self.clock)
    }

    pub(crate) async fn note(&self, words: impl ToString) -> Note {
        self.note_by(&actor("ada", Trust::Agent), words).await
    }

    pub(crate) async fn note_by(&self, by: &Actor, words: impl ToString) -> Note {
        self.notes.note(by, NoteSource::Agent, &literal(&words.to_string()), None).await.unwrap()
    }

    pub(crate) async fn promote(&self) -> Promotion {
        self.pipeline.promote_one().await.unwrap().expect("a note")
    }

    /// Notes one request and promotes it.
    pub(crate) async fn tell(&self, request: Value) -> Outcome {
        self.tell_by(&actor("ada", Trust::Agent), request).await
    }

    pub(crate) async fn tell_by(&self, by: &Actor, request: Value) -> Outcome {
        self.note_by(by, request).await;
        let mut promotion = self.promote().await;
        assert_eq!(promotion.outcomes.len(), 1, "{promotion:?}");
        promotion.outcomes.remove(0)
    }

    pub(crate) async fn open_issue(&self, id: &str, title: &str) -> Outcome {
        self.tell(upsert("issues", id, json!({ "title": title }))).await
    }

    pub(crate) async fn row(&self, bucket: Bucket, id: &str) -> Row {
        self.shared.row(bucket, id).await.unwrap().unwrap_or_else(|| panic!("no row {id}"))
    }

    /// Runs a statement on the tables behind the stages.
    pub(crate) async fn sql(&self, sql: &str) -> Result<u64> {
        let run =
            RunContext::new("acme".parse().unwrap(), ScopeId::new("t").unwrap(), ScopeId::new("t").unwrap());
        let facet = self.store.provider.sql().unwrap();
        Ok(facet.exec(&run, self.space.scope(), sql, &[], StatementOptions::default()).await?.rows_affected)
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        let run =
            RunContext::new("acme".parse().unwrap(), ScopeId::new("t").unwrap(), ScopeId::new("t").unwrap());
        let facet = self.store.provider.sql().unwrap();
        let sql = format!("SELECT count(*) FROM {table}");
        let rows =
            facet.query(&run, self.space.scope(), &sql, &[], StatementOptions::default()).await.unwrap();
        match rows.rows[0][0] {
            SqlValue::Int(count) => count,
            ref other => panic!("{other:?}"),
        }
    }

    /// Every text in every table behind the stages, with the table.
    pub(crate) async fn texts(&self) -> Vec<(String, String)> {
        let run =
            RunContext::new("acme".parse().unwrap(), ScopeId::new("t").unwrap(), ScopeId::new("t").unwrap());
        let tables =
            self.store.provider.sql().unwrap().describe_tables(&run, self.space.scope()).await.unwrap();
        assert!(tables.len() >= 20, "{tables:?}");
        let mut found = Vec::new();
        for table in tables.into_iter().map(|table| table.name) {
            let texts = self.cells(&format!("SELECT * FROM {table}")).await.into_iter();
            found.extend(texts.filter_map(|cell| match cell {
                SqlValue::Text(text) => Some((table.clone(), text)),
                _ => None,
            }));
        }
        found
    }

    async fn cells(&self, sql: &str) -> Vec<SqlValue> {
        let run =
            RunContext::new("acme".parse().unwrap(), ScopeId::new("t").unwrap(), ScopeId::new("t").unwrap());
        let facet = self.store.provider.sql().unwrap();
        let rows =
            facet.query(&run, self.space.scope(), sql, &[], StatementOptions::default()).await.unwrap();
        assert!(!rows.truncated);
        rows.rows.into_iter().flatten().collect()
    }

    /// What every test may end with: the chain verifies, and the tables match the events.
    pub(crate) async fn sound(&self) {
        self.ledger.verify(None).await.unwrap();
        let before = self.ledger.digest().await.unwrap();
        let rebuilt = self.ledger.rebuild().await.unwrap();
        assert!(rebuilt.agrees(), "{rebuilt:?}");
        assert_eq!(self.ledger.digest().await.unwrap(), before);
    }
}

/// A request, or a list of them, as a note: preceded by the names of the rows, since an id in a quotation names none.
pub(crate) fn literal(text: &str) -> String {
    let Ok(json @ (Value::Object(_) | Value::Array(_))) = text.parse::<Value>() else {
        return text.to_owned();
    };
    let one = std::slice::from_ref(&json);
    let requests = json.as_array().map_or(one, Vec::as_slice).iter();
    let word = |request: &Value, member: &str| {
        request.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let names = requests.map(|request| format!("{} {}", word(request, "bucket"), word(request, "target_id")));
    format!("{} {text}", names.collect::<Vec<_>>().join(", "))
}

pub(crate) fn upsert(bucket: &str, id: &str, payload: Value) -> Value {
    json!({ "bucket": bucket, "operation": "upsert", "target_id": id, "payload": payload })
}

pub(crate) fn append(bucket: &str, id: &str, payload: Value) -> Value {
    json!({ "bucket": bucket, "operation": "append", "target_id": id, "payload": payload })
}

pub(crate) fn resolve(id: &str) -> Value {
    json!({ "bucket": "issues", "operation": "resolve", "target_id": id })
}

/// A request that refers to its row only by words.
pub(crate) fn resolve_the(words: &str) -> Value {
    json!({ "bucket": "issues", "operation": "resolve", "reference_text": words })
}

pub(crate) fn is_committed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Committed { projection: "applied", .. })
}

pub(crate) fn is_no_op(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::NoOp { .. })
}

pub(crate) fn pending_of(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Deferred { pending_id, .. } => pending_id,
        other => panic!("not deferred: {other:?}"),
    }
}

#[allow(clippy::disallowed_methods, reason = "processes that follow each other must agree about the time")]
fn real_time() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

impl World {
    /// A clock that starts at the real time.
    pub(crate) fn real_clock() -> Arc<TestClock> {
        Arc::new(TestClock(AtomicI64::new(real_time())))
    }

    /// A world whose clock starts at the real time.
    pub(crate) async fn real(store: Kept, options: Options) -> Self {
        let clock = Self::real_clock();
        let space = space_on(Arc::clone(&store.provider), Arc::clone(&clock), options).await.unwrap();
        Self::of(store, space, clock)
    }
}
