//! `memory sql --corpus`: tries statements in a fresh scope each, and says how each ended.

mod judge;
mod lab;
mod line;
mod outside;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use memory_core::sql::StatementOptions;
use memory_core::{Error, Result, RunContext, Scope, ScopeId};
use serde::Serialize;

use self::judge::{Outcome, Verdict};
use self::lab::{Answer, Lab};
use self::line::Line;
use self::outside::Outside;
use self::report::Summary;
use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::output::{Out, bytes, excerpt};
use crate::progress::{Progress, Stop, note};

/// Rows of a result that are read; the rest is cut, as it is for an agent.
const MAX_ROWS: usize = 1_000;
/// Bytes of a result that are read.
const MAX_BYTES: usize = 1 << 20;
/// How long a statement may go on beyond its own deadline before the run gives it up.
const PATIENCE: Duration = Duration::from_secs(2);

/// What to try, and how.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) corpus: PathBuf,
    pub(super) base: Option<PathBuf>,
    pub(super) no_validator: bool,
    pub(super) only_layer: Option<String>,
    pub(super) timeout: Duration,
    pub(super) quota: u64,
}

/// Runs every line.
///
/// # Errors
/// Where a file cannot be read or is wrong, the base does not load, or the store cannot be opened.
pub(super) async fn run(
    context: &Context,
    trial: &Trial,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let lines = line::read(&trial.corpus)?;
    let base = trial.base.as_deref().map(line::text).transpose()?.unwrap_or_default();
    let started = Instant::now();
    // Its folder goes away with it, whatever statements left there.
    let place = place()?;
    let mut bench = Bench::open(context, trial, place.path(), base).await?;
    let stop = Stop::listen();
    let mut progress = Progress::new(context.is_quiet() || !out.is_json());
    progress.set_length(lines.len() as u64);
    let mut summary = Summary::default();
    let mut done = 0;
    for line in &lines {
        if stop.is_asked() {
            summary.interrupted = true;
            break;
        }
        let verdict = bench.try_line(line).await?;
        let as_expected = summary.add(line, &verdict);
        show(line, &verdict, as_expected, out)?;
        // A statement may end the process: what was tried before is not lost.
        out.flush()?;
        done += 1;
        progress.update(done, || format!("{done} of {} statements", lines.len()));
    }
    progress.finish();
    summary.end(started.elapsed());
    print(&summary, out)?;
    bench.close().await;
    leave(place.path());
    Ok(if summary.interrupted { Exit::Interrupted } else { Exit::Ok })
}

/// A folder for the store: in memory where the system has such a place and the user names none, because nothing here
/// is worth a sync.
fn place() -> std::result::Result<tempfile::TempDir, Failure> {
    let folder = || tempfile::Builder::new().prefix("memory-corpus-").to_owned();
    if std::env::var_os("TMPDIR").is_none()
        && let Ok(place) = folder().tempdir_in("/dev/shm")
    {
        return Ok(place);
    }
    folder().tempdir().map_err(|error| Failure::File("a temporary folder cannot be made".to_owned(), error))
}

/// The working directory is in the folder that is about to go.
fn leave(place: &Path) {
    if let Some(parent) = place.parent() {
        let _ = std::env::set_current_dir(parent);
    }
}

/// What databases held before a statement.
struct Before {
    content: String,
    neighbours: String,
}

/// A store with neighbours, and a fresh scope in it for each line.
struct Bench<'a> {
    trial: &'a Trial,
    lab: Lab,
    outside: Outside,
    base: String,
    count: u64,
    how: lab::How,
}

impl<'a> Bench<'a> {
    async fn open(context: &Context, trial: &'a Trial, place: &Path, base: String) -> Result<Self> {
        let how = lab::How {
            url: context.explicit_url().map(str::to_owned),
            folder: place.to_path_buf(),
            base_dir: std::env::current_dir().ok(),
            no_validator: trial.no_validator,
            only_layer: trial.only_layer.clone(),
        };
        let lab = Lab::open(&how, 0).await?;
        let outside = Outside::prepare(place.join("canary"), lab.root().to_path_buf())?;
        Ok(Self { trial, lab, outside, base, count: 0, how })
    }

    /// A store that is not the one that a statement ruined.
    async fn renew(&mut self) -> Result<()> {
        self.lab = Lab::open(&self.how, self.count).await?;
        self.outside.root = self.lab.root().to_path_buf();
        Ok(())
    }

    /// Fills the line's scope; what it then holds.
    async fn fill(&self, scope: &Scope, line: &Line) -> Result<Before> {
        // A run that broke off may have left one of the name.
        self.lab.drop_scope(scope).await?;
        self.lab.load(scope, &self.base).await?;
        for setup in &line.setup {
            self.lab.load(scope, setup).await?;
        }
        Ok(Before { content: self.lab.content(scope).await?, neighbours: self.lab.neighbours().await? })
    }

    async fn try_line(&mut self, line: &Line) -> Result<Verdict> {
        self.count += 1;
        let scope = Scope::user(lab::TENANT, &format!("line-{}", self.count))?;
        let run = RunContext::new(
            scope.tenant.clone(),
            ScopeId::new("attacker")?,
            ScopeId::new(format!("run-{}", self.count))?,
        )
        .with_user(scope.id.clone());
        let before = match self.fill(&scope, line).await {
            Ok(before) => before,
            // The statement before may have left the store unfit.
            Err(_) if self.count > 1 => {
                self.renew().await?;
                self.fill(&scope, line).await.map_err(|error| in_setup(line, &error))?
            }
            Err(error) => return Err(in_setup(line, &error)),
        };
        let sql = line.sql();
        let named = outside::named_paths(&sql, &line.args);
        let own = self.lab.folder_of(&scope);
        let marks = self.outside.look(&own, &named);

        let mut options = StatementOptions::default();
        options.timeout = Some(self.trial.timeout);
        options.max_rows = MAX_ROWS;
        options.max_bytes = MAX_BYTES;
        options.quota_bytes = Some(self.trial.quota);
        let begun = Instant::now();
        let ran = tokio::time::timeout(
            self.trial.timeout + PATIENCE,
            self.lab.run(&run, &scope, line.op, &sql, &line.args, options),
        )
        .await;
        let elapsed_ms = begun.elapsed().as_secs_f64() * 1_000.0;
        let Ok((answer, peak_bytes)) = ran else {
            // Whatever goes on there keeps its store; the others get a new one.
            self.renew().await?;
            return Ok(Verdict {
                id: line.id.clone(),
                outcome: Outcome::Error,
                code: "hung".to_owned(),
                layer: None,
                elapsed_ms,
                peak_bytes: 0,
                changed: false,
                outside: Vec::new(),
                message: "it did not end within its deadline and 2 s, and was given up".to_owned(),
            });
        };

        let mut outside = self.outside.moved(&marks, &self.outside.look(&own, &named), &named);
        // What cannot be read any more is not what it was.
        if !self.lab.neighbours().await.is_ok_and(|now| now == before.neighbours) {
            outside.push("what another scope holds changed".to_owned());
        }
        let (outcome, code, layer, message) = match &answer {
            Ok(answer) => {
                if answer.rows().is_some_and(outside::shows_secret) {
                    outside.push("what another scope holds was shown".to_owned());
                }
                (Outcome::Ok, "ok".to_owned(), None, String::new())
            }
            Err(error) => {
                let (outcome, layer) = judge::of(error);
                (outcome, error.kind().code().to_owned(), Some(layer), error.message().to_owned())
            }
        };
        let same = self.lab.content(&scope).await.is_ok_and(|now| now == before.content);
        let changed = !same || !outside.is_empty();
        if self.lab.drop_scope(&scope).await.is_err() {
            self.renew().await?;
        }
        Ok(Verdict {
            id: line.id.clone(),
            outcome,
            code,
            layer,
            elapsed_ms,
            peak_bytes,
            changed,
            outside,
            message,
        })
    }

    async fn close(self) {
        self.lab.close().await;
    }
}

fn in_setup(line: &Line, error: &Error) -> Error {
    Error::invalid(format!("line `{}`: its base or setup does not load: {}", line.id, error.message()))
}

impl Answer {
    fn rows(&self) -> Option<&memory_core::sql::Rows> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Done(outcome) => outcome.returning.as_ref(),
        }
    }
}

fn show(
    line: &Line,
    verdict: &Verdict,
    as_expected: bool,
    out: &mut Out,
) -> std::result::Result<(), Failure> {
    if out.is_json() {
        return out.document(verdict);
    }
    let layer = verdict.layer.as_deref().unwrap_or("-");
    let mark = if as_expected { ' ' } else { '!' };
    out.line(format!(
        "{mark} {:<28} {:<8} {:<18} {layer:<11} {:>8.1} ms {:>10}{}  {}",
        line.id,
        verdict.outcome.as_str(),
        verdict.code,
        verdict.elapsed_ms,
        bytes(verdict.peak_bytes),
        if verdict.changed { "  changed" } else { "" },
        excerpt(&verdict.message, 80),
    ))?;
    for moved in &verdict.outside {
        out.line(format!("    outside: {moved}"))?;
    }
    Ok(())
}

fn print(summary: &Summary, out: &mut Out) -> std::result::Result<(), Failure> {
    #[derive(Serialize)]
    struct Document<'a> {
        summary: &'a Summary,
    }
    if out.is_json() {
        return out.document(&Document { summary });
    }
    let row = |name: &str, counts: &report::Counts| {
        [
            counts.lines.to_string(),
            counts.ok.to_string(),
            counts.refused.to_string(),
            counts.error.to_string(),
            counts.as_expected.to_string(),
            counts.not_as_expected.to_string(),
            name.to_owned(),
        ]
    };
    let mut rows: Vec<_> = summary
        .categories
        .iter()
        .map(|(name, counts)| row(if name.is_empty() { "-" } else { name }, counts))
        .collect();
    rows.push(row("ALL", &summary.all));
    out.line("")?;
    out.table(["LINES", "OK", "REFUSED", "ERROR", "AS EXPECTED", "NOT", "CATEGORY"], &rows)?;
    let layers: Vec<String> = summary.layers.iter().map(|(name, count)| format!("{name} {count}")).collect();
    out.line(format!(
        "refused by {}",
        if layers.is_empty() { "none".to_owned() } else { layers.join(", ") }
    ))?;
    out.line(format!(
        "longest {:.1} ms, most memory {}, {:.1} s in all",
        summary.max_elapsed_ms,
        bytes(summary.max_peak_bytes),
        summary.seconds
    ))?;
    if !summary.not_as_expected_ids.is_empty() {
        note(&format!("not as expected: {}", summary.not_as_expected_ids.join(", ")));
    }
    Ok(())
}
