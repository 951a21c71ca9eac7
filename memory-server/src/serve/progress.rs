//! Progress notifications of long calls, for clients that sent a progress token.

use std::borrow::Cow;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The interval between two notifications.
const EVERY: Duration = Duration::from_secs(1);
/// Longest delay that the first notification may add to the call.
const FIRST: Duration = Duration::from_secs(1);

/// Operations that may take long: they handle many entries, or call a model or a remote service.
const LONG: &[&str] = &["bulk_insert", "search", "add", "recall", "forget", "sql_exec", "sql_query"];

/// The operation of a call, if it may take long.
pub(super) fn long_operation(arguments: &str) -> Option<&'static str> {
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        op: Cow<'a, str>,
    }
    let call: Call<'_> = serde_json::from_str(arguments).ok()?;
    LONG.iter().find(|op| **op == call.op).copied()
}

/// Notifications of a running call: seconds since its start. There is no total, because an operation is one transaction
/// without countable parts.
pub(super) struct Beats {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Beats {
    /// Sends the first notification, then one per second.
    pub(super) async fn start(peer: Peer<RoleServer>, token: ProgressToken, op: &'static str) -> Self {
        let begun = Instant::now();
        let _ = tokio::time::timeout(FIRST, beat(&peer, &token, op, begun)).await;
        let (end, mut ended) = oneshot::channel();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    _ = &mut ended => return,
                    () = tokio::time::sleep(EVERY) => beat(&peer, &token, op, begun).await,
                }
            }
        });
        Self { end, task }
    }

    /// Stops, so that no notification follows the answer.
    pub(super) async fn stop(self) {
        let _ = self.end.send(());
        let _ = tokio::time::timeout(FIRST, self.task).await;
    }
}

async fn beat(peer: &Peer<RoleServer>, token: &ProgressToken, op: &str, begun: Instant) {
    let seconds = begun.elapsed().as_secs_f64();
    let sign =
        ProgressNotificationParam::new(token.clone(), seconds).with_message(format!("{op}: {seconds:.0} s"));
    // The client may be gone.
    let _ = peer.notify_progress(sign).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_may_take_long_are_told_from_those_that_do_not() {
        assert_eq!(long_operation(r#"{"items":[],"op":"bulk_insert"}"#), Some("bulk_insert"));
        assert_eq!(long_operation(r#"{"op":"\u0073earch","query":"x"}"#), Some("search"));
        for other in [r#"{"op":"get","key":"k"}"#, r#"{"op":7}"#, "[]", "", r#"{"op":"search""#] {
            assert_eq!(long_operation(other), None, "{other}");
        }
    }

    #[test]
    fn only_operations_that_exist_are_listed() {
        for op in LONG {
            assert!(memory::ToolOp::ALL.iter().any(|known| known.as_str() == *op), "{op}");
        }
    }
}
