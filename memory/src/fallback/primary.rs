//! The primary: opened when possible, and left alone for a while after it was unreachable.

use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_core::{Capabilities, Clock, Error, ErrorKind, HealthStatus, Next, Op, Reply, Request, Result};

use super::both::both;
use crate::memory::Memory;

/// Opens a backend that could not be opened at first.
#[async_trait]
pub(crate) trait Opens: Send + Sync + Debug {
    /// Opens it; bounded in time.
    async fn open(&self) -> Result<Memory>;
}

/// Whether the error means that nothing was written, so another store may be asked.
pub(super) fn falls(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

#[derive(Debug)]
pub(super) struct Primary {
    opener: Option<Box<dyn Opens>>,
    opened: Mutex<Option<Memory>>,
    clock: Arc<dyn Clock>,
    /// Until when it is left alone, in milliseconds since the epoch.
    rests_until: AtomicI64,
    rest_millis: i64,
    /// What the pair advertises given the fallback's capabilities. A primary that comes back must serve all of it.
    fallback: Capabilities,
    needs: Capabilities,
    /// Whether writes are replayed to it.
    replays: bool,
}

impl Primary {
    pub(super) fn new(
        opened: Option<Memory>,
        opener: Option<Box<dyn Opens>>,
        clock: Arc<dyn Clock>,
        rest_millis: u32,
        (fallback, needs): (Capabilities, Capabilities),
        replays: bool,
    ) -> Self {
        let primary = Self {
            opener,
            opened: Mutex::new(opened),
            clock,
            rests_until: AtomicI64::new(0),
            rest_millis: i64::from(rest_millis),
            fallback,
            needs,
            replays,
        };
        if primary.now_opened().is_none() {
            primary.rest();
        }
        primary
    }

    /// The opened backend, if it is.
    pub(super) fn now_opened(&self) -> Option<Memory> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it failed so recently that it is left alone.
    pub(super) fn rests(&self) -> bool {
        let left = self.rests_until.load(Ordering::Acquire).saturating_sub(self.clock.now().as_millis());
        // More time can be left only if the clock was set back.
        0 < left && left <= self.rest_millis
    }

    fn rest(&self) {
        let until = self.clock.now().as_millis().saturating_add(self.rest_millis);
        self.rests_until.store(until, Ordering::Release);
    }

    /// The opened backend.
    pub(super) async fn get(&self) -> Result<Memory> {
        if let Some(memory) = self.now_opened() {
            return Ok(memory);
        }
        let Some(opener) = &self.opener else {
            return Err(Error::internal("a primary that was never opened has no way to be"));
        };
        let memory = opener.open().await?;
        let capabilities = memory.capabilities();
        let lacks_cas = self.replays && !(capabilities.kv && capabilities.compare_and_set);
        if lacks_cas || both(&capabilities, &self.fallback) != self.needs {
            return Err(Error::unavailable(
                "the primary store has come back without capabilities that were advertised for it; reopen the store \
                 ",
            ));
        }
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(memory.clone());
        Ok(memory)
    }

    /// Runs a request. If the primary cannot be reached, it is left alone for a while.
    pub(super) async fn run(&self, request: Request) -> Result<Reply, Failed> {
        let by_itself = fails_by_itself(request.op());
        let reply = async {
            let memory = self.get().await?;
            Next::to(&memory).run(request).await
        }
        .await;
        match reply {
            Err(error) if falls(&error) && !(by_itself && self.is_well().await) => {
                self.rest();
                Err(Failed { error, is_away: true })
            }
            Err(error) => Err(Failed { error, is_away: false }),
            Ok(reply) => {
                self.rests_until.store(0, Ordering::Release);
                Ok(reply)
            }
        }
    }

    async fn is_well(&self) -> bool {
        match self.now_opened() {
            Some(memory) => memory.health().await.is_ok_and(|health| health.status == HealthStatus::Ok),
            None => false,
        }
    }
}

/// Why the primary did not answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) error: Error,
    /// Whether the primary is unreachable and nothing was written.
    pub(super) is_away: bool,
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// Whether a call may be `unavailable` or `timeout` at a healthy store, because its embedder fails or its statement is
/// slow. The fallback would fare no better.
fn fails_by_itself(op: Op) -> bool {
    matches!(op, Op::Search | Op::Reembed) || op.facet() == "SqlFacet"
}
