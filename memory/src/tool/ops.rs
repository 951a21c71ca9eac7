//! The operations of the tool and the fields of each: the JSON Schema is generated from these types.

use memory_core::json::{JsonKind, from_str};
use memory_core::layer::Message;
use memory_core::sql::SqlValue;
use memory_core::{Dedup, Filter, Json, Metadata, RankOptions, ScopeKind, SearchMode, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};

use super::input::fields::Fields;

/// The scope of a call that names none.
pub const DEFAULT_SCOPE: ScopeKind = ScopeKind::Agent;

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

            /// Its name in calls.
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
    /// Find remembered facts; without `scope` in every scope you may use.
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
    /// Note what others should know, and learn what became of it.
    Note = "note": Note;
    /// Read shared state: a bucket, or one row by `id`.
    Shared = "shared": Shared;
    /// Tell why a row is so: its events, their notes, scores and writers.
    Why = "why": Why;
    /// List writes that wait until it is certain which row they mean.
    Pending = "pending": Pending;
    /// Forget a note (`note_id`), or a row (`bucket`, `id`), and all that was derived from it.
    ForgetShared = "forget_shared": ForgetShared;
    /// Keep what you learned, or what happened, in your graph.
    Remember = "remember": Remember;
    /// Say how two memories of your graph belong together.
    Relate = "relate": Relate;
    /// Find memories of your graph by words, and along edges what belongs to them.
    RecallGraph = "recall_graph": RecallGraph;
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

/// A kind of shared state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BucketWord {
    Plan,
    Constraints,
    Issues,
    Decisions,
    Results,
    TaskState,
    Learnings,
}

/// A kind of memory in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum NodeWord {
    Semantic,
    Episodic,
}

/// A kind of edge in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum EdgeWord {
    SimilarTo,
    DerivesFrom,
    Supersedes,
    TransitionedTo,
}

/// The fields of each operation besides `scope`, which all of them take but those on shared state and graphs: the operator
/// names the space, and the agent's name the graph. Unknown fields are refused.
macro_rules! fields {
    ($($name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* })*) => {$(
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            /// Whose memory; default `agent`.
            pub(super) scope: Option<ScopeKind>,
            $($(#[$about])* pub(super) $field: $type,)*
        }
    )*};
}

fields! {
    Get {
        /// Name of the entry: 1 to 1,024 bytes.
        key: String,
    }

    Set {
        /// Name of the entry: 1 to 1,024 bytes.
        key: String,
        /// Any JSON value; kept exactly as written.
        #[schemars(with = "serde_json::Value")]
        value: Json,
        /// Lifetime in seconds, above 0.
        ttl_seconds: Option<f64>,
        /// `keep` (default) leaves the expiry as it is, `never` clears it.
        ttl: Option<TtlWord>,
        /// Flat labels (boolean, number, string) that filters can ask about.
        metadata: Option<Metadata>,
        /// Where it comes from, as `chat` or `tool:web`.
        source: Option<String>,
        /// Text to search instead of the value's own words.
        text: Option<String>,
        /// Only if this version is stored now.
        #[serde(default, deserialize_with = "whole")]
        if_version: Option<u64>,
        /// Only if no entry is stored now.
        if_absent: Option<bool>,
    }

    Delete {
        /// Name of the entry: 1 to 1,024 bytes.
        key: String,
        /// Only if this version is stored now.
        #[serde(default, deserialize_with = "whole")]
        if_version: Option<u64>,
    }

    List {
        /// Only keys that begin so.
        prefix: Option<String>,
        /// Condition, as {"eq":["metadata.city","Oslo"]}; also ne, lt, lte, gt, gte, in, exists, and, or, not; fields metadata.NAME, source, created_at, updated_at, expires_at.
        filter: Option<Filter>,
        /// list, facts: most of the page, default 100. update: elements that `push` keeps.
        #[serde(default, deserialize_with = "whole")]
        limit: Option<usize>,
        /// `next` of the page before.
        cursor: Option<String>,
    }

    Search {
        /// What to look for, in plain words.
        query: String,
        /// Default `auto`.
        mode: Option<SearchMode>,
        /// Only keys that begin so.
        prefix: Option<String>,
        /// Condition, as {"eq":["metadata.city","Oslo"]}; also ne, lt, lte, gt, gte, in, exists, and, or, not; fields metadata.NAME, source, created_at, updated_at, expires_at.
        filter: Option<Filter>,
        /// Most hits; default 10.
        #[serde(default, deserialize_with = "whole")]
        top_k: Option<usize>,
        /// Leave out hits with a lower score, 0 to 1.
        threshold: Option<f64>,
        /// Weights of the order: similarity, recency, frequency, source, half_life_seconds, source_weights, fusion.
        #[serde(default, deserialize_with = "without_nulls")]
        rank: Option<RankOptions>,
        /// Near-duplicates: {"threshold":0.92,"policy":"drop"}; also merge, keep.
        #[serde(default, deserialize_with = "without_nulls")]
        dedup: Option<Dedup>,
    }

    Incr {
        /// Name of the entry: 1 to 1,024 bytes.
        key: String,
        /// What to add; default 1.
        #[serde(default, deserialize_with = "whole")]
        by: Option<i64>,
        /// Lifetime in seconds, above 0.
        ttl_seconds: Option<f64>,
        /// `keep` (default) leaves the expiry as it is, `never` clears it.
        ttl: Option<TtlWord>,
    }

    Update {
        /// Name of the entry: 1 to 1,024 bytes.
        key: String,
        /// Object to merge into the stored object, at every depth.
        #[serde(default, deserialize_with = "present")]
        #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
        merge: Option<Json>,
        /// Element to append to the stored list unless an equal one is there.
        #[serde(default, deserialize_with = "present")]
        #[schemars(with = "serde_json::Value")]
        append: Option<Json>,
        /// Element to append to the stored list; then the oldest are dropped until `limit` are left.
        #[serde(default, deserialize_with = "present")]
        #[schemars(with = "serde_json::Value")]
        push: Option<Json>,
        /// list, facts: most of the page, default 100. update: elements that `push` keeps.
        #[serde(default, deserialize_with = "whole")]
        limit: Option<usize>,
        /// Lifetime in seconds, above 0.
        ttl_seconds: Option<f64>,
        /// `keep` (default) leaves the expiry as it is, `never` clears it.
        ttl: Option<TtlWord>,
    }

    BulkInsert {
        /// Entries to write, each with the fields of `set`.
        items: Vec<BulkItem>,
    }

    Add {
        /// What was said: role, content; optional name, at (RFC 3339), id, session, answers (an id), caption.
        messages: Vec<Message>,
        /// Extract facts (default true) or store the words as they are.
        infer: Option<bool>,
        /// Flat labels (boolean, number, string) that filters can ask about.
        metadata: Option<Metadata>,
        /// Ids of facts that the one message corrects.
        supersedes: Option<Vec<String>>,
        /// Ids of facts that still hold, as the messages say.
        confirms: Option<Vec<String>>,
        /// Store also what was forgotten before.
        again: Option<bool>,
        /// Lifetime in seconds, above 0.
        ttl_seconds: Option<f64>,
    }

    Recall {
        /// What to look for, in plain words.
        query: String,
        /// Or several.
        scopes: Option<Vec<ScopeKind>>,
        /// Most hits; default 10.
        #[serde(default, deserialize_with = "whole")]
        top_k: Option<usize>,
        /// Leave out hits with a lower score, 0 to 1.
        threshold: Option<f64>,
        /// Also give a block of text of at most so many tokens.
        #[serde(default, deserialize_with = "whole")]
        max_tokens: Option<usize>,
        /// What held at this time (RFC 3339).
        #[serde(default, deserialize_with = "memory_core::time::read_or_none")]
        #[schemars(with = "Option<String>")]
        as_of: Option<Timestamp>,
        /// Only what nobody said or confirmed since (RFC 3339).
        #[serde(default, deserialize_with = "memory_core::time::read_or_none")]
        #[schemars(with = "Option<String>")]
        unconfirmed_since: Option<Timestamp>,
        /// Say what each score is made of.
        explain: Option<bool>,
    }

    ListFacts {
        /// list, facts: most of the page, default 100. update: elements that `push` keeps.
        #[serde(default, deserialize_with = "whole")]
        limit: Option<usize>,
        /// `next` of the page before.
        cursor: Option<String>,
    }

    Event {
        /// `event` of a pending `add`.
        event: String,
    }

    Forget {
        /// Ids of facts, as `recall` gave them.
        ids: Option<Vec<String>>,
        /// Forget every fact of the scope.
        all: Option<bool>,
    }

    SqlStatement {
        /// One SQL statement, with `?` or `$1` for arguments.
        sql: String,
        /// Values for the placeholders, in order.
        #[schemars(with = "Option<Vec<serde_json::Value>>")]
        args: Option<Vec<SqlValue>>,
        /// A transaction that `sql_begin` named; default: the open one.
        tx: Option<String>,
    }

    SqlTransaction {
        /// A transaction that `sql_begin` named; default: the open one.
        tx: Option<String>,
    }

    ListScopes {}

    Describe {}
}

macro_rules! unscoped_fields {
    ($($name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* })*) => {$(
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[cfg_attr(
            not(all(feature = "governed", feature = "hierarchical")),
            allow(dead_code, reason = "read with the features alone")
        )]
        pub(super) struct $name {
            $($(#[$about])* pub(super) $field: $type,)*
        }
    )*};
}

unscoped_fields! {
    Note {
        /// What you noticed: `issue ID: TEXT`, `ID is resolved`, `task ID: done`, `decision: TEXT`, `constraint: TEXT`, `learning: TEXT`, `result: NAME = 0.7`, `plan: TEXT`.
        note: String,
        /// `false`: only keep the note; the operator promotes it later.
        promote: Option<bool>,
    }

    Shared {
        /// Kind of shared state.
        bucket: BucketWord,
        /// Id of a row.
        id: Option<String>,
        /// What held at this time (RFC 3339).
        #[serde(default, deserialize_with = "memory_core::time::read_or_none")]
        #[schemars(with = "Option<String>")]
        as_of: Option<Timestamp>,
        /// `next` of the page before.
        cursor: Option<String>,
    }

    Why {
        /// Kind of shared state.
        bucket: BucketWord,
        /// Id of a row.
        id: String,
    }

    Pending {
        /// Id of a pending write, to decide that it means the row `target`.
        bind: Option<String>,
        /// Id of the row that `bind` means.
        target: Option<String>,
    }

    ForgetShared {
        /// Id of a note, as `note` gave it.
        note_id: Option<String>,
        /// Kind of shared state.
        bucket: Option<BucketWord>,
        /// Id of a row.
        id: Option<String>,
        /// Only tell what would be forgotten.
        dry_run: Option<bool>,
    }

    Remember {
        /// What is known, or what happened.
        content: String,
        /// `semantic` (default): it is known; `episodic`: it happened.
        kind: Option<NodeWord>,
        /// A short label.
        concept: Option<String>,
        /// The entity that it is about.
        entity: Option<String>,
        /// How certain it is, 0 to 1; default 1.
        confidence: Option<f64>,
        /// Where it comes from, as `chat` or `tool:web`.
        source: Option<String>,
        /// Labels that are found as words.
        tags: Option<Vec<String>>,
        /// Its id; default: a new one.
        memory_id: Option<String>,
    }

    Relate {
        /// Id of the memory where the edge begins.
        source_id: String,
        /// How the source relates to the target: resembles it, was drawn from that event, replaces it, holds the value after it.
        relation: EdgeWord,
        /// Id of the memory where the edge ends.
        target_id: String,
        /// How strongly, 0 to 1; default 1.
        weight: Option<f64>,
        /// Why, or how it was found.
        reason: Option<String>,
        /// Value before a transition.
        from_value: Option<String>,
        /// Value after a transition.
        to_value: Option<String>,
        /// Turn of the conversation in which the value changed.
        #[serde(default, deserialize_with = "whole")]
        turn: Option<i64>,
    }

    RecallGraph {
        /// What to look for, in plain words.
        query: String,
        /// Most hits; default 10.
        #[serde(default, deserialize_with = "whole")]
        top_k: Option<usize>,
        /// Edges to follow from what the words found: 0 to 4, default 2.
        #[serde(default, deserialize_with = "whole")]
        steps: Option<usize>,
    }
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

/// Accepts a whole number, also written as `10.0` by clients without integers; that form is exact up to 2^53.
pub(crate) fn whole<'de, D: Deserializer<'de>, T: TryFrom<i64>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
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

/// Accepts `null` for omitted members, as in strict mode.
fn without_nulls<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let json = <Json as Deserialize>::deserialize(deserializer)?;
    if json.kind() == JsonKind::Null {
        return Ok(None);
    }
    let read = match json.kind() {
        JsonKind::Object => members(json.as_str()).and_then(|kept| from_str(&kept)),
        _ => from_str(json.as_str()),
    };
    read.map(Some).map_err(D::Error::custom)
}

/// An object without the members that are `null`.
fn members(object: &str) -> serde_json::Result<String> {
    let Fields(mut fields) = serde_json::from_str(object)?;
    fields.retain(|(_, value)| value.get() != "null");
    let written: serde_json::Result<Vec<String>> = fields
        .iter()
        .map(|(name, value)| Ok(format!("{}:{}", serde_json::to_string(name)?, value.get())))
        .collect();
    Ok(format!("{{{}}}", written?.join(",")))
}

/// Accepts `null` as a value rather than as an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    <Json as Deserialize>::deserialize(deserializer).map(Some)
}
