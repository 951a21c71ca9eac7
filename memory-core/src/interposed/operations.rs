//! The table of operations, from which [`Op`], [`Request`] and [`Reply`] are generated.

use std::fmt::{self, Debug};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::backend::{
    BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, GetOptions, ImportOptions, ImportOutcome,
    IncrementOutcome, ListQuery, NewEntry, Page, RecordStream, ReembedOptions, ReembedOutcome, ScopePage,
    ScopeStats, ScopesQuery, SearchQuery, SearchResults, SetOptions, SetOutcome, UpdateOptions,
    UpdateOutcome,
};
use crate::entry::Entry;
use crate::json::Json;
use crate::layer::{
    AddOptions, AddOutcome, EventId, EventStatus, Fact, FactsPage, FactsQuery, Forget, ForgetOutcome,
    Message, RecallQuery,
};
use crate::lifecycle::drift::DriftState;
use crate::lifecycle::erase::{EraseTarget, Erased, Tombstone, TombstoneId, TombstonesOf};
use crate::lifecycle::eviction::{EvictOutcome, Reclaimed, ScopeUsesPage, ScopeUsesQuery};
use crate::lifecycle::snapshot::ReadSnapshot;
use crate::provider::Health;
use crate::reduce::Reducer;
use crate::scope::{Key, RunContext, Scope, ScopeId, TenantId};
use crate::sql::{
    DumpStream, ExecOutcome, RestoreOptions, RestoreOutcome, Rows, SqlScopePage, SqlScopesQuery, SqlUsage,
    SqlValue, StatementOptions, TableInfo, TxId, TxState,
};
use crate::time::Timestamp;

/// Calls a macro with every operation of every facet: variant (and its wire name, if it differs from the method's),
/// method, arguments with their types in brackets, reply.
macro_rules! operations {
    ($generate:ident) => {
        $generate! {
            Provider {
                Health: health() -> Health;
                EndRun: end_run(tenant [&TenantId], root_run [&ScopeId]) -> ();
                Tenants: tenants(after [Option<&TenantId>], limit [usize]) -> Vec<TenantId>;
                ReadSnapshot as "moment": read_snapshot() -> Arc<dyn ReadSnapshot>;
                Erase: erase(target [&EraseTarget]) -> Erased;
                Tombstones: tombstones(of [&TombstonesOf], after [Option<&TombstoneId>], limit [usize]) -> Vec<Tombstone>;
                Bury: bury(tombstones [&[Tombstone]]) -> ();
                ScopeUses: scope_uses(tenant [&TenantId], query [ScopeUsesQuery]) -> ScopeUsesPage;
                Evict: evict(scope [&Scope], unused_since [Timestamp]) -> EvictOutcome;
                Reclaim: reclaim() -> Reclaimed;
            }
            Backend {
                Get: get(scope [&Scope], key [&Key], options [GetOptions]) -> Option<Entry>;
                GetMany: get_many(scope [&Scope], keys [&[Key]], options [GetOptions]) -> Vec<Option<Entry>>;
                Set: set(scope [&Scope], key [&Key], value [Json], options [SetOptions]) -> SetOutcome;
                Delete: delete(scope [&Scope], key [&Key], options [DeleteOptions]) -> DeleteOutcome;
                List: list(scope [&Scope], query [ListQuery]) -> Page;
                Increment: increment(scope [&Scope], key [&Key], delta [i64], options [UpdateOptions]) -> IncrementOutcome;
                Update: update(scope [&Scope], key [&Key], reducer [Reducer], options [UpdateOptions]) -> UpdateOutcome;
                BulkInsert: bulk_insert(scope [&Scope], items [Vec<NewEntry>], options [BulkOptions]) -> Vec<SetOutcome>;
                Search: search(scope [&Scope], query [SearchQuery]) -> SearchResults;
                Stats: stats(scope [&Scope]) -> ScopeStats;
                Reembed: reembed(scope [&Scope], options [ReembedOptions]) -> ReembedOutcome;
                Scopes: scopes(tenant [&TenantId], query [ScopesQuery]) -> ScopePage;
                DriftState: drift_state(scope [&Scope]) -> DriftState;
                DropScope: drop_scope(scope [&Scope]) -> DropOutcome;
                ExportScope: export_scope(scope [&Scope]) -> RecordStream;
                ImportScope: import_scope(scope [&Scope], records [RecordStream], options [ImportOptions]) -> ImportOutcome;
            }
            MemoryLayer {
                Add: add(run [&RunContext], scope [&Scope], messages [&[Message]], options [AddOptions]) -> AddOutcome;
                Recall: recall(run [&RunContext], scope [&Scope], query [RecallQuery]) -> Vec<Fact>;
                Event: event(run [&RunContext], scope [&Scope], id [&EventId]) -> EventStatus;
                Forget: forget(run [&RunContext], scope [&Scope], what [Forget]) -> ForgetOutcome;
                Facts: facts(run [&RunContext], scope [&Scope], query [FactsQuery]) -> FactsPage;
            }
            SqlFacet {
                Exec: exec(run [&RunContext], scope [&Scope], sql [&str], args [&[SqlValue]], options [StatementOptions]) -> ExecOutcome;
                Query: query(run [&RunContext], scope [&Scope], sql [&str], args [&[SqlValue]], options [StatementOptions]) -> Rows;
                Begin: begin(run [&RunContext], scope [&Scope], parent [Option<&TxId>]) -> TxState;
                Commit: commit(run [&RunContext], scope [&Scope], tx [&TxId]) -> TxState;
                Rollback: rollback(run [&RunContext], scope [&Scope], tx [&TxId]) -> TxState;
                DescribeTables: describe_tables(run [&RunContext], scope [&Scope]) -> Vec<TableInfo>;
                SqlScopes: sql_scopes(tenant [&TenantId], query [SqlScopesQuery]) -> SqlScopePage;
                DropSqlScope: drop_sql_scope(scope [&Scope]) -> bool;
                SqlUsage: sql_usage(scope [&Scope]) -> SqlUsage;
                Dump: dump(scope [&Scope]) -> DumpStream;
                Restore: restore(scope [&Scope], dump [DumpStream], options [RestoreOptions]) -> RestoreOutcome;
            }
        }
    };
}

pub(super) use operations;

/// The owned type of an argument.
macro_rules! owned {
    (&str) => { String };
    (&[$type:ty]) => { Vec<$type> };
    (Option<&$type:ident>) => { Option<$type> };
    (&$type:ty) => { $type };
    ($type:ty) => { $type };
}

pub(super) use owned;

/// The argument named `scope`, if any.
macro_rules! scope_among {
    () => { None };
    (scope $value:ident, $($rest:tt)*) => { Some($value) };
    ($name:ident $value:ident, $($rest:tt)*) => { scope_among!($($rest)*) };
}

/// The wire name if given, otherwise the method's.
macro_rules! wire_name {
    ($method:ident) => {
        stringify!($method)
    };
    ($method:ident $wire:literal) => {
        $wire
    };
}

macro_rules! define {
    ($($facet:ident {
        $($variant:ident $(as $wire:literal)?: $method:ident($($arg:ident [$($type:tt)+]),*) -> $reply:ty;)*
    })*) => {
        /// The name of an operation of any facet.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum Op {
            $($(
                #[doc = concat!("[`", stringify!($facet), "::", stringify!($method), "`](crate::", stringify!($facet), "::", stringify!($method), ")")]
                $(#[serde(rename = $wire)])?
                $variant,
            )*)*
        }

        impl Op {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$($(Self::$variant),*),*];

            /// The operation's name on the wire: that of the method, which is unique across facets, except `moment` for
            /// [`Provider::read_snapshot`](crate::Provider::read_snapshot).
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $($(Self::$variant => wire_name!($method $($wire)?),)*)* }
            }
        }

        impl Op {
            /// The trait that the operation belongs to: `Provider`, `Backend`, `MemoryLayer` or `SqlFacet`.
            #[must_use]
            pub const fn facet(self) -> &'static str {
                match self { $($(Self::$variant => stringify!($facet),)*)* }
            }

            /// Whether it stores nothing but access counts and so may be repeated at any time.
            #[must_use]
            pub const fn is_read(self) -> bool {
                matches!(
                    self,
                    Self::Health | Self::Tenants | Self::ReadSnapshot | Self::Tombstones | Self::ScopeUses
                        | Self::Get | Self::GetMany | Self::List | Self::Search | Self::Stats | Self::Scopes
                        | Self::DriftState | Self::ExportScope | Self::Recall | Self::Event | Self::Facts
                        | Self::Query | Self::DescribeTables | Self::SqlScopes | Self::SqlUsage | Self::Dump
                )
            }
        }

        /// One call of a facet, with its arguments.
        #[non_exhaustive]
        pub enum Request {
            $($(
                #[doc = concat!("[`", stringify!($facet), "::", stringify!($method), "`](crate::", stringify!($facet), "::", stringify!($method), ")")]
                $variant {
                    $(#[allow(missing_docs, reason = "the argument of that name")] $arg: owned!($($type)+)),*
                },
            )*)*
        }

        impl Request {
            /// Which operation it is.
            #[must_use]
            pub const fn op(&self) -> Op {
                match self { $($(Self::$variant { .. } => Op::$variant,)*)* }
            }

            /// The scope among the call's arguments; `None` if there is none, as for `health`, `tenants` or `erase`.
            #[must_use]
            #[allow(unused_variables, reason = "all arguments but one")]
            pub fn scope(&self) -> Option<&Scope> {
                match self { $($(Self::$variant { $($arg),* } => scope_among!($($arg $arg,)*),)*)* }
            }

            /// The same, for replacing it.
            #[must_use]
            #[allow(unused_variables, reason = "all arguments but one")]
            pub fn scope_mut(&mut self) -> Option<&mut Scope> {
                match self { $($(Self::$variant { $($arg),* } => scope_among!($($arg $arg,)*),)*)* }
            }
        }

        /// The answer to a [`Request`] of the same variant.
        #[non_exhaustive]
        pub enum Reply {
            $($(
                #[doc = concat!("[`", stringify!($facet), "::", stringify!($method), "`](crate::", stringify!($facet), "::", stringify!($method), ")")]
                $variant($reply),
            )*)*
        }

        impl Reply {
            /// Which operation it answers.
            #[must_use]
            pub const fn op(&self) -> Op {
                match self { $($(Self::$variant(_) => Op::$variant,)*)* }
            }
        }
    };
}

operations!(define);

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Shows only the operation and the scope, because arguments are user data.
impl Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({})", self.op())
    }
}

/// Shows only the operation.
impl Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.op())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_serialized_as_its_name() {
        for op in Op::ALL {
            assert_eq!(serde_json::to_string(op).unwrap(), format!("\"{op}\""));
        }
        assert_eq!(Op::ReadSnapshot.as_str(), "moment");
    }
}
