//! `add` and `event`: remembering what was said, and the status of that work.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use memory::Access;
use memory_core::layer::{
    AddOptions, AddOutcome, AddStatus, EventId, EventStatus, FactId, MAX_MESSAGES_BYTES, MemoryLayer,
    Message, Role,
};
use memory_core::{Error, Result as CoreResult, RunContext, Scalar, Scope, Timestamp, Ttl};
use serde::Serialize;
use tokio::time::Instant;

use crate::terminal::{Context, CredentialArgs, Exit, Failure, Out, Progress, note, read_text, values};

/// Longest time that a command waits for pending work, in seconds.
const MAX_WAIT: u64 = 600;
/// First pause between two polls of an event; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How many times larger a conversation may be as JSON than as plain text.
const JSON_BYTES_A_BYTE: usize = 8;

/// The role of the speaker.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Speaker {
    /// The person
    User,
    /// The agent
    Assistant,
    /// The runtime
    System,
    /// A tool
    Tool,
}

#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// What was said
    #[arg(required_unless_present = "messages", conflicts_with = "messages")]
    words: Vec<String>,
    /// Who said it
    #[arg(long, value_enum, default_value = "user", conflicts_with = "messages")]
    role: Speaker,
    /// The speaker's name
    #[arg(long, value_name = "NAME", conflicts_with = "messages")]
    name: Option<String>,
    /// When it was said, as 2026-01-31T09:30:00Z, or 2026-01-31 in UTC
    #[arg(long, value_name = "TIME", value_parser = values::time, conflicts_with = "messages")]
    at: Option<Timestamp>,
    /// The session that it belongs to
    #[arg(long, value_name = "NAME", conflicts_with = "messages")]
    session: Option<String>,
    /// Its id where it comes from: added again, it stays one fact
    #[arg(long, value_name = "ID", conflicts_with = "messages")]
    id: Option<String>,
    /// Read a whole conversation instead: a file with [{"role":"user","content":"…"}, …], or `-` for standard input
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,
    /// Store the text as it is, without extracting facts from it
    #[arg(long)]
    verbatim: bool,
    /// Metadata of each fact, if the store supports it; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::member)]
    metadata: Vec<(String, Scalar)>,
    /// The fact that this one corrects; may be repeated
    #[arg(long, value_name = "ID")]
    supersedes: Vec<String>,
    /// A fact that still holds, as the words say; may be repeated
    #[arg(long, value_name = "ID")]
    confirms: Vec<String>,
    /// Store also what was forgotten before
    #[arg(long)]
    again: bool,
    /// Time to live of the facts: 10m, 30d
    #[arg(long, value_name = "TTL", value_parser = values::ttl, default_value = "keep", hide_default_value = true)]
    ttl: Ttl,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
}

#[derive(Args, Debug)]
pub(crate) struct EventArgs {
    /// The event id that `add` printed
    event: String,
    #[command(flatten)]
    wait: WaitArgs,
    #[command(flatten)]
    credentials: CredentialArgs,
}

/// How long to wait for pending work.
#[derive(Args, Clone, Copy, Debug)]
struct WaitArgs {
    /// Wait until the store is done, for at most this many seconds: 0 to 600
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(..=MAX_WAIT))]
    wait: Option<u64>,
}

/// The status of an `add`, as JSON.
#[derive(Default, Serialize)]
struct StatusDocument<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ids: Option<&'a [FactId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a EventId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(flatten)]
    beside: Beside,
}

/// Messages that were not stored as new.
#[derive(Clone, Default, Serialize)]
struct Beside {
    #[serde(skip_serializing_if = "is_zero")]
    known: u64,
    #[serde(skip_serializing_if = "is_zero")]
    forgotten: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    different: Vec<FactId>,
    #[serde(skip_serializing_if = "is_zero")]
    without_vector: u64,
    /// Messages of the system or of tools, where those are not stored.
    #[serde(skip_serializing_if = "is_zero")]
    not_said: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Beside {
    fn of(outcome: &AddOutcome, messages: &[Message]) -> Self {
        let stored_nothing = matches!(&outcome.status, AddStatus::Done(ids) if ids.is_empty());
        let is_not_said = |message: &&Message| matches!(message.role, Role::System | Role::Tool);
        let not_said = if stored_nothing { messages.iter().filter(is_not_said).count() } else { 0 };
        Self {
            not_said: u64::try_from(not_said).unwrap_or(u64::MAX),
            known: outcome.known,
            forgotten: outcome.forgotten,
            different: outcome.different.clone(),
            without_vector: outcome.without_vector,
        }
    }

    fn tell(&self, out: &mut Out) -> Result<(), Failure> {
        if self.not_said > 0 {
            out.line(format!(
                "left out: {} of the system or a tool; memories are what users and assistants say",
                self.not_said
            ))?;
        }
        if self.known > 0 {
            out.line(format!("there already: {}", self.known))?;
        }
        if self.forgotten > 0 {
            out.line(format!(
                "left out: {} that were forgotten before; --again stores them",
                self.forgotten
            ))?;
        }
        for id in &self.different {
            out.line(format!("kept as it was: {id}, whose message has the same id and other words"))?;
        }
        if self.without_vector > 0 {
            out.line(format!("without a vector: {}, found by words alone", self.without_vector))?;
        }
        Ok(())
    }
}

impl StatusDocument<'_> {
    fn plain(status: &'static str) -> Self {
        Self { status, ..Self::default() }
    }
}

pub(crate) async fn add(context: &Context, args: AddArgs, out: &mut Out) -> Result<Exit, Failure> {
    let messages = messages(context, &args)?;
    let facts = |ids: &[String]| ids.iter().map(FactId::new).collect::<CoreResult<_>>();
    let mut options = AddOptions::default()
        .with_metadata(values::metadata(&args.metadata)?)
        .with_supersedes(facts(&args.supersedes)?)
        .with_confirms(facts(&args.confirms)?)
        .with_again(args.again)
        .with_ttl(args.ttl);
    options.infer = !args.verbatim;
    let opened = context.open(Access::Create).await?;
    let layer = opened.layer("add")?;
    let run = opened.run(&args.credentials)?;
    let outcome = layer.add(&run, opened.scope(), &messages, options).await?;
    let names_facts = opened.memory.capabilities().layer_ids;
    let beside = Beside::of(&outcome, &messages);
    match outcome.status {
        AddStatus::Done(ids) => tell(out, &EventStatus::Done(ids), None, names_facts, &beside),
        AddStatus::Pending(Some(event)) => {
            let patience = args.wait.wait;
            let followed = follow(layer, &run, opened.scope(), &event, patience, context.is_quiet()).await;
            // Even if asking fails, the messages were accepted.
            let status = followed.unwrap_or_else(|error| {
                note(&format!("accepted, but it cannot be followed: {}", error.message()));
                EventStatus::Pending
            });
            let ended = tell(out, &status, Some(&event), names_facts, &beside)?;
            Ok(if patience.is_none() && status == EventStatus::Pending { Exit::Ok } else { ended })
        }
        AddStatus::Pending(None) => {
            out.tell(&StatusDocument::plain("pending"), |out| {
                out.line("accepted; this store does not report completion: check with `memory facts`")
            })?;
            Ok(if args.wait.wait.is_some() { Exit::Failed } else { Exit::Ok })
        }
        // A status from a newer version of the contract may not mean done.
        _ => {
            out.tell(&StatusDocument::plain("unknown"), |out| {
                out.line(
                    "unknown: it may or may not be stored; check with `memory facts` before adding it again",
                )
            })?;
            Ok(Exit::Unknown)
        }
    }
}

pub(crate) async fn event(context: &Context, args: EventArgs, out: &mut Out) -> Result<Exit, Failure> {
    let event = EventId::new(args.event)?;
    let opened = context.open(Access::Read).await?;
    let layer = opened.layer("event")?;
    let capabilities = opened.memory.capabilities();
    if !capabilities.layer_events {
        return Err(Error::unsupported("event", opened.memory.name()).into());
    }
    let run = opened.run(&args.credentials)?;
    // Ask at least once, whatever the time limit: the first answer tells whether the event exists.
    let mut status = layer.event(&run, opened.scope(), &event).await?;
    if status == EventStatus::Pending && args.wait.wait.is_some() {
        status = follow(layer, &run, opened.scope(), &event, args.wait.wait, context.is_quiet()).await?;
    }
    let ended = tell(out, &status, Some(&event), capabilities.layer_ids, &Beside::default())?;
    Ok(if args.wait.wait.is_none() && status == EventStatus::Pending { Exit::Ok } else { ended })
}

/// The messages from the command line or from a file.
fn messages(context: &Context, args: &AddArgs) -> Result<Vec<Message>, Failure> {
    let Some(file) = &args.messages else {
        let role = match args.role {
            Speaker::User => Role::User,
            Speaker::Assistant => Role::Assistant,
            Speaker::System => Role::System,
            Speaker::Tool => Role::Tool,
        };
        let mut message = Message::new(role, args.words.join(" "));
        message.name.clone_from(&args.name);
        message.session.clone_from(&args.session);
        message.id.clone_from(&args.id);
        message.at = args.at;
        return Ok(vec![message]);
    };
    let text = if file.as_os_str() == "-" {
        read_text("standard input", Ok(context.stdin()?))?
    } else {
        read_text(&format!("the file {}", file.display()), std::fs::File::open(file))?
    };
    let limit = MAX_MESSAGES_BYTES.saturating_mul(JSON_BYTES_A_BYTE);
    if text.len() > limit {
        return Err(Error::too_large("conversation", text.len(), limit, "bytes").into());
    }
    let text = text.strip_prefix(values::BYTE_ORDER_MARK).unwrap_or(&text);
    serde_json::from_str(text).map_err(|error| {
        Error::invalid("a conversation is JSON such as [{\"role\":\"user\",\"content\":\"…\"}]")
            .with_source(error)
            .into()
    })
}

/// Polls an event until it is done, has failed, or the time is up. Without a time limit it does not poll.
async fn follow(
    layer: &dyn MemoryLayer,
    run: &RunContext,
    scope: &Scope,
    event: &EventId,
    patience: Option<u64>,
    quiet: bool,
) -> CoreResult<EventStatus> {
    let Some(seconds) = patience else { return Ok(EventStatus::Pending) };
    let began = Instant::now();
    let end = began + Duration::from_secs(seconds);
    let mut progress = Progress::new(quiet);
    progress.set_length(seconds);
    let mut pause = FIRST_PAUSE;
    let status = loop {
        match tokio::time::timeout_at(end, layer.event(run, scope, event)).await {
            Ok(Ok(EventStatus::Pending)) => {}
            Ok(Ok(status)) => break status,
            // The event exists; a failed status query does not change that.
            Ok(Err(error)) if error.retry().is_retryable() => {}
            Ok(Err(error)) => {
                progress.finish();
                return Err(error);
            }
            Err(_) => break EventStatus::Pending,
        }
        let waited = began.elapsed().as_secs();
        progress.update(waited, || format!("pending for {waited} s, of at most {seconds}"));
        let next = Instant::now() + pause;
        if next >= end {
            break EventStatus::Pending;
        }
        tokio::time::sleep_until(next).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    };
    progress.finish();
    Ok(status)
}

/// Prints the status of an `add`. Work that failed, or is not done in time, ends with [`Exit::Failed`].
fn tell(
    out: &mut Out,
    status: &EventStatus,
    event: Option<&EventId>,
    names_facts: bool,
    beside: &Beside,
) -> Result<Exit, Failure> {
    let plain = |status| StatusDocument { event, beside: beside.clone(), ..StatusDocument::plain(status) };
    let (told, exit) = match status {
        EventStatus::Done(ids) => (StatusDocument { ids: Some(ids), ..plain("done") }, Exit::Ok),
        EventStatus::Failed(reason) => {
            (StatusDocument { reason: Some(reason), ..plain("failed") }, Exit::Failed)
        }
        _ => (plain("pending"), Exit::Failed),
    };
    out.tell(&told, |out| match status {
        EventStatus::Done(_) if !names_facts => {
            out.line("done; this store does not say which facts it stored: check with `memory facts`")
        }
        EventStatus::Done(ids) if ids.is_empty() => out.line("done: nothing new to store"),
        EventStatus::Done(ids) => ids.iter().try_for_each(|id| out.line(format!("stored: {id}"))),
        EventStatus::Failed(reason) => out.line(format!("failed: {reason}")),
        _ => {
            let event = event.map_or_else(String::new, |event| format!(" `memory event {event} --wait 60`"));
            out.line(format!("pending; check it with{event}"))
        }
    })?;
    if !out.is_json() {
        beside.tell(out)?;
    }
    Ok(exit)
}
