//! Runs cases: each on its own thread, with a time limit, catching panics.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

#[cfg(feature = "mutants")]
use memory_core::Capabilities;

use crate::case::{Case, Need};
use crate::check::{CaseResult, Stop};
use crate::cx::{Cx, Store};
use crate::harness::Harness;
use crate::harness::fixture::Fixture;
use crate::refusals;

/// How long a case may take unless the caller says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The behaviour was shown.
    Passed,
    /// The capability is not advertised, and every operation of it was refused.
    Refused(Need),
    /// The case does not apply, for this reason.
    Skipped(String),
    /// The behaviour was not shown, for this reason.
    Failed(String),
}

impl Verdict {
    /// Why it failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Failed(why) => Some(why),
            _ => None,
        }
    }
}

/// A case with its end.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The case.
    pub case: Case,
    /// How it ended.
    pub verdict: Verdict,
    /// How long it took, all repeats together.
    pub elapsed: Duration,
}

/// Runs one case with all its repeats on its own thread. A case that takes longer than `timeout` has failed; its thread
/// is abandoned.
#[must_use]
pub fn run_case(harness: &Arc<dyn Harness>, case: &Case, timeout: Duration) -> Outcome {
    let started = Instant::now();
    let (send, receive) = mpsc::channel();
    let (harness, case) = (Arc::clone(harness), *case);
    let spawned = thread::Builder::new().name(case.id.to_owned()).spawn(move || {
        let verdict = catch_unwind(AssertUnwindSafe(|| {
            let mut verdict = None;
            let attempt = attempt(Arc::clone(&harness), &case);
            harness.block_on(Box::pin(async { verdict = Some(attempt.await) }));
            verdict
        }));
        let verdict = match verdict {
            Ok(Some(Ok(None))) => Verdict::Passed,
            Ok(Some(Ok(Some(need)))) => Verdict::Refused(need),
            Ok(Some(Err(Stop::Skipped(why)))) => Verdict::Skipped(why),
            Ok(Some(Err(Stop::Failed(why)))) => Verdict::Failed(why),
            Ok(None) => Verdict::Failed("the harness's block_on returned before the future ended".to_owned()),
            Err(panic) => Verdict::Failed(format!("panicked: {}", panic_text(&*panic))),
        };
        // Nobody listens any more after the time limit.
        let _ = send.send(verdict);
    });
    let verdict = match spawned {
        Err(error) => Verdict::Failed(format!("no thread could be started: {error}")),
        Ok(_) => receive.recv_timeout(timeout).unwrap_or_else(|_| {
            Verdict::Failed(format!(
                "did not end within {} s; it hangs or is very slow",
                timeout.as_secs_f64()
            ))
        }),
    };
    Outcome { case, verdict, elapsed: started.elapsed() }
}

/// What a harness's provider advertises; `None` if it cannot be opened in time.
#[cfg(feature = "mutants")]
pub(crate) fn capabilities(harness: &Arc<dyn Harness>, timeout: Duration) -> Option<Capabilities> {
    let (send, receive) = mpsc::channel();
    let harness = Arc::clone(harness);
    thread::Builder::new()
        .name("capabilities".to_owned())
        .spawn(move || {
            let opened = catch_unwind(AssertUnwindSafe(|| {
                let mut opened = None;
                let store = Store::open(Arc::clone(&harness), Fixture::new("capabilities"));
                harness.block_on(Box::pin(async { opened = store.await.ok() }));
                opened.map(|store| store.provider().capabilities())
            }));
            // Nobody listens any more after the time limit.
            let _ = send.send(opened.ok().flatten());
        })
        .ok()?;
    receive.recv_timeout(timeout).ok().flatten()
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

/// `Ok(Some(need))`: the refusal was proved.
async fn attempt(harness: Arc<dyn Harness>, case: &Case) -> CaseResult<Option<Need>> {
    static OPENED: AtomicU64 = AtomicU64::new(1);
    let name = format!("{}-{}", case.id, OPENED.fetch_add(1, Ordering::SeqCst));
    let store = Store::open(harness, Fixture::new(name)).await?;
    let capabilities = store.provider().capabilities();
    let missing = case.needs.iter().copied().find(|need| !need.is_met(&capabilities));
    for repeat in 0..case.repeat.max(1) {
        let cx = Cx::new(store.clone(), case.id, repeat)?;
        let run = async {
            match missing {
                Some(need) => refusals::prove(&cx, need).await,
                None => (case.run)(&cx).await,
            }
        };
        let ended = run.await;
        if missing.is_none() && store.is_out_of_time() {
            return Err(Stop::skipped(
                "the case needs a clock that it can move, and the store lives by another",
            ));
        }
        ended.map_err(|stop| match stop {
            Stop::Failed(why) if repeat > 0 => Stop::Failed(format!("at repeat {repeat}: {why}")),
            stop => stop,
        })?;
    }
    Ok(missing)
}
