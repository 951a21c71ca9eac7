//! Operations on shared state and graphs for programs: the tool's own, under their names, plus those of the operator's
//! commands, which models are not shown. The same rules apply to all of them.

use memory_core::{Error, Result, json};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::answer::{Budget, text};
use super::input::Call;
use super::input::fields::cut;
use super::memory_tool::MemoryTool;
use super::ops::ToolOp;
use crate::governed::{self, Anchor, Ledger, Review};
use crate::hierarchical::{self, Direction, EdgeKind, EntryQuery};
use crate::policy::SharedAccess;

/// Most notes that one `promote` takes.
const MAX_PROMOTED: usize = 1_000;
/// Edges that `neighbours` shows unless the call says.
const NEIGHBOURS: usize = 100;
/// Most entries that a store of sessions reads at a time.
const MAX_ENTRIES: usize = 10_000;

macro_rules! operations {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, as $like:ident;)*) => {
        /// An operation on shared state or on the graph of an agent, for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum StateOp {
            $($(#[doc = $doc])+ $name,)*
        }

        impl StateOp {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name; that of the tool's operation, if it is one.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it does, in one line.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii_start(),)* }
            }

            /// The tool operation whose permission a caller needs.
            #[must_use]
            pub const fn like(self) -> ToolOp {
                match self { $(Self::$name => ToolOp::$like,)* }
            }
        }
    };
}

operations! {
    /// Note what others should know, and learn what became of it.
    Note = "note", as Note;
    /// Promote notes that were only kept, the oldest first; for agents with `authority`.
    Promote = "promote", as Note;
    /// Read shared state: a bucket, or one row by `id`.
    Shared = "shared", as Shared;
    /// Tell why a row is so: its events, their notes, scores and writers.
    Why = "why", as Why;
    /// List writes that wait until it is certain which row they mean, or bind one.
    Pending = "pending", as Pending;
    /// Reject a write that waits; for agents with `authority`.
    Reject = "reject", as Pending;
    /// Forget a note (`note_id`), or a row (`bucket`, `id`), and all that was derived from it.
    ForgetShared = "forget_shared", as ForgetShared;
    /// Prove the ledger of shared state, since an anchor that was kept elsewhere.
    Verify = "verify", as Shared;
    /// Keep what the agent learned, or what happened, in its graph.
    Remember = "remember", as Remember;
    /// Say how two memories of the graph belong together.
    Relate = "relate", as Relate;
    /// Find memories of the graph by words, and along edges what belongs to them.
    RecallGraph = "recall_graph", as RecallGraph;
    /// The memories beside one.
    Neighbours = "neighbours", as RecallGraph;
    /// Count the memories and edges of the graph.
    GraphStats = "graph_stats", as RecallGraph;
    /// The sessions that the agent used, or what it stored in one.
    Sessions = "sessions", as RecallGraph;
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Promote {
    /// Most notes, up to 1,000; default 100.
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Reject {
    /// Id of a pending write.
    id: String,
    /// Why.
    reason: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Verify {
    /// The `anchor` that an earlier `verify` answered.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    anchor: Option<Anchor>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Way {
    Outgoing,
    Incoming,
    Both,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Neighbours {
    /// Id of a memory.
    memory_id: String,
    /// Which edges; default both.
    direction: Option<Way>,
    /// Most edges; default 100.
    limit: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GraphStats {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Sessions {
    /// The session whose entries are asked for; without it, the sessions.
    session_id: Option<String>,
    /// Most entries or sessions; default 100.
    limit: Option<usize>,
}

impl StateOp {
    /// The corresponding operation of the tool, if there is one.
    fn of_tool(self) -> Option<ToolOp> {
        Some(self.like()).filter(|like| like.as_str() == self.as_str())
    }

    /// The schema of its fields.
    pub fn fields_schema(self, generator: &mut SchemaGenerator) -> Schema {
        match self {
            Self::Promote => Promote::json_schema(generator),
            Self::Reject => Reject::json_schema(generator),
            Self::Verify => Verify::json_schema(generator),
            Self::Neighbours => Neighbours::json_schema(generator),
            Self::GraphStats => GraphStats::json_schema(generator),
            Self::Sessions => Sessions::json_schema(generator),
            _ => self.like().fields_schema(generator),
        }
    }
}

impl MemoryTool {
    /// Runs one operation on shared state or on the agent's graph. `fields` is a JSON object, and so is the answer.
    /// Policy, limits and [`MemoryTool::with_denied`] apply as for a call of the tool. Nothing is audited.
    ///
    /// # Errors
    /// The operation's errors; `invalid_argument` for malformed input; `scope_denied` by policy.
    pub async fn state(&self, op: StateOp, fields: &str) -> Result<String> {
        let limit = self.policy.max_input_bytes;
        if fields.len() > limit {
            return Err(Error::too_large("input", fields.len(), limit, "bytes"));
        }
        self.not_denied(op.like())?;
        if let Some(of_tool) = op.of_tool() {
            let call = Call::of(of_tool, fields)?;
            return match of_tool {
                ToolOp::Note => self.note(call.read()?).await,
                ToolOp::Shared => self.shared(call.read()?).await,
                ToolOp::Why => self.why(call.read()?).await,
                ToolOp::Pending => self.pending(call.read()?).await,
                ToolOp::ForgetShared => self.forget_shared(call.read()?).await,
                ToolOp::Remember => self.remember(call.read()?).await,
                ToolOp::Relate => self.relate(call.read()?).await,
                ToolOp::RecallGraph => self.recall_graph(call.read()?).await,
                other => Err(self.unsupported(other)),
            };
        }
        match op {
            StateOp::Promote => self.promote(read(op, fields)?).await,
            StateOp::Reject => self.reject(read(op, fields)?).await,
            StateOp::Verify => self.verify(read(op, fields)?).await,
            StateOp::Neighbours => self.neighbours(read(op, fields)?).await,
            StateOp::GraphStats => self.graph_stats(read(op, fields)?).await,
            StateOp::Sessions => self.sessions(read(op, fields)?).await,
            other => Err(self.unsupported(other.like())),
        }
    }

    /// Refuses an agent that may not decide about others' writes.
    fn decides(&self, op: StateOp) -> Result<()> {
        if self.policy.shared_state >= Some(SharedAccess::Authority) {
            return Ok(());
        }
        let name = op.as_str();
        let message =
            format!("only an agent whose `shared_state` is `authority` may `{name}`; ask the operator");
        Err(Error::scope_denied(message).with_detail("operation", name))
    }

    async fn promote(&self, op: Promote) -> Result<String> {
        self.decides(StateOp::Promote)?;
        let limit = op.limit.unwrap_or(100);
        if limit > MAX_PROMOTED {
            return Err(Error::too_large("limit", limit, MAX_PROMOTED, "notes"));
        }
        let (_, pipeline) = self.shared_space(ToolOp::Note).await?;
        text(&pipeline.promote(limit).await?)
    }

    async fn reject(&self, op: Reject) -> Result<String> {
        self.decides(StateOp::Reject)?;
        let (space, _) = self.shared_space(ToolOp::Pending).await?;
        text(&Review::new(governed::queue(&space)).reject(&op.id, &op.reason, &self.writer()).await?)
    }

    async fn verify(&self, op: Verify) -> Result<String> {
        let (space, _) = self.shared_space(ToolOp::Shared).await?;
        text(&Ledger::new(&space).verify(op.anchor.as_ref()).await?)
    }

    async fn neighbours(&self, op: Neighbours) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            neighbours: Vec<Box<RawValue>>,
            total: usize,
            truncated: bool,
        }
        let (graphs, agent) = self.own_graph(ToolOp::RecallGraph, StateOp::Neighbours.as_str()).await?;
        let direction = match op.direction {
            Some(Way::Outgoing) => Direction::Outgoing,
            Some(Way::Incoming) => Direction::Incoming,
            Some(Way::Both) | None => Direction::Both,
        };
        let limit = op.limit.unwrap_or(NEIGHBOURS).min(self.policy.max_rows);
        let memory = graphs.memory_of(agent);
        let found = memory.neighbours(&op.memory_id, direction, &EdgeKind::ALL, limit).await?;
        let neighbours = Budget::new(self.policy.max_answer_bytes).fit(&found.shown)?;
        text(&Answer { truncated: neighbours.len() < found.total, neighbours, total: found.total })
    }

    async fn graph_stats(&self, _: GraphStats) -> Result<String> {
        let (graphs, agent) = self.own_graph(ToolOp::RecallGraph, StateOp::GraphStats.as_str()).await?;
        text(&graphs.memory_of(agent).stats().await?)
    }

    async fn sessions(&self, op: Sessions) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            #[serde(skip_serializing_if = "Option::is_none")]
            sessions: Option<Vec<Box<RawValue>>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            entries: Option<Vec<Box<RawValue>>>,
            truncated: bool,
        }
        #[derive(Serialize)]
        struct Session<'a> {
            session_id: &'a str,
            created_at: &'a str,
            last_accessed: &'a str,
        }
        let (_, agent) = self.own_graph(ToolOp::RecallGraph, StateOp::Sessions.as_str()).await?;
        let store = hierarchical::sessions(&self.memory, &self.run.tenant).await?;
        let limit = op.limit.unwrap_or(100).min(self.policy.max_rows);
        let mut budget = Budget::new(self.policy.max_answer_bytes);
        if let Some(session) = op.session_id {
            // One more than is shown, to tell whether there are more.
            let mut query = EntryQuery::of(&agent).in_session(session);
            query.limit = limit.saturating_add(1).min(MAX_ENTRIES);
            let found = store.entries(&query).await?;
            let shown = budget.fit(found.get(..limit).unwrap_or(&found))?;
            return text(&Answer {
                truncated: shown.len() < found.len(),
                sessions: None,
                entries: Some(shown),
            });
        }
        let found = store.list().await?;
        // Who else used a session, and how much they stored in it, is none of this agent's business.
        let own: Vec<Session<'_>> = found
            .iter()
            .filter(|session| session.agents.iter().any(|name| name == agent.as_str()))
            .map(|session| Session {
                session_id: &session.session_id,
                created_at: &session.created_at,
                last_accessed: &session.last_accessed,
            })
            .collect();
        let shown = budget.fit(own.get(..limit).unwrap_or(&own))?;
        text(&Answer { truncated: shown.len() < own.len(), sessions: Some(shown), entries: None })
    }
}

fn read<'a, T: Deserialize<'a>>(op: StateOp, fields: &'a str) -> Result<T> {
    json::from_str(fields)
        .map_err(|error| Error::invalid(format!("`{}`: {}", op.as_str(), cut(&error.to_string()))))
}
