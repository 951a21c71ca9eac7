//! `extract`: the language model of `memory.toml` extracts facts from what was said.

use std::time::Duration;

use clap::Args;
use memory::conversations::extract::{
    ExtractStatus, Extracted, ExtractionQueue, ModelExtractor, Spent, Step,
};
use memory::conversations::extraction_queue;
use memory::system::SystemClock;
use memory::{Access, Clock as _};
use memory_core::{Error, Scope, Timestamp};
use serde::Serialize;

use crate::terminal::{Context, Exit, Failure, Opened, Out, Progress, Stop, counted};

/// After this many turns in a row were set aside, the command gives up.
pub(crate) const MAX_IN_A_ROW: u32 = 3;
/// How often a waiting command checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
#[command(
    after_help = "The model is [models.chat] of memory.toml. Facts stand beside what was said, name it, and go with it: docs/recall.md."
)]
pub(crate) struct ExtractArgs {
    /// Only say what waits, what was set aside and what was spent
    #[arg(long, conflicts_with_all = ["retry", "once"])]
    status: bool,
    /// First let what was set aside be tried again
    #[arg(long)]
    retry: bool,
    /// Ask the model once, and end
    #[arg(long)]
    once: bool,
}

/// The outcome of a run.
#[derive(Default, Serialize)]
struct Report {
    turns: u64,
    facts: u64,
    known: u64,
    superseded: u64,
    refused: u64,
    forgotten: u64,
    /// Turns that were set aside by this run.
    set_aside: u64,
    /// The code of the last failure, if the run ended with it.
    failed: Option<&'static str>,
    #[serde(flatten)]
    status: Option<ExtractStatus>,
}

impl Report {
    fn add(&mut self, extracted: &Extracted) {
        self.turns += extracted.turns;
        self.facts += extracted.facts;
        self.known += extracted.known;
        self.superseded += extracted.superseded;
        self.refused += extracted.refused;
        self.forgotten += extracted.forgotten;
    }
}

pub(crate) async fn extract(context: &Context, args: ExtractArgs, out: &mut Out) -> Result<Exit, Failure> {
    let access = if args.status { Access::Read } else { Access::Existing };
    let opened = context.open(access).await?;
    let config = opened.settings.config.as_ref();
    let options = config.map(memory::Config::extract_options).unwrap_or_default();
    let queue = extraction_queue(&opened.memory, options);
    if args.status {
        let status = queue.status(opened.scope()).await?;
        out.tell(&status, |out| tell_status(out, &status))?;
        return Ok(Exit::Ok);
    }
    let config = config.ok_or_else(|| {
        Error::not_found("there is no memory.toml; its section [models.chat] names the language model")
    })?;
    let extractor = ModelExtractor::new(config.open_chat_model(&opened.settings.registry()?)?);
    if args.retry {
        queue.retry(opened.scope()).await?;
    }
    let mut report = Report::default();
    let interrupted = drawn(context, &opened, (&queue, &extractor), args.once, &mut report).await?;
    let status = queue.status(opened.scope()).await?;
    let (partial, left) = (report.set_aside > 0 || report.failed.is_some(), status.waiting);
    report.status = Some(status);
    out.tell(&report, |out| {
        out.line(format!(
            "{}: {} stored, {} known, {} superseded, {} refused; {} set aside, {left} waiting",
            counted(report.turns, "turn"),
            counted(report.facts, "fact"),
            report.known,
            report.superseded,
            report.refused,
            counted(report.set_aside, "turn")
        ))?;
        report.status.as_ref().map_or(Ok(()), |status| tell_spent(out, status.spent))
    })?;
    Ok(match (interrupted, partial) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Partial,
        (false, false) => Exit::Ok,
    })
}

/// Extracts facts once, or until nothing waits. Returns whether it was interrupted.
async fn drawn(
    context: &Context,
    opened: &Opened,
    (queue, extractor): (&ExtractionQueue, &ModelExtractor),
    once: bool,
    report: &mut Report,
) -> Result<bool, Failure> {
    let (scope, stop) = (opened.scope(), context.stop());
    let mut progress = Progress::new(context.is_quiet());
    let waiting = queue.status(scope).await?.waiting;
    progress.set_length(waiting);
    let mut in_a_row = 0;
    while !stop.is_asked() {
        let step = tokio::select! {
            step = queue.step(scope, extractor) => step?,
            () = stop.asked() => {
                queue.release(scope).await?;
                break;
            }
        };
        let wait = match step {
            Step::Extracted(extracted) => {
                report.add(&extracted);
                in_a_row = 0;
                progress.update(report.turns, || {
                    format!("{}, {}", counted(report.turns, "turn"), counted(report.facts, "fact"))
                });
                None
            }
            Step::SetAside { turns, error } => {
                report.set_aside += turns;
                in_a_row += 1;
                progress.note(&format!("memory: {} set aside: {error}", counted(turns, "turn")));
                if in_a_row >= MAX_IN_A_ROW {
                    progress.finish();
                    return Err(error.into());
                }
                None
            }
            Step::Failed { error, again_at } => {
                progress.note(&format!("memory: {error}; it is tried again"));
                report.failed = once.then(|| error.kind().code());
                Some(again_at)
            }
            Step::Wait { until } => {
                progress.update(report.turns, || format!("waiting until {until}"));
                Some(until)
            }
            _ => break,
        };
        if once {
            break;
        }
        if let Some(until) = wait {
            wait_until(until, &stop).await;
        }
    }
    progress.finish();
    Ok(stop.is_asked())
}

async fn wait_until(until: Timestamp, stop: &Stop) {
    while !stop.is_asked() && SystemClock.now() < until {
        tokio::time::sleep(LOOK).await;
    }
}

fn tell_status(out: &mut Out, status: &ExtractStatus) -> Result<(), Failure> {
    out.line(format!("{} waiting, {} set aside", counted(status.waiting, "turn"), status.aside.len()))?;
    if let Some(again_at) = status.again_at {
        out.line(format!("attempt {} failed; the next is at {again_at}", status.attempts))?;
    }
    tell_spent(out, status.spent)?;
    let rows: Vec<[String; 3]> = status
        .aside
        .iter()
        .map(|aside| [aside.id.to_string(), aside.at.to_string(), aside.code.clone()])
        .collect();
    if rows.is_empty() { Ok(()) } else { out.table(["SET ASIDE", "AT", "WHY"], &rows) }
}

fn tell_spent(out: &mut Out, spent: Spent) -> Result<(), Failure> {
    let uncounted = match spent.uncounted_bytes {
        0 => String::new(),
        bytes => format!(", and {} whose tokens were not counted", counted(bytes, "byte")),
    };
    out.line(format!(
        "spent on this scope: {}, {} read, {} written{uncounted}",
        counted(spent.calls, "call"),
        counted(spent.input_tokens, "token"),
        spent.output_tokens
    ))
}

/// Extracts facts from one scope until nothing waits there for now.
///
/// # Errors
/// Those of [`ExtractionQueue::step`]; the last error if several turns in a row were set aside.
pub(crate) async fn drain(
    queue: &ExtractionQueue,
    scope: &Scope,
    extractor: &ModelExtractor,
) -> memory_core::Result<()> {
    let mut in_a_row = 0;
    loop {
        match queue.step(scope, extractor).await? {
            Step::Extracted(_) => in_a_row = 0,
            Step::SetAside { error, .. } => {
                in_a_row += 1;
                if in_a_row >= MAX_IN_A_ROW {
                    return Err(error);
                }
            }
            _ => return Ok(()),
        }
    }
}
