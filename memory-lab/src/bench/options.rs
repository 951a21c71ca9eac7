//! Options that the benchmarks of key/value operations share.

use std::path::PathBuf;

use memory_core::{Error, Result};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct KvArgs {
    /// Entries of 200 bytes in the store [default: 100000, with --quick 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    pub(super) keys: Option<u32>,
    /// Seconds measured per row, for the product and for the floor each [default: 3, with --quick 0.7]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Interleaved rounds; figures are their medians
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..=101))]
    pub(super) rounds: u32,
    /// A small store and short rounds: for a quick look, not for figures to publish
    #[arg(long)]
    pub(super) quick: bool,
    /// Rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(super) only: Option<String>,
    /// Folder for the temporary files, which are removed afterwards [default: the system's temporary
    /// folder]. On a file system in memory (tmpfs) durable writes cost nothing, so their row is meaningless
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}

#[derive(Clone, Debug, clap::Args)]
pub(super) struct DriftArgs {
    #[command(flatten)]
    pub(super) kv: KvArgs,
    /// Measure on this PostgreSQL server instead, in temporary databases beside the one named: the role must be allowed to
    /// create databases, and the server must accept connections without TLS [default: MEMORY_TEST_POSTGRES_URL]
    #[arg(long, value_name = "URL", num_args = 0..=1)]
    pub(super) postgres: Option<Option<String>>,
}

pub(super) fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("0.05 to 600 seconds".to_owned()),
    }
}

/// The rows whose name contains the text of `--only`; all rows without it.
///
/// # Errors
/// `invalid_argument` if there is no such row; the message lists the rows.
pub(super) fn chosen<'p, P>(
    plans: &'p [P],
    name: impl Fn(&P) -> &'static str,
    only: Option<&str>,
) -> Result<Vec<&'p P>> {
    let wanted = only.unwrap_or_default();
    let chosen: Vec<&P> = plans.iter().filter(|plan| name(plan).contains(wanted)).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = plans.iter().map(name).collect();
        return Err(Error::invalid(format!(
            "no row's name contains {wanted:?}; the rows are {}",
            names.join(", ")
        )));
    }
    Ok(chosen)
}
