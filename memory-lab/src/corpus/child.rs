//! The parent's handle on the process that runs the statements.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use memory_core::Error;
use memory_server::terminal::{Context, Failure};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

use super::judge::Verdict;
use super::trial::Trial;
use super::worker::Told;

/// Time allowed beyond a statement's own limit: to start, to fill a scope, to compare.
const AROUND: Duration = Duration::from_secs(15);

/// A running process.
pub(super) struct Child {
    process: tokio::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Why a line has no verdict.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lost {
    /// The process ended.
    Crashed,
    /// It did not answer in time.
    Hung,
}

impl Lost {
    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Crashed => "crashed",
            Self::Hung => "hung",
        }
    }
}

impl Child {
    /// Starts the process at this line.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub(super) fn start(
        context: &Context,
        trial: &Trial,
        place: &Path,
        from: usize,
    ) -> Result<Self, Failure> {
        let failed =
            |error| Failure::File("the process that tries statements cannot be started".to_owned(), error);
        let own = place.join(format!("from-{from}"));
        std::fs::create_dir(&own).map_err(failed)?;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["corpus", "--json", "--quiet"]).arg(&trial.corpus);
        command.arg("--timeout").arg(format!("{}ms", trial.timeout.as_millis()));
        command.arg("--quota").arg(trial.quota.to_string());
        command.arg("--child-folder").arg(own).arg("--child-from").arg(from.to_string());
        if let Some(base) = &trial.base {
            command.arg("--base").arg(base);
        }
        if let Some(store) = context.named_store()? {
            // Not as an argument, which everybody on the machine can read.
            let url = format!("{}:{}", store.url.scheme(), store.url.expose_rest());
            command.env("MEMORY_URL", url).env_remove("MEMORY_BACKEND");
            if let Some(base) = store.base_dir {
                command.current_dir(base);
            }
        }
        if let Some(layer) = &trial.only_layer {
            command.arg("--only-layer").arg(layer);
        }
        if trial.no_validator {
            command.arg("--no-validator");
        }
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn().map_err(failed)?;
        let output = process.stdout.take().ok_or_else(|| Error::internal("a pipe was asked for"))?;
        Ok(Self { process, lines: BufReader::new(output).lines() })
    }

    /// The next line's verdict, or why there is none, after which the process is unusable.
    ///
    /// # Errors
    /// Where it says that the run cannot go on.
    pub(super) async fn next(&mut self, patience: Duration) -> Result<Result<Verdict, Lost>, Failure> {
        let Ok(read) = tokio::time::timeout(patience + AROUND, self.lines.next_line()).await else {
            let _ = self.process.start_kill();
            return Ok(Err(Lost::Hung));
        };
        let Ok(Some(line)) = read else { return Ok(Err(Lost::Crashed)) };
        match serde_json::from_str(&line) {
            Ok(Told::Tried { mut verdict, message }) => {
                verdict.message = message;
                Ok(Ok(verdict))
            }
            Ok(Told::Failed(why)) => Err(Failure::invalid(why)),
            // Cut off in the middle.
            Err(_) => Ok(Err(Lost::Crashed)),
        }
    }

    /// Waits for the process to exit.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(AROUND, self.process.wait()).await;
    }
}
