//! `eval conversations`: which turns `recall` finds for each question, through `MemoryLayer`.

pub(crate) mod data;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memory::Registry;
use memory::conversations::{Bm25, Signal, Weights};
use memory_core::layer::{
    AddOptions, ContextBlock, Fact, MAX_CONTEXT_TOKENS, MAX_MESSAGES, MAX_MESSAGES_BYTES, Message,
    RecallQuery, approximate_tokens,
};
use memory_core::{Error, MemoryLayer, Provider, Result, RunContext, Scope, ScopeId, TenantId};
use memory_server::terminal::{Context, Exit, Failure, Out, note};

use self::data::{Dialogue, Dialogues, Place};
use self::report::{Group, Report, is_stale, measures};
use crate::lines::{self, LeftOut};

const TENANT: &str = "memory-eval";
/// Turns asked for: sessions are ranked by the best of them.
const TOP_K: usize = 100;

/// Which turns are recalled for each question about a conversation.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConversationsArgs {
    /// Files of dialogues, one JSON object a line, gzip or plain; `docs/evaluation.md` describes the form
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The store to measure [default: a fresh SQLite file, removed afterwards]. While it runs, the turns are stored in run
    /// scopes of their own
    #[arg(long, value_name = "URL")]
    on: Option<String>,
    /// Only these signals; the others weigh nothing
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    signals: Vec<String>,
    /// Other weights, such as `dense=0.8,window=0`
    #[arg(long, value_delimiter = ',', value_name = "SIGNAL=WEIGHT")]
    weights: Vec<String>,
    /// Parameters of BM25, such as `1.2,0.75` [default: those that suit the mean length of turns]
    #[arg(long, value_name = "K1,B", value_parser = bm25)]
    bm25: Option<Bm25>,
    /// Tokens of the block of text whose precision and coverage of the evidence are measured
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = tokens)]
    budget: usize,
    /// Only one half of the dialogues: the odd ones (first, third, …) or the even ones
    #[arg(long, value_enum)]
    half: Option<Half>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Half {
    Odd,
    Even,
}

impl ConversationsArgs {
    fn weights(&self) -> Result<Weights> {
        let signal = |name: &str| {
            let known: Vec<&str> = Signal::all().map(Signal::name).collect();
            Signal::named(name).ok_or_else(|| {
                Error::invalid(format!("there is no signal `{name}`; there are {}", known.join(", ")))
            })
        };
        let mut weights = Weights::default();
        if !self.signals.is_empty() {
            let kept = self.signals.iter().map(|name| signal(name)).collect::<Result<Vec<_>>>()?;
            for left_out in Signal::all().filter(|signal| !kept.contains(signal)) {
                weights = weights.with(left_out, 0.0);
            }
        }
        for given in &self.weights {
            let (name, weight) = given
                .split_once('=')
                .and_then(|(name, weight)| Some((name, weight.parse::<f64>().ok()?)))
                .filter(|(_, weight)| weight.is_finite())
                .ok_or_else(|| Error::invalid(format!("`{given}` is not of the form SIGNAL=WEIGHT")))?;
            weights = weights.with(signal(name)?, weight);
        }
        Ok(match self.bm25 {
            Some(bm25) => weights.with_bm25(bm25),
            None => weights,
        })
    }
}

fn bm25(text: &str) -> std::result::Result<Bm25, String> {
    let numbers = text.split_once(',').map(|(k1, b)| (k1.trim().parse(), b.trim().parse()));
    let Some((Ok(k1), Ok(b))) = numbers else { return Err("two numbers, such as 1.2,0.75".to_owned()) };
    Bm25::new(k1, b).map_err(|error| error.message().to_owned())
}

fn tokens(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(tokens) if (1..=MAX_CONTEXT_TOKENS).contains(&tokens) => Ok(tokens),
        _ => Err(format!("1 to {MAX_CONTEXT_TOKENS} tokens")),
    }
}

/// `memory-lab eval conversations`.
pub(crate) async fn run(
    context: &Context,
    args: &ConversationsArgs,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let registry = context.registry()?.with_weights(args.weights()?);
    let quiet = context.is_quiet();
    let mut reports = Vec::new();
    for file in &args.files {
        reports.push(
            measure(args, file, &registry, &|text| {
                if !quiet {
                    note(text);
                }
            })
            .await?,
        );
    }
    let whole = reports.iter().all(|report| report.left_out.is_empty());
    let exit = if whole { Exit::Ok } else { Exit::Partial };
    if out.is_json() {
        out.document(&reports)?;
        return Ok(exit);
    }
    let mut text = Vec::new();
    for (at, report) in reports.iter().enumerate() {
        let gap = if at == 0 { "" } else { "\n" };
        write!(text, "{gap}")
            .and_then(|()| report.write(&mut text))
            .map_err(|error| Error::internal("the report cannot be written").with_source(error))?;
    }
    out.raw_line(String::from_utf8_lossy(&text).trim_end())?;
    Ok(exit)
}

/// Measures one file.
async fn measure(
    args: &ConversationsArgs,
    file: &Path,
    registry: &Registry,
    note: &(dyn Fn(&str) + Sync),
) -> Result<Report> {
    let Dialogues { read: mut dialogues, left_out } = data::load(file)?;
    lines::tell(file, &left_out);
    let mut odd = false;
    dialogues.retain(|_| {
        odd = !odd;
        args.half.is_none_or(|half| odd == (half == Half::Odd))
    });
    // Dropping it removes the files.
    let mut folder = None;
    let url = match &args.on {
        Some(url) => url.clone(),
        None => crate::stores::fresh(folder.insert(crate::stores::temporary()?))?,
    };
    let memory = registry.open(&url).await?;
    let layer = memory.layer().ok_or_else(|| Error::unsupported("recall", memory.name()))?;
    let mut judged = Judged { budget: args.budget, left_out, ..Judged::default() };
    for (dialogue, number) in dialogues.iter().zip(1..) {
        let name = format!("dialogue-{number}");
        let run = RunContext::new(TenantId::new(TENANT)?, ScopeId::new("lab")?, ScopeId::new(&name)?);
        let scope = Scope::run(TENANT, &name)?;
        if let Some(backend) = memory.backend() {
            backend.drop_scope(&scope).await?;
        }
        let answered = judge(layer, &run, &scope, dialogue, &mut judged).await;
        if folder.is_none()
            && let Some(backend) = memory.backend()
        {
            backend.drop_scope(&scope).await?;
        }
        answered.map_err(|error| error.with_detail("dialogue", dialogue.id.as_str()))?;
        note(&format!("{}: {} questions so far", dialogue.id, judged.took.len()));
    }
    let model = memory.conversation_model().map(|model| format!("{} {}", model.provider, model.model));
    drop(memory);
    let bytes = folder.as_ref().map(|folder| folder_bytes(folder.path())).transpose()?;
    let weights = args.weights()?;
    let mut weights: BTreeMap<&'static str, f64> =
        Signal::all().map(|signal| (signal.name(), weights.get(signal))).collect();
    weights.extend(args.bm25.into_iter().flat_map(|bm25| [("bm25.k1", bm25.k1()), ("bm25.b", bm25.b())]));
    Ok(judged.report(file, dialogues.len(), model, weights, bytes))
}

#[derive(Default)]
struct Judged {
    budget: usize,
    left_out: Vec<LeftOut>,
    evidence_unmatched: usize,
    times_unread: usize,
    turns: usize,
    /// Whether the old value came first, of each question about one that was replaced.
    stale: Vec<f64>,
    overall: Vec<Vec<f64>>,
    categories: BTreeMap<String, Vec<Vec<f64>>>,
    storing: Duration,
    took: Vec<Duration>,
}

async fn judge(
    layer: &dyn MemoryLayer,
    run: &RunContext,
    scope: &Scope,
    dialogue: &Dialogue,
    judged: &mut Judged,
) -> Result<()> {
    let started = Instant::now();
    for session in 0..dialogue.sessions.len() {
        for messages in batches(dialogue.messages(session)) {
            judged.turns += messages.len();
            layer.add(run, scope, &messages, AddOptions::default().verbatim()).await?;
        }
    }
    judged.storing += started.elapsed();
    judged.evidence_unmatched += dialogue.unmatched();
    judged.times_unread += dialogue.times_unread();
    for question in &dialogue.questions {
        let mut query = RecallQuery::new(question.text.as_str()).with_top_k(TOP_K);
        query.at = question.at();
        let started = Instant::now();
        let facts = layer.recall(run, scope, query).await?;
        judged.took.push(started.elapsed());
        let shown = shown(&facts, judged.budget);
        let found: Vec<(Place, String)> =
            facts.into_iter().filter_map(|fact| Some((place(&fact)?, fact.memory))).collect();
        let measured = measures(&found, &shown, &question.evidence);
        if question.is_update() {
            let stale = is_stale(&found, &question.evidence);
            judged.stale.extend(stale.map(|stale| f64::from(u8::from(stale))));
        }
        if !question.is_apart() {
            judged.overall.push(measured.clone());
        }
        let apart = if question.is_apart() { " (apart)" } else { "" };
        judged.categories.entry(format!("{}{apart}", question.category())).or_default().push(measured);
    }
    Ok(())
}

fn place(fact: &Fact) -> Option<Place> {
    data::place(fact.provenance.as_deref()?)
}

/// The turns that fit into a block of so many tokens.
fn shown(facts: &[Fact], tokens: usize) -> BTreeSet<Place> {
    let block = ContextBlock::of(facts, tokens, &approximate_tokens);
    let ids: BTreeSet<_> = block.sources.iter().flat_map(|source| &source.ids).collect();
    facts.iter().filter(|fact| ids.contains(&fact.id)).filter_map(place).collect()
}

/// As many messages together as one `add` takes.
fn batches(messages: Vec<Message>) -> Vec<Vec<Message>> {
    let (mut batches, mut bytes) = (vec![Vec::new()], 0);
    for message in messages {
        bytes += message.content.len();
        if let Some(last) = batches.last_mut()
            && last.len() < MAX_MESSAGES
            && bytes <= MAX_MESSAGES_BYTES
        {
            last.push(message);
        } else {
            bytes = message.content.len();
            batches.push(vec![message]);
        }
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

impl Judged {
    fn report(
        mut self,
        file: &Path,
        dialogues: usize,
        model: Option<String>,
        weights: BTreeMap<&'static str, f64>,
        bytes: Option<u64>,
    ) -> Report {
        self.took.sort_unstable();
        let at = |share: usize| {
            let place = (self.took.len() * share / 100).min(self.took.len().saturating_sub(1));
            self.took.get(place).copied().unwrap_or_default().as_secs_f64() * 1_000.0
        };
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
        let bytes_per_turn = bytes.map(|bytes| bytes as f64 / self.turns.max(1) as f64);
        let group = |rows: &Vec<Vec<f64>>| Group::of(&rows.iter().collect::<Vec<_>>());
        Report {
            file: file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
            dialogues,
            turns: self.turns,
            left_out: self.left_out,
            evidence_unmatched: self.evidence_unmatched,
            times_unread: self.times_unread,
            model,
            weights,
            overall: group(&self.overall),
            categories: self.categories.iter().map(|(name, rows)| (name.clone(), group(rows))).collect(),
            budget: self.budget,
            updates: self.stale.len(),
            stale: memory_eval::metrics::mean(&self.stale),
            store_seconds: self.storing.as_secs_f64(),
            recall_p50_ms: at(50),
            recall_p99_ms: at(99),
            bytes_per_turn,
        }
    }
}

fn folder_bytes(folder: &Path) -> Result<u64> {
    let unreadable = |error| Error::internal("the store's files cannot be measured").with_source(error);
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        match entry.and_then(|entry| entry.metadata()) {
            Ok(file) => bytes += file.len(),
            // The store removed a temporary file meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
    Ok(bytes)
}
