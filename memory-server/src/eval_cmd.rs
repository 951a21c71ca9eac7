//! `memory eval`: quality of retrieval, measured through the product.

use std::io::Write;
use std::path::PathBuf;

use memory_core::{Error, Result, SearchMode};
use memory_eval::{EvalOptions, Measures, Progress, Report, evaluate, locomo};

/// Measure the quality of retrieval on data that says what should be found.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    what: Eval,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Eval {
    /// The LoCoMo dialogues: which turns come back for each question.
    Locomo(LocomoArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct LocomoArgs {
    /// The dialogues, in the form of `locomo10.json`
    file: PathBuf,
    /// How to look for turns
    #[arg(long, value_enum, default_value = "lexical")]
    mode: Mode,
    /// The backend to measure [default: a fresh SQLite file, removed afterwards]. The turns are held in run
    /// scopes of their own while it runs
    #[arg(long, value_name = "URL")]
    on: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Mode {
    /// By words
    Lexical,
    /// By vectors
    Vector,
    /// By both
    Hybrid,
}

impl From<Mode> for SearchMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Lexical => Self::Lexical,
            Mode::Vector => Self::Vector,
            Mode::Hybrid => Self::Hybrid,
        }
    }
}

/// Runs an evaluation and writes its report to `out`: a table, or one JSON object.
pub(crate) async fn run(
    args: &EvalArgs,
    json: bool,
    out: &mut (dyn Write + Send),
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<()> {
    let Eval::Locomo(LocomoArgs { file, mode, on }) = &args.what;
    let dialogues = locomo::load(file)?;
    // Kept until the end: dropping it removes the files.
    let mut folder = None;
    let url = match on {
        Some(url) => url.clone(),
        None => fresh(
            folder.insert(tempfile::tempdir().map_err(|error| broken("make a temporary folder", error))?),
        )?,
    };
    let memory = memory::open(&url).await?;
    let report = evaluate(&memory, &dialogues, (*mode).into(), &EvalOptions::default(), progress).await?;
    drop(memory);
    let written = if json { write_json(&report, out) } else { write_table(&report, out) };
    written.map_err(|error| broken("write the report", error))
}

fn fresh(folder: &tempfile::TempDir) -> Result<String> {
    let path = folder.path().join("eval.db");
    let path = path.to_str().ok_or_else(|| {
        Error::invalid("the system's temporary folder has a name that is not UTF-8; name a backend with --on")
    })?;
    let escaped = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    Ok(format!("sqlite:{escaped}"))
}

fn broken(doing: &str, error: std::io::Error) -> Error {
    Error::new(memory_core::ErrorKind::Unavailable, format!("cannot {doing}: {error}")).with_source(error)
}

fn write_json(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, report)?;
    writeln!(out)?;
    out.flush()
}

fn write_table(report: &Report, out: &mut dyn Write) -> std::io::Result<()> {
    let Report { overall, recall_at_10_interval: interval, timing, .. } = report;
    writeln!(out, "{:<14}{:>10}{:>10}{:>11}{:>9}", "", "questions", "recall@5", "recall@10", "nDCG@10")?;
    for category in &report.categories {
        write_measures(out, category.name, &category.measures)?;
    }
    write_measures(out, "all", overall)?;
    writeln!(out, "\nrecall@10 is {:.3} to {:.3} in 95 % of resamples", interval.low, interval.high)?;
    writeln!(
        out,
        "{} turns of {} dialogues stored in {:.2} s; a search took {:.2} ms (median), {:.2} ms (99 %)",
        report.turns, report.dialogues, timing.store_seconds, timing.search_p50_ms, timing.search_p99_ms,
    )?;
    writeln!(
        out,
        "{} of {} pieces of evidence name no turn and count as not found",
        report.evidence_unmatched, report.evidence,
    )?;
    out.flush()
}

fn write_measures(out: &mut dyn Write, name: &str, measures: &Measures) -> std::io::Result<()> {
    let Measures { questions, recall_at_5, recall_at_10, ndcg_at_10 } = measures;
    writeln!(out, "{name:<14}{questions:>10}{recall_at_5:>10.4}{recall_at_10:>11.4}{ndcg_at_10:>9.4}")
}
