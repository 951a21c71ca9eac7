//! How worker processes are started.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use memory_core::{Error, Result};

/// How worker processes are started.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// How many processes: 1 to 64. Each scope belongs to one of them. Default 2.
    pub processes: usize,
    /// Most bytes of one reply; a process that exceeds it is ended. Default 64 MiB.
    pub reply_bytes: usize,
    /// What a call without a deadline may take, before the process is ended. Default 30 s, the default of statements.
    pub deadline: Duration,
    /// What a call may take beyond its deadline, before the process is ended. Default 5 s.
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

    /// Sets how many processes there are.
    #[must_use]
    pub fn with_processes(mut self, processes: usize) -> Self {
        self.processes = processes;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        if (1..=64).contains(&self.processes) {
            Ok(())
        } else {
            Err(Error::invalid(format!("{} worker processes; there may be 1 to 64", self.processes)))
        }
    }
}
