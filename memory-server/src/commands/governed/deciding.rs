//! `pending` and `review`: what waits, and how people decide about it. Also an issue that a person reopens.

use clap::{Args, Subcommand, ValueEnum};
use memory::Access;
use memory::governed::{
    self, Actor, Bucket, NoteSource, Outcome, Pending, PendingMemoryQueue, PendingStatus, Review,
    SharedMemory, Space, Trust, WorkingMemory,
};
use memory_core::Error;

use super::{SpaceArgs, actor, open};
use crate::terminal::{Context, Exit, Failure, Out, excerpt, word};

/// Most deferred writes listed at once.
const LISTED: usize = 1_000;

/// Characters of a note in a list; `review show` prints all of it.
const NOTE: usize = 120;

/// The state of a deferred write.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum State {
    /// Waits for the rows to make it certain
    Waiting,
    /// Waits for a person
    NeedsReview,
    /// Is an event
    Resolved,
    /// Was so already
    NoOp,
    /// Rejected, or erased
    Rejected,
}

#[derive(Args, Debug)]
pub(crate) struct PendingArgs {
    /// Only those in this state
    #[arg(long, value_enum, default_value = "waiting")]
    state: State,
    #[command(flatten)]
    space: SpaceArgs,
}

pub(crate) async fn pending(context: &Context, args: PendingArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (_opened, space) = open(context, &args.space, Access::Read).await?;
    let status = match args.state {
        State::Waiting => PendingStatus::Waiting,
        State::NeedsReview => PendingStatus::NeedsReview,
        State::Resolved => PendingStatus::Resolved,
        State::NoOp => PendingStatus::NoOp,
        State::Rejected => PendingStatus::Rejected,
    };
    let queue = governed::queue(&space);
    let found = queue.list(status, LISTED).await?;
    let tells = matches!(args.state, State::Waiting) && !out.is_json();
    if !(tells && found.is_empty()) {
        list(&found, out)?;
    }
    if tells {
        match queue.list(PendingStatus::NeedsReview, LISTED).await?.len() {
            0 if found.is_empty() => out.line("nothing waits")?,
            0 => {}
            review => out.line(format!("{review} need a person: memory review list"))?,
        }
    }
    Ok(Exit::Ok)
}

fn list(found: &[Pending], out: &mut Out) -> Result<Exit, Failure> {
    out.tell(found, |out| {
        let cells = |one: &Pending| {
            let likely: Vec<&str> = one.offered().iter().map(|candidate| candidate.id.as_str()).collect();
            [
                one.id.clone(),
                one.actor.agent.clone(),
                one.text.as_deref().map_or_else(|| "(erased)".to_owned(), |text| excerpt(text, NOTE)),
                one.reason.clone(),
                likely.join(", "),
            ]
        };
        let waits = |one: &Pending| matches!(one.status, PendingStatus::Waiting | PendingStatus::NeedsReview);
        let because = if found.iter().all(waits) { "WAITS BECAUSE" } else { "BECAUSE" };
        out.table(["ID", "AGENT", "NOTE", because, "LIKELY"], &found.iter().map(cells).collect::<Vec<_>>())
    })?;
    Ok(Exit::Ok)
}

/// One deferred write for people: what was said, why it waits, what the candidate rows say, and how to decide.
async fn told(shared: &SharedMemory, one: &Pending) -> memory_core::Result<Vec<String>> {
    let mut lines = vec![
        format!(
            "{} by {} ({}), seen at {}",
            one.id,
            one.actor.agent,
            word(&one.actor.trust),
            one.observed_at
        ),
        // Its further lines are indented, so that none can pass for one of ours.
        format!("note:     {}", one.text.as_deref().unwrap_or("(erased)").replace('\n', "\n          ")),
    ];
    let Some(request) = &one.request else { return Ok(lines) };
    let ends = request.operation.is_lifecycle();
    let unnamed = if ends { "a row that it does not name" } else { "a new row" };
    let id = request.target_id.as_deref().unwrap_or(unnamed);
    lines.push(format!("asks for: {} of {}: {id}", request.operation, request.bucket));
    lines.extend(request.payload.iter().map(|(name, value)| format!("          {name}: {value}")));
    let decided = !matches!(one.status, PendingStatus::Waiting | PendingStatus::NeedsReview);
    lines.push(format!("{} {}", if decided { "decided: " } else { "waits:   " }, one.reason));
    for row in shared.offered(std::slice::from_ref(one)).await?.into_iter().flatten() {
        let title = row.title.map(|title| serde_json::Value::from(title).to_string()).unwrap_or_default();
        let said = row.status.map_or_else(|| "gone".to_owned(), |status| format!("{status}, {title}"));
        lines.push(format!("likely:   {} ({said})", row.scored.id));
    }
    if !decided {
        let likely = one.candidates.first().filter(|_| ends).map(|candidate| candidate.id.as_str());
        let target = likely.or(request.target_id.as_deref()).unwrap_or(if ends { "ROW" } else { "NEW_ID" });
        lines.push(format!("decide:   memory review bind {} {target}", one.id));
        lines.push(format!("          memory review reject {} --reason WHY", one.id));
    }
    Ok(lines)
}

#[derive(Args, Debug)]
pub(crate) struct ReviewArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    space: SpaceArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List what waits for a person
    List,
    /// Show one deferred write whole
    Show {
        /// The id that `pending` and `list` print
        id: String,
    },
    /// Bind it to a row: it becomes an event of its own writer, which names who decided
    Bind {
        /// The deferred write
        id: String,
        /// The row
        target: String,
    },
    /// Reject it
    Reject {
        /// The deferred write
        id: String,
        /// Why
        #[arg(long, default_value = "rejected at the terminal")]
        reason: String,
    },
    /// Open an issue again that was resolved by mistake
    Reopen {
        /// The issue
        id: String,
        /// Why; it is kept with the event
        #[arg(long)]
        reason: Option<String>,
    },
}

pub(crate) async fn review(context: &Context, args: ReviewArgs, out: &mut Out) -> Result<Exit, Failure> {
    let access = match args.action {
        Action::List | Action::Show { .. } => Access::Read,
        _ => Access::Existing,
    };
    let (opened, space) = open(context, &args.space, access).await?;
    let queue: PendingMemoryQueue = governed::queue(&space);
    // Whoever uses this terminal is the operator.
    let person = actor(&opened, Trust::Person);
    let outcome = match args.action {
        Action::List => return list(&queue.list(PendingStatus::NeedsReview, LISTED).await?, out),
        Action::Show { id } => {
            let found = queue
                .show(&id)
                .await?
                .ok_or_else(|| Error::not_found("there is no such deferred write in this space"))?;
            let lines = told(&SharedMemory::new(&space), &found).await?;
            out.tell(&found, |out| lines.into_iter().try_for_each(|line| out.line(line)))?;
            return Ok(Exit::Ok);
        }
        Action::Bind { id, target } => Review::new(queue).bind(&id, &target, &person).await?,
        Action::Reject { id, reason } => Review::new(queue).reject(&id, &reason, &person).await?,
        Action::Reopen { id, reason } => reopen(&space, &id, reason.as_deref(), &person).await?,
    };
    out.tell(&outcome, |out| {
        out.line(match &outcome {
            Outcome::Committed { seq, target_id, .. } => format!("event {seq}, on {target_id}"),
            Outcome::NoOp { reason } => format!("nothing to do: {reason}"),
            Outcome::Rejected { reason } => format!("rejected: {reason}"),
            Outcome::Deferred { reason, .. } => format!("still waits: {reason}"),
            _ => "done".to_owned(),
        })
    })?;
    Ok(Exit::Ok)
}

/// A note by the person, promoted at once.
async fn reopen(
    space: &Space,
    id: &str,
    reason: Option<&str>,
    person: &Actor,
) -> memory_core::Result<Outcome> {
    if SharedMemory::new(space).row(Bucket::Issues, id).await?.is_none() {
        return Err(Error::not_found("no issue has that id; `memory shared issues --ended` lists them all"));
    }
    let words = reason.map_or_else(|| format!("reopen {id}"), |reason| format!("reopen {id}: {reason}"));
    let note = WorkingMemory::new(space).note(person, NoteSource::Agent, &words, None).await?;
    let promotion = governed::pipeline(space).promote_note(&note.id).await?;
    let outcome = promotion.and_then(|promotion| promotion.outcomes.into_iter().next());
    outcome.ok_or_else(|| Error::internal("the note was not promoted; `memory promote` tries it again"))
}
