//! The process that runs the statements: a store with neighbours, and a fresh scope for each line.

use std::path::Path;
use std::time::Instant;

use memory_core::sql::StatementOptions;
use memory_core::{Error, Result, RunContext, Scope, ScopeId};
use memory_server::terminal::{Context, Exit, Failure, Out};
use serde::{Deserialize, Serialize};

use super::arguments;
use super::judge::{self, Outcome, Verdict};
use super::line::{self, Line};
use super::outside::{self, Outside};
use super::store::{self, Answer, TestStore};
use super::trial::{MAX_BYTES, MAX_ROWS, PATIENCE, Trial};

/// A message to the parent process, one per line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    /// A line was tried.
    Tried { verdict: Verdict, message: String },
    /// The run cannot go on.
    Failed(String),
}

/// Runs the lines from `from` on; stops early if one left the process unusable.
///
/// # Errors
/// Where its own output cannot be written.
pub(super) async fn run(
    context: &Context,
    trial: &Trial,
    place: &Path,
    from: usize,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let lines = line::read(&trial.corpus)?;
    let mut worker = match Worker::open(context, trial, place).await {
        Ok(worker) => worker,
        Err(error) => return fail(&error, out),
    };
    // The parent reports what cannot be read.
    for line in lines.iter().skip(from).flatten() {
        let verdict = match worker.try_line(line).await {
            Ok(verdict) => verdict,
            Err(error) => return fail(&Failure::from(error), out),
        };
        let message = verdict.message.clone();
        out.document(&Told::Tried { verdict, message })?;
        out.flush()?;
        if worker.is_ruined {
            // What goes on in other threads is not worth waiting for.
            std::process::exit(0);
        }
    }
    worker.store.close().await;
    Ok(Exit::Ok)
}

fn fail(error: &Failure, out: &mut Out) -> std::result::Result<Exit, Failure> {
    out.document(&Told::Failed(error.to_string()))?;
    Ok(Exit::Ok)
}

/// The contents of databases before a statement.
struct Before {
    content: String,
    neighbours: String,
}

/// A store with neighbours, and a fresh scope in it for each line.
struct Worker<'a> {
    trial: &'a Trial,
    store: TestStore,
    outside: Outside,
    base: String,
    count: u64,
    /// A statement did not stop in time, or left the store unusable.
    is_ruined: bool,
}

impl<'a> Worker<'a> {
    async fn open(context: &Context, trial: &'a Trial, place: &Path) -> std::result::Result<Self, Failure> {
        let base = trial.base.as_deref().map(line::text).transpose()?.unwrap_or_default();
        let how = store::How {
            url: context.explicit_url().map(str::to_owned),
            folder: place.to_path_buf(),
            base_dir: std::env::current_dir().ok(),
            no_validator: trial.no_validator,
            only_layer: trial.only_layer.clone(),
        };
        let store = Box::pin(TestStore::open(&how)).await?;
        let outside = Outside::prepare(&place.join("canary"), store.root().to_path_buf())?;
        Ok(Self { trial, store, outside, base, count: 0, is_ruined: false })
    }

    /// Creates the line's scope.
    async fn begin(&self, scope: &Scope) -> Result<()> {
        // A run that broke off may have left one of the name.
        self.store.drop_scope(scope).await?;
        self.store.load(scope, &self.base).await
    }

    /// Runs the line's setup; returns the scope's contents.
    async fn fill(&self, scope: &Scope, line: &Line) -> Result<Before> {
        for setup in &line.setup {
            self.store.load(scope, setup).await?;
        }
        Ok(Before { content: self.store.content(scope).await?, neighbours: self.store.neighbours().await? })
    }

    async fn try_line(&mut self, line: &Line) -> Result<Verdict> {
        let (sql, args) = match arguments::bound(line.sql(), line.args.as_ref(), self.store.dialect()) {
            Ok(bound) => bound,
            Err(error) => return Ok(Verdict::unreadable(&line.id, error.message())),
        };
        self.count += 1;
        let scope = Scope::user(store::TENANT, &format!("line-{}", self.count))?;
        let run = RunContext::new(
            scope.tenant.clone(),
            ScopeId::new("attacker")?,
            ScopeId::new(format!("run-{}", self.count))?,
        )
        .with_user(scope.id.clone());
        self.begin(&scope).await.map_err(|error| in_base(line, &error))?;
        let before = match self.fill(&scope, line).await {
            Ok(before) => before,
            Err(error) => {
                self.is_ruined = self.store.drop_scope(&scope).await.is_err();
                return Ok(Verdict::unprepared(line, &error));
            }
        };
        let named = outside::named_paths(&sql, &args);
        let own = self.store.folder_of(&scope);
        let marks = self.outside.look(&own, &named);

        let mut options = StatementOptions::default();
        options.timeout = Some(self.trial.timeout);
        options.max_rows = MAX_ROWS;
        options.max_bytes = MAX_BYTES;
        options.quota_bytes = Some(self.trial.quota);
        let begun = Instant::now();
        let ran = tokio::time::timeout(
            self.trial.timeout + PATIENCE,
            self.store.run(&run, &scope, line.op, &sql, &args, options),
        )
        .await;
        let elapsed_ms = begun.elapsed().as_secs_f64() * 1_000.0;
        let Ok((answer, peak_bytes)) = ran else {
            self.is_ruined = true;
            return Ok(Verdict::lost(line, "hung", elapsed_ms));
        };

        let mut outside = self.outside.moved(&marks, &self.outside.look(&own, &named), &named);
        // What cannot be read any more is not what it was.
        if !self.store.neighbours().await.is_ok_and(|now| now == before.neighbours) {
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
        let same = self.store.content(&scope).await.is_ok_and(|now| now == before.content);
        let changed = !same || !outside.is_empty();
        self.is_ruined = self.store.drop_scope(&scope).await.is_err();
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
}

fn in_base(line: &Line, error: &Error) -> Error {
    Error::invalid(format!("line `{}`: the base does not load: {}", line.id, error.message()))
}

impl Answer {
    fn rows(&self) -> Option<&memory_core::sql::Rows> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Done(outcome) => outcome.returning.as_ref(),
        }
    }
}
