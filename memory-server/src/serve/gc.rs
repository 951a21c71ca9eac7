//! Garbage collection beside a connection: one sweep at a time, none at the end.

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
pub(super) struct Schedule {
    pub(super) options: GcOptions,
    pub(super) interval: Duration,
}

/// Sweeps under way or to come.
#[derive(Debug)]
pub(super) struct Sweeps {
    control: GcControl,
    task: JoinHandle<()>,
}

impl Sweeps {
    /// Begins; the first sweep is an interval away.
    pub(super) fn begin(memory: Memory, schedule: Schedule, auditor: Option<Arc<Auditor>>) -> Self {
        let control = GcControl::default().with_auditor(auditor);
        let own = control.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(schedule.interval).await;
                match sweep(&memory, &schedule.options, &SystemClock, &own).await {
                    Ok(report) if report.stopped => return,
                    Ok(_) => {}
                    Err(error) => note(&format!("memory: garbage collection is put off: {error}")),
                }
            }
        });
        Self { control, task }
    }

    /// Stops the sweeps: one in progress ends after its current scope.
    pub(super) async fn end(mut self) {
        self.control.stop();
        // One that sleeps has nothing to end.
        tokio::select! {
            _ = &mut self.task => {}
            () = tokio::time::sleep(if self.control.is_busy() { PATIENCE } else { Duration::ZERO }) => {}
        }
        self.task.abort();
    }
}
