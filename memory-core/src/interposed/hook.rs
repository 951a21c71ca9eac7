//! Hooks around calls.

use std::fmt::Debug;

use async_trait::async_trait;

use super::next::Next;
use super::operations::{Op, Reply, Request};
use crate::capabilities::Capabilities;
use crate::error::Result;
use crate::provider::Provider;
use crate::scope::Scope;

/// Called by [`Interposed`](crate::Interposed) around every operation.
///
/// Most hooks need only [`Hook::before`] and [`Hook::after`]. [`Hook::around`] replaces both for a hook that must see
/// request and reply together, or call several times or not at all.
#[async_trait]
pub trait Hook: Send + Sync + Debug {
    /// What the wrapped provider advertises, as changed by this hook.
    fn capabilities(&self, inner: Capabilities) -> Capabilities {
        inner
    }

    /// Called first; may change the request, or answer it by returning a reply of the same operation.
    ///
    /// # Errors
    /// The error becomes the result; the provider is not called, nor is `after`.
    async fn before(&self, request: &mut Request) -> Result<Option<Reply>> {
        let _ = request;
        Ok(None)
    }

    /// Called last; may replace the result by another of the same operation.
    ///
    /// # Errors
    /// The call's error.
    async fn after(&self, op: Op, scope: Option<&Scope>, reply: Result<Reply>) -> Result<Reply> {
        let _ = (op, scope);
        reply
    }

    /// Runs the whole call.
    ///
    /// # Errors
    /// The call's error.
    async fn around(&self, mut request: Request, next: Next<'_>) -> Result<Reply> {
        if let Some(reply) = self.before(&mut request).await? {
            return Ok(reply);
        }
        let (op, scope) = (request.op(), request.scope().cloned());
        let reply = next.run(request).await;
        self.after(op, scope.as_ref(), reply).await
    }

    /// Closes the wrapped provider. Closing is not an operation.
    ///
    /// # Errors
    /// As [`Provider::close`].
    async fn close(&self, inner: &dyn Provider) -> Result<()> {
        inner.close().await
    }
}
