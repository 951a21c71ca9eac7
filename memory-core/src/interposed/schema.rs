//! The JSON Schemas of requests and replies, generated from the table of operations.

use schemars::{Schema, SchemaGenerator};

use super::operations::{Op, operations, owned};
use super::wire::replied;
use crate::backend::{
    BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, GetOptions, ImportOptions, ImportOutcome,
    IncrementOutcome, ListQuery, NewEntry, Page, ReembedOptions, ReembedOutcome, ScopePage, ScopeStats,
    ScopesQuery, SearchQuery, SearchResults, SetOptions, SetOutcome, UpdateOptions, UpdateOutcome,
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
use crate::provider::Health;
use crate::reduce::Reducer;
use crate::scope::{Key, RunContext, Scope, ScopeId, TenantId};
use crate::sql::{
    ExecOutcome, RestoreOptions, RestoreOutcome, Rows, SqlScopePage, SqlScopesQuery, SqlUsage, SqlValue,
    StatementOptions, TableInfo, TxId, TxState,
};
use crate::time::Timestamp;

/// The schema of one argument.
macro_rules! schema {
    ($arguments:ident $generator:ident $name:ident RecordStream) => {};
    ($arguments:ident $generator:ident $name:ident DumpStream) => {};
    ($arguments:ident $generator:ident $name:ident $($type:tt)+) => {
        $arguments.push((stringify!($name), $generator.subschema_for::<owned!($($type)+)>()));
    };
}

macro_rules! schemas {
    ($($facet:ident {
        $($variant:ident $(as $wire:literal)?: $method:ident($($arg:ident [$($type:tt)+]),*) -> $reply:ty;)*
    })*) => {
        impl Op {
            /// The JSON Schemas of its arguments, by name and without streams, and of its result if that has a JSON
            /// form.
            #[must_use]
            #[allow(clippy::vec_init_then_push, reason = "what is pushed depends on the operation")]
            pub fn schemas(self, generator: &mut SchemaGenerator) -> (Vec<(&'static str, Schema)>, Option<Schema>) {
                match self {
                    $($(Self::$variant => {
                        #[allow(unused_mut, reason = "an operation may have no arguments")]
                        let mut arguments = Vec::new();
                        $(schema!(arguments generator $arg $($type)+);)*
                        (arguments, replied!($variant Some(generator.subschema_for::<$reply>()), None))
                    })*)*
                }
            }
        }
    };
}

operations!(schemas);
