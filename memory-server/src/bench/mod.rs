//! `memory bench`: the product beside the floor it stands on, measured in one run on one machine.

mod floor;
mod kv;
mod machine;
mod measure;
mod ours;
mod report;
mod workload;

use std::io::Write;
use std::path::PathBuf;

use memory_core::{Error, Result};

/// Measure this machine: the product beside raw SQLite, in the same run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Bench {
    /// Key/value operations on embedded SQLite.
    Kv(KvArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct KvArgs {
    /// Entries of 200 bytes in the store [default: 100000, with --quick 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    keys: Option<u32>,
    /// Seconds measured per row, for the product and for the floor each [default: 3, with --quick 0.7]
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<f64>,
    /// Interleaved rounds; figures are their medians
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(5..=101))]
    rounds: u32,
    /// A small store and short rounds: for a look, not for a figure to keep
    #[arg(long)]
    quick: bool,
    /// Rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Folder for the temporary files, which are removed afterwards [default: the system's temporary
    /// folder]. On a disk that is kept in memory (tmpfs) durable writes cost nothing and their row means nothing
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("0.05 to 600 seconds".to_owned()),
    }
}

/// Runs a benchmark and writes its report to `out`: a table, or one JSON object a line. Blocks until
/// it is done; Ctrl-C ends it early and removes its files. May be called from any thread, also one of a runtime.
pub(crate) fn run(args: &BenchArgs, json: bool, out: &mut (dyn Write + Send)) -> Result<()> {
    let Bench::Kv(kv) = &args.what;
    // A thread of its own: the benchmark brings its own runtime, which must not start inside another.
    std::thread::scope(|threads| {
        let bench = std::thread::Builder::new()
            .name("bench".to_owned())
            .spawn_scoped(threads, || kv::run(kv, json, out));
        match bench.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Error::internal("the benchmark stopped by a bug; please report it")),
            Err(error) => Err(machine::io("start a thread", error)),
        }
    })
}
