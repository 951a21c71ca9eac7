//! The rules in an agent's section, and the policy they result in.

use std::collections::BTreeSet;

use memory_core::sql::DEFAULT_MAX_ROWS;
use memory_core::{DriftPolicy, Error, Quota, Result, ScopeId, ScopeKind};

use super::file::{AgentSection, DefaultSection, LimitsSection};
use crate::policy::{
    GraphAccess, MAX_ANSWER_BYTES, MAX_INPUT_BYTES, MIN_ANSWER_BYTES, OfferedTool, Policy, SharedAccess,
    tighter,
};

/// The rules that both `[default]` and `[agents.NAME]` may contain.
#[derive(Clone, Debug, Default)]
pub(in crate::config) struct Rules {
    pub(in crate::config) memory_scopes: Option<BTreeSet<ScopeKind>>,
    pub(in crate::config) sql_scopes: Option<BTreeSet<ScopeKind>>,
    pub(in crate::config) shared_state: Option<SharedAccess>,
    pub(in crate::config) shared_space: Option<ScopeId>,
    pub(in crate::config) graph: Option<GraphAccess>,
    tools: Option<BTreeSet<OfferedTool>>,
    quota: Option<Quota>,
    sql_max_bytes: Option<u64>,
    drift: Option<DriftPolicy>,
    max_rows: Option<usize>,
    max_answer_bytes: Option<usize>,
}

macro_rules! rules_of {
    ($section:ty) => {
        impl $section {
            pub(in crate::config) fn rules(&self) -> Rules {
                Rules {
                    memory_scopes: self.memory_scopes.clone(),
                    sql_scopes: self.sql_scopes.clone(),
                    shared_state: self.shared_state,
                    shared_space: self.shared_space.clone(),
                    graph: self.graph,
                    tools: self.tools.clone(),
                    quota: self.quota,
                    sql_max_bytes: self.sql_max_bytes,
                    drift: self.drift,
                    max_rows: self.max_rows,
                    max_answer_bytes: self.max_answer_bytes,
                }
            }
        }
    };
}

rules_of!(DefaultSection);
rules_of!(AgentSection);

impl Rules {
    /// These rules, completed by `other`.
    pub(in crate::config) fn over(self, other: &Self) -> Self {
        Self {
            memory_scopes: self.memory_scopes.or_else(|| other.memory_scopes.clone()),
            sql_scopes: self.sql_scopes.or_else(|| other.sql_scopes.clone()),
            shared_state: self.shared_state.or(other.shared_state),
            shared_space: self.shared_space.or_else(|| other.shared_space.clone()),
            graph: self.graph.or(other.graph),
            tools: self.tools.or_else(|| other.tools.clone()),
            quota: complete(self.quota, other.quota),
            sql_max_bytes: self.sql_max_bytes.or(other.sql_max_bytes),
            drift: self.drift.or(other.drift),
            max_rows: self.max_rows.or(other.max_rows),
            max_answer_bytes: self.max_answer_bytes.or(other.max_answer_bytes),
        }
    }

    /// Scopes are denied by default; sizes that are not set are those of the ceiling.
    pub(in crate::config) fn policy(self, ceiling: &Policy) -> Policy {
        Policy {
            memory_scopes: self.memory_scopes.unwrap_or_default(),
            sql_scopes: self.sql_scopes.unwrap_or_default(),
            shared_state: self.shared_state,
            shared_space: self.shared_space,
            graph: self.graph,
            tools: self.tools,
            quota: self.quota.unwrap_or_default(),
            sql_max_bytes: self.sql_max_bytes,
            drift: self.drift,
            max_rows: self.max_rows.unwrap_or(ceiling.max_rows),
            max_answer_bytes: self.max_answer_bytes.unwrap_or(ceiling.max_answer_bytes),
            max_input_bytes: ceiling.max_input_bytes,
        }
    }

    /// Refuses values that are out of range or that `[limits]` would silently lower.
    pub(in crate::config) fn check(&self, place: &str, limits: &LimitsSection) -> Result<()> {
        check_range(place, "max_rows", self.max_rows, 1, DEFAULT_MAX_ROWS)?;
        check_range(place, "max_answer_bytes", self.max_answer_bytes, MIN_ANSWER_BYTES, MAX_ANSWER_BYTES)?;
        if let (Some(own), Some(least)) = (self.drift, limits.drift)
            && own < least
        {
            return Err(Error::invalid(format!(
                "`drift` under {place} is `{own}`, less strict than `{least}` under [limits]; make it stricter, or relax [limits]"
            )));
        }
        let quota = self.quota.unwrap_or_default();
        for (name, own, limit) in [
            ("max_rows", wide(self.max_rows), wide(Some(limits.max_rows))),
            ("max_answer_bytes", wide(self.max_answer_bytes), wide(Some(limits.max_answer_bytes))),
            ("sql_max_bytes", self.sql_max_bytes, limits.sql_max_bytes),
            ("quota.max_entries", quota.max_entries, limits.quota.max_entries),
            ("quota.max_bytes", quota.max_bytes, limits.quota.max_bytes),
        ] {
            if let Some(own) = own
                && tighter(Some(own), limit) != Some(own)
            {
                return Err(Error::invalid(format!(
                    "`{name}` under {place} exceeds the one under [limits]; lower it or raise the limit"
                )));
            }
        }
        Ok(())
    }
}

impl LimitsSection {
    pub(in crate::config) fn check(&self) -> Result<()> {
        check_range("[limits]", "max_rows", Some(self.max_rows), 1, DEFAULT_MAX_ROWS)?;
        let bytes = Some(self.max_answer_bytes);
        check_range("[limits]", "max_answer_bytes", bytes, MIN_ANSWER_BYTES, MAX_ANSWER_BYTES)?;
        let bytes = Some(self.max_input_bytes);
        check_range("[limits]", "max_input_bytes", bytes, MIN_ANSWER_BYTES, MAX_INPUT_BYTES)
    }
}

fn wide(limit: Option<usize>) -> Option<u64> {
    limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX))
}

fn check_range(place: &str, name: &str, value: Option<usize>, low: usize, high: usize) -> Result<()> {
    match value {
        Some(value) if !(low..=high).contains(&value) => {
            Err(Error::invalid(format!("`{name}` under {place} is {value}; it must be {low} to {high}")))
        }
        _ => Ok(()),
    }
}

/// A quota with its missing limits taken from `other`.
fn complete(quota: Option<Quota>, other: Option<Quota>) -> Option<Quota> {
    match (quota, other) {
        (Some(own), Some(other)) => Some(Quota {
            max_entries: own.max_entries.or(other.max_entries),
            max_bytes: own.max_bytes.or(other.max_bytes),
        }),
        (own, other) => own.or(other),
    }
}
