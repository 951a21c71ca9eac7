//! The SQL facet over worker processes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use memory_core::sql::{
    DumpStream, ExecOutcome, RestoreOptions, RestoreOutcome, Rows, SqlScopePage, SqlScopesQuery, SqlUsage,
    SqlValue, StatementOptions, TableInfo, TxId, TxState,
};
use memory_core::{Error, Result, RunContext, Scope, ScopeId, SqlFacet, TenantId};

use super::link::{Fate, Session, Worker};
use super::options::WorkerOptions;
use super::wire::{Call, Lines, Statement, decoded};

/// Time allowed for an embedder before a statement runs.
const EMBEDDING: Duration = Duration::from_secs(120);
/// Time allowed for a whole restore.
const RESTORE: Duration = Duration::from_secs(24 * 3_600);

/// The SQL facet, served by worker processes. The first call that needs one starts it, on a tokio runtime. They end
/// when this is dropped.
#[derive(Debug)]
pub(super) struct SqlWorkers {
    workers: Vec<Worker>,
    options: Arc<WorkerOptions>,
}

impl SqlWorkers {
    /// Starts no process yet.
    pub(super) fn new(options: WorkerOptions) -> Result<Self> {
        options.check()?;
        let options = Arc::new(options);
        let workers = (0..options.processes).map(|_| Worker::new(Arc::clone(&options))).collect();
        Ok(Self { workers, options })
    }

    /// The process that a scope belongs to.
    fn of(&self, scope: &Scope) -> Result<&Worker> {
        let digest = scope.digest();
        let first = digest.as_bytes().iter().take(8).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let processes = u64::try_from(self.workers.len()).unwrap_or(1).max(1);
        usize::try_from(first % processes)
            .ok()
            .and_then(|at| self.workers.get(at))
            .ok_or_else(|| Error::internal("there is no worker process"))
    }

    /// Ends everything a run left open in every existing process.
    pub(super) async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        for worker in &self.workers {
            if let Some(session) = worker.current().await {
                let call = Call::EndRun { tenant: tenant.clone(), root_run: root_run.clone() };
                match session.ask::<()>(call, Fate::Nothing, None).await {
                    // Its transactions ended with the process.
                    Err(error) if error.kind() == memory_core::ErrorKind::Unavailable => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn deadline(&self, statement: &Statement) -> Duration {
        let own = statement.options.timeout.unwrap_or(self.options.deadline);
        let embeds = statement.args.iter().any(|arg| matches!(arg, SqlValue::Embed(_)));
        if embeds { own.saturating_add(EMBEDDING) } else { own }
    }
}

#[async_trait]
impl SqlFacet for SqlWorkers {
    async fn exec(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<ExecOutcome> {
        let fate = if options.tx.is_some() { Fate::Undone } else { Fate::Unknown };
        let statement = statement(run, scope, sql, args, options);
        let deadline = self.deadline(&statement);
        self.of(scope)?.ask(Call::Exec(statement), fate, Some(deadline)).await
    }

    async fn query(
        &self,
        run: &RunContext,
        scope: &Scope,
        sql: &str,
        args: &[SqlValue],
        options: StatementOptions,
    ) -> Result<Rows> {
        let fate = if options.tx.is_some() { Fate::Undone } else { Fate::Nothing };
        let statement = statement(run, scope, sql, args, options);
        let deadline = self.deadline(&statement);
        self.of(scope)?.ask(Call::Query(statement), fate, Some(deadline)).await
    }

    async fn begin(&self, run: &RunContext, scope: &Scope, parent: Option<&TxId>) -> Result<TxState> {
        let fate = if parent.is_some() { Fate::Undone } else { Fate::Nothing };
        let call = Call::Begin { run: run.clone(), scope: scope.clone(), parent: parent.cloned() };
        self.of(scope)?.ask(call, fate, None).await
    }

    async fn commit(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        let call = Call::Commit { run: run.clone(), scope: scope.clone(), tx: tx.clone() };
        self.of(scope)?.ask(call, Fate::Unknown, None).await
    }

    async fn rollback(&self, run: &RunContext, scope: &Scope, tx: &TxId) -> Result<TxState> {
        let call = Call::Rollback { run: run.clone(), scope: scope.clone(), tx: tx.clone() };
        self.of(scope)?.ask(call, Fate::Undone, None).await
    }

    async fn describe_tables(&self, run: &RunContext, scope: &Scope) -> Result<Vec<TableInfo>> {
        let call = Call::DescribeTables { run: run.clone(), scope: scope.clone() };
        self.of(scope)?.ask(call, Fate::Nothing, None).await
    }

    async fn sql_scopes(&self, tenant: &TenantId, query: SqlScopesQuery) -> Result<SqlScopePage> {
        let call = Call::SqlScopes { tenant: tenant.clone(), cursor: query.cursor, limit: query.limit };
        let any = self.workers.first().ok_or_else(|| Error::internal("there is no worker process"))?;
        any.ask(call, Fate::Nothing, None).await
    }

    async fn drop_sql_scope(&self, scope: &Scope) -> Result<bool> {
        self.of(scope)?.ask(Call::DropSqlScope { scope: scope.clone() }, Fate::Unknown, None).await
    }

    async fn sql_usage(&self, scope: &Scope) -> Result<SqlUsage> {
        self.of(scope)?.ask(Call::SqlUsage { scope: scope.clone() }, Fate::Nothing, None).await
    }

    async fn dump(&self, scope: &Scope) -> Result<DumpStream> {
        let session = self.of(scope)?.session().await?;
        let call = Call::Dump { scope: scope.clone() };
        let (of, opened) = session.begin::<()>(call, Fate::Nothing, None).await?;
        opened.await?;
        Ok(Box::pin(Dumped { dump: Dump { session, of, ended: false }, lines: VecDeque::new(), asked: None }))
    }

    async fn restore(
        &self,
        scope: &Scope,
        mut dump: DumpStream,
        options: RestoreOptions,
    ) -> Result<RestoreOutcome> {
        let session = self.of(scope)?.session().await?;
        let call = Call::Restore { scope: scope.clone(), options };
        let (of, done) = session.begin::<RestoreOutcome>(call, Fate::Unknown, Some(RESTORE)).await?;
        let feed = async {
            loop {
                let Lines { lines, end } = match Lines::of(&mut dump).await {
                    Ok(part) => part,
                    Err(error) => {
                        session.ask::<()>(Call::Finish { of, whole: false }, Fate::Unknown, None).await?;
                        return Err(error);
                    }
                };
                session.ask::<()>(Call::Part { of, lines }, Fate::Unknown, None).await?;
                if end {
                    return session.ask::<()>(Call::Finish { of, whole: true }, Fate::Unknown, None).await;
                }
            }
        };
        // A restore that fails early says why; the rest of its input is ignored.
        let (fed, done) = tokio::join!(feed, done);
        fed.and(done)
    }
}

/// A dump in progress in a worker process; dropping it ends it there.
#[derive(Clone, Debug)]
struct Dump {
    session: Session,
    of: u64,
    ended: bool,
}

type Asked = Pin<Box<dyn Future<Output = Result<Lines>> + Send>>;

struct Dumped {
    dump: Dump,
    lines: VecDeque<Vec<u8>>,
    asked: Option<Asked>,
}

impl Drop for Dumped {
    fn drop(&mut self) {
        if !self.dump.ended {
            self.dump.session.withdraw(self.dump.of);
        }
    }
}

impl Stream for Dumped {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Poll::Ready(Some(Ok(line)));
            }
            if self.dump.ended {
                return Poll::Ready(None);
            }
            let (session, of) = (self.dump.session.clone(), self.dump.of);
            let asked = self.asked.get_or_insert_with(|| {
                Box::pin(async move { session.ask(Call::Next { of }, Fate::Nothing, None).await })
            });
            let Poll::Ready(answer) = asked.as_mut().poll(cx) else { return Poll::Pending };
            self.asked = None;
            match answer.and_then(|part| Ok((decoded(&part.lines)?, part.end))) {
                Ok((lines, end)) => (self.lines, self.dump.ended) = (lines, end),
                Err(error) => {
                    self.dump.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

fn statement(
    run: &RunContext,
    scope: &Scope,
    sql: &str,
    args: &[SqlValue],
    options: StatementOptions,
) -> Statement {
    Statement { run: run.clone(), scope: scope.clone(), sql: sql.to_owned(), args: args.to_vec(), options }
}
