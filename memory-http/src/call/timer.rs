//! Monotonic time and waiting, injected so that backoff and breakers are tested without sleeping.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

/// Measures time and waits. Network timeouts always use Tokio's time.
#[async_trait]
pub trait Timer: Send + Sync + fmt::Debug {
    /// Time since a fixed point; never goes back.
    fn now(&self) -> Duration;

    /// Returns after `duration`.
    async fn sleep(&self, duration: Duration);
}

/// Tokio's timer.
#[derive(Clone, Copy, Debug)]
pub struct TokioTimer {
    start: Instant,
}

impl TokioTimer {
    /// A timer that starts at zero now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for TokioTimer {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Timer for TokioTimer {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
