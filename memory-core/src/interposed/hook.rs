//! What a wrapper does around a call.

use std::fmt::Debug;

use async_trait::async_trait;

use super::next::Next;
use super::operations::{Op, Reply, Request};
use crate::capabilities::Capabilities;
use crate::error::Result;
use crate::scope::Scope;

/// What an [`Interposed`](crate::Interposed) does around every call.
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
