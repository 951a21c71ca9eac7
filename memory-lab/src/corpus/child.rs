//! The parent's handle on the process that runs the statements.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use memory_core::Error;
use memory_server::terminal::{Context, Failure};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use super::judge::Verdict;
use super::options::RunOptions;
use super::worker::Report;

/// Time allowed beyond a statement's own limit: for starting, filling a scope and comparing.
const OVERHEAD: Duration = Duration::from_secs(15);

/// A running process.
pub(super) struct Child {
    process: tokio::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Why a line has no verdict.
#[derive(Clone, Copy, Debug)]
pub(super) enum NoVerdict {
    /// The process ended.
    Crashed,
    /// It did not answer in time.
    Hung,
}

impl NoVerdict {
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::Hung => "hung",
        }
    }
}

impl Child {
    /// Starts the process, which begins at this line.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start(
        context: &Context,
        options: &RunOptions,
        folder: &Path,
        from: usize,
    ) -> Result<Self, Failure> {
        let failed =
            |error| Failure::File("the process that runs the statements cannot be started".to_owned(), error);
        let own = folder.join(format!("from-{from}"));
        std::fs::create_dir(&own).map_err(failed)?;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["corpus", "--json", "--quiet"]).arg(&options.corpus);
        command.arg("--timeout").arg(format!("{}ms", options.timeout.as_millis()));
        command.arg("--quota").arg(options.quota.to_string());
        command.arg("--child-folder").arg(own).arg("--child-from").arg(from.to_string());
        if let Some(base) = &options.base {
            command.arg("--base").arg(base);
        }
        if let Some(store) = context.named_store()? {
            // Not as an argument: arguments are visible to every user of the machine.
            let url = format!("{}:{}", store.url.scheme(), store.url.expose_rest());
            command.env("MEMORY_URL", url).env_remove("MEMORY_BACKEND");
            if let Some(base) = store.base_dir {
                command.current_dir(base);
            }
        }
        if let Some(layer) = &options.only_layer {
            command.arg("--only-layer").arg(layer);
        }
        if options.no_validator {
            command.arg("--no-validator");
        }
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().map_err(failed)?;
        let output = process.stdout.take().ok_or_else(|| Error::internal("the child has no output pipe"))?;
        Ok(Self { process, lines: BufReader::new(output).lines() })
    }

    /// The next line's verdict, or why there is none; the process is then unusable.
    ///
    /// # Errors
    /// If the process reports that the run cannot go on.
    pub(super) async fn next(&mut self, timeout: Duration) -> Result<Result<Verdict, NoVerdict>, Failure> {
        let Ok(read) = tokio::time::timeout(timeout + OVERHEAD, self.lines.next_line()).await else {
            let _ = self.process.start_kill();
            return Ok(Err(NoVerdict::Hung));
        };
        let Ok(Some(line)) = read else { return Ok(Err(NoVerdict::Crashed)) };
        match serde_json::from_str(&line) {
            Ok(Report::Ran { mut verdict, message }) => {
                verdict.message = message;
                Ok(Ok(verdict))
            }
            Ok(Report::Failed(why)) => Err(Failure::invalid(why)),
            // A truncated message.
            Err(_) => Ok(Err(NoVerdict::Crashed)),
        }
    }

    /// Waits for the process to exit.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(OVERHEAD, self.process.wait()).await;
    }
}
