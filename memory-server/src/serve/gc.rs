//! Garbage collection beside a connection: one sweep at a time, none at the end.

use std::sync::Arc;
use std::time::Duration;

use memory::Memory;
use memory::audit::Auditor;
use memory::gc::{GcControl, GcOptions, sweep};
use memory::system::SystemClock;
use tokio::task::JoinHandle;

use crate::progress::note;

/// How long the end waits for the scope that a sweep is at.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is swept, and how often.
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

    /// Ends them: a sweep under way stops behind the scope that it is at.
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
