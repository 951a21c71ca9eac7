//! The wrapper itself, a provider behind one function, and providers behind pointers.

use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use super::hook::Hook;
use super::next::Next;
use super::operations::{Op, Reply, Request, operations};
use crate::backend::{
    Backend, BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, GetOptions, ImportOptions,
    ImportOutcome, IncrementOutcome, ListQuery, NewEntry, Page, RecordStream, ReembedOptions, ReembedOutcome,
    ScopePage, ScopeStats, ScopesQuery, SearchQuery, SearchResults, SetOptions, SetOutcome, UpdateOptions,
    UpdateOutcome,
};
use crate::capabilities::Capabilities;
use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::json::Json;
use crate::layer::{
    AddOptions, AddOutcome, EventId, EventStatus, Fact, FactsPage, FactsQuery, Forget, ForgetOutcome,
    MemoryLayer, Message, RecallQuery,
};
use crate::lifecycle::drift::DriftState;
use crate::lifecycle::erase::{EraseTarget, Erased, Tombstone, TombstoneId, TombstonesOf};
use crate::lifecycle::eviction::{EvictOutcome, Reclaimed, ScopeUsesPage, ScopeUsesQuery};
use crate::lifecycle::snapshot::ReadSnapshot;
use crate::provider::{Figure, Health, Provider};
use crate::reduce::Reducer;
use crate::scope::{Key, RunContext, Scope, ScopeId, TenantId};
use crate::sql::{
    DumpStream, ExecOutcome, RestoreOptions, RestoreOutcome, Rows, SqlFacet, SqlScopePage, SqlScopesQuery,
    SqlUsage, SqlValue, StatementOptions, TableInfo, TxId, TxState,
};
use crate::time::Timestamp;

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

    /// The wrapped provider.
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// The hook.
    pub fn hook(&self) -> &H {
        &self.hook
    }

    async fn call(&self, request: Request) -> Result<Reply> {
        self.hook.around(request, Next::to(&self.inner)).await
    }
}

/// An argument converted to the request's owned type.
macro_rules! owned {
    ($arg:ident & $($type:tt)+) => {
        $arg.to_owned()
    };
    ($arg:ident Option<& $($type:tt)+) => {
        $arg.cloned()
    };
    ($arg:ident $($type:tt)+) => {
        $arg
    };
}

/// Where a [`Proxy`] sends its calls.
#[async_trait]
pub trait Exchange: Send + Sync + std::fmt::Debug {
    /// The provider's name.
    fn name(&self) -> &str;

    /// What it serves. It has exactly the facets whose flags are set here.
    fn capabilities(&self) -> &Capabilities;

    /// Answers a request; the reply is of the same operation.
    ///
    /// # Errors
    /// The call's error.
    async fn exchange(&self, request: Request) -> Result<Reply>;
}

/// A provider whose calls all go through one function: another process, or a server.
#[derive(Debug)]
pub struct Proxy<E>(E);

impl<E: Exchange> Proxy<E> {
    /// Sends calls to `exchange`.
    pub fn new(exchange: E) -> Self {
        Self(exchange)
    }

    async fn call(&self, request: Request) -> Result<Reply> {
        self.0.exchange(request).await
    }
}

/// What `async_trait` would make of `async fn close`; it cannot see into the macros below.
type Closing<'c> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'c>>;

/// A facet's methods that are not operations. Closing a [`Proxy`] does not close what is behind it.
macro_rules! accessors {
    (Interposed Provider) => {
        fn close<'s: 'c, 'c>(&'s self) -> Closing<'c>
        where
            Self: 'c,
        {
            self.hook.close(&self.inner)
        }

        fn name(&self) -> &str {
            self.inner.name()
        }

        fn figures(&self) -> Vec<Figure> {
            self.inner.figures()
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
    };
    (Proxy Provider) => {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn capabilities(&self) -> Capabilities {
            self.0.capabilities().clone()
        }

        fn backend(&self) -> Option<&dyn Backend> {
            self.0.capabilities().kv.then_some(self as _)
        }

        fn layer(&self) -> Option<&dyn MemoryLayer> {
            self.0.capabilities().memory_layer.then_some(self as _)
        }

        fn sql(&self) -> Option<&dyn SqlFacet> {
            self.0.capabilities().sql.then_some(self as _)
        }
    };
    ($wrapper:ident $facet:ident) => {};
}

macro_rules! forward {
    (@ [$($parameter:ident: $bound:ident),*] $wrapper:ident $facet:ident {
        $($variant:ident $(as $wire:literal)?: $method:ident($($arg:ident [$($type:tt)+]),*) -> $reply:ty;)*
    }) => {
        #[allow(clippy::redundant_field_names, reason = "an argument that is owned already")]
        #[async_trait]
        impl<$($parameter: $bound),*> $facet for $wrapper<$($parameter),*> {
            accessors!($wrapper $facet);

            $(async fn $method(&self $(, $arg: $($type)+)*) -> Result<$reply> {
                match self.call(Request::$variant { $($arg: owned!($arg $($type)+)),* }).await? {
                    Reply::$variant(reply) => Ok(reply),
                    other => Err(wrong_reply(Op::$variant, &other)),
                }
            })*
        }
    };
    ($($facet:ident $methods:tt)*) => {$(
        forward!(@ [P: Provider, H: Hook] Interposed $facet $methods);
        forward!(@ [E: Exchange] Proxy $facet $methods);
    )*};
}

operations!(forward);

/// A facet's methods that are not operations, behind a pointer.
macro_rules! pointed {
    (Provider) => {
        fn close<'s: 'c, 'c>(&'s self) -> Closing<'c>
        where
            Self: 'c,
        {
            (**self).close()
        }

        fn name(&self) -> &str {
            (**self).name()
        }

        fn figures(&self) -> Vec<Figure> {
            (**self).figures()
        }

        fn capabilities(&self) -> Capabilities {
            (**self).capabilities()
        }

        fn backend(&self) -> Option<&dyn Backend> {
            (**self).backend()
        }

        fn layer(&self) -> Option<&dyn MemoryLayer> {
            (**self).layer()
        }

        fn sql(&self) -> Option<&dyn SqlFacet> {
            (**self).sql()
        }
    };
    ($facet:ident) => {};
}

/// Providers and backends behind a pointer.
macro_rules! pointers {
    (@MemoryLayer $methods:tt) => {};
    (@SqlFacet $methods:tt) => {};
    (@$facet:ident $methods:tt) => {
        pointers!(@@Arc $facet $methods);
        pointers!(@@Box $facet $methods);
    };
    (@@$pointer:ident $facet:ident {
        $($variant:ident $(as $wire:literal)?: $method:ident($($arg:ident [$($type:tt)+]),*) -> $reply:ty;)*
    }) => {
        #[async_trait]
        impl<T: $facet + ?Sized> $facet for $pointer<T> {
            pointed!($facet);

            $(async fn $method(&self $(, $arg: $($type)+)*) -> Result<$reply> {
                (**self).$method($($arg),*).await
            })*
        }
    };
    ($($facet:ident $methods:tt)*) => {
        $(pointers!(@$facet $methods);)*
    };
}

operations!(pointers);

fn wrong_reply(asked: Op, reply: &Reply) -> Error {
    Error::internal(format!("a hook answered `{asked}` with a reply of `{}`", reply.op()))
}
