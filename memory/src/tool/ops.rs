//! The operations of the tool and the fields of each: the JSON Schema is generated from these types.

use memory_core::json::JsonKind;
use memory_core::layer::Message;
use memory_core::sql::SqlValue;
use memory_core::{Dedup, Filter, Json, Metadata, RankOptions, ScopeKind, SearchMode};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

macro_rules! operations {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal: $fields:ty;)*) => {
        /// An operation of the Memory tool.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[non_exhaustive]
        pub enum ToolOp {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $name,)*
        }

        impl ToolOp {
            /// Every operation, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it does, in one line.
            #[must_use]
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii_start(),)* }
            }

            pub(super) fn fields_schema(self, generator: &mut SchemaGenerator) -> Schema {
                match self { $(Self::$name => <$fields>::json_schema(generator),)* }
            }
        }
    };
}

operations! {
    /// Read one entry.
    Get = "get": Get;
    /// Write one entry, whole.
    Set = "set": Set;
    /// Delete one entry.
    Delete = "delete": Delete;
    /// List entries by key, a page at a time.
    List = "list": List;
    /// Find entries by words or meaning.
    Search = "search": Search;
    /// Add to an integer, atomically.
    Incr = "incr": Incr;
    /// Change a value in place, atomically: `merge`, `append` or `push`.
    Update = "update": Update;
    /// Write many entries, all or none.
    BulkInsert = "bulk_insert": BulkInsert;
    /// Hand over messages to be remembered as facts.
    Add = "add": Add;
    /// Find remembered facts.
    Recall = "recall": Recall;
    /// List remembered facts, a page at a time.
    Facts = "facts": ListFacts;
    /// Tell what became of an `add` that was pending.
    Event = "event": Event;
    /// Forget facts, by `ids` or `all`.
    Forget = "forget": Forget;
    /// Run one SQL statement that may write.
    SqlExec = "sql_exec": SqlStatement;
    /// Run one SQL statement that only reads.
    SqlQuery = "sql_query": SqlStatement;
    /// Open a transaction, or a savepoint in the open one.
    SqlBegin = "sql_begin": SqlTransaction;
    /// Commit the innermost level.
    SqlCommit = "sql_commit": SqlTransaction;
    /// Roll the innermost level back.
    SqlRollback = "sql_rollback": SqlTransaction;
    /// List the scopes that may be used.
    ListScopes = "list_scopes": ListScopes;
    /// Tell what is served and allowed, and within which limits.
    Describe = "describe": Describe;
}

/// A lifetime in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TtlWord {
    Keep,
    Never,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Get {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// Name of the entry: 1 to 1,024 bytes.
    pub(super) key: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Set {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// Name of the entry: 1 to 1,024 bytes.
    pub(super) key: String,
    /// Any JSON value; kept exactly as written.
    #[schemars(with = "serde_json::Value")]
    pub(super) value: Json,
    /// Lifetime in seconds, above 0.
    pub(super) ttl_seconds: Option<f64>,
    /// `keep` (default) leaves the expiry as it is, `never` clears it.
    pub(super) ttl: Option<TtlWord>,
    /// Flat labels (boolean, number, string) that filters can ask about.
    pub(super) metadata: Option<Metadata>,
    /// Where it comes from, as `chat` or `tool:web`.
    pub(super) source: Option<String>,
    /// Text to search instead of the value's own words.
    pub(super) text: Option<String>,
    /// Only if this version is stored now.
    #[serde(default, deserialize_with = "whole")]
    pub(super) if_version: Option<u64>,
    /// Only if no entry is stored now.
    pub(super) if_absent: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// Name of the entry: 1 to 1,024 bytes.
    pub(super) key: String,
    /// Only if this version is stored now.
    #[serde(default, deserialize_with = "whole")]
    pub(super) if_version: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// Only keys that begin so.
    pub(super) prefix: Option<String>,
    /// Condition, as {"eq":["metadata.city","Oslo"]}; also ne, lt, lte, gt, gte, in, exists, and, or, not; fields metadata.NAME, source, created_at, updated_at, expires_at.
    pub(super) filter: Option<Filter>,
    /// list, facts: most of the page, default 100. update: elements that `push` keeps.
    #[serde(default, deserialize_with = "whole")]
    pub(super) limit: Option<usize>,
    /// `next` of the page before.
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// What to look for, in plain words.
    pub(super) query: String,
    /// Default `auto`.
    pub(super) mode: Option<SearchMode>,
    /// Only keys that begin so.
    pub(super) prefix: Option<String>,
    /// Condition, as {"eq":["metadata.city","Oslo"]}; also ne, lt, lte, gt, gte, in, exists, and, or, not; fields metadata.NAME, source, created_at, updated_at, expires_at.
    pub(super) filter: Option<Filter>,
    /// Most hits; default 10.
    #[serde(default, deserialize_with = "whole")]
    pub(super) top_k: Option<usize>,
    /// Leave out hits with a lower score, 0 to 1.
    pub(super) threshold: Option<f64>,
    /// Weights of the order: similarity, recency, frequency, source, half_life_seconds, source_weights, fusion.
    pub(super) rank: Option<RankOptions>,
    /// Near-duplicates: {"threshold":0.92,"policy":"drop"}; also merge, keep.
    pub(super) dedup: Option<Dedup>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Incr {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// Name of the entry: 1 to 1,024 bytes.
    pub(super) key: String,
    /// What to add; default 1.
    #[serde(default, deserialize_with = "whole")]
    pub(super) by: Option<i64>,
    /// Lifetime in seconds, above 0.
    pub(super) ttl_seconds: Option<f64>,
    /// `keep` (default) leaves the expiry as it is, `never` clears it.
    pub(super) ttl: Option<TtlWord>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Update {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// Name of the entry: 1 to 1,024 bytes.
    pub(super) key: String,
    /// Object to merge into the stored object, at every depth.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub(super) merge: Option<Json>,
    /// Element to append to the stored list unless an equal one is there.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "serde_json::Value")]
    pub(super) append: Option<Json>,
    /// Element to append to the stored list; then the oldest are dropped until `limit` are left.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "serde_json::Value")]
    pub(super) push: Option<Json>,
    /// list, facts: most of the page, default 100. update: elements that `push` keeps.
    #[serde(default, deserialize_with = "whole")]
    pub(super) limit: Option<usize>,
    /// Lifetime in seconds, above 0.
    pub(super) ttl_seconds: Option<f64>,
    /// `keep` (default) leaves the expiry as it is, `never` clears it.
    pub(super) ttl: Option<TtlWord>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkInsert {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// Entries to write, each with the fields of `set`.
    pub(super) items: Vec<BulkItem>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BulkItem {
    pub(super) key: String,
    #[schemars(with = "serde_json::Value")]
    pub(super) value: Json,
    pub(super) ttl_seconds: Option<f64>,
    pub(super) ttl: Option<TtlWord>,
    pub(super) metadata: Option<Metadata>,
    pub(super) source: Option<String>,
    pub(super) text: Option<String>,
    #[serde(default, deserialize_with = "whole")]
    pub(super) if_version: Option<u64>,
    pub(super) if_absent: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Add {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// What was said: role, content; optional name and at (RFC 3339).
    pub(super) messages: Vec<Message>,
    /// Extract facts (default true) or store the words as they are.
    pub(super) infer: Option<bool>,
    /// Flat labels (boolean, number, string) that filters can ask about.
    pub(super) metadata: Option<Metadata>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Recall {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// What to look for, in plain words.
    pub(super) query: String,
    /// Most hits; default 10.
    #[serde(default, deserialize_with = "whole")]
    pub(super) top_k: Option<usize>,
    /// Leave out hits with a lower score, 0 to 1.
    pub(super) threshold: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFacts {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// list, facts: most of the page, default 100. update: elements that `push` keeps.
    #[serde(default, deserialize_with = "whole")]
    pub(super) limit: Option<usize>,
    /// `next` of the page before.
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Event {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// `event` of a pending `add`.
    pub(super) event: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Forget {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// Ids of facts, as `recall` gave them.
    pub(super) ids: Option<Vec<String>>,
    /// Forget every fact of the scope.
    pub(super) all: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SqlStatement {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// One SQL statement, with `?` or `$1` for arguments.
    pub(super) sql: String,
    /// Values for the placeholders, in order.
    #[schemars(with = "Option<Vec<serde_json::Value>>")]
    pub(super) args: Option<Vec<SqlValue>>,
    /// A transaction that `sql_begin` named; default: the open one.
    pub(super) tx: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SqlTransaction {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
    /// A transaction that `sql_begin` named; default: the open one.
    pub(super) tx: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListScopes {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Describe {
    /// Whose memory; default `agent`.
    pub(super) scope: Option<ScopeKind>,
}

/// A whole number, also where a client has no integers and writes `10.0`; exact up to 2^53 then.
fn whole<'de, D: Deserializer<'de>, T: TryFrom<i64>>(deserializer: D) -> Result<Option<T>, D::Error> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let json = <Json as Deserialize>::deserialize(deserializer)?;
    let number = match json.kind() {
        JsonKind::Null => return Ok(None),
        JsonKind::Number => json.as_i64_exact().or_else(|| {
            let float: f64 = json.as_str().parse().ok()?;
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the range and the missing fraction are checked"
            )]
            let whole = float as i64;
            (json.as_str().contains(['.', 'e', 'E']) && float.abs() <= EXACT && float.fract() == 0.0)
                .then_some(whole)
        }),
        _ => None,
    };
    number.and_then(|number| T::try_from(number).ok()).map(Some).ok_or_else(|| {
        let least = if T::try_from(-1).is_ok() { "" } else { ", 0 or more" };
        D::Error::custom(format!("expected a whole number{least}"))
    })
}

/// `null` is a value here, not an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    <Json as Deserialize>::deserialize(deserializer).map(Some)
}
