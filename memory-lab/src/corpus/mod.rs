//! `corpus`: runs each statement of a file in a fresh scope, and reports how it ended.
//!
//! Statements run in a child process: one that crashes or hangs it costs only its own line.

mod arguments;
mod child;
mod judge;
mod line;
mod outside;
mod report;
mod store;
mod trial;
mod worker;

use std::path::Path;
use std::time::Instant;

use memory_server::terminal::{Context, Exit, Failure, Out, Progress, Stop};

use self::child::Child;
use self::judge::Verdict;
use self::report::{Summary, print, show};
use self::trial::{PATIENCE, Trial};

pub(crate) use self::trial::CorpusArgs;

/// Runs every line.
///
/// # Errors
/// Where a file cannot be read or is wrong, the base does not load, or the store cannot be opened.
pub(crate) async fn run(context: &Context, args: CorpusArgs, out: &mut Out) -> Result<Exit, Failure> {
    let trial = args.trial()?;
    if let Some((place, from)) = &trial.child {
        return Box::pin(worker::run(context, &trial, place, *from, out)).await;
    }
    let started = Instant::now();
    // Its folder goes away with it, whatever statements left there.
    let place = place()?;
    let trial = copied(&trial, place.path())?;
    let lines = line::read(&trial.corpus)?;
    let stop = Stop::listen();
    let mut progress = Progress::new(context.is_quiet() || !out.is_json());
    progress.set_length(lines.len() as u64);
    let mut summary = Summary::default();
    let mut child = None;
    for (index, line) in lines.iter().enumerate() {
        if stop.is_asked() {
            summary.interrupted = true;
            break;
        }
        let line = match line {
            Ok(line) => line,
            Err(unreadable) => {
                let verdict = Verdict::unreadable(&unreadable.id, &unreadable.why);
                summary.add("", &verdict, false);
                show(&verdict, false, out)?;
                continue;
            }
        };
        let running = match &mut child {
            Some(running) => running,
            None => child.insert(Child::start(context, &trial, place.path(), index)?),
        };
        let begun = Instant::now();
        let verdict = match running.next(trial.timeout + PATIENCE).await? {
            Ok(verdict) => verdict,
            Err(lost) => Verdict::lost(line, lost.code(), begun.elapsed().as_secs_f64() * 1_000.0),
        };
        if verdict.is_lost() {
            child = None;
        }
        let as_expected = verdict.is_as_expected(line);
        summary.add(&line.category, &verdict, as_expected);
        show(&verdict, as_expected, out)?;
        out.flush()?;
        let done = index + 1;
        progress.update(done as u64, || format!("{done} of {} statements", lines.len()));
    }
    progress.finish();
    if let Some(child) = child {
        child.end().await;
    }
    summary.end(started.elapsed());
    print(&summary, out)?;
    Ok(match (summary.interrupted, summary.unreadable) {
        (true, _) => Exit::Interrupted,
        (false, 0) => Exit::Ok,
        (false, _) => Exit::Partial,
    })
}

/// Copies the files, which may be pipes that can be read only once.
fn copied(trial: &Trial, place: &Path) -> Result<Trial, Failure> {
    let copy = |from: &Path, name: &str| {
        let to = place.join(name);
        std::fs::write(&to, line::text(from)?)
            .map_err(|error| Failure::File(format!("{} cannot be written", to.display()), error))?;
        Ok::<_, Failure>(to)
    };
    let corpus = copy(&trial.corpus, "corpus.jsonl")?;
    let base = trial.base.as_deref().map(|base| copy(base, "base.sql")).transpose()?;
    Ok(Trial { corpus, base, ..trial.clone() })
}

/// A folder for the store: in memory if the system has such a place and the user names none, because nothing here
/// is worth a sync.
fn place() -> Result<tempfile::TempDir, Failure> {
    let mut folder = tempfile::Builder::new();
    folder.prefix("memory-corpus-");
    if std::env::var_os("TMPDIR").is_none()
        && let Ok(place) = folder.tempdir_in("/dev/shm")
    {
        return Ok(place);
    }
    folder.tempdir().map_err(|error| Failure::File("a temporary folder cannot be made".to_owned(), error))
}
