//! Capabilities of a provider, and its limits.

use serde::{Deserialize, Serialize};

use crate::lifecycle::drift::DriftPolicy;
use crate::limits::{DEFAULT_MAX_TOP_K, DEFAULT_MAX_VALUE_BYTES, MAX_KEY_BYTES};

/// When a write becomes visible to reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Consistency {
    /// Every later read sees an acknowledged write, search included.
    #[default]
    ReadYourWrites,
    /// An acknowledged write is seen after an unbounded delay.
    Eventual,
}

/// Who computes embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EmbeddingOwner {
    /// Nobody: no vectors.
    #[default]
    None,
    /// The provider, through the configured [`Embedder`](crate::Embedder).
    Embedder,
    /// The remote service, with its own model.
    Remote,
}

/// The SQL dialect an agent writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SqlDialect {
    /// SQLite's.
    Sqlite,
    /// PostgreSQL's.
    Postgres,
}

/// What a provider serves: flags and limits. Everything advertised is served and nothing else; the conformance suite
/// proves both.
///
/// Built by changing [`Capabilities::none`]:
/// ```
/// use memory_core::Capabilities;
/// let mut capabilities = Capabilities::none();
/// capabilities.kv = true;
/// capabilities.compare_and_set = true;
/// assert!(!capabilities.sql);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Capabilities {
    /// Serves [`Backend`](crate::Backend): `get` to `bulk_insert`, `scopes`, `drop_scope`, export and import.
    pub kv: bool,
    /// Serves `search` by words.
    pub lexical_search: bool,
    /// Serves `search` by vectors, embedding on write, and `reembed`.
    pub vector_search: bool,
    /// Serves `stats`.
    pub stats: bool,
    /// Serves [`Expect`](crate::Expect) other than `Any`.
    pub compare_and_set: bool,
    /// Serves [`Quota`](crate::Quota) inside the write's own transaction.
    pub quotas: bool,
    /// Drift policies served besides `off`, loosest first; empty: none. If not empty, `drift_state` is served.
    #[serde(default)]
    pub drift: Vec<DriftPolicy>,
    /// Serves [`Atomicity`](crate::Atomicity) other than `Record`: a scope is imported as a whole or not at all.
    #[serde(default)]
    pub atomic_import: bool,
    /// Serves [`Provider::tenants`](crate::Provider::tenants).
    #[serde(default)]
    pub tenants: bool,
    /// Serves [`Provider::read_snapshot`](crate::Provider::read_snapshot). On the wire it is `moment`.
    #[serde(default, rename = "moment")]
    pub read_snapshot: bool,
    /// Serves [`Provider::erase`](crate::Provider::erase), `tombstones` and `bury`, and imports that say how old they
    /// are ([`Taken`](crate::Taken)); with `sql`, also restores.
    #[serde(default)]
    pub erase: bool,
    /// Serves [`scope_uses`](crate::Provider::scope_uses), [`evict`](crate::Provider::evict) and
    /// [`reclaim`](crate::Provider::reclaim).
    #[serde(default)]
    pub eviction: bool,
    /// Refuses writes to the scope of an ended run.
    #[serde(default)]
    pub run_fence: bool,
    /// Serves [`MemoryLayer`](crate::MemoryLayer).
    pub memory_layer: bool,
    /// What `add` stored is recallable when it returns.
    pub layer_sync: bool,
    /// Serves `event`.
    pub layer_events: bool,
    /// Serves `forget`.
    pub layer_forget: bool,
    /// Serves [`AddOptions::infer`](crate::layer::AddOptions::infer) `false`: stores words as they are.
    #[serde(default)]
    pub layer_verbatim: bool,
    /// Stores the metadata of an `add` with its facts.
    #[serde(default)]
    pub layer_metadata: bool,
    /// Serves [`RecallQuery::threshold`](crate::layer::RecallQuery::threshold).
    #[serde(default)]
    pub layer_threshold: bool,
    /// `add` and `event` name the facts that were stored.
    #[serde(default)]
    pub layer_ids: bool,
    /// The same message added twice is one fact, and what was forgotten is left out unless `again` asks for it.
    #[serde(default)]
    pub layer_idempotent: bool,
    /// Serves [`AddOptions::supersedes`](crate::layer::AddOptions::supersedes) and
    /// [`RecallQuery::as_of`](crate::layer::RecallQuery::as_of).
    #[serde(default)]
    pub layer_supersede: bool,
    /// Serves [`AddOptions::confirms`](crate::layer::AddOptions::confirms) and
    /// [`RecallQuery::unconfirmed_since`](crate::layer::RecallQuery::unconfirmed_since).
    #[serde(default)]
    pub layer_confirm: bool,
    /// Serves [`AddOptions::ttl`](crate::layer::AddOptions::ttl).
    #[serde(default)]
    pub layer_expiry: bool,
    /// Serves [`FactsQuery::session`](crate::layer::FactsQuery::session).
    #[serde(default)]
    pub layer_sessions: bool,
    /// Serves [`SqlFacet`](crate::SqlFacet).
    pub sql: bool,
    /// Its dialect, if `sql`.
    pub sql_dialect: Option<SqlDialect>,
    /// Serves `begin`, `commit`, `rollback`.
    pub sql_transactions: bool,
    /// Serves `{"$embed": …}` arguments and vector functions.
    pub sql_vectors: bool,
    /// The scope's entries are a read-only table of its SQL database.
    pub sql_entries: bool,
    /// Operator-provided read-only data is visible from every scope.
    pub shared_schemas: bool,
    /// Serves SQL on the runtime's own scopes ([`Scope::host`](crate::Scope::host)), where no rule about agents'
    /// statements applies: triggers and constraints may be used.
    #[serde(default)]
    pub host_tables: bool,
    /// When writes become visible.
    pub consistency: Consistency,
    /// Who embeds.
    pub embedding: EmbeddingOwner,
    /// Longest key, in bytes.
    pub max_key_bytes: usize,
    /// Longest value, in bytes of JSON text.
    pub max_value_bytes: usize,
    /// Most hits of one search.
    pub max_top_k: usize,
}

impl Capabilities {
    /// Nothing served, default limits.
    #[must_use]
    pub fn none() -> Self {
        Self {
            kv: false,
            lexical_search: false,
            vector_search: false,
            stats: false,
            compare_and_set: false,
            quotas: false,
            drift: Vec::new(),
            atomic_import: false,
            tenants: false,
            read_snapshot: false,
            erase: false,
            eviction: false,
            run_fence: false,
            memory_layer: false,
            layer_sync: false,
            layer_events: false,
            layer_forget: false,
            layer_verbatim: false,
            layer_metadata: false,
            layer_threshold: false,
            layer_ids: false,
            layer_idempotent: false,
            layer_supersede: false,
            layer_confirm: false,
            layer_expiry: false,
            layer_sessions: false,
            sql: false,
            sql_dialect: None,
            sql_transactions: false,
            sql_vectors: false,
            sql_entries: false,
            shared_schemas: false,
            host_tables: false,
            consistency: Consistency::ReadYourWrites,
            embedding: EmbeddingOwner::None,
            max_key_bytes: MAX_KEY_BYTES,
            max_value_bytes: DEFAULT_MAX_VALUE_BYTES,
            max_top_k: DEFAULT_MAX_TOP_K,
        }
    }

    /// Describes contradictions between flags; empty for a consistent set.
    #[must_use]
    pub fn contradictions(&self) -> Vec<&'static str> {
        let rules = [
            (self.lexical_search && !self.kv, "lexical_search without kv"),
            (self.vector_search && !self.kv, "vector_search without kv"),
            (self.stats && !self.kv, "stats without kv"),
            (self.compare_and_set && !self.kv, "compare_and_set without kv"),
            (self.quotas && !self.kv, "quotas without kv"),
            (!self.drift.is_empty() && !self.kv, "drift without kv"),
            (self.drift.contains(&DriftPolicy::Off), "drift lists `off`, which is not a check"),
            (self.atomic_import && !self.kv, "atomic_import without kv"),
            (self.tenants && !(self.kv || self.sql), "tenants without kv and sql"),
            (self.read_snapshot && !(self.kv && self.tenants), "moment without kv and tenants"),
            (self.erase && !(self.kv || self.sql), "erase without kv and sql"),
            (self.eviction && !(self.kv || self.sql), "eviction without kv and sql"),
            (self.run_fence && !(self.kv || self.sql), "run_fence without kv and sql"),
            (self.layer_sync && !self.memory_layer, "layer_sync without memory_layer"),
            (self.layer_events && !self.memory_layer, "layer_events without memory_layer"),
            (self.layer_forget && !self.memory_layer, "layer_forget without memory_layer"),
            (self.layer_verbatim && !self.memory_layer, "layer_verbatim without memory_layer"),
            (self.layer_metadata && !self.memory_layer, "layer_metadata without memory_layer"),
            (self.layer_threshold && !self.memory_layer, "layer_threshold without memory_layer"),
            (self.layer_ids && !self.memory_layer, "layer_ids without memory_layer"),
            (self.layer_idempotent && !self.memory_layer, "layer_idempotent without memory_layer"),
            (self.layer_supersede && !self.memory_layer, "layer_supersede without memory_layer"),
            (self.layer_confirm && !self.memory_layer, "layer_confirm without memory_layer"),
            (self.layer_expiry && !self.memory_layer, "layer_expiry without memory_layer"),
            (self.layer_sessions && !self.memory_layer, "layer_sessions without memory_layer"),
            (self.sql != self.sql_dialect.is_some(), "sql and sql_dialect disagree"),
            (self.sql_transactions && !self.sql, "sql_transactions without sql"),
            (self.sql_vectors && !self.sql, "sql_vectors without sql"),
            (self.sql_entries && !(self.sql && self.kv), "sql_entries without sql and kv"),
            (self.shared_schemas && !self.sql, "shared_schemas without sql"),
            (self.host_tables && !self.sql_transactions, "host_tables without sql_transactions"),
            (
                self.kv && self.vector_search != (self.embedding != EmbeddingOwner::None),
                "vector_search and embedding disagree",
            ),
        ];
        rules.into_iter().filter_map(|(broken, rule)| broken.then_some(rule)).collect()
    }
}
