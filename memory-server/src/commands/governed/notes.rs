//! `note` and `promote`.

use clap::{Args, ValueEnum};
use memory::Access;
use memory::governed::{self, Held, NoteSource, Report, Trust, WorkingMemory};
use memory::system::SystemClock;
use memory_core::{Clock as _, Error, ScopeId, Timestamp};
use serde::Serialize;
use serde_json::json;

use super::{SpaceArgs, actor, open};
use crate::terminal::{self, Context, Exit, Failure, Out, Progress, counted, values};

/// Most notes that `promote` lists: rejected ones, and those to retry.
const TOLD: usize = 20;

/// How far the writer of a note is trusted.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Writer {
    /// Text from outside
    Untrusted,
    /// An agent
    Agent,
    /// An agent that may end what others began
    Authority,
    /// A person
    Person,
}

/// Where a note comes from.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum From {
    /// An agent's own words
    Agent,
    /// What a tool said: it can propose, never end a row
    Tool,
}

#[derive(Args, Debug)]
pub(crate) struct NoteArgs {
    /// What was noticed
    #[arg(required = true)]
    words: Vec<String>,
    /// Where it comes from
    #[arg(long, value_enum, default_value = "agent")]
    source: From,
    /// How far its writer is trusted
    #[arg(long, value_enum, default_value = "agent")]
    trust: Writer,
    /// When it was observed, as 2026-01-31T09:30:00Z or a date, not in the future; default: now
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    at: Option<Timestamp>,
    /// The run of the agent that noted it: `--agent ada --run import-7` [default: `terminal`]
    // Replaces the global option of this name, which chooses a scope and excludes `--agent`.
    #[arg(long, id = "run", value_name = "ID")]
    run: Option<String>,
    #[command(flatten)]
    space: SpaceArgs,
}

pub(crate) async fn note(context: &Context, args: NoteArgs, out: &mut Out) -> Result<Exit, Failure> {
    if args.at.is_some_and(|at| at > SystemClock.now()) {
        let future = "--at is in the future, and nothing was observed then: give an earlier time, or leave it out for now";
        return Err(Error::invalid(future).into());
    }
    let (opened, space) = open(context, &args.space, Access::Create).await?;
    let trust = match args.trust {
        Writer::Untrusted => Trust::Untrusted,
        Writer::Agent => Trust::Agent,
        Writer::Authority => Trust::Authority,
        Writer::Person => Trust::Person,
    };
    let source = match args.source {
        From::Agent => NoteSource::Agent,
        From::Tool => NoteSource::ToolResult,
    };
    let mut writer = actor(&opened, trust);
    if let Some(run) = args.run {
        writer.run = ScopeId::new(run)?.as_str().to_owned();
    }
    let note = WorkingMemory::new(&space).note(&writer, source, &args.words.join(" "), args.at).await?;
    out.tell(&json!({ "note_id": note.id, "observed_at": note.observed_at }), |out| {
        out.line(format!("noted: {}", note.id))
    })?;
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct PromoteArgs {
    /// Most notes to promote
    #[arg(long, value_name = "N", default_value_t = 1_000_000, hide_default_value = true)]
    limit: u64,
    #[command(flatten)]
    space: SpaceArgs,
}

/// What `promote` prints with `--json`.
#[derive(Serialize)]
struct Promoted {
    #[serde(flatten)]
    report: Report,
    /// What others work on.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
}

pub(crate) async fn promote(context: &Context, args: PromoteArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (opened, space) = open(context, &args.space, Access::Existing).await?;
    let model = match &opened.settings.config {
        Some(config) => config.open_interpreter_model(&opened.settings.registry()?)?,
        None => None,
    };
    let (pipeline, stop) = (governed::pipeline_with(&space, model), context.stop());
    let (mut report, mut progress) = (Report::default(), Progress::new(context.is_quiet()));
    let (mut rejected, mut left) = (Vec::new(), Vec::new());
    let begun = pipeline.now();
    while report.notes < args.limit && !stop.is_asked() {
        let Some(promotion) = pipeline.promote_due(begun).await? else { break };
        report.add(&promotion);
        if let Some(reason) = promotion.reason {
            let told = if promotion.is_retried { &mut left } else { &mut rejected };
            if told.len() < TOLD {
                told.push((promotion.note_id, reason));
            }
        }
        progress.update(report.notes, || {
            format!("{}, {} committed", counted(report.notes, "note"), report.committed)
        });
    }
    // Also try what others left.
    report.committed += pipeline.promote(0).await?.committed;
    progress.finish();
    for (id, reason) in &left {
        terminal::note(&format!("{id} is to be tried again: {reason}"));
    }
    let held = pipeline.held().await?;
    out.tell(&Promoted { report, held }, |out| {
        rejected.iter().try_for_each(|(id, reason)| out.line(format!("rejected {id}: {reason}")))?;
        out.line(format!(
            "{}: {} committed, {} deferred, {} without effect, {} rejected, {} to be tried again",
            counted(report.notes, "note"),
            report.committed,
            report.deferred,
            report.no_ops,
            report.rejected,
            report.retried
        ))?;
        held.map_or(Ok(()), |Held { notes, until, .. }| {
            let notes = counted(notes, "note");
            out.line(format!(
                "{notes} held by another pipeline, or by one that was killed: run `memory promote` again after {until}"
            ))
        })
    })?;
    Ok(match report.retried {
        _ if stop.is_asked() => Exit::Interrupted,
        0 => Exit::Ok,
        _ => Exit::Partial,
    })
}
