//! `eval conversations`: which turns of a dialogue `recall` finds for each of its questions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use flate2::read::MultiGzDecoder;
use memory::{OpenContext, Registry};
use memory_core::layer::{AddOptions, AddStatus, Forget, Message, RecallQuery, Role};
use memory_core::{Error, ErrorKind, MemoryLayer, Provider, Result, RunContext, Scope, Timestamp};
use memory_eval::metrics::{mean, ndcg_at, recall_at};
use memory_eval::{Interval, mean_interval};
use memory_model::BundledEmbedder;
use memory_recall::rank::{Signal, Weights};
use memory_recall::{Recall, RecallOptions};
use memory_sqlite::{SqliteConfig, SqliteProvider};
use serde::{Deserialize, Serialize};

/// Turns asked for: the deepest measure looks at 20.
const TOP_K: usize = 20;
/// Most messages of one `add`, well below the limit of bytes.
const BATCH: usize = 64;
/// The longest file read, unpacked.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Clone, Debug, clap::Args)]
pub(super) struct ConversationsArgs {
    /// Dialogues with questions, one JSON object a line, packed by gzip or not
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The backend to measure [default: a fresh SQLite file with the bundled model, removed afterwards]. While it runs, the
    /// turns are stored in run scopes of their own
    #[arg(long, value_name = "URL", conflicts_with_all = ["weights", "signals"])]
    on: Option<String>,
    /// Other weights than the defaults, such as `dense=0.8,date=2`
    #[arg(long, value_name = "SIGNAL=WEIGHT", value_delimiter = ',', value_parser = weight)]
    weights: Vec<(Signal, f64)>,
    /// Only these signals; those not named weigh nothing
    #[arg(long, value_name = "SIGNAL", value_delimiter = ',', value_parser = signal)]
    signals: Vec<Signal>,
    /// Only every second dialogue, from the first or the second: tune on one half, report the other
    #[arg(long, value_enum)]
    half: Option<Half>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Half {
    /// Dialogues 1, 3, 5, …
    Odd,
    /// Dialogues 2, 4, 6, …
    Even,
}

fn signal(name: &str) -> std::result::Result<Signal, String> {
    Signal::named(name).ok_or_else(|| {
        let names: Vec<&str> = Signal::all().map(Signal::name).collect();
        format!("signals are {}", names.join(", "))
    })
}

fn weight(text: &str) -> std::result::Result<(Signal, f64), String> {
    let (name, weight) = text.split_once('=').ok_or("write SIGNAL=WEIGHT")?;
    let weight =
        weight.parse().ok().filter(|weight: &f64| weight.is_finite()).ok_or("a weight is a number")?;
    Ok((signal(name)?, weight))
}

impl ConversationsArgs {
    fn chosen(&self) -> Weights {
        let silent = |weights: Weights, signal| {
            if self.signals.is_empty() || self.signals.contains(&signal) {
                weights
            } else {
                weights.with(signal, 0.0)
            }
        };
        let weights = Signal::all().fold(Weights::default(), silent);
        self.weights.iter().fold(weights, |weights, (signal, weight)| weights.with(*signal, *weight))
    }
}

#[derive(Deserialize)]
struct Dialogue {
    id: String,
    sessions: Vec<Session>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Session {
    at: Option<Timestamp>,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    speaker: String,
    role: Option<Role>,
    text: String,
    caption: Option<String>,
}

#[derive(Deserialize)]
struct Question {
    text: String,
    at: Option<Timestamp>,
    category: String,
    /// Session and turn, from 0.
    evidence: BTreeSet<Place>,
}

type Place = (usize, usize);

/// What one question gave.
struct Judged {
    category: String,
    recall: [f64; 3],
    any: [f64; 3],
    all: [f64; 3],
    reciprocal_rank: f64,
    ndcg_at_10: f64,
    session_any_at_1: f64,
    session_all_at_5: f64,
    /// The share of the turns found whose text another one found before has too.
    duplicates: f64,
}

/// The means of a category's questions.
#[derive(Serialize)]
pub(super) struct Measures {
    questions: usize,
    recall_at_5: f64,
    recall_at_10: f64,
    recall_at_20: f64,
    recall_at_10_interval: Interval,
    any_at_5: f64,
    any_at_10: f64,
    all_at_10: f64,
    mrr: f64,
    ndcg_at_10: f64,
    session_any_at_1: f64,
    session_all_at_5: f64,
    duplicate_rate: f64,
}

/// What is printed of one file.
#[derive(Serialize)]
pub(super) struct FileReport {
    file: String,
    dialogues: usize,
    turns: usize,
    /// Questions without evidence: nothing to find.
    unanswerable: usize,
    categories: BTreeMap<String, Measures>,
    /// All categories but `adversarial`, whose questions name the wrong speaker.
    overall: Measures,
    recall_p50_ms: f64,
    recall_p99_ms: f64,
    store_seconds: f64,
}

/// Runs the evaluation of every file.
pub(super) async fn reports(args: &ConversationsArgs, registry: &Registry) -> Result<Vec<FileReport>> {
    // Kept until the end: dropping it removes the files.
    let folder = tempfile::tempdir().map_err(|error| super::broken("make a temporary folder", error))?;
    let provider: Arc<dyn Provider> = match &args.on {
        Some(url) => Arc::new(registry.open(url).await?),
        None => fresh(&folder.path().join("eval.db"), args.chosen())?,
    };
    let layer = provider.layer().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "this backend has no conversations: it serves no `recall`")
    })?;
    let mut reports = Vec::new();
    for file in &args.files {
        reports.push(report(file, args.half, layer).await?);
    }
    Ok(reports)
}

fn fresh(path: &Path, weights: Weights) -> Result<Arc<dyn Provider>> {
    let OpenContext { clock, ids, .. } = OpenContext::default();
    let store = SqliteProvider::open(path, SqliteConfig::default(), clock.clone())?;
    let options =
        RecallOptions::default().with_weights(weights).with_embedder(Arc::new(BundledEmbedder::new()?));
    Ok(Arc::new(Recall::new(store, options, clock, ids)))
}

fn lines(path: &Path) -> Result<Vec<Dialogue>> {
    let cannot = |error| super::broken("read the dialogues", error);
    let mut file = BufReader::new(std::fs::File::open(path).map_err(cannot)?);
    let packed = file.fill_buf().map_err(cannot)?.starts_with(&[0x1F, 0x8B]);
    let plain: Box<dyn std::io::Read> =
        if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut dialogues = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(plain.take(MAX_BYTES)).lines()) {
        let line = line.map_err(cannot)?;
        if line.trim().is_empty() {
            continue;
        }
        let dialogue = serde_json::from_str(&line)
            .map_err(|error| Error::invalid(format!("{}, line {number}: {error}", path.display())))?;
        dialogues.push(dialogue);
    }
    Ok(dialogues)
}

async fn report(path: &Path, half: Option<Half>, layer: &dyn MemoryLayer) -> Result<FileReport> {
    let dialogues: Vec<Dialogue> = lines(path)?
        .into_iter()
        .enumerate()
        .filter(|(at, _)| half.is_none_or(|half| (at % 2 == 0) == (half == Half::Odd)))
        .map(|(_, dialogue)| dialogue)
        .collect();
    let mut by_category: BTreeMap<String, Vec<Judged>> = BTreeMap::new();
    let (mut turns, mut unanswerable, mut times, mut store_seconds) = (0, 0, Vec::new(), 0.0);
    for dialogue in &dialogues {
        let run = RunContext::new("memory-eval".parse()?, "eval".parse()?, dialogue.id.parse()?);
        let scope = Scope::run("memory-eval", &dialogue.id)?;
        layer.forget(&run, &scope, Forget::All).await?;
        let started = Instant::now();
        let stored = store(dialogue, &run, &scope, layer).await?;
        store_seconds += started.elapsed().as_secs_f64();
        turns += stored;
        for question in &dialogue.questions {
            if question.evidence.is_empty() {
                unanswerable += 1;
                continue;
            }
            let started = Instant::now();
            let judged = judge(question, &run, &scope, layer).await?;
            times.push(started.elapsed().as_secs_f64() * 1_000.0);
            by_category.entry(judged.category.clone()).or_default().push(judged);
        }
        layer.forget(&run, &scope, Forget::All).await?;
    }
    times.sort_by(f64::total_cmp);
    let time = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
    let counted =
        by_category.iter().filter(|(name, _)| *name != "adversarial").flat_map(|(_, judged)| judged);
    Ok(FileReport {
        file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        dialogues: dialogues.len(),
        turns,
        unanswerable,
        overall: Measures::of(&counted.collect::<Vec<_>>()),
        categories: by_category
            .iter()
            .map(|(name, judged)| (name.clone(), Measures::of(&judged.iter().collect::<Vec<_>>())))
            .collect(),
        recall_p50_ms: time(50).copied().unwrap_or_default(),
        recall_p99_ms: time(99).copied().unwrap_or_default(),
        store_seconds,
    })
}

/// The id of a turn where it comes from: its place.
fn name((session, turn): Place) -> String {
    format!("{session}:{turn}")
}

async fn store(
    dialogue: &Dialogue,
    run: &RunContext,
    scope: &Scope,
    layer: &dyn MemoryLayer,
) -> Result<usize> {
    let mut stored = 0;
    for (number, session) in dialogue.sessions.iter().enumerate() {
        let messages: Vec<Message> = session
            .turns
            .iter()
            .enumerate()
            .filter(|(_, turn)| !turn.text.trim().is_empty())
            .map(|(at, turn)| {
                let mut message = Message::new(turn.role.unwrap_or(Role::User), &turn.text)
                    .with_name(turn.speaker.clone())
                    .with_id(name((number, at)))
                    .with_session(number.to_string());
                (message.at, message.caption) = (session.at, turn.caption.clone());
                message
            })
            .collect();
        for batch in messages.chunks(BATCH) {
            match layer.add(run, scope, batch, AddOptions::default().verbatim()).await?.status {
                AddStatus::Done(_) => stored += batch.len(),
                other => return Err(Error::internal(format!("turns were not stored at once: {other:?}"))),
            }
        }
    }
    Ok(stored)
}

async fn judge(
    question: &Question,
    run: &RunContext,
    scope: &Scope,
    layer: &dyn MemoryLayer,
) -> Result<Judged> {
    let mut query = RecallQuery::new(&question.text).with_top_k(TOP_K);
    query.at = question.at;
    let facts = layer.recall(run, scope, query).await?;
    let texts: BTreeSet<&str> = facts.iter().map(|fact| fact.memory.as_str()).collect();
    let found: Vec<Place> = facts
        .iter()
        .map(|fact| {
            let (session, turn) = fact.provenance.as_deref().and_then(|id| id.split_once(':'))?;
            Some((session.parse().ok()?, turn.parse().ok()?))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| {
            Error::new(ErrorKind::Unsupported, "this backend does not say which message a fact came from")
        })?;
    let evidence = &question.evidence;
    let mut sessions: Vec<usize> = Vec::new();
    for (session, _) in &found {
        if !sessions.contains(session) {
            sessions.push(*session);
        }
    }
    let of_evidence: BTreeSet<usize> = evidence.iter().map(|(session, _)| *session).collect();
    let recall = [5, 10, 20].map(|k| recall_at(&found, evidence, k));
    let first = found.iter().position(|place| evidence.contains(place));
    Ok(Judged {
        category: question.category.clone(),
        any: recall.map(|recall| f64::from(recall > 0.0)),
        all: recall.map(|recall| f64::from(recall >= 1.0)),
        recall,
        reciprocal_rank: (1_u32..)
            .zip(0..)
            .find(|(_, at)| Some(*at) == first)
            .map_or(0.0, |(rank, _)| 1.0 / f64::from(rank)),
        ndcg_at_10: ndcg_at(&found, evidence, 10),
        session_any_at_1: f64::from(sessions.first().is_some_and(|session| of_evidence.contains(session))),
        session_all_at_5: f64::from(recall_at(&sessions, &of_evidence, 5) >= 1.0),
        duplicates: share(facts.len() - texts.len(), facts.len()),
    })
}

#[allow(clippy::cast_precision_loss, reason = "at most 20")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Measures {
    fn of(judged: &[&Judged]) -> Self {
        let values =
            |value: fn(&Judged) -> f64| judged.iter().map(|judged| value(judged)).collect::<Vec<f64>>();
        let mean_of = |value: fn(&Judged) -> f64| mean(&values(value));
        Self {
            questions: judged.len(),
            recall_at_5: mean_of(|judged| judged.recall[0]),
            recall_at_10: mean_of(|judged| judged.recall[1]),
            recall_at_20: mean_of(|judged| judged.recall[2]),
            recall_at_10_interval: mean_interval(&values(|judged| judged.recall[1])),
            any_at_5: mean_of(|judged| judged.any[0]),
            any_at_10: mean_of(|judged| judged.any[1]),
            all_at_10: mean_of(|judged| judged.all[1]),
            mrr: mean_of(|judged| judged.reciprocal_rank),
            ndcg_at_10: mean_of(|judged| judged.ndcg_at_10),
            session_any_at_1: mean_of(|judged| judged.session_any_at_1),
            session_all_at_5: mean_of(|judged| judged.session_all_at_5),
            duplicate_rate: mean_of(|judged| judged.duplicates),
        }
    }
}

/// The reports as tables for a person.
pub(super) fn table(reports: &[FileReport]) -> String {
    let mut lines = Vec::new();
    for report in reports {
        lines.push(format!(
            "{:<26}{:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>9} {:>9}",
            report.file, "questions", "R@5", "R@10", "R@20", "MRR", "nDCG@10", "sess@1", "sess all@5"
        ));
        let mut row = |name: &str, of: &Measures| {
            lines.push(format!(
                "{name:<26}{:>9} {:>7.3} {:>7.3} {:>7.3} {:>7.3} {:>7.3} {:>9.3} {:>9.3}",
                of.questions,
                of.recall_at_5,
                of.recall_at_10,
                of.recall_at_20,
                of.mrr,
                of.ndcg_at_10,
                of.session_any_at_1,
                of.session_all_at_5
            ));
        };
        for (name, of) in &report.categories {
            row(name, of);
        }
        row("all but adversarial", &report.overall);
        let overall = &report.overall;
        lines.push(format!(
            "R@10 is {:.3} to {:.3} in 95 % of resamples; any@5 {:.3}, any@10 {:.3}, all@10 {:.3}; {:.1} % of turns found say the same as another",
            overall.recall_at_10_interval.low,
            overall.recall_at_10_interval.high,
            overall.any_at_5,
            overall.any_at_10,
            overall.all_at_10,
            overall.duplicate_rate * 100.0
        ));
        lines.push(format!(
            "{} turns of {} dialogues stored in {:.1} s; a recall took {:.2} ms (median), {:.2} ms (99 %); {} questions have no answer\n",
            report.turns, report.dialogues, report.store_seconds, report.recall_p50_ms, report.recall_p99_ms, report.unanswerable
        ));
    }
    lines.join("\n")
}
