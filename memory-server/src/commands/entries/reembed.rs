//! `reembed`.

use std::sync::{Mutex, PoisonError};

use clap::Args;
use memory::Access;
use memory::conversations::{RESERVED_PREFIX, turn_vectors};
use memory_core::{Provider as _, ReembedOptions, ReembedOutcome};
use serde::Serialize;

use crate::terminal::{Context, Exit, Failure, Opened, Out, Progress, Stop, counted};

#[derive(Args, Debug)]
pub(crate) struct ReembedArgs {
    /// Entries per step, after which an interrupt takes effect: 1 to 10,000
    #[arg(long, value_name = "N", default_value_t = 256)]
    step: usize,
    /// Only count the entries to embed
    #[arg(long)]
    dry_run: bool,
}

/// Most entries of one step.
const MAX_STEP: usize = 10_000;

/// Totals over all steps.
#[derive(Default, Serialize)]
struct Report {
    embedded: u64,
    remaining: u64,
    /// Remaining entries whose text the model refused in the last step.
    failed: u64,
    interrupted: bool,
    /// For the scope's conversation, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<ReembedOutcome>,
}

impl Report {
    fn remains(&self) -> bool {
        self.remaining > 0 || self.turns.is_some_and(|turns| turns.remaining > 0)
    }
}

pub(crate) async fn run(context: &Context, args: &ReembedArgs, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Existing).await?;
    let stop = context.stop();
    let mut progress = Progress::new(context.is_quiet());
    let mut report = Report { turns: turns(&opened, args, &stop, &mut progress).await?, ..Report::default() };
    // Even a store without an embedder may have conversations with vectors.
    let has_entries = report.turns.is_none() || opened.memory.capabilities().vector_search;
    if has_entries && !stop.is_asked() {
        entries(&opened, args, &stop, &mut progress, &mut report).await?;
    }
    progress.finish();
    report.interrupted |= stop.is_asked() && report.remains();
    let scope = opened.scope();
    out.tell(&report, |out| {
        if let Some(turns) = &report.turns {
            out.line(match args.dry_run {
                true => format!("{} of {scope} to embed", counted(turns.remaining, "turn")),
                false => {
                    format!(
                        "{} of {scope} embedded, {} left",
                        counted(turns.embedded, "turn"),
                        turns.remaining
                    )
                }
            })?;
        }
        if !has_entries {
            return Ok(());
        }
        if args.dry_run {
            return out.line(format!("{} of {scope} to embed", counted(report.remaining, "entry")));
        }
        out.line(format!("{} of {scope} embedded", counted(report.embedded, "entry")))?;
        match report.remaining {
            0 => Ok(()),
            left => out.line(format!(
                "{left} without a vector of this model yet; it refused {}",
                counted(report.failed, "text")
            )),
        }
    })?;
    Ok(match report {
        Report { interrupted: true, .. } => Exit::Interrupted,
        _ if report.remains() && !args.dry_run => Exit::Partial,
        _ => Exit::Ok,
    })
}

/// Embeds the turns of a conversation; `None` if there is none.
async fn turns(
    opened: &Opened,
    args: &ReembedArgs,
    stop: &Stop,
    progress: &mut Progress,
) -> Result<Option<ReembedOutcome>, Failure> {
    let Some(vectors) = turn_vectors(&opened.memory) else { return Ok(None) };
    let stats = vectors.stats(opened.scope()).await?;
    if stats.turns == 0 {
        return Ok(None);
    }
    if args.dry_run {
        let mut outcome = ReembedOutcome::default();
        outcome.remaining = stats.stale + stats.missing;
        outcome.embedded = outcome.remaining;
        return Ok(Some(outcome));
    }
    let progress = Mutex::new(progress);
    let goes_on = |so_far: ReembedOutcome| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.set_length(so_far.embedded + so_far.remaining);
        progress.update(so_far.embedded, || {
            format!("{}, {} to go", counted(so_far.embedded, "turn"), so_far.remaining)
        });
        !stop.is_asked()
    };
    Ok(Some(vectors.reembed(opened.scope(), &goes_on).await?))
}

/// Embeds entries, a step at a time.
async fn entries(
    opened: &Opened,
    args: &ReembedArgs,
    stop: &Stop,
    progress: &mut Progress,
    report: &mut Report,
) -> Result<(), Failure> {
    let backend = opened.backend("reembed")?;
    let mut options = ReembedOptions::default();
    options.limit = args.step;
    options.dry_run = args.dry_run;
    // Turns have their own vectors.
    RESERVED_PREFIX.clone_into(&mut options.except);
    let mut before = u64::MAX;
    loop {
        let step = backend.reembed(opened.scope(), options.clone()).await?;
        report.embedded += step.embedded;
        report.remaining = step.remaining;
        report.failed = step.failed;
        if args.dry_run || step.remaining == 0 {
            return Ok(());
        }
        // Texts that the model refuses come first again in every step. A step full of them makes no progress and hides
        // what comes after; any other step has seen everything.
        if step.remaining >= before {
            let full = step.failed >= u64::try_from(options.limit).unwrap_or(u64::MAX);
            if !full || options.limit >= MAX_STEP {
                return Ok(());
            }
            options.limit = options.limit.saturating_mul(4).min(MAX_STEP);
        }
        before = step.remaining;
        if stop.is_asked() {
            report.interrupted = true;
            return Ok(());
        }
        progress.set_length(report.embedded + step.remaining);
        progress.update(report.embedded, || {
            format!("{}, {} to go", counted(report.embedded, "entry"), step.remaining)
        });
    }
}
