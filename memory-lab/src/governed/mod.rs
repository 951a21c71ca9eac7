//! `eval governed`: which open issue a note closes, or that it cannot be told.

mod data;
mod promoted;
mod replay;
mod report;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use memory_core::{Error, Result};
use memory_eval::Abstaining;
use memory_governed::resolve::{Model, lab};
use memory_governed::{Interpreter, ModelInterpreter, Rules};
use memory_server::terminal::{Context, Exit, Failure, Out, Progress, note};

/// Which open issue a note closes: precision, recall, and what is bound where the right one was removed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GovernedArgs {
    /// Files NAME.cases.jsonl, each with NAME.items.jsonl beside it, gzip or plain; `docs/governed.md` describes the form
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print what other thresholds give for each repository too
    #[arg(long)]
    curve: bool,
    /// Another table of weights, in the form of `memory-governed/data/resolver.json`
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Also write the numbers that decide to this file, one JSON object a line, to fit a table with
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,
    /// Also promote every note by a whole pipeline, whose interpreter this is: what it makes of the notes stands beside the
    /// resolver's figures
    #[arg(long, value_enum, conflicts_with = "model")]
    interpreter: Option<Reader>,
}

/// What reads the notes.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Reader {
    /// Explicit forms, without a model
    Rules,
    /// The language model of `[models.chat]` in memory.toml
    Model,
}

/// `memory-lab eval governed`.
pub(crate) async fn run(
    context: &Context,
    args: &GovernedArgs,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let model = match &args.model {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Error::invalid(format!("{} cannot be read: {error}", path.display())))?;
            Model::from_json(&text)?
        }
        None => lab::built_in().cloned().ok_or_else(|| Error::internal("the table of weights is damaged"))?,
    };
    let mut features = args.features.as_ref().map(create).transpose()?;
    if let Some(file) = &mut features {
        let (names, scene) = lab::names();
        line(file, &serde_json::json!({ "names": names, "scene": scene, "offers": lab::offer_names() }))?;
    }
    let interpreter: Option<Arc<dyn Interpreter>> = match args.interpreter {
        None => None,
        Some(Reader::Rules) => Some(Arc::new(Rules)),
        Some(Reader::Model) => Some(Arc::new(ModelInterpreter::new(context.chat_model()?))),
    };
    let (mut judged, mut tallies, mut left_out) = (Vec::new(), BTreeMap::new(), Vec::new());
    for path in &args.files {
        let mut tracker = data::load(path)?;
        left_out.append(&mut tracker.left_out);
        if !context.is_quiet() {
            note(&format!("{}: {} notes", tracker.name, tracker.cases.len()));
        }
        if let Some(interpreter) = &interpreter {
            let progress = Progress::new(context.is_quiet());
            let tally = promoted::promote(interpreter, &tracker, progress).await?;
            tallies.insert(tracker.name.clone(), tally);
        }
        let mut write =
            |value: &serde_json::Value| features.as_mut().map_or(Ok(()), |file| line(file, value));
        judged.extend(tokio::task::block_in_place(|| {
            replay::replay(&model, tracker, args.features.is_some(), &mut write)
        })?);
    }
    if let Some(mut file) = features {
        file.flush().map_err(unwritable)?;
    }
    let report = Abstaining::of(&judged);
    let pipeline = interpreter.map(|interpreter| report::Pipeline::of(interpreter.name(), tallies));
    if out.is_json() {
        let threshold = model.threshold();
        let pipeline = pipeline.as_ref();
        out.document(&report::Answer { threshold, left_out: &left_out, report: &report, pipeline })?;
    } else {
        let mut text = report::table(model.threshold(), &report);
        // That of a single repository is the curve of all.
        if args.curve && report.curves.len() > 1 {
            report.curves.iter().for_each(|(name, points)| report::curve(&mut text, name, points));
        }
        if let Some(pipeline) = &pipeline {
            text.push_str(&report::promoted(pipeline));
        }
        out.raw_line(text.trim_end())?;
    }
    Ok(if left_out.is_empty() { Exit::Ok } else { Exit::Partial })
}

fn create(path: &PathBuf) -> Result<BufWriter<File>> {
    File::create(path).map(BufWriter::new).map_err(unwritable)
}

fn line(file: &mut BufWriter<File>, value: &serde_json::Value) -> Result<()> {
    writeln!(file, "{value}").map_err(unwritable)
}

fn unwritable(error: std::io::Error) -> Error {
    Error::invalid(format!("the file of features cannot be written: {error}"))
}
