//! Options of `bench search`.

use std::path::PathBuf;

#[derive(Clone, Debug, clap::Args)]
pub(in crate::bench) struct SearchArgs {
    /// Vectors in the store [default: 100000, with --quick 20000; of a file: all but the queries]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..=4_000_000), conflicts_with = "file")]
    pub(super) vectors: Option<u32>,
    /// Dimensions of a vector
    #[arg(long, value_name = "N", default_value_t = 384, value_parser = clap::value_parser!(u32).range(8..=4_096))]
    pub(super) dimensions: u32,
    /// Vectors to store and to query, as rows of little-endian floats: 16 bits each in `*.f16`, else 32
    #[arg(long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Queries per round; with a file, its last vectors
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(5..=1_000))]
    pub(super) queries: u32,
    /// Hits per search
    #[arg(long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) top_k: u32,
    /// Interleaved rounds; figures are their medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(5..=101))]
    pub(super) rounds: u32,
    /// Seed of the generator
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// A small store: for a quick look, not for figures to publish
    #[arg(long)]
    pub(super) quick: bool,
    /// Rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(super) only: Option<String>,
    /// Folder for the temporary files, which are removed afterwards [default: the system's temporary folder]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}
