//! Facet 3: a SQL database for each scope.

mod value;

pub(crate) use value::check_array;
pub use value::{SqlValue, no_arrays};

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::error::Result;
use crate::limits::DEFAULT_PAGE;
use crate::scope::{RunContext, Scope, TenantId};
use crate::time::Timestamp;

/// Most bytes of one statement.
pub const MAX_STATEMENT_BYTES: usize = 1 << 20;
/// Most arguments of one statement.
pub const MAX_ARGUMENTS: usize = 32_766;
/// Default limit of a result, in rows.
pub const DEFAULT_MAX_ROWS: usize = 10_000;
/// Default limit of a result, in bytes.
pub const DEFAULT_MAX_RESULT_BYTES: usize = 8 << 20;

/// The id of an open transaction, assigned by the facet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TxId(String);

impl TxId {
    /// Accepts a transaction's id from outside; the facet validates it.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Options of [`SqlFacet::exec`] and [`SqlFacet::query`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StatementOptions {
    /// The transaction to run in; `None`: auto-commit.
    pub tx: Option<TxId>,
    /// Deadline; `None`: the provider's default.
    #[serde(rename = "timeout_ms", with = "crate::time::optional_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub timeout: Option<Duration>,
    /// Limit of the result, in rows.
    pub max_rows: usize,
    /// Limit of the result, in bytes.
    pub max_bytes: usize,
    /// Quota of the scope's database in bytes; `None`: the provider's default.
    pub quota_bytes: Option<u64>,
}

impl Default for StatementOptions {
    fn default() -> Self {
        Self {
            tx: None,
            timeout: None,
            max_rows: DEFAULT_MAX_ROWS,
            max_bytes: DEFAULT_MAX_RESULT_BYTES,
            quota_bytes: None,
        }
    }
}

impl StatementOptions {
    /// Runs in a transaction.
    #[must_use]
    pub fn in_tx(mut self, tx: TxId) -> Self {
        self.tx = Some(tx);
        self
    }
}

/// Rows of a result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Rows {
    /// Column names, in order; they may repeat.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<SqlValue>>,
    /// Whether a limit cut the result.
    pub truncated: bool,
}

/// The result of [`SqlFacet::exec`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ExecOutcome {
    /// Rows inserted, updated or deleted.
    pub rows_affected: u64,
    /// Rows of `RETURNING`, if the statement has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returning: Option<Rows>,
}

/// The state of a transaction after `begin`, `commit` or `rollback`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TxState {
    /// Its id.
    pub tx: TxId,
    /// Open levels: 1 is the transaction, more are savepoints, 0 is closed.
    pub depth: u32,
}

impl TxState {
    /// A state.
    #[must_use]
    pub fn new(tx: TxId, depth: u32) -> Self {
        Self { tx, depth }
    }
}

/// A column of an agent's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ColumnInfo {
    /// Name.
    pub name: String,
    /// Declared type, as the engine reports it.
    pub declared_type: String,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Position in the primary key from 1; 0: not part of it.
    pub primary_key: u32,
}

impl ColumnInfo {
    /// A nullable column that is not part of the primary key.
    #[must_use]
    pub fn new(name: impl Into<String>, declared_type: impl Into<String>) -> Self {
        Self { name: name.into(), declared_type: declared_type.into(), nullable: true, primary_key: 0 }
    }
}

/// A table or view of an agent's database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct TableInfo {
    /// Name.
    pub name: String,
    /// `table`, `view`, or another of the engine's terms.
    pub kind: String,
    /// Columns in order.
    pub columns: Vec<ColumnInfo>,
    /// Names of its indexes.
    pub indexes: Vec<String>,
}

impl TableInfo {
    /// A table or view without columns and indexes.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { name: name.into(), kind: kind.into(), columns: Vec::new(), indexes: Vec::new() }
    }
}

/// How much a scope's database holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SqlUsage {
    /// Bytes that count against the quota.
    pub bytes: u64,
    /// The effective quota; `None`: unlimited.
    pub quota_bytes: Option<u64>,
}

impl SqlUsage {
    /// A usage.
    #[must_use]
    pub fn new(bytes: u64, quota_bytes: Option<u64>) -> Self {
        Self { bytes, quota_bytes }
    }
}

/// The query of [`SqlFacet::sql_scopes`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SqlScopesQuery {
    /// Where the page begins.
    pub cursor: Option<Cursor>,
    /// Most scopes of the page: 1 to 1,000. Default 100.
    pub limit: usize,
}

impl Default for SqlScopesQuery {
    fn default() -> Self {
        Self { cursor: None, limit: DEFAULT_PAGE }
    }
}

/// One page of scopes that have a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SqlScopePage {
    /// Ordered by kind, then by the bytes of the id.
    pub scopes: Vec<(Scope, SqlUsage)>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<Cursor>,
}

impl SqlScopePage {
    /// A page.
    #[must_use]
    pub fn new(scopes: Vec<(Scope, SqlUsage)>, next: Option<Cursor>) -> Self {
        Self { scopes, next }
    }
}

/// A stream of dump lines; the format depends on the backend. An `Err` item ends it.
pub type DumpStream = Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + Send>>;

/// How [`SqlFacet::restore`] treats existing content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RestoreMode {
    /// Refuse with `conflict`; nothing is changed.
    #[default]
    IntoEmpty,
    /// Replace it by the dump, in one transaction.
    Replace,
}

/// Options of [`SqlFacet::restore`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// How to treat existing content.
    pub mode: RestoreMode,
    /// When the copy was taken: if its scope or tenant was forgotten since then, nothing is restored. `None`: it is no
    /// copy. Requires [`Capabilities::erase`](crate::Capabilities::erase).
    pub taken_at: Option<Timestamp>,
    /// Quota of the scope's database in bytes; `None`: the provider's default.
    pub quota_bytes: Option<u64>,
}

impl RestoreOptions {
    crate::setters! {
        with_mode(mode: RestoreMode);
        with_taken_at(taken_at: Option<Timestamp>);
        with_quota_bytes(quota_bytes: Option<u64>);
    }
}

/// The result of [`SqlFacet::restore`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RestoreOutcome {
    /// Tables restored.
    pub tables: u64,
    /// Rows restored.
    pub rows: u64,
    /// Objects that could not be restored, each with the reason.
    pub skipped: Vec<String>,
    /// Whether nothing was restored because the content was forgotten after the copy was taken.
    #[serde(default)]
    pub forgotten: bool,
}

/// A SQL database for each scope, in which an agent runs its own statements.
///
/// One statement per call. Arguments are bound, never spliced in; `?` and `$n` placeholders both work everywhere. A
/// transaction outlives calls and futures, and belongs to its root run and scope.
#[async_trait]
pub trait SqlFacet: Send + Sync + Debug {
    /// Runs one statement that may write. Requires `Capabilities::sql`.
    ///
    /// # Behavior
    /// - SQL-1: `exec` runs one statement that may write; `query` runs one that does not, and returns its rows in
    ///   order with the names of the columns.
    /// - SQL-2: Every later statement on the scope, through any handle, sees what an acknowledged `exec` wrote; so
    ///   does the store after reopening.
    /// - SQL-3: `rows_affected` counts the rows that this statement inserted, updated or deleted. It is 0 for a
    ///   statement that did none of these, whatever the previous one did.
    /// - SQL-4: A statement with `RETURNING` returns its rows in `returning`; otherwise `returning` is absent or
    ///   empty.
    /// - SQL-6: A statement that fails changes nothing, however much of it ran: not one row of many, not a table.
    /// - SQL-9: `exec` also runs a statement that only reads, and returns its rows in `returning`.
    /// - ARG-1 to ARG-10, DAT-1 to DAT-10: Arguments are bound, never spliced, and values come back without loss.
    /// - RES-1 to RES-4: Rows beyond `max_rows` or `max_bytes` are cut off, and `truncated` says so.
    /// - REF-1 to REF-9: A second statement, a statement about transactions and one that reaches out of the
    ///   database are refused.
    /// - OWN-1 to OWN-5: A statement never sees or changes another scope's database.
    /// - QTA-1 to QTA-5: A statement that grows the database past its quota is `quota_exceeded` and changes
    ///   nothing.
    /// - TIM-1 to TIM-6: A statement that exceeds its deadline is `timeout` and has changed nothing.
    /// - ENT-1 to ENT-6: Where `Capabilities::sql_entries`, `memory_entries` shows the scope's live entries,
    ///   read-only.
    /// - EBD-1 to EBD-5: Where `Capabilities::sql_vectors`, a `$embed` argument is replaced by the embedding of its
    ///   text.
    ///
    /// # Errors
    /// `statement_refused`, `quota_exceeded`, `timeout`, `transaction_lost`; `invalid_argument` for what the engine
    /// itself refuses.
    async fn exec(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome>;

    /// Runs one statement that the engine prevents from writing. Requires `Capabilities::sql`.
    ///
    /// # Behavior
    /// - SQL-1: `exec` runs one statement that may write; `query` runs one that does not, and returns its rows in
    ///   order with the names of the columns.
    /// - REF-2: `query` refuses every write with `read_only`, by any route (a data-changing statement, `RETURNING`,
    ///   DDL, a common table expression that writes), inside a transaction too; nothing changes.
    ///
    /// # Errors
    /// Those of [`SqlFacet::exec`]; `read_only` for a write.
    async fn query(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows>;

    /// Opens a transaction, or a savepoint within `parent`. Requires `Capabilities::sql_transactions`.
    ///
    /// # Behavior
    /// - TX-1: `begin` opens a transaction and returns its id with `depth` 1; a statement that carries the id runs
    ///   in it.
    /// - TX-5: `begin` within a transaction opens a savepoint: the same id, `depth` one more. `rollback` and
    ///   `commit` end only the innermost level and return the remaining depth. A rollback of the outer level undoes
    ///   what an inner level committed.
    /// - TX-6: At most 17 levels (16 savepoints) are allowed: one more is `transaction_limit`, and the transaction
    ///   continues.
    /// - TX-7: The open transactions of a provider are limited (64 by default, at most 1,024): one more is
    ///   `transaction_limit`; ending one makes room.
    /// - TX-13: A dropped `begin` leaves nothing open that would block others.
    /// - TX-15: Transaction ids are never reused.
    ///
    /// # Errors
    /// `transaction_limit`; `transaction_lost` for an unknown `parent`.
    async fn begin(&self, run: &RunContext, scope: &Scope, parent: Option<&TxId>) -> Result<TxState>;

    /// Commits the innermost level. Requires `Capabilities::sql_transactions`.
    ///
    /// # Behavior
    /// - TX-2: A transaction's own statements see what it wrote; others see it only after `commit`, and nobody
    ///   after `rollback`. `commit` and `rollback` of the outermost level return `depth` 0.
    /// - TX-4: An id that is unknown, ended, idle for too long, or of another scope or tenant is `transaction_lost`
    ///   for every call, and the statement does not run; it never falls through to auto-commit.
    /// - TX-16: A `commit` that the engine rejects (a deferred constraint) is `invalid_argument` and commits
    ///   nothing; `details.transaction` says whether the transaction is still open.
    ///
    /// # Errors
    /// `transaction_lost`; `outcome_unknown`.
    async fn commit(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState>;

    /// Rolls the innermost level back. Requires `Capabilities::sql_transactions`.
    ///
    /// # Behavior
    /// - TX-2: A transaction's own statements see what it wrote; others see it only after `commit`, and nobody
    ///   after `rollback`. `commit` and `rollback` of the outermost level return `depth` 0.
    /// - TX-4: An id that is unknown, ended, idle for too long, or of another scope or tenant is `transaction_lost`
    ///   for every call, and the statement does not run; it never falls through to auto-commit.
    /// - TX-5: `begin` within a transaction opens a savepoint: the same id, `depth` one more. `rollback` and
    ///   `commit` end only the innermost level and return the remaining depth. A rollback of the outer level undoes
    ///   what an inner level committed.
    ///
    /// # Errors
    /// `transaction_lost`.
    async fn rollback(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState>;

    /// Lists the agent's own tables and views. Requires `Capabilities::sql`.
    ///
    /// # Behavior
    /// - TBL-1: `describe_tables` lists the agent's tables and views by the bytes of their names, each with its
    ///   kind (`table`, `view`); nothing of the engine's, the runtime's or another scope's.
    /// - TBL-2: Columns are listed in order, with the declared type, whether NULL is allowed, and their position in
    ///   the primary key from 1.
    /// - TBL-3: Indexes that the agent created are listed with their table.
    /// - TBL-4: It shows committed state.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    async fn describe_tables(&self, run: &RunContext, scope: &Scope) -> Result<Vec<TableInfo>>;

    /// Lists a tenant's scopes that have a database. Requires `Capabilities::sql`.
    ///
    /// # Behavior
    /// - DBS-1: `sql_scopes` lists the tenant's scopes that have a database, ordered by kind (host, agent, user,
    ///   run) and id bytes, with usage; never another tenant's, nor a scope that was only read.
    /// - DBS-2: A page holds at most `limit` scopes, and a cursor if more follow. Together the pages list each
    ///   scope once; scopes that exist throughout are listed exactly once even if others are created or dropped in
    ///   between.
    /// - DBS-3: A limit of 0 is `invalid_argument`, over 1,000 `too_large`; a cursor that is malformed or of
    ///   another tenant is `invalid_argument`.
    ///
    /// # Errors
    /// `invalid_argument` for a foreign cursor.
    async fn sql_scopes(&self, tenant: &TenantId, query: SqlScopesQuery) -> Result<SqlScopePage>;

    /// Deletes a scope's database, fenced against late writers. Requires `Capabilities::sql`.
    ///
    /// # Behavior
    /// - DBS-4: `drop_sql_scope` removes the database and says whether there was one; the scope is then like one
    ///   that was never written.
    /// - DBS-5: A transaction that is open on a dropped scope is lost: later use is `transaction_lost`, and nothing
    ///   of it appears.
    /// - DBS-6: A writer that had the database open when it was dropped never writes into the old one: its next
    ///   write meets the scope as it is now.
    /// - DBS-7: A dropped scope can be created again at once.
    ///
    /// # Errors
    /// `unavailable`, `outcome_unknown`.
    async fn drop_sql_scope(&self, scope: &Scope) -> Result<bool>;

    /// Returns the size of a scope's database. Requires `Capabilities::sql`.
    ///
    /// # Behavior
    /// - QTA-4: `sql_usage` returns the bytes that count against the quota. It grows with what is stored, shrinks
    ///   when a table is dropped, and never passes the quota that its writers had.
    ///
    /// # Errors
    /// `unavailable`, `corrupt`.
    async fn sql_usage(&self, scope: &Scope) -> Result<SqlUsage>;

    /// Streams a scope's database, from one snapshot. Requires `Capabilities::sql`.
    ///
    /// # Behavior
    /// - DMP-5: A dump is a snapshot: what is written while it streams is not in it.
    /// - DMP-6: A scope without a database has the dump of an empty database.
    /// - DMP-7: A dump holds no entry, no shared table and no other scope's data.
    ///
    /// # Errors
    /// Errors while opening the stream; later errors are items of the stream and end it.
    async fn dump(&self, scope: &Scope) -> Result<DumpStream>;

    /// Restores a dump of the same kind of backend in one transaction, into an empty scope or replacing its content.
    /// Requires `Capabilities::sql`.
    ///
    /// # Behavior
    /// - DMP-1: A dump of a scope is restored whole: tables, rows, every value, indexes, views, triggers, keys,
    ///   defaults.
    /// - DMP-2: The outcome says how many tables and rows were restored.
    /// - DMP-3: Restoring into a scope that has a table is `conflict` and changes nothing.
    /// - DMP-4: A dump that is malformed or cut off is `invalid_argument`; a stream that fails ends the call with
    ///   its error. Neither leaves anything behind.
    /// - DMP-8: With [`RestoreMode::Replace`], the dump replaces the whole database in one transaction; if it
    ///   fails, the database is unchanged.
    /// - DMP-9: It does not replace anything by a dump with rows of a table that is refused here.
    /// - FGT-14: A dump of a copy that is older than a tombstone of its scope or tenant is not restored: the
    ///   outcome says `forgotten`.
    ///
    /// # Errors
    /// `conflict` if the scope must be empty and is not; `invalid_argument` for an invalid dump;
    /// `capability_unsupported` for `taken_at` without `Capabilities::erase`.
    async fn restore(
        &self,
        scope: &Scope,
        dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome>;
}
