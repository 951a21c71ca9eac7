//! What an agent can ask about its own memory.

use std::collections::BTreeSet;

use memory_core::{Capabilities, DriftPolicy, Quota, Result, ScopeKind, SqlDialect};
use serde::Serialize;
use serde_json::value::RawValue;

use super::answer::{Budget, text};
use super::memory_tool::MemoryTool;
use super::ops::{DEFAULT_SCOPE, Describe, ListScopes, ToolOp};
use crate::policy::{GraphAccess, SharedAccess};

impl MemoryTool {
    pub(super) async fn list_scopes(&self, op: ListScopes) -> Result<String> {
        #[derive(Serialize)]
        struct Answer {
            scopes: Vec<Row>,
        }
        #[derive(Serialize)]
        struct Row {
            scope: ScopeKind,
            durable: bool,
            memory: bool,
            sql: bool,
            #[serde(skip_serializing_if = "Option::is_none")]
            entries: Option<u64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            bytes: Option<u64>,
        }
        let mut scopes = Vec::new();
        for kind in ScopeKind::ALL.into_iter().filter(|kind| op.scope.is_none_or(|asked| asked == *kind)) {
            let memory = self.memory_kinds().contains(&kind);
            let sql = self.sql_kinds().contains(&kind);
            if !memory && !sql {
                continue;
            }
            let mut row =
                Row { scope: kind, durable: kind.is_durable(), memory, sql, entries: None, bytes: None };
            if memory
                && self.memory.capabilities().stats
                && let (Some(backend), Some(scope)) = (self.memory.backend(), self.run.scope(kind))
            {
                let stats = backend.stats(&scope).await?;
                (row.entries, row.bytes) = (Some(stats.entries), Some(stats.bytes));
            }
            scopes.push(row);
        }
        text(&Answer { scopes })
    }

    pub(super) async fn describe(&self, op: Describe) -> Result<String> {
        #[derive(Serialize)]
        struct Answer<'a> {
            provider: &'a str,
            ops: Vec<ToolOp>,
            scopes: Scopes,
            default_scope: ScopeKind,
            #[serde(skip_serializing_if = "Option::is_none")]
            shared_state: Option<SharedAccess>,
            #[serde(skip_serializing_if = "Option::is_none")]
            graph: Option<GraphAccess>,
            limits: Limits,
            capabilities: &'a Capabilities,
            #[serde(skip_serializing_if = "Option::is_none")]
            sql_dialect: Option<SqlDialect>,
            #[serde(skip_serializing_if = "Option::is_none")]
            tables: Option<Vec<Box<RawValue>>>,
            truncated: bool,
        }
        #[derive(Serialize)]
        struct Scopes {
            memory: BTreeSet<ScopeKind>,
            sql: BTreeSet<ScopeKind>,
        }
        #[derive(Serialize)]
        struct Limits {
            max_input_bytes: usize,
            max_answer_bytes: usize,
            max_rows: usize,
            quota: Quota,
            #[serde(skip_serializing_if = "Option::is_none")]
            sql_max_bytes: Option<u64>,
            drift: DriftPolicy,
        }
        let capabilities = self.memory.capabilities();
        let mut truncated = false;
        let mut tables = None;
        if let Some(kind) = op.scope
            && self.sql_kinds().contains(&kind)
            && let (Some(sql), Some(scope)) = (self.memory.sql(), self.run.scope(kind))
        {
            let all = sql.describe_tables(&self.run, &scope).await?;
            let kept = Budget::new(self.policy.max_answer_bytes / 2).fit(&all)?;
            truncated = kept.len() < all.len();
            tables = Some(kept);
        } else if op.scope.is_some() {
            self.any_scope(op.scope)?;
        }
        text(&Answer {
            provider: self.memory.name(),
            ops: self.ops(),
            scopes: Scopes { memory: self.memory_kinds(), sql: self.sql_kinds() },
            default_scope: DEFAULT_SCOPE,
            shared_state: self.policy.shared_state.filter(|_| self.serves(ToolOp::Shared, &capabilities)),
            graph: self.policy.graph.filter(|_| self.serves(ToolOp::RecallGraph, &capabilities)),
            limits: Limits {
                max_input_bytes: self.policy.max_input_bytes,
                max_answer_bytes: self.policy.max_answer_bytes,
                max_rows: self.policy.max_rows,
                quota: self.policy.quota,
                sql_max_bytes: self.policy.sql_max_bytes,
                drift: self.drift.policy(),
            },
            sql_dialect: capabilities.sql_dialect,
            capabilities: &capabilities,
            tables,
            truncated,
        })
    }

    /// Kinds of scope whose entries or facts this run may use and the backend serves.
    pub(crate) fn memory_kinds(&self) -> BTreeSet<ScopeKind> {
        let capabilities = self.memory.capabilities();
        if capabilities.kv || capabilities.memory_layer {
            self.usable(&self.policy.memory_scopes)
        } else {
            BTreeSet::new()
        }
    }

    /// Kinds of scope with a database that this run may use and the backend serves.
    pub(super) fn sql_kinds(&self) -> BTreeSet<ScopeKind> {
        if self.memory.capabilities().sql { self.usable(&self.policy.sql_scopes) } else { BTreeSet::new() }
    }

    /// Whether an operation is served and allowed in at least one scope.
    pub(crate) fn serves(&self, op: ToolOp, capabilities: &Capabilities) -> bool {
        if self.denied.contains(&op) {
            return false;
        }
        let memory = !self.memory_kinds().is_empty();
        let sql = !self.sql_kinds().is_empty();
        match op {
            ToolOp::Get
            | ToolOp::Set
            | ToolOp::Delete
            | ToolOp::List
            | ToolOp::Incr
            | ToolOp::Update
            | ToolOp::BulkInsert => memory && capabilities.kv,
            ToolOp::Search => memory && (capabilities.lexical_search || capabilities.vector_search),
            ToolOp::Add | ToolOp::Recall | ToolOp::Facts => memory && capabilities.memory_layer,
            ToolOp::Event => memory && capabilities.layer_events,
            ToolOp::Forget => memory && capabilities.layer_forget,
            ToolOp::SqlExec | ToolOp::SqlQuery => sql,
            ToolOp::SqlBegin | ToolOp::SqlCommit | ToolOp::SqlRollback => {
                sql && capabilities.sql_transactions
            }
            ToolOp::Note | ToolOp::Shared | ToolOp::Why | ToolOp::Pending | ToolOp::ForgetShared => {
                cfg!(feature = "governed") && capabilities.host_tables && self.granted(op).is_ok()
            }
            ToolOp::Remember | ToolOp::Relate | ToolOp::RecallGraph => {
                cfg!(feature = "hierarchical") && capabilities.host_tables && self.granted(op).is_ok()
            }
            ToolOp::ListScopes | ToolOp::Describe => true,
        }
    }
}
