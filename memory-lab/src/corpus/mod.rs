//! `corpus`: runs each statement of a file in a fresh scope, and reports how it ended.
//!
//! Statements run in a child process: one that crashes or hangs the process costs only its own line.

mod arguments;
mod child;
mod judge;
mod line;
mod options;
mod outside;
mod report;
mod store;
mod worker;

use std::path::Path;
use std::time::Instant;

use memory_server::terminal::{Context, Exit, Failure, Out, Progress, Stop};

use self::child::Child;
use self::judge::Verdict;
use self::options::{GRACE, RunOptions};
use self::report::{Summary, print, show};

pub(crate) use self::options::CorpusArgs;

/// Runs every line.
///
/// # Errors
/// If a file cannot be read or is malformed, the base script fails, or the store cannot be opened.
pub(crate) async fn run(context: &Context, args: CorpusArgs, out: &mut Out) -> Result<Exit, Failure> {
    let options = args.options()?;
    if let Some((folder, from)) = &options.child {
        return Box::pin(worker::run(context, &options, folder, *from, out)).await;
    }
    let started = Instant::now();
    // Dropping it removes the folder and whatever statements left there.
    let folder = work_folder()?;
    let options = copy_inputs(&options, folder.path())?;
    let lines = line::read(&options.corpus)?;
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
            None => child.insert(Child::start(context, &options, folder.path(), index)?),
        };
        let started = Instant::now();
        let verdict = match running.next(options.timeout + GRACE).await? {
            Ok(verdict) => verdict,
            Err(reason) => {
                Verdict::without_result(line, reason.code(), started.elapsed().as_secs_f64() * 1_000.0)
            }
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
fn copy_inputs(options: &RunOptions, folder: &Path) -> Result<RunOptions, Failure> {
    let copy = |from: &Path, name: &str| {
        let to = folder.join(name);
        std::fs::write(&to, line::bytes(from)?)
            .map_err(|error| Failure::File(format!("{} cannot be written", to.display()), error))?;
        Ok::<_, Failure>(to)
    };
    let corpus = copy(&options.corpus, "corpus.jsonl")?;
    let base = options.base.as_deref().map(|base| copy(base, "base.sql")).transpose()?;
    Ok(RunOptions { corpus, base, ..options.clone() })
}

/// A folder for the store. In memory if the system has such a place and the user names no other, because nothing here needs
/// to be durable.
fn work_folder() -> Result<tempfile::TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("memory-corpus-");
    if std::env::var_os("TMPDIR").is_none()
        && let Ok(folder) = builder.tempdir_in("/dev/shm")
    {
        return Ok(folder);
    }
    builder.tempdir().map_err(|error| Failure::File("a temporary folder cannot be created".to_owned(), error))
}
