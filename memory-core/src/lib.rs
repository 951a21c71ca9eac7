//! Contracts for pluggable memory of AI agents.
//!
//! Three facets, each served by some backends and by none only in part:
//!
//! - [`Backend`]: faithful key/value with full text and vectors,
//! - [`MemoryLayer`]: conversation in, facts out,
//! - [`SqlFacet`]: a SQL database for each scope.
//!
//! A [`Provider`] hands them over and says in its [`Capabilities`] which it has. [`Checked`] holds it
//! to its word: arguments are validated once, and what is not advertised is refused before the
//! backend is reached. What every operation does is written as numbered sentences in
//! `docs/spec/backend.md`, and `memory-conformance` proves them against any implementation.
//!
//! This crate does no I/O, starts no threads, needs no async runtime and reads no clock: time and
//! ids come in through [`Clock`] and [`IdGen`].
//!
//! Features: `schema` derives `schemars::JsonSchema` for the types that tools expose.

pub mod access;
pub mod backend;
pub mod capabilities;
pub mod checked;
pub mod cursor;
pub mod embed;
pub mod entry;
pub mod error;
pub mod filter;
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
    UpdateOptions, UpdateOutcome,
};
pub use capabilities::{Capabilities, Consistency, EmbeddingOwner, SqlDialect};
pub use checked::Checked;
pub use cursor::Cursor;
pub use embed::{EmbedRole, Embedder, EmbeddingModel};
pub use entry::{Entry, Expect, Metadata, Quota, Scalar, Source, Ttl};
pub use error::{Error, ErrorKind, Result, Retry};
pub use filter::{Field, Filter};
/// What [`RecordStream`] and the other streams of the facets are; re-exported so that a backend needs
/// no crate more.
pub use futures_core::Stream;
pub use interposed::{Hook, Interposed, Next, Op, Reply, Request};
pub use json::Json;
pub use layer::MemoryLayer;
pub use lifecycle::drift::{
    ContentDigest, DriftChange, DriftCheck, DriftPolicy, DriftReason, DriftState, DriftToken, Seen,
};
pub use lifecycle::erase::{EraseTarget, Erased, NameDigest, Taken, Tombstone, TombstoneId, TombstonesOf};
pub use lifecycle::eviction::{EvictOutcome, Kept, Reclaimed, ScopeUse, ScopeUsesPage, ScopeUsesQuery};
pub use lifecycle::snapshot::ReadSnapshot;
pub use lifecycle::{erase, eviction};
pub use provider::{Health, HealthStatus, Provider};
pub use rank::{Dedup, DedupPolicy, Fusion, RankOptions};
pub use reduce::Reducer;
pub use scope::{Key, RunContext, Scope, ScopeDigest, ScopeId, ScopeKind, Secret, TenantId};
pub use sql::SqlFacet;
pub use time::{Clock, IdGen, Timestamp};
