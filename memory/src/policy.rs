//! What the operator allows an agent.

use std::collections::BTreeSet;

use memory_core::limits::{MAX_PAGE, MAX_PAGE_BYTES};
use memory_core::sql::DEFAULT_MAX_ROWS;
use memory_core::{DriftPolicy, Quota, ScopeId, ScopeKind};
use serde::{Deserialize, Serialize};

/// Default limit of a call's input, in bytes.
pub const DEFAULT_MAX_INPUT_BYTES: usize = 16 << 20;
/// Default limit of an answer's rows.
pub const DEFAULT_MAX_ANSWER_ROWS: usize = MAX_PAGE;
/// Default limit of an answer, in bytes.
pub const DEFAULT_MAX_ANSWER_BYTES: usize = 1 << 20;
/// Lowest limit of an answer: enough for any refusal and for an entry without its value.
pub const MIN_ANSWER_BYTES: usize = 16 << 10;
/// Highest limit of an answer.
pub const MAX_ANSWER_BYTES: usize = 8 * MAX_PAGE_BYTES;
/// Highest limit of a call's input.
pub const MAX_INPUT_BYTES: usize = 128 << 20;

/// A tenant's shared space if none is named.
pub const DEFAULT_SPACE: &str = "shared";

/// What an agent may do with shared state (`docs/governed.md`). Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SharedAccess {
    /// Read: `shared`, `why`, and `pending` for its own writes that wait.
    Read,
    /// Write notes, with the trust of an agent.
    Note,
    /// End what others began and decide what waits: its notes have the trust of an authority.
    Authority,
    /// Have notes and rows forgotten, with everything derived from them: `forget_shared`.
    Forget,
}

/// What an agent may do with its own graph (`docs/hierarchical.md`). Each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GraphAccess {
    /// Recall from it: `recall_graph`.
    Read,
    /// Add memories and relate them: `remember` and `relate`.
    Add,
    /// Mark a memory as replaced by another; it then comes last in every recall.
    Supersede,
}

/// A tool that a model may be offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OfferedTool {
    /// The Memory tool (`docs/tool.md`).
    Memory,
    /// Files under `/memories` (`docs/files.md`).
    Files,
}

/// The operator's rules for one agent. Everything is denied by default.
///
/// Nothing that an agent sends can extend it: [`Policy::narrow`] is the only way to combine two, and it takes the
/// stricter of each rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Policy {
    /// Kinds of scope whose entries and facts the agent may use.
    pub memory_scopes: BTreeSet<ScopeKind>,
    /// Kinds of scope on whose database the agent may run SQL.
    pub sql_scopes: BTreeSet<ScopeKind>,
    /// What the agent may do with shared state; `None` for nothing.
    pub shared_state: Option<SharedAccess>,
    /// Its tenant's shared space; `None` for [`DEFAULT_SPACE`].
    pub shared_space: Option<ScopeId>,
    /// What the agent may do with its graph; `None` for nothing.
    pub graph: Option<GraphAccess>,
    /// The tools that its model is offered; `None` for the Memory tool only.
    pub tools: Option<BTreeSet<OfferedTool>>,
    /// Quota of each of its scopes, checked by the backend inside every write.
    pub quota: Quota,
    /// Quota of the database of each of its scopes, in bytes; `None` for the provider's own.
    pub sql_max_bytes: Option<u64>,
    /// The drift policy of writes; `None`: `row` if the backend serves it, otherwise `off`.
    pub drift: Option<DriftPolicy>,
    /// Most entries, hits, facts or rows of one answer: 1 to 10,000.
    pub max_rows: usize,
    /// Most bytes of one answer: 16 KiB to 64 MiB.
    pub max_answer_bytes: usize,
    /// Most bytes of one call's input: 16 KiB to 128 MiB.
    pub max_input_bytes: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            memory_scopes: BTreeSet::new(),
            sql_scopes: BTreeSet::new(),
            shared_state: None,
            shared_space: None,
            graph: None,
            tools: None,
            quota: Quota::default(),
            sql_max_bytes: None,
            drift: None,
            max_rows: DEFAULT_MAX_ANSWER_ROWS,
            max_answer_bytes: DEFAULT_MAX_ANSWER_BYTES,
            max_input_bytes: DEFAULT_MAX_INPUT_BYTES,
        }
    }
}

impl Policy {
    /// Allows nothing; the same as the default.
    #[must_use]
    pub fn deny_all() -> Self {
        Self::default()
    }

    memory_core::setters! {
        with_memory_scopes(memory_scopes: impl IntoIterator<Item = ScopeKind> => memory_scopes.into_iter().collect());
        with_sql_scopes(sql_scopes: impl IntoIterator<Item = ScopeKind> => sql_scopes.into_iter().collect());
        with_shared_state(shared_state: SharedAccess => Some(shared_state));
        with_shared_space(shared_space: ScopeId => Some(shared_space));
        with_graph(graph: GraphAccess => Some(graph));
        with_tools(tools: impl IntoIterator<Item = OfferedTool> => Some(tools.into_iter().collect()));
        with_quota(quota: Quota);
        with_sql_max_bytes(sql_max_bytes: u64 => Some(sql_max_bytes));
        /// [`MemoryTool::new`](crate::MemoryTool::new) refuses a backend that does not serve it.
        with_drift(drift: DriftPolicy => Some(drift));
        /// Clamped into 1 to 10,000.
        with_max_rows(max_rows: usize => max_rows.clamp(1, DEFAULT_MAX_ROWS));
        /// Clamped into 16 KiB to 64 MiB.
        with_max_answer_bytes(max_answer_bytes: usize => max_answer_bytes.clamp(MIN_ANSWER_BYTES, MAX_ANSWER_BYTES));
        /// Clamped into 16 KiB to 128 MiB.
        with_max_input_bytes(max_input_bytes: usize => max_input_bytes.clamp(MIN_ANSWER_BYTES, MAX_INPUT_BYTES));
    }

    /// The same with every size in range, since fields can be assigned directly.
    pub(crate) fn in_range(self) -> Self {
        let (rows, answer, input) = (self.max_rows, self.max_answer_bytes, self.max_input_bytes);
        self.with_max_rows(rows).with_max_answer_bytes(answer).with_max_input_bytes(input)
    }

    /// The name of the shared space.
    #[must_use]
    pub fn shared_space_name(&self) -> &str {
        self.shared_space.as_ref().map_or(DEFAULT_SPACE, ScopeId::as_str)
    }

    /// Whether its model is offered a tool.
    #[must_use]
    pub fn offers(&self, tool: OfferedTool) -> bool {
        self.tools.as_ref().map_or(tool == OfferedTool::Memory, |tools| tools.contains(&tool))
    }

    /// The stricter of both in every rule. If the two name different shared spaces, shared state is denied.
    #[must_use]
    pub fn narrow(&self, other: &Self) -> Self {
        let one_space = self.shared_space_name() == other.shared_space_name();
        Self {
            memory_scopes: self.memory_scopes.intersection(&other.memory_scopes).copied().collect(),
            sql_scopes: self.sql_scopes.intersection(&other.sql_scopes).copied().collect(),
            shared_state: self.shared_state.min(other.shared_state).filter(|_| one_space),
            shared_space: self
                .shared_space
                .clone()
                .or_else(|| other.shared_space.clone())
                .filter(|_| one_space),
            graph: self.graph.min(other.graph),
            tools: match (&self.tools, &other.tools) {
                (Some(own), Some(others)) => Some(own.intersection(others).copied().collect()),
                (tools, None) | (None, tools) => tools.clone(),
            },
            quota: Quota {
                max_entries: tighter(self.quota.max_entries, other.quota.max_entries),
                max_bytes: tighter(self.quota.max_bytes, other.quota.max_bytes),
            },
            sql_max_bytes: tighter(self.sql_max_bytes, other.sql_max_bytes),
            // Later variants are stricter, and an explicit policy overrides an unset one.
            drift: self.drift.max(other.drift),
            max_rows: self.max_rows.min(other.max_rows),
            max_answer_bytes: self.max_answer_bytes.min(other.max_answer_bytes),
            max_input_bytes: self.max_input_bytes.min(other.max_input_bytes),
        }
    }
}

/// The lower of two limits; `None` means unlimited.
pub(crate) fn tighter(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (limit, None) | (None, limit) => limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_denies_every_scope() {
        assert!(Policy::default().memory_scopes.is_empty() && Policy::default().sql_scopes.is_empty());
    }

    #[test]
    fn narrowing_allows_what_both_allow_in_one_space() {
        let policy = |access, space: &str| {
            Policy::default().with_shared_state(access).with_shared_space(space.parse().unwrap())
        };
        let (reads, rules) =
            (policy(SharedAccess::Read, "shared"), policy(SharedAccess::Authority, "shared"));
        assert_eq!(reads.narrow(&rules).shared_state, Some(SharedAccess::Read));
        assert_eq!(rules.narrow(&reads), reads.narrow(&rules));
        let unnamed = Policy::default().with_shared_state(SharedAccess::Note);
        assert_eq!(rules.narrow(&unnamed).shared_state, Some(SharedAccess::Note), "the default is named");
        let elsewhere = policy(SharedAccess::Authority, "team");
        for none in [rules.narrow(&elsewhere), unnamed.narrow(&elsewhere), rules.narrow(&Policy::default())] {
            assert_eq!(none.shared_state, None, "{none:?}");
        }
    }

    #[test]
    fn narrowing_takes_the_stricter_rule_each_time_and_is_symmetric() {
        let a = Policy::default()
            .with_memory_scopes([ScopeKind::Agent, ScopeKind::User])
            .with_sql_scopes([ScopeKind::Agent])
            .with_quota(Quota { max_entries: Some(10), max_bytes: None })
            .with_drift(DriftPolicy::Row)
            .with_graph(GraphAccess::Read)
            .with_max_rows(50);
        let b = Policy::default()
            .with_memory_scopes(ScopeKind::ALL)
            .with_quota(Quota { max_entries: Some(20), max_bytes: Some(5) })
            .with_sql_max_bytes(7)
            .with_drift(DriftPolicy::Strict)
            .with_graph(GraphAccess::Supersede)
            .with_max_answer_bytes(20_000);
        let both = a.narrow(&b);
        assert_eq!(both, b.narrow(&a));
        assert_eq!(both.memory_scopes, a.memory_scopes);
        assert!(both.sql_scopes.is_empty());
        assert_eq!(both.quota, Quota { max_entries: Some(10), max_bytes: Some(5) });
        assert_eq!((both.sql_max_bytes, both.drift), (Some(7), Some(DriftPolicy::Strict)));
        assert_eq!(a.narrow(&Policy::default()).drift, Some(DriftPolicy::Row));
        assert_eq!((both.graph, a.narrow(&Policy::default()).graph), (Some(GraphAccess::Read), None));
        assert_eq!((both.max_rows, both.max_answer_bytes), (50, 20_000));
        let files = Policy::default().with_tools([OfferedTool::Files]);
        assert!(files.offers(OfferedTool::Files) && !files.offers(OfferedTool::Memory));
        assert!(a.offers(OfferedTool::Memory) && !a.offers(OfferedTool::Files));
        assert_eq!(files.narrow(&a).tools, files.tools);
        assert_eq!(files.narrow(&a.with_tools([OfferedTool::Memory])).tools, Some(BTreeSet::new()));
    }
}
