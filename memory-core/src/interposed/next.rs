//! Runs requests on a provider.

use super::operations::{Reply, Request, operations};
use crate::error::{Error, Result};
use crate::provider::Provider;

/// The wrapped provider as a hook sees it: runs as many requests as the hook wants.
#[derive(Clone, Copy, Debug)]
pub struct Next<'a> {
    provider: &'a dyn Provider,
}

impl<'a> Next<'a> {
    /// Runs requests on any provider.
    #[must_use]
    pub fn to(provider: &'a dyn Provider) -> Self {
        Self { provider }
    }

    /// The wrapped provider itself.
    #[must_use]
    pub fn provider(&self) -> &dyn Provider {
        self.provider
    }
}

/// A provider's facet; if it is missing, the enclosing function returns `capability_unsupported`.
macro_rules! facet {
    (Provider, $provider:ident, $op:ident) => { $provider };
    (Backend, $provider:ident, $op:ident) => { facet!(@ $provider.backend(), $provider, $op) };
    (MemoryLayer, $provider:ident, $op:ident) => { facet!(@ $provider.layer(), $provider, $op) };
    (SqlFacet, $provider:ident, $op:ident) => { facet!(@ $provider.sql(), $provider, $op) };
    (@ $facet:expr, $provider:ident, $op:ident) => {
        $facet.ok_or_else(|| Error::unsupported($op.as_str(), $provider.name()))?
    };
}

/// Passes an owned argument in the form the method expects.
macro_rules! lent {
    ($arg:ident & $($type:tt)+) => {
        &$arg
    };
    ($arg:ident Option<& $($type:tt)+) => {
        $arg.as_ref()
    };
    ($arg:ident $($type:tt)+) => {
        $arg
    };
}

macro_rules! dispatch {
    ($($facet:ident {
        $($variant:ident $(as $wire:literal)?: $method:ident($($arg:ident [$($type:tt)+]),*) -> $reply:ty;)*
    })*) => {
        impl Next<'_> {
            /// Runs a request; the reply is of the same operation.
            ///
            /// # Errors
            /// The provider's errors; `capability_unsupported` for a missing facet.
            pub async fn run(&self, request: Request) -> Result<Reply> {
                let (provider, op) = (self.provider, request.op());
                Ok(match request {
                    $($(Request::$variant { $($arg),* } => Reply::$variant(
                        facet!($facet, provider, op).$method($(lent!($arg $($type)+)),*).await?
                    ),)*)*
                })
            }
        }
    };
}

operations!(dispatch);
