//! `eval`: retrieval quality, measured through the product.

use std::io::Write;
use std::path::PathBuf;

use memory::Registry;
use memory_core::SearchMode;
use memory_eval::{EvalOptions, Measures, Paired, Progress, Report, evaluate, locomo};
use memory_server::terminal::{Context, Exit, Failure, Out, note};
use serde::Serialize;

use crate::stores::{broken, fresh, temporary};

/// Measure retrieval quality on annotated data.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EvalArgs {
    #[command(subcommand)]
    what: Eval,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Eval {
    /// The LoCoMo dialogues: which turns are found for each question.
    Locomo(LocomoArgs),
    /// Conversations: which turns are recalled for each question, through `add` and `recall`
    Conversations(crate::conversations::ConversationsArgs),
    /// Notes that close an issue: which open issue each is bound to, and how often nothing or a wrong one
    Governed(crate::governed::GovernedArgs),
    /// Shared state of several agents: what goes wrong there, and that it does not on a store [default: on a fresh SQLite
    /// file for each case]
    Hazards(crate::hazards::HazardsArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct LocomoArgs {
    /// The dialogues, in the form of `locomo10.json`
    file: PathBuf,
    /// How to search for turns. Vectors come from the model that --embedder names; results with vectors are compared with
    /// words alone, question by question
    #[arg(long, value_enum, default_value = "lexical")]
    mode: Mode,
    /// The backend to measure [default: a fresh SQLite file, removed afterwards]. While it runs, the turns are stored
    /// in run scopes of their own
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

/// What is printed.
#[derive(Serialize)]
struct Answer {
    #[serde(flatten)]
    report: Report,
    /// Present unless the search is by words alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    against_lexical: Option<AgainstLexical>,
}

/// The same questions by words alone, on the same store.
#[derive(Serialize)]
struct AgainstLexical {
    recall_at_10: f64,
    #[serde(flatten)]
    paired: Paired,
}

/// `memory-lab eval`.
pub(crate) async fn run(context: &Context, args: &EvalArgs, out: &mut Out) -> Result<Exit, Failure> {
    let args = match &args.what {
        Eval::Locomo(args) => args,
        Eval::Conversations(args) => return crate::conversations::run(context, args, out).await,
        Eval::Governed(args) => return crate::governed::run(context, args, out).await,
        Eval::Hazards(args) => return crate::hazards::run(context, args, out).await,
    };
    let quiet = context.is_quiet();
    let registry = context.registry()?;
    let mut report = Vec::new();
    write_report(args, &registry, out.is_json(), &mut report, &|progress| {
        if !quiet && progress.answered % 100 == 0 {
            note(&format!(
                "{}: {} of {} questions",
                progress.dialogue, progress.answered, progress.questions
            ));
        }
    })
    .await?;
    out.raw_line(String::from_utf8_lossy(&report).trim_end())?;
    Ok(Exit::Ok)
}

/// Runs an evaluation and writes its report to `out`: a table, or one JSON object.
async fn write_report(
    args: &LocomoArgs,
    registry: &Registry,
    json: bool,
    out: &mut (dyn Write + Send),
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> memory_core::Result<()> {
    let LocomoArgs { file, mode, on } = args;
    let dialogues = locomo::load(file)?;
    // Kept until the end: dropping it removes the files.
    let mut folder = None;
    let url = match on {
        Some(url) => url.clone(),
        None => fresh(folder.insert(temporary()?))?,
    };
    let memory = registry.open(&url).await?;
    let options = EvalOptions::default();
    let mode = SearchMode::from(*mode);
    let report = evaluate(&memory, &dialogues, mode, &options, progress).await?;
    let against_lexical = if mode == SearchMode::Lexical {
        None
    } else {
        let words = evaluate(&memory, &dialogues, SearchMode::Lexical, &options, &|_| {}).await?;
        report
            .against(&words)
            .map(|paired| AgainstLexical { recall_at_10: words.overall.recall_at_10, paired })
    };
    drop(memory);
    let answer = Answer { report, against_lexical };
    let written = if json { write_json(&answer, out) } else { write_table(&answer, out) };
    written.map_err(|error| broken("write the report", error))
}

fn write_json(answer: &Answer, out: &mut dyn Write) -> std::io::Result<()> {
    serde_json::to_writer(&mut *out, answer)?;
    writeln!(out)?;
    out.flush()
}

fn write_table(answer: &Answer, out: &mut dyn Write) -> std::io::Result<()> {
    let Answer { report, against_lexical } = answer;
    let Report { overall, recall_at_10_interval: interval, timing, .. } = report;
    writeln!(out, "{:<14}{:>10}{:>10}{:>11}{:>9}", "", "questions", "recall@5", "recall@10", "nDCG@10")?;
    for category in &report.categories {
        write_measures(out, category.name, &category.measures)?;
    }
    write_measures(out, "all", overall)?;
    writeln!(out, "\nrecall@10 is {:.3} to {:.3} in 95 % of resamples", interval.low, interval.high)?;
    if let Some(AgainstLexical { recall_at_10, paired }) = against_lexical {
        writeln!(
            out,
            "with words alone it is {recall_at_10:.4}: {:+.4} ({:+.4} to {:+.4} in 95 % of resamples); {} questions better, {} worse",
            paired.difference, paired.interval.low, paired.interval.high, paired.better, paired.worse,
        )?;
    }
    if let Some(model) = &report.model {
        writeln!(out, "vectors of {} {}, {} dimensions", model.provider, model.model, model.dimensions)?;
    }
    writeln!(
        out,
        "{} turns of {} dialogues stored in {:.2} s; a search took {:.2} ms (median), {:.2} ms (99 %)",
        report.turns, report.dialogues, timing.store_seconds, timing.search_p50_ms, timing.search_p99_ms,
    )?;
    writeln!(
        out,
        "{} of {} evidence references name no turn and count as not found",
        report.evidence_unmatched, report.evidence,
    )?;
    out.flush()
}

fn write_measures(out: &mut dyn Write, name: &str, measures: &Measures) -> std::io::Result<()> {
    let Measures { questions, recall_at_5, recall_at_10, ndcg_at_10 } = measures;
    writeln!(out, "{name:<14}{questions:>10}{recall_at_5:>10.4}{recall_at_10:>11.4}{ndcg_at_10:>9.4}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"[{"sample_id": "a/1", "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted a cat"},
            {"speaker": "Bo", "dia_id": "D1:2", "text": "Look!\u0000", "blip_caption": "a red kite"}],
        "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "We moved to Lisbon"}]},
        "qa": [{"question": "Where did Ann move?", "category": 4, "evidence": ["D2:1"]},
               {"question": "Which pet was adopted?", "category": 1, "evidence": ["D1:1; D9:9"]}]}]"#;

    fn args(file: &std::path::Path, mode: Mode) -> LocomoArgs {
        LocomoArgs { file: file.to_owned(), mode, on: None }
    }

    fn small() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("small.json");
        std::fs::write(&file, SMALL).unwrap();
        (folder, file)
    }

    #[test]
    fn what_is_measured_is_what_import_stores() {
        let imported = memory_server::fuzzing::turns("locomo", SMALL.as_bytes()).unwrap().unwrap();
        let imported: Vec<_> = imported.entries.into_iter().map(Result::unwrap).collect();
        let measured: Vec<_> = locomo::parse(SMALL.as_bytes())
            .unwrap()
            .iter()
            .flat_map(|dialogue| dialogue.turns.iter().map(|turn| turn.entry(&dialogue.id).unwrap()))
            .collect();
        assert_eq!(measured.len(), 3);
        assert_eq!(measured, imported);
    }

    #[tokio::test]
    async fn the_report_is_one_json_object_with_the_stable_names() {
        let (_folder, file) = small();
        let mut out = Vec::new();
        write_report(&args(&file, Mode::Lexical), &Registry::default(), true, &mut out, &|_| {})
            .await
            .unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(report["questions"], 2);
        assert_eq!(report["recall_at_5"], 0.75);
        assert_eq!(report["recall_at_10"], 0.75);
        assert!(report["ndcg_at_10"].as_f64().unwrap() > 0.7);
        assert_eq!(report["evidence_unmatched"], 1);
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
    }

    #[tokio::test]
    async fn the_report_is_a_table_for_a_person() {
        let (_folder, file) = small();
        let mut out = Vec::new();
        write_report(&args(&file, Mode::Lexical), &Registry::default(), false, &mut out, &|_| {})
            .await
            .unwrap();
        let table = String::from_utf8(out).unwrap();
        assert!(table.contains("single-hop") && table.contains("multi-hop"), "{table}");
        assert!(table.contains("1 of 3 evidence references"), "{table}");
    }

    #[tokio::test]
    async fn vectors_are_named_by_their_model_and_compared_with_words_alone() {
        let (_folder, file) = small();
        let embedder = std::sync::Arc::new(memory_conformance::TestEmbedder::new());
        let registry = Registry::default().with_embedder(embedder);
        for mode in [Mode::Vector, Mode::Hybrid] {
            let mut out = Vec::new();
            write_report(&args(&file, mode), &registry, true, &mut out, &|_| {}).await.unwrap();
            let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(report["model"]["model"], "bag-of-words-1");
            let against = &report["against_lexical"];
            assert_eq!(against["recall_at_10"], 0.75);
            let difference = report["recall_at_10"].as_f64().unwrap() - 0.75;
            assert!((against["difference"].as_f64().unwrap() - difference).abs() < 1e-12, "{report}");
            assert!(against["interval"]["low"].as_f64() <= against["interval"]["high"].as_f64());
        }
        let mut out = Vec::new();
        write_report(&args(&file, Mode::Hybrid), &registry, false, &mut out, &|_| {}).await.unwrap();
        let table = String::from_utf8(out).unwrap();
        assert!(
            table.contains("with words alone it is 0.7500") && table.contains("bag-of-words-1"),
            "{table}"
        );
    }

    #[tokio::test]
    async fn vectors_without_an_embedder_are_refused() {
        let (_folder, file) = small();
        for mode in [Mode::Vector, Mode::Hybrid] {
            let error =
                write_report(&args(&file, mode), &Registry::default(), true, &mut Vec::new(), &|_| {})
                    .await
                    .unwrap_err();
            assert_eq!(error.kind(), memory_core::ErrorKind::VectorUnsupported);
        }
    }
}
