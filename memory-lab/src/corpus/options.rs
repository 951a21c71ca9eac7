//! Options of `corpus`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use memory_server::terminal::{Failure, duration};

/// Rows read of a result; the rest is cut off, as for an agent.
pub(super) const MAX_ROWS: usize = 1_000;
/// Bytes read of a result.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// How long a statement may overrun its deadline before it counts as hung.
pub(super) const GRACE: Duration = Duration::from_secs(2);
/// Default time limit of a statement.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Options of `corpus`.
#[derive(Args, Debug)]
pub(crate) struct CorpusArgs {
    /// The statements, as JSON Lines; each runs in a fresh scope
    #[arg(value_name = "FILE", required_unless_present = "corpus")]
    file: Option<PathBuf>,
    /// The same, as an option
    #[arg(long, value_name = "FILE", hide = true, conflicts_with = "file")]
    corpus: Option<PathBuf>,
    /// SQL that sets up each scope, run with the runtime's rights
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// Time limit of a statement [default: 1s]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Size limit of a scope's database, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 32 << 20)]
    quota: u64,
    /// Switch the validator off, to see what the other layers stop
    #[arg(long)]
    no_validator: bool,
    /// Switch every layer off but this one: gate, grammar, walk, readonly, config, authorizer, limits, deadline, heap,
    /// quota or functions
    #[arg(long, value_name = "NAME", conflicts_with = "no_validator")]
    only_layer: Option<String>,
    /// For the child process: its folder
    #[arg(long, hide = true, requires = "child_from")]
    child_folder: Option<PathBuf>,
    /// For the child process: its first line
    #[arg(long, hide = true, requires = "child_folder")]
    child_from: Option<usize>,
}

/// What to run, and how.
#[derive(Clone, Debug)]
pub(super) struct RunOptions {
    pub(super) corpus: PathBuf,
    pub(super) base: Option<PathBuf>,
    pub(super) no_validator: bool,
    pub(super) only_layer: Option<String>,
    pub(super) timeout: Duration,
    pub(super) quota: u64,
    /// In the child process: its folder and first line.
    pub(super) child: Option<(PathBuf, usize)>,
}

impl CorpusArgs {
    /// # Errors
    /// `invalid_argument` for a malformed duration.
    pub(super) fn options(self) -> Result<RunOptions, Failure> {
        let timeout = self.timeout.as_deref().map(duration).transpose()?;
        Ok(RunOptions {
            // The parser accepts exactly one of them.
            corpus: self.file.or(self.corpus).unwrap_or_default(),
            base: self.base,
            no_validator: self.no_validator,
            only_layer: self.only_layer,
            timeout: timeout.unwrap_or(TIMEOUT),
            quota: self.quota,
            child: self.child_folder.zip(self.child_from),
        })
    }
}
