//! `reembed`.

use clap::Args;
use memory::Access;
use memory_core::ReembedOptions;
use serde::Serialize;

use crate::terminal::{Context, Exit, Failure, Out, Progress, Stop};

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
}

pub(crate) async fn run(context: &Context, args: &ReembedArgs, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Existing).await?;
    let backend = opened.backend("reembed")?;
    let mut options = ReembedOptions::default();
    options.limit = args.step;
    options.dry_run = args.dry_run;
    let stop = Stop::listen();
    let mut progress = Progress::new(context.is_quiet());
    let mut report = Report::default();
    let mut before = u64::MAX;
    loop {
        let step = backend.reembed(opened.scope(), options).await?;
        report.embedded += step.embedded;
        report.remaining = step.remaining;
        report.failed = step.failed;
        if args.dry_run || step.remaining == 0 {
            break;
        }
        // Texts that the model refuses come first again in every step. A step full of them makes no progress and hides
        // what is behind it; any other step has seen everything.
        if step.remaining >= before {
            let full = step.failed >= u64::try_from(options.limit).unwrap_or(u64::MAX);
            if !full || options.limit >= MAX_STEP {
                break;
            }
            options.limit = options.limit.saturating_mul(4).min(MAX_STEP);
        }
        before = step.remaining;
        if stop.is_asked() {
            report.interrupted = true;
            break;
        }
        progress.set_length(report.embedded + step.remaining);
        progress.update(report.embedded, || format!("{} entries, {} to go", report.embedded, step.remaining));
    }
    progress.finish();
    out.tell(&report, |out| {
        if args.dry_run {
            return out.line(format!("{} entries of {} to embed", report.remaining, opened.scope()));
        }
        out.line(format!("{} entries of {} embedded", report.embedded, opened.scope()))?;
        match report.remaining {
            0 => Ok(()),
            left => out
                .line(format!("{left} have no vector of this model yet; it refused {} texts", report.failed)),
        }
    })?;
    Ok(match report {
        Report { interrupted: true, .. } => Exit::Interrupted,
        Report { remaining: 1.., .. } if !args.dry_run => Exit::Partial,
        _ => Exit::Ok,
    })
}
