//! Garbage collection while a connection is served: one sweep at a time, none during shutdown.

use std::sync::Arc;
use std::time::Duration;

use memory::Memory;
use memory::audit::Auditor;
use memory::gc::{GcControl, GcOptions, sweep};
use memory::system::SystemClock;
use tokio::task::JoinHandle;

use crate::terminal::note;

/// How long shutdown waits for the scope being swept.
const PATIENCE: Duration = Duration::from_secs(5);

/// What to sweep, and how often.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) options: GcOptions,
    pub(crate) interval: Duration,
}

/// The background task that sweeps.
#[derive(Debug)]
pub(crate) struct Sweeps {
    control: GcControl,
    task: JoinHandle<()>,
}

impl Sweeps {
    /// Starts the task; the first sweep comes after one interval.
    pub(crate) fn begin(memory: Memory, schedule: Schedule, auditor: Option<Arc<Auditor>>) -> Self {
        let control = GcControl::default().with_auditor(auditor);
        let own = control.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(schedule.interval).await;
                match sweep(&memory, &schedule.options, &SystemClock, &own).await {
                    Ok(report) if report.stopped => return,
                    Ok(_) => {}
                    Err(error) => note(&format!("memory: garbage collection is postponed: {error}")),
                }
            }
        });
        Self { control, task }
    }

    /// Stops the sweeps: one in progress ends after its current scope.
    pub(crate) async fn end(mut self) {
        self.control.stop();
        // A sleeping task can end at once.
        tokio::select! {
            _ = &mut self.task => {}
            () = tokio::time::sleep(if self.control.is_busy() { PATIENCE } else { Duration::ZERO }) => {}
        }
        self.task.abort();
    }
}
