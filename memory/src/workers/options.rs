//! Options of worker processes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use memory_core::{Error, Result};

/// Options of worker processes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Number of processes: 1 to 64. Each scope belongs to one of them. Default 2.
    pub processes: usize,
    /// Longest reply in bytes; a process that exceeds it is ended. Default 64 MiB.
    pub reply_bytes: usize,
    /// Timeout of a call without a deadline, after which the process is ended. Default 30 s, as for statements.
    pub deadline: Duration,
    /// How far a call may exceed its deadline before the process is ended. Default 5 s.
    pub grace: Duration,
}

impl WorkerOptions {
    /// A program and its arguments.
    #[must_use]
    pub fn new(
        program: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            processes: 2,
            reply_bytes: 64 << 20,
            deadline: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }

    /// Sets the number of processes.
    #[must_use]
    pub fn with_processes(mut self, processes: usize) -> Self {
        self.processes = processes;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        if (1..=64).contains(&self.processes) {
            Ok(())
        } else {
            Err(Error::invalid(format!("{} worker processes; 1 to 64 are allowed", self.processes)))
        }
    }
}
