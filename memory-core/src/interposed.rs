//! The one way to wrap a provider: every call as a request, every answer as a reply.

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::backend::{
    Backend, BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, GetOptions, ImportOptions,
    ImportOutcome, IncrementOutcome, ListQuery, NewEntry, Page, RecordStream, ReembedOptions, ReembedOutcome,
    ScopePage, ScopeStats, ScopesQuery, SearchQuery, SearchResults, SetOptions, SetOutcome, UpdateOptions,
    UpdateOutcome,
};
use crate::capabilities::Capabilities;
use crate::drift::DriftState;
use crate::entry::Entry;
use crate::erase::{EraseTarget, Erased, Tombstone, TombstoneId, TombstonesOf};
use crate::error::{Error, Result};
use crate::eviction::{EvictOutcome, Reclaimed, ScopeUsesPage, ScopeUsesQuery};
use crate::json::Json;
use crate::layer::{
    AddOptions, AddOutcome, EventId, EventStatus, Fact, FactsPage, FactsQuery, Forget, ForgetOutcome,
    MemoryLayer, Message, RecallQuery,
};
use crate::moment::Moment;
use crate::provider::{Health, Provider};
use crate::reduce::Reducer;
use crate::scope::{Key, RunContext, Scope, ScopeId, TenantId};
use crate::sql::{
    DumpStream, ExecOutcome, RestoreOptions, RestoreOutcome, Rows, SqlFacet, SqlScopePage, SqlScopesQuery,
    SqlUsage, SqlValue, StatementOptions, TableInfo, TxId, TxState,
};
use crate::time::Timestamp;

macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $variant:ident = $name:literal { $($field:ident : $type:ty),* } -> $reply:ty;
    )*) => {
        /// The name of an operation of any facet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Op {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Op {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The method's name; no two facets share one.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }

        /// One call of a facet, with its arguments.
        #[non_exhaustive]
        pub enum Request {
            $($(#[$doc])* $variant { $(#[allow(missing_docs, reason = "the argument of that name")] $field: $type),* },)*
        }

        impl Request {
            /// Which operation it is.
            #[must_use]
            pub const fn op(&self) -> Op {
                match self { $(Self::$variant { .. } => Op::$variant,)* }
            }
        }

        /// The answer to a [`Request`] of the same variant.
        #[non_exhaustive]
        pub enum Reply {
            $($(#[$doc])* $variant($reply),)*
        }

        impl Reply {
            /// Which operation it answers.
            #[must_use]
            pub const fn op(&self) -> Op {
                match self { $(Self::$variant(_) => Op::$variant,)* }
            }
        }
    };
}

operations! {
    /// [`Provider::health`].
    Health = "health" {} -> Health;
    /// [`Provider::end_run`].
    EndRun = "end_run" { tenant: TenantId, root_run: ScopeId } -> ();
    /// [`Provider::tenants`].
    Tenants = "tenants" { after: Option<TenantId>, limit: usize } -> Vec<TenantId>;
    /// [`Provider::moment`].
    Moment = "moment" {} -> Arc<dyn Moment>;
    /// [`Provider::erase`].
    Erase = "erase" { target: EraseTarget } -> Erased;
    /// [`Provider::tombstones`].
    Tombstones = "tombstones" { of: TombstonesOf, after: Option<TombstoneId>, limit: usize } -> Vec<Tombstone>;
    /// [`Provider::bury`].
    Bury = "bury" { tombstones: Vec<Tombstone> } -> ();
    /// [`Provider::scope_uses`].
    ScopeUses = "scope_uses" { tenant: TenantId, query: ScopeUsesQuery } -> ScopeUsesPage;
    /// [`Provider::evict`].
    Evict = "evict" { scope: Scope, unused_since: Timestamp } -> EvictOutcome;
    /// [`Provider::reclaim`].
    Reclaim = "reclaim" {} -> Reclaimed;
    /// [`Backend::get`].
    Get = "get" { scope: Scope, key: Key, options: GetOptions } -> Option<Entry>;
    /// [`Backend::get_many`].
    GetMany = "get_many" { scope: Scope, keys: Vec<Key>, options: GetOptions } -> Vec<Option<Entry>>;
    /// [`Backend::set`].
    Set = "set" { scope: Scope, key: Key, value: Json, options: SetOptions } -> SetOutcome;
    /// [`Backend::delete`].
    Delete = "delete" { scope: Scope, key: Key, options: DeleteOptions } -> DeleteOutcome;
    /// [`Backend::list`].
    List = "list" { scope: Scope, query: ListQuery } -> Page;
    /// [`Backend::increment`].
    Increment = "increment" { scope: Scope, key: Key, delta: i64, options: UpdateOptions } -> IncrementOutcome;
    /// [`Backend::update`].
    Update = "update" { scope: Scope, key: Key, reducer: Reducer, options: UpdateOptions } -> UpdateOutcome;
    /// [`Backend::bulk_insert`].
    BulkInsert = "bulk_insert" { scope: Scope, items: Vec<NewEntry>, options: BulkOptions } -> Vec<SetOutcome>;
    /// [`Backend::search`].
    Search = "search" { scope: Scope, query: SearchQuery } -> SearchResults;
    /// [`Backend::stats`].
    Stats = "stats" { scope: Scope } -> ScopeStats;
    /// [`Backend::reembed`].
    Reembed = "reembed" { scope: Scope, options: ReembedOptions } -> ReembedOutcome;
    /// [`Backend::scopes`].
    Scopes = "scopes" { tenant: TenantId, query: ScopesQuery } -> ScopePage;
    /// [`Backend::drift_state`].
    DriftState = "drift_state" { scope: Scope } -> DriftState;
    /// [`Backend::drop_scope`].
    DropScope = "drop_scope" { scope: Scope } -> DropOutcome;
    /// [`Backend::export_scope`].
    ExportScope = "export_scope" { scope: Scope } -> RecordStream;
    /// [`Backend::import_scope`].
    ImportScope = "import_scope" { scope: Scope, records: RecordStream, options: ImportOptions } -> ImportOutcome;
    /// [`MemoryLayer::add`].
    Add = "add" { run: RunContext, scope: Scope, messages: Vec<Message>, options: AddOptions } -> AddOutcome;
    /// [`MemoryLayer::recall`].
    Recall = "recall" { run: RunContext, scope: Scope, query: RecallQuery } -> Vec<Fact>;
    /// [`MemoryLayer::event`].
    Event = "event" { run: RunContext, scope: Scope, id: EventId } -> EventStatus;
    /// [`MemoryLayer::forget`].
    Forget = "forget" { run: RunContext, scope: Scope, what: Forget } -> ForgetOutcome;
    /// [`MemoryLayer::facts`].
    Facts = "facts" { run: RunContext, scope: Scope, query: FactsQuery } -> FactsPage;
    /// [`SqlFacet::exec`].
    Exec = "exec" { run: RunContext, scope: Scope, sql: String, args: Vec<SqlValue>, options: StatementOptions } -> ExecOutcome;
    /// [`SqlFacet::query`].
    Query = "query" { run: RunContext, scope: Scope, sql: String, args: Vec<SqlValue>, options: StatementOptions } -> Rows;
    /// [`SqlFacet::begin`].
    Begin = "begin" { run: RunContext, scope: Scope, parent: Option<TxId> } -> TxState;
    /// [`SqlFacet::commit`].
    Commit = "commit" { run: RunContext, scope: Scope, tx: TxId } -> TxState;
    /// [`SqlFacet::rollback`].
    Rollback = "rollback" { run: RunContext, scope: Scope, tx: TxId } -> TxState;
    /// [`SqlFacet::describe_tables`].
    DescribeTables = "describe_tables" { run: RunContext, scope: Scope } -> Vec<TableInfo>;
    /// [`SqlFacet::sql_scopes`].
    SqlScopes = "sql_scopes" { tenant: TenantId, query: SqlScopesQuery } -> SqlScopePage;
    /// [`SqlFacet::drop_sql_scope`].
    DropSqlScope = "drop_sql_scope" { scope: Scope } -> bool;
    /// [`SqlFacet::sql_usage`].
    SqlUsage = "sql_usage" { scope: Scope } -> SqlUsage;
    /// [`SqlFacet::dump`].
    Dump = "dump" { scope: Scope } -> DumpStream;
    /// [`SqlFacet::restore`].
    Restore = "restore" { scope: Scope, dump: DumpStream, options: RestoreOptions } -> RestoreOutcome;
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Shows the operation and the scope only: arguments are other people's data.
impl Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.op())
    }
}

/// Shows the operation only.
impl Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.op())
    }
}

impl Request {
    /// The scope it names; `None` for `health`, `end_run`, `tenants`, `moment`, `erase`, `tombstones`, `bury`, `scope_uses`, `reclaim`,
    /// `scopes`, `sql_scopes`.
    #[must_use]
    pub fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Health {}
            | Self::EndRun { .. }
            | Self::Tenants { .. }
            | Self::Moment {}
            | Self::Erase { .. }
            | Self::Tombstones { .. }
            | Self::Bury { .. }
            | Self::ScopeUses { .. }
            | Self::Reclaim {}
            | Self::Scopes { .. }
            | Self::SqlScopes { .. } => None,
            Self::Evict { scope, .. }
            | Self::Get { scope, .. }
            | Self::GetMany { scope, .. }
            | Self::Set { scope, .. }
            | Self::Delete { scope, .. }
            | Self::List { scope, .. }
            | Self::Increment { scope, .. }
            | Self::Update { scope, .. }
            | Self::BulkInsert { scope, .. }
            | Self::Search { scope, .. }
            | Self::Stats { scope }
            | Self::Reembed { scope, .. }
            | Self::DriftState { scope }
            | Self::DropScope { scope }
            | Self::ExportScope { scope }
            | Self::ImportScope { scope, .. }
            | Self::Add { scope, .. }
            | Self::Recall { scope, .. }
            | Self::Event { scope, .. }
            | Self::Forget { scope, .. }
            | Self::Facts { scope, .. }
            | Self::Exec { scope, .. }
            | Self::Query { scope, .. }
            | Self::Begin { scope, .. }
            | Self::Commit { scope, .. }
            | Self::Rollback { scope, .. }
            | Self::DescribeTables { scope, .. }
            | Self::DropSqlScope { scope }
            | Self::SqlUsage { scope }
            | Self::Dump { scope }
            | Self::Restore { scope, .. } => Some(scope),
        }
    }
}

/// The wrapped provider, as a hook sees it: runs requests, as many as the hook likes.
#[derive(Clone, Copy, Debug)]
pub struct Next<'a> {
    provider: &'a dyn Provider,
}

impl<'a> Next<'a> {
    /// A way to run requests on any provider.
    #[must_use]
    pub fn to(provider: &'a dyn Provider) -> Self {
        Self { provider }
    }

    /// The wrapped provider itself.
    #[must_use]
    pub fn provider(&self) -> &dyn Provider {
        self.provider
    }

    /// Runs a request; the reply is of the same operation.
    ///
    /// # Errors
    /// The provider's; `capability_unsupported` for a facet it does not have.
    pub async fn run(&self, request: Request) -> Result<Reply> {
        let provider = self.provider;
        let op = request.op();
        let absent = || Error::unsupported(op.as_str(), provider.name());
        let kv = || provider.backend().ok_or_else(absent);
        let layer = || provider.layer().ok_or_else(absent);
        let facet = || provider.sql().ok_or_else(absent);
        Ok(match request {
            Request::Health {} => Reply::Health(provider.health().await?),
            Request::EndRun { tenant, root_run } => {
                Reply::EndRun(provider.end_run(&tenant, &root_run).await?)
            }
            Request::Tenants { after, limit } => {
                Reply::Tenants(provider.tenants(after.as_ref(), limit).await?)
            }
            Request::Moment {} => Reply::Moment(provider.moment().await?),
            Request::Erase { target } => Reply::Erase(provider.erase(&target).await?),
            Request::Tombstones { of, after, limit } => {
                Reply::Tombstones(provider.tombstones(&of, after.as_ref(), limit).await?)
            }
            Request::Bury { tombstones } => Reply::Bury(provider.bury(&tombstones).await?),
            Request::ScopeUses { tenant, query } => {
                Reply::ScopeUses(provider.scope_uses(&tenant, query).await?)
            }
            Request::Evict { scope, unused_since } => {
                Reply::Evict(provider.evict(&scope, unused_since).await?)
            }
            Request::Reclaim {} => Reply::Reclaim(provider.reclaim().await?),
            Request::Get { scope, key, options } => Reply::Get(kv()?.get(&scope, &key, options).await?),
            Request::GetMany { scope, keys, options } => {
                Reply::GetMany(kv()?.get_many(&scope, &keys, options).await?)
            }
            Request::Set { scope, key, value, options } => {
                Reply::Set(kv()?.set(&scope, &key, value, options).await?)
            }
            Request::Delete { scope, key, options } => {
                Reply::Delete(kv()?.delete(&scope, &key, options).await?)
            }
            Request::List { scope, query } => Reply::List(kv()?.list(&scope, query).await?),
            Request::Increment { scope, key, delta, options } => {
                Reply::Increment(kv()?.increment(&scope, &key, delta, options).await?)
            }
            Request::Update { scope, key, reducer, options } => {
                Reply::Update(kv()?.update(&scope, &key, reducer, options).await?)
            }
            Request::BulkInsert { scope, items, options } => {
                Reply::BulkInsert(kv()?.bulk_insert(&scope, items, options).await?)
            }
            Request::Search { scope, query } => Reply::Search(kv()?.search(&scope, query).await?),
            Request::Stats { scope } => Reply::Stats(kv()?.stats(&scope).await?),
            Request::Reembed { scope, options } => Reply::Reembed(kv()?.reembed(&scope, options).await?),
            Request::Scopes { tenant, query } => Reply::Scopes(kv()?.scopes(&tenant, query).await?),
            Request::DriftState { scope } => Reply::DriftState(kv()?.drift_state(&scope).await?),
            Request::DropScope { scope } => Reply::DropScope(kv()?.drop_scope(&scope).await?),
            Request::ExportScope { scope } => Reply::ExportScope(kv()?.export_scope(&scope).await?),
            Request::ImportScope { scope, records, options } => {
                Reply::ImportScope(kv()?.import_scope(&scope, records, options).await?)
            }
            Request::Add { run, scope, messages, options } => {
                Reply::Add(layer()?.add(&run, &scope, &messages, options).await?)
            }
            Request::Recall { run, scope, query } => {
                Reply::Recall(layer()?.recall(&run, &scope, query).await?)
            }
            Request::Event { run, scope, id } => Reply::Event(layer()?.event(&run, &scope, &id).await?),
            Request::Forget { run, scope, what } => Reply::Forget(layer()?.forget(&run, &scope, what).await?),
            Request::Facts { run, scope, query } => Reply::Facts(layer()?.facts(&run, &scope, query).await?),
            Request::Exec { run, scope, sql, args, options } => {
                Reply::Exec(facet()?.exec(&run, &scope, &sql, &args, options).await?)
            }
            Request::Query { run, scope, sql, args, options } => {
                Reply::Query(facet()?.query(&run, &scope, &sql, &args, options).await?)
            }
            Request::Begin { run, scope, parent } => {
                Reply::Begin(facet()?.begin(&run, &scope, parent.as_ref()).await?)
            }
            Request::Commit { run, scope, tx } => Reply::Commit(facet()?.commit(&run, &scope, &tx).await?),
            Request::Rollback { run, scope, tx } => {
                Reply::Rollback(facet()?.rollback(&run, &scope, &tx).await?)
            }
            Request::DescribeTables { run, scope } => {
                Reply::DescribeTables(facet()?.describe_tables(&run, &scope).await?)
            }
            Request::SqlScopes { tenant, query } => {
                Reply::SqlScopes(facet()?.sql_scopes(&tenant, query).await?)
            }
            Request::DropSqlScope { scope } => Reply::DropSqlScope(facet()?.drop_sql_scope(&scope).await?),
            Request::SqlUsage { scope } => Reply::SqlUsage(facet()?.sql_usage(&scope).await?),
            Request::Dump { scope } => Reply::Dump(facet()?.dump(&scope).await?),
            Request::Restore { scope, dump, options } => {
                Reply::Restore(facet()?.restore(&scope, dump, options).await?)
            }
        })
    }
}

/// What an [`Interposed`] does around every call.
///
/// Most hooks need [`Hook::before`] and [`Hook::after`] alone. [`Hook::around`] replaces both where
/// a hook must see the request and the reply together, call several times, or not at all.
#[async_trait]
pub trait Hook: Send + Sync + Debug {
    /// What the wrapped provider advertises, after this hook.
    fn capabilities(&self, inner: Capabilities) -> Capabilities {
        inner
    }

    /// Sees a request first; may change it, or answer it by returning a reply of the same operation.
    ///
    /// # Errors
    /// An error is the call's answer; the provider is not reached and `after` not called.
    async fn before(&self, request: &mut Request) -> Result<Option<Reply>> {
        let _ = request;
        Ok(None)
    }

    /// Sees the answer last; may change it to another of the same operation.
    ///
    /// # Errors
    /// Whatever the call shall end with.
    async fn after(&self, op: Op, scope: Option<&Scope>, reply: Result<Reply>) -> Result<Reply> {
        let _ = (op, scope);
        reply
    }

    /// The whole of a call.
    ///
    /// # Errors
    /// Whatever the call shall end with.
    async fn around(&self, mut request: Request, next: Next<'_>) -> Result<Reply> {
        if let Some(reply) = self.before(&mut request).await? {
            return Ok(reply);
        }
        let (op, scope) = (request.op(), request.scope().cloned());
        let reply = next.run(request).await;
        self.after(op, scope.as_ref(), reply).await
    }
}

/// A provider with a [`Hook`] around every call: tracing, metrics, fault injection, mutants.
#[derive(Debug)]
pub struct Interposed<P, H> {
    inner: P,
    hook: H,
}

impl<P: Provider, H: Hook> Interposed<P, H> {
    /// Wraps `inner`.
    pub fn new(inner: P, hook: H) -> Self {
        Self { inner, hook }
    }

    /// The provider inside.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// The hook.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    async fn call(&self, request: Request) -> Result<Reply> {
        self.hook.around(request, Next { provider: &self.inner }).await
    }
}

/// Runs a request through the hook and takes the reply of the same variant.
macro_rules! call {
    ($self:ident, $variant:ident { $($field:ident $(: $value:expr)?),* }) => {
        match $self.call(Request::$variant { $($field $(: $value)?),* }).await? {
            Reply::$variant(reply) => Ok(reply),
            other => Err(Error::internal(format!(
                "a hook answered `{}` with a reply of `{}`", Op::$variant, other.op()
            ))),
        }
    };
}

#[async_trait]
impl<P: Provider, H: Hook> Provider for Interposed<P, H> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.hook.capabilities(self.inner.capabilities())
    }

    fn backend(&self) -> Option<&dyn Backend> {
        self.inner.backend().map(|_| self as _)
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        self.inner.layer().map(|_| self as _)
    }

    fn sql(&self) -> Option<&dyn SqlFacet> {
        self.inner.sql().map(|_| self as _)
    }

    async fn health(&self) -> Result<Health> {
        call!(self, Health {})
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        call!(self, EndRun { tenant: tenant.clone(), root_run: root_run.clone() })
    }

    async fn tenants(&self, after: Option<&TenantId>, limit: usize) -> Result<Vec<TenantId>> {
        call!(self, Tenants { after: after.cloned(), limit })
    }

    async fn moment(&self) -> Result<Arc<dyn Moment>> {
        call!(self, Moment {})
    }

    async fn erase(&self, target: &EraseTarget) -> Result<Erased> {
        call!(self, Erase { target: target.clone() })
    }

    async fn tombstones(
        &self,
        of: &TombstonesOf,
        after: Option<&TombstoneId>,
        limit: usize,
    ) -> Result<Vec<Tombstone>> {
        call!(self, Tombstones { of: of.clone(), after: after.copied(), limit })
    }

    async fn bury(&self, tombstones: &[Tombstone]) -> Result<()> {
        call!(self, Bury { tombstones: tombstones.to_vec() })
    }

    async fn scope_uses(&self, tenant: &TenantId, query: ScopeUsesQuery) -> Result<ScopeUsesPage> {
        call!(self, ScopeUses { tenant: tenant.clone(), query })
    }

    async fn evict(&self, scope: &Scope, unused_since: Timestamp) -> Result<EvictOutcome> {
        call!(self, Evict { scope: scope.clone(), unused_since })
    }

    async fn reclaim(&self) -> Result<Reclaimed> {
        call!(self, Reclaim {})
    }
}

#[async_trait]
impl<P: Provider, H: Hook> Backend for Interposed<P, H> {
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
        call!(self, Get { scope: scope.clone(), key: key.clone(), options })
    }

    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
        call!(self, GetMany { scope: scope.clone(), keys: keys.to_vec(), options })
    }

    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        call!(self, Set { scope: scope.clone(), key: key.clone(), value, options })
    }

    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
        call!(self, Delete { scope: scope.clone(), key: key.clone(), options })
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        call!(self, List { scope: scope.clone(), query })
    }

    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        call!(self, Increment { scope: scope.clone(), key: key.clone(), delta, options })
    }

    async fn update(
        &self,
        scope: &Scope,
        key: &Key,
        reducer: Reducer,
        options: UpdateOptions,
    ) -> Result<UpdateOutcome> {
        call!(self, Update { scope: scope.clone(), key: key.clone(), reducer, options })
    }

    async fn bulk_insert(
        &self,
        scope: &Scope,
        items: Vec<NewEntry>,
        options: BulkOptions,
    ) -> Result<Vec<SetOutcome>> {
        call!(self, BulkInsert { scope: scope.clone(), items, options })
    }

    async fn search(&self, scope: &Scope, query: SearchQuery) -> Result<SearchResults> {
        call!(self, Search { scope: scope.clone(), query })
    }

    async fn stats(&self, scope: &Scope) -> Result<ScopeStats> {
        call!(self, Stats { scope: scope.clone() })
    }

    async fn reembed(&self, scope: &Scope, options: ReembedOptions) -> Result<ReembedOutcome> {
        call!(self, Reembed { scope: scope.clone(), options })
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        call!(self, Scopes { tenant: tenant.clone(), query })
    }

    async fn drift_state(&self, scope: &Scope) -> Result<DriftState> {
        call!(self, DriftState { scope: scope.clone() })
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        call!(self, DropScope { scope: scope.clone() })
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        call!(self, ExportScope { scope: scope.clone() })
    }

    async fn import_scope(
        &self,
        scope: &Scope,
        records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome> {
        call!(self, ImportScope { scope: scope.clone(), records, options })
    }
}

#[async_trait]
impl<P: Provider, H: Hook> MemoryLayer for Interposed<P, H> {
    async fn add(
        &self,
        run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome> {
        call!(self, Add { run: run.clone(), scope: scope.clone(), messages: messages.to_vec(), options })
    }

    async fn recall(&self, run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>> {
        call!(self, Recall { run: run.clone(), scope: scope.clone(), query })
    }

    async fn event(&self, run: &RunContext, scope: &Scope, id: &EventId) -> Result<EventStatus> {
        call!(self, Event { run: run.clone(), scope: scope.clone(), id: id.clone() })
    }

    async fn forget(&self, run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome> {
        call!(self, Forget { run: run.clone(), scope: scope.clone(), what })
    }

    async fn facts(&self, run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage> {
        call!(self, Facts { run: run.clone(), scope: scope.clone(), query })
    }
}

#[async_trait]
impl<P: Provider, H: Hook> SqlFacet for Interposed<P, H> {
    async fn exec(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome> {
        call!(
            self,
            Exec {
                run: run.clone(),
                scope: scope.clone(),
                sql: sql.to_owned(),
                args: args.to_vec(),
                options
            }
        )
    }

    async fn query(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows> {
        call!(
            self,
            Query {
                run: run.clone(),
                scope: scope.clone(),
                sql: sql.to_owned(),
                args: args.to_vec(),
                options
            }
        )
    }

    async fn begin(&self, run: &RunContext, scope: &Scope, parent: Option<&TxId>) -> Result<TxState> {
        call!(self, Begin { run: run.clone(), scope: scope.clone(), parent: parent.cloned() })
    }

    async fn commit(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        call!(self, Commit { run: run.clone(), scope: scope.clone(), tx: tx.clone() })
    }

    async fn rollback(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        call!(self, Rollback { run: run.clone(), scope: scope.clone(), tx: tx.clone() })
    }

    async fn describe_tables(&self, run: &RunContext, scope: &Scope) -> Result<Vec<TableInfo>> {
        call!(self, DescribeTables { run: run.clone(), scope: scope.clone() })
    }

    async fn sql_scopes(&self, tenant: &TenantId, query: SqlScopesQuery) -> Result<SqlScopePage> {
        call!(self, SqlScopes { tenant: tenant.clone(), query })
    }

    async fn drop_sql_scope(&self, scope: &Scope) -> Result<bool> {
        call!(self, DropSqlScope { scope: scope.clone() })
    }

    async fn sql_usage(&self, scope: &Scope) -> Result<SqlUsage> {
        call!(self, SqlUsage { scope: scope.clone() })
    }

    async fn dump(&self, scope: &Scope) -> Result<DumpStream> {
        call!(self, Dump { scope: scope.clone() })
    }

    async fn restore(
        &self,
        scope: &Scope,
        dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome> {
        call!(self, Restore { scope: scope.clone(), dump, options })
    }
}
