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
use super::options::{GRACE, MAX_BYTES, MAX_ROWS, RunOptions};
use super::outside::{self, Outside};
use super::store::{self, Answer, TestStore};

/// A message to the parent process, one per line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// A line ran.
    Ran { verdict: Verdict, message: String },
    /// The run cannot go on.
    Failed(String),
}

/// Runs the lines from `from` on; stops early if one left the process unusable.
///
/// # Errors
/// If the output cannot be written.
pub(super) async fn run(
    context: &Context,
    run: &RunOptions,
    folder: &Path,
    from: usize,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let lines = line::read(&run.corpus)?;
    let mut worker = match Worker::open(context, run, folder).await {
        Ok(worker) => worker,
        Err(error) => return fail(&error, out),
    };
    // The parent reports unreadable lines.
    for line in lines.iter().skip(from).flatten() {
        let verdict = match worker.run_line(line).await {
            Ok(verdict) => verdict,
            Err(error) => return fail(&Failure::from(error), out),
        };
        let message = verdict.message.clone();
        out.document(&Report::Ran { verdict, message })?;
        out.flush()?;
        if worker.is_ruined {
            // Do not wait for other threads.
            std::process::exit(0);
        }
    }
    worker.store.close().await;
    Ok(Exit::Ok)
}

fn fail(error: &Failure, out: &mut Out) -> std::result::Result<Exit, Failure> {
    out.document(&Report::Failed(error.to_string()))?;
    Ok(Exit::Ok)
}

/// The contents of databases before a statement.
struct Before {
    content: String,
    neighbours: String,
}

/// A store with neighbours, and a fresh scope in it for each line.
struct Worker<'a> {
    run: &'a RunOptions,
    store: TestStore,
    outside: Outside,
    base: String,
    count: u64,
    /// A statement did not stop in time, or left the store unusable.
    is_ruined: bool,
}

impl<'a> Worker<'a> {
    async fn open(
        context: &Context,
        run: &'a RunOptions,
        folder: &Path,
    ) -> std::result::Result<Self, Failure> {
        let base = run.base.as_deref().map(line::text).transpose()?.unwrap_or_default();
        let options = store::StoreOptions {
            url: context.explicit_url().map(str::to_owned),
            folder: folder.to_path_buf(),
            base_dir: std::env::current_dir().ok(),
            no_validator: run.no_validator,
            only_layer: run.only_layer.clone(),
        };
        let store = Box::pin(TestStore::open(&options)).await?;
        let outside = Outside::prepare(&folder.join("canary"), store.root().to_path_buf())?;
        Ok(Self { run, store, outside, base, count: 0, is_ruined: false })
    }

    /// Creates the line's scope.
    async fn begin(&self, scope: &Scope) -> Result<()> {
        // An interrupted run may have left a scope of this name.
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

    async fn run_line(&mut self, line: &Line) -> Result<Verdict> {
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
        let snapshot = self.outside.snapshot(&own, &named);

        let mut options = StatementOptions::default();
        options.timeout = Some(self.run.timeout);
        options.max_rows = MAX_ROWS;
        options.max_bytes = MAX_BYTES;
        options.quota_bytes = Some(self.run.quota);
        let started = Instant::now();
        let ran = tokio::time::timeout(
            self.run.timeout + GRACE,
            self.store.run(&run, &scope, line.op, &sql, &args, options),
        )
        .await;
        let elapsed_ms = started.elapsed().as_secs_f64() * 1_000.0;
        let Ok((answer, peak_bytes)) = ran else {
            self.is_ruined = true;
            return Ok(Verdict::without_result(line, "hung", elapsed_ms));
        };

        let mut outside = self.outside.changes(&snapshot, &self.outside.snapshot(&own, &named), &named);
        // Contents that cannot be read any more have changed.
        if !self.store.neighbours().await.is_ok_and(|now| now == before.neighbours) {
            outside.push("another scope's contents changed".to_owned());
        }
        let (outcome, code, layer, message) = match &answer {
            Ok(answer) => {
                if answer.rows().is_some_and(outside::shows_secret) {
                    outside.push("another scope's contents were shown".to_owned());
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
    Error::invalid(format!("line `{}`: the base script fails: {}", line.id, error.message()))
}

impl Answer {
    fn rows(&self) -> Option<&memory_core::sql::Rows> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Done(outcome) => outcome.returning.as_ref(),
        }
    }
}
