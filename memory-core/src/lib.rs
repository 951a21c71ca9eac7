//! Contracts for pluggable memory of AI agents.
//!
//! Three facets; a backend serves each completely or not at all:
//!
//! - [`Backend`]: faithful key/value with full text and vectors,
//! - [`MemoryLayer`]: conversation in, facts out,
//! - [`SqlFacet`]: a SQL database for each scope.
//!
//! A [`Provider`] offers them and says in its [`Capabilities`] which it has. [`Checked`] enforces that: it validates
//! arguments once and refuses unadvertised operations before they reach the backend. `docs/spec/backend.md` specifies
//! every operation in numbered sentences, and `memory-conformance` tests them against any implementation.
//!
//! This crate does no I/O, starts no threads, needs no async runtime and reads no clock: time and ids are passed in as
//! [`Clock`] and [`IdGen`].
//!
//! Features: `schema` derives `schemars::JsonSchema` for the types that tools expose.

pub mod access;
pub mod backend;
pub mod capabilities;
pub mod chat;
pub mod checked;
pub mod cursor;
pub mod embed;
pub mod entry;
pub mod error;
pub mod filter;
pub mod host;
pub mod interposed;
pub mod json;
pub mod layer;
pub mod lexical;
mod lifecycle;
pub mod limits;
pub mod provider;
pub mod rank;
pub mod reduce;
pub mod scope;
mod setters;
pub mod sql;
pub mod time;

pub use async_trait::async_trait;
pub use backend::{
    Atomicity, Backend, BackendExt, BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, Embed, Embedding,
    GetOptions, Hit, ImportOptions, ImportOutcome, IncrementOutcome, ListQuery, ModelStats, NewEntry,
    OnExisting, Page, Record, RecordStream, RecordVector, ReembedOptions, ReembedOutcome, ScopeInfo,
    ScopePage, ScopeStats, ScopesQuery, SearchMode, SearchQuery, SearchResults, SetOptions, SetOutcome,
    UpdateOptions, UpdateOutcome, record_stream,
};
pub use capabilities::{Capabilities, Consistency, EmbeddingOwner, SqlDialect};
pub use chat::{ChatModel, ChatPrompt, ChatReply};
pub use checked::Checked;
pub use cursor::Cursor;
pub use embed::{EmbedRole, Embedder, EmbeddingModel};
pub use entry::{Entry, Expect, Metadata, Quota, Scalar, Source, Ttl};
pub use error::{Error, ErrorKind, Result, Retry};
pub use filter::{Field, Filter};
/// The trait behind [`RecordStream`] and the other streams, re-exported so that a backend needs no further crate.
pub use futures_core::Stream;
pub use interposed::{Exchange, Failure, Hook, Interposed, Next, Op, Proxy, Reply, Request};
pub use json::Json;
pub use layer::MemoryLayer;
pub use lifecycle::drift::{
    ContentDigest, DriftChange, DriftCheck, DriftPolicy, DriftReason, DriftState, DriftToken, Seen,
};
pub use lifecycle::erase::{EraseTarget, Erased, NameDigest, Taken, Tombstone, TombstoneId, TombstonesOf};
pub use lifecycle::eviction::{EvictOutcome, Kept, Reclaimed, ScopeUse, ScopeUsesPage, ScopeUsesQuery};
pub use lifecycle::snapshot::ReadSnapshot;
pub use lifecycle::{erase, eviction};
pub use provider::{Figure, Health, HealthStatus, Provider, StoreProcess};
pub use rank::{Dedup, DedupPolicy, Fusion, RankOptions};
pub use reduce::Reducer;
pub use scope::{Key, RunContext, Scope, ScopeDigest, ScopeId, ScopeKind, Secret, TenantId};
pub use sql::SqlFacet;
pub use time::{Clock, IdGen, Timestamp};
