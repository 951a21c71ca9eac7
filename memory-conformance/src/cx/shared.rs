//! A shared space for the cases about several agents.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_core::{IdGen, Timestamp};
use memory_governed::interpret::Rules;
use memory_governed::{
    Actor, Bucket, Context, Decision, Interpretation, Interpreter, Note, NoteSource, Outcome, Promotion, Row,
    Trust, WriteRequest,
};
use serde_json::{Value, json};

use crate::check::{CaseResult, Stop, check, expect_some, shown};
use crate::cx::Cx;
use crate::cx::database::Database;
use crate::governed::{Setup, SharedState, Stages};

/// Reads notes as scripted, like a model would; unscripted ones by [`Rules`].
#[derive(Debug, Default)]
pub(crate) struct Script(Mutex<BTreeMap<String, Decision>>);

#[async_trait]
impl Interpreter for Script {
    fn name(&self) -> &'static str {
        "script-1"
    }

    async fn interpret(&self, note: &Note, context: &Context) -> Interpretation {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&note.text).cloned();
        Interpretation::of(told.unwrap_or_else(|| Rules::decide(&note.text, context)))
    }
}

/// A shared space of the case's tenant.
pub(crate) struct Shared<'a> {
    cx: &'a Cx,
    /// What agents and people use.
    pub(crate) state: Box<dyn SharedState>,
    /// The tables behind it.
    pub(crate) tables: Database<'a>,
    script: Arc<Script>,
}

impl fmt::Debug for Shared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl Cx {
    /// The shared space of the case's tenant; another handle on it at every call.
    pub(crate) async fn shared(&self) -> CaseResult<Shared<'_>> {
        self.shared_with(|_| {}).await
    }

    /// As [`Cx::shared`], with other stages.
    pub(crate) async fn shared_with(&self, change: impl FnOnce(&mut Setup) + Send) -> CaseResult<Shared<'_>> {
        let script = Arc::new(Script::default());
        let mut setup = Setup::new(self.tenant(), Arc::clone(&script) as Arc<dyn Interpreter>);
        change(&mut setup);
        let store = self.store();
        store.harness().change_shared(&mut setup);
        let (clock, ids) = store.time_and_ids();
        let ids: Arc<dyn IdGen> = ids;
        let state = Stages::open(store.shared_provider(), clock, ids, setup).await?;
        let tables = self.database_of(state.stages().scope().clone())?;
        Ok(Shared { cx: self, state, tables, script })
    }
}

/// An agent.
pub(crate) fn agent(name: &str) -> Actor {
    Actor { agent: name.to_owned(), run: "run".to_owned(), trust: Trust::Agent }
}

/// An agent that may end what others began.
pub(crate) fn authority(name: &str) -> Actor {
    Actor { trust: Trust::Authority, ..agent(name) }
}

/// A person.
pub(crate) fn person(name: &str) -> Actor {
    Actor { trust: Trust::Person, ..agent(name) }
}

/// What became of a request, in one word: `applied`, `recorded`, `failed`, `blocked`, `deferred`, `no_op` or `rejected`.
pub(crate) fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Committed { projection, .. } => projection,
        Outcome::Deferred { .. } => "deferred",
        Outcome::NoOp { .. } => "no_op",
        Outcome::Rejected { .. } => "rejected",
        _ => "unknown",
    }
}

/// This many seconds after the time at which cases start.
pub(crate) fn second(second: i64) -> Timestamp {
    Timestamp::from_millis_clamped(crate::TestClock::START + second * 1_000)
}

impl Shared<'_> {
    /// Writes a note, observed at that time or now, after advancing the clock by a second.
    pub(crate) async fn note(
        &self,
        by: &Actor,
        source: NoteSource,
        text: &str,
        at: Option<Timestamp>,
    ) -> CaseResult<Note> {
        self.cx.advance_ms(1_000);
        Ok(self.state.note(by, source, text, at).await?)
    }

    /// Promotes the oldest note that waits.
    pub(crate) async fn promoted(&self) -> CaseResult<Promotion> {
        Ok(expect_some!(self.state.promote_one().await?, "the note that was to be promoted"))
    }

    /// Notes a text and promotes it.
    pub(crate) async fn say_by(&self, by: &Actor, text: &str) -> CaseResult<Promotion> {
        self.note(by, NoteSource::Agent, text, None).await?;
        self.promoted().await
    }

    /// As [`Shared::say_by`], by the agent `ada`.
    pub(crate) async fn say(&self, text: &str) -> CaseResult<Promotion> {
        self.say_by(&agent("ada"), text).await
    }

    /// Writes a note that asks for one write and promotes it; returns the write's outcome.
    pub(crate) async fn write_by(&self, by: &Actor, text: &str) -> CaseResult<Outcome> {
        only(self.say_by(by, text).await?, text)
    }

    /// As [`Shared::write_by`], by the agent `ada`.
    pub(crate) async fn write(&self, text: &str) -> CaseResult<Outcome> {
        self.write_by(&agent("ada"), text).await
    }

    /// As [`Shared::write`], observed at another time.
    pub(crate) async fn write_at(&self, text: &str, at: Timestamp) -> CaseResult<Outcome> {
        self.note(&agent("ada"), NoteSource::Agent, text, Some(at)).await?;
        only(self.promoted().await?, text)
    }

    /// From now on, this text is read as these requests.
    pub(crate) fn is_read_as(&self, text: &str, requests: Vec<WriteRequest>) {
        let mut told = self.script.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(text.to_owned(), Decision::Accept(requests));
    }

    /// A note with this text that is read as this request: what became of it.
    pub(crate) async fn read_as(&self, by: &Actor, text: &str, request: Value) -> CaseResult<Outcome> {
        self.is_read_as(text, vec![serde_json::from_value(request)?]);
        self.write_by(by, text).await
    }

    /// What becomes of a request by `ada`, whose note states it plainly.
    pub(crate) async fn ask(&self, request: Value) -> CaseResult<Outcome> {
        self.ask_by(&agent("ada"), request).await
    }

    /// As [`Shared::ask`], by another.
    pub(crate) async fn ask_by(&self, by: &Actor, request: Value) -> CaseResult<Outcome> {
        let id = request.get("target_id").and_then(Value::as_str).unwrap_or_default();
        let text = match request.get("operation").and_then(Value::as_str) {
            Some("resolve") => format!("{id} is resolved"),
            Some("invalidate") => format!("{id} is invalidated"),
            _ => {
                let bucket = request.get("bucket").and_then(Value::as_str).unwrap_or_default();
                format!("{bucket} {id} {request}")
            }
        };
        self.read_as(by, &text, request).await
    }

    /// Advances the clock by seconds, and retries what is due.
    pub(crate) async fn later(&self, seconds: u64) -> CaseResult {
        self.cx.advance_ms(seconds * 1_000);
        self.state.promote(0).await?;
        Ok(())
    }

    /// A row that must be there.
    pub(crate) async fn row(&self, bucket: Bucket, id: &str) -> CaseResult<Row> {
        Ok(expect_some!(self.state.row(bucket, id).await?, "the row {id} of {bucket}"))
    }

    /// The status of an issue.
    pub(crate) async fn issue(&self, id: &str) -> CaseResult<String> {
        Ok(self.row(Bucket::Issues, id).await?.status)
    }

    /// The number of rows in a table behind the stages; with a condition, of those that match it.
    pub(crate) async fn count(&self, table: &str) -> CaseResult<i64> {
        self.tables.count(table).await
    }

    /// Checks that the chain verifies, and that the tables match the events.
    pub(crate) async fn is_sound(&self) -> CaseResult {
        self.state.verify(None).await?;
        let rebuilt = self.state.rebuild().await?;
        check!(rebuilt.agrees(), "the tables are not what the events give: {rebuilt:?}");
        Ok(())
    }
}

/// The outcome of a note that asks for one write.
pub(crate) fn only(promotion: Promotion, text: &str) -> CaseResult<Outcome> {
    match <[Outcome; 1]>::try_from(promotion.outcomes) {
        Ok([outcome]) => Ok(outcome),
        Err(outcomes) => Err(Stop::failed(format_args!(
            "`{text}` asks for one write, and became {} ({:?})",
            shown(&outcomes),
            promotion.reason
        ))),
    }
}

/// The id of the deferred write that an outcome must be.
pub(crate) fn pending_of(outcome: &Outcome) -> CaseResult<&str> {
    match outcome {
        Outcome::Deferred { pending_id, .. } => Ok(pending_id),
        other => Err(Stop::failed(format_args!("expected a deferred write, got {}", shown(other)))),
    }
}

/// A request that creates or changes a row.
pub(crate) fn upsert(bucket: &str, id: &str, payload: Value) -> Value {
    json!({ "bucket": bucket, "operation": "upsert", "target_id": id, "payload": payload })
}

/// A request that adds a row.
pub(crate) fn append(bucket: &str, id: &str, payload: Value) -> Value {
    json!({ "bucket": bucket, "operation": "append", "target_id": id, "payload": payload })
}

/// A request that ends an issue.
pub(crate) fn resolve(id: &str) -> Value {
    json!({ "bucket": "issues", "operation": "resolve", "target_id": id })
}

/// A request that ends a constraint or a decision.
pub(crate) fn invalidate(bucket: &str, id: &str) -> Value {
    json!({ "bucket": bucket, "operation": "invalidate", "target_id": id })
}

/// The request with one more member.
pub(crate) fn having(mut request: Value, member: &str, value: Value) -> Value {
    if let Some(members) = request.as_object_mut() {
        members.insert(member.to_owned(), value);
    }
    request
}
