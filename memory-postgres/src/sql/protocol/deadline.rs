//! Passing a deadline to the server.

use std::time::Duration;

use tokio::time::Instant;

/// How long a commit or rollback may take; it is never cancelled.
pub(crate) const COMMIT_PATIENCE: Duration = Duration::from_secs(60);

/// The server's timeouts for the rest of the deadline.
pub(crate) fn limits(deadline: Instant) -> String {
    let left = deadline.saturating_duration_since(Instant::now()).as_millis().max(1);
    format!("SET LOCAL statement_timeout = {left}; SET LOCAL lock_timeout = {left}")
}
