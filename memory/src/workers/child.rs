//! The worker process itself.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use memory_core::sql::{DumpStream, SqlScopesQuery};
use memory_core::{Error, Result, Scope, SqlFacet};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::wire::{Call, Lines, MAX_REQUEST_BYTES, Outcome, Reply, Request, Statement, decoded};
use crate::memory::Memory;

/// Most answers waiting to be written.
const QUEUE: usize = 256;
/// Most parts of a restore waiting to be read.
const PARTS: usize = 4;

/// Limits the address space of this process. Beyond it, SQLite's allocations fail with an error; Rust's own end the
/// process, which its parent restarts.
///
/// # Errors
/// `unavailable` if the system refuses; `capability_unsupported` if it has no such limit.
pub fn limit_memory(bytes: u64) -> Result<()> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, setrlimit};
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        setrlimit(Resource::As, limit).map_err(|error| {
            Error::unavailable("the memory of a worker process could not be limited").with_source(error)
        })
    }
    #[cfg(not(unix))]
    {
        let _ = bytes;
        Err(Error::unsupported("limit_memory", "this system"))
    }
}

/// Serves the SQL of a memory to the parent process, over standard input and output, until the input ends. Nothing else
/// may write to standard output. Transactions still open are then rolled back.
///
/// # Errors
/// `capability_unsupported` for a memory without SQL; `unavailable` if the pipes break.
pub async fn serve(memory: Memory) -> Result<()> {
    serve_on(memory, tokio::io::BufReader::new(tokio::io::stdin()), tokio::io::stdout()).await
}

async fn serve_on(
    memory: Memory,
    mut input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> Result<()> {
    if memory.sql().is_none() {
        return Err(Error::unsupported("sql", memory.name()));
    }
    let (replies, queue) = mpsc::channel(QUEUE);
    let writer = tokio::spawn(write(output, queue));
    let server = Server { memory, replies, state: Arc::default() };
    let limit = u64::try_from(MAX_REQUEST_BYTES).unwrap_or(u64::MAX);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(limit).read_until(b'\n', &mut line).await.map_err(broken)?;
        if read == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            return Err(Error::too_large("request", line.len(), MAX_REQUEST_BYTES, "bytes"));
        }
        let request: Request = serde_json::from_slice(&line)
            .map_err(|error| Error::invalid("a line is not a request of this version").with_source(error))?;
        server.take(request);
    }
    server.abort();
    drop(server);
    writer.await.map_err(|error| Error::internal("the writer failed").with_source(error))?
}

fn broken(error: std::io::Error) -> Error {
    Error::unavailable("the pipe to the parent process broke").with_source(error)
}

async fn write(mut output: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Reply>) -> Result<()> {
    while let Some(reply) = queue.recv().await {
        let mut line = serde_json::to_vec(&reply)
            .map_err(|error| Error::internal("a reply has no JSON form").with_source(error))?;
        line.push(b'\n');
        output.write_all(&line).await.map_err(broken)?;
        output.flush().await.map_err(broken)?;
    }
    Ok(())
}

/// State shared by calls.
#[derive(Default)]
struct State {
    running: HashMap<u64, AbortHandle>,
    dumps: HashMap<u64, Arc<tokio::sync::Mutex<DumpStream>>>,
    restores: HashMap<u64, mpsc::Sender<Result<Vec<Vec<u8>>>>>,
}

#[derive(Clone)]
struct Server {
    memory: Memory,
    replies: mpsc::Sender<Reply>,
    state: Arc<Mutex<State>>,
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a call. Calls run concurrently.
    fn take(&self, Request { id, call }: Request) {
        if let Call::Cancel { of } = call {
            let mut state = self.state();
            state.dumps.remove(&of);
            state.restores.remove(&of);
            if let Some(running) = state.running.remove(&of) {
                running.abort();
            }
            return;
        }
        let parts = matches!(call, Call::Restore { .. }).then(|| {
            let (parts, taken) = mpsc::channel(PARTS);
            self.state().restores.insert(id, parts);
            taken
        });
        let server = self.clone();
        // Holding the lock until the handle is stored keeps the task from ending first.
        let mut state = self.state();
        let task = tokio::spawn(async move {
            let outcome = server.answer(id, call, parts).await;
            {
                let mut state = server.state();
                state.running.remove(&id);
                state.restores.remove(&id);
            }
            let _ = server.replies.send(Reply { id, outcome }).await;
        });
        state.running.insert(id, task.abort_handle());
    }

    fn abort(&self) {
        let mut state = self.state();
        for (_, running) in state.running.drain() {
            running.abort();
        }
        state.dumps.clear();
        state.restores.clear();
    }

    async fn answer(
        &self,
        id: u64,
        call: Call,
        parts: Option<mpsc::Receiver<Result<Vec<Vec<u8>>>>>,
    ) -> Outcome {
        let Some(sql) = self.memory.sql() else {
            return Outcome::of::<()>(Err(Error::unsupported("sql", self.memory.name())));
        };
        match call {
            Call::Exec(statement) => {
                let Statement { run, scope, sql: text, args, options } = statement;
                Outcome::of(sql.exec(&run, &scope, &text, &args, options).await)
            }
            Call::Query(statement) => {
                let Statement { run, scope, sql: text, args, options } = statement;
                Outcome::of(sql.query(&run, &scope, &text, &args, options).await)
            }
            Call::Begin { run, scope, parent } => Outcome::of(sql.begin(&run, &scope, parent.as_ref()).await),
            Call::Commit { run, scope, tx } => Outcome::of(sql.commit(&run, &scope, &tx).await),
            Call::Rollback { run, scope, tx } => Outcome::of(sql.rollback(&run, &scope, &tx).await),
            Call::DescribeTables { run, scope } => Outcome::of(sql.describe_tables(&run, &scope).await),
            Call::SqlScopes { tenant, cursor, limit } => {
                let mut query = SqlScopesQuery::default();
                (query.cursor, query.limit) = (cursor, limit);
                Outcome::of(sql.sql_scopes(&tenant, query).await)
            }
            Call::DropSqlScope { scope } => Outcome::of(sql.drop_sql_scope(&scope).await),
            Call::SqlUsage { scope } => Outcome::of(sql.sql_usage(&scope).await),
            Call::Dump { scope } => Outcome::of(self.dump(id, sql, &scope).await),
            Call::Next { of } => Outcome::of(self.next(of).await),
            Call::Restore { scope, options } => match parts {
                Some(parts) => {
                    let dump = Box::pin(Fed { parts, lines: Vec::new().into_iter() });
                    Outcome::of(sql.restore(&scope, dump, options).await)
                }
                None => Outcome::of::<()>(Err(Error::internal("a restore has no parts"))),
            },
            Call::Part { of, lines } => Outcome::of(self.part(of, &lines).await),
            Call::Finish { of, whole } => Outcome::of(self.finish(of, whole).await),
            Call::EndRun { tenant, root_run } => Outcome::of(self.memory.end_run(&tenant, &root_run).await),
            Call::Cancel { .. } => Outcome::of(Ok(())),
        }
    }

    async fn dump(&self, id: u64, sql: &dyn SqlFacet, scope: &Scope) -> Result<()> {
        let dump = sql.dump(scope).await?;
        self.state().dumps.insert(id, Arc::new(tokio::sync::Mutex::new(dump)));
        Ok(())
    }

    async fn next(&self, of: u64) -> Result<Lines> {
        let dump = self.state().dumps.get(&of).cloned();
        let dump = dump.ok_or_else(|| Error::not_found("that dump has ended; start another"))?;
        let part = Lines::of(&mut *dump.lock().await).await;
        if part.as_ref().map_or(true, |part| part.end) {
            self.state().dumps.remove(&of);
        }
        part
    }

    /// Feeds a restore. A restore that has ended ignores further parts; its own reply says why.
    async fn part(&self, of: u64, lines: &[String]) -> Result<()> {
        let lines = decoded(lines)?;
        let parts = self.state().restores.get(&of).cloned();
        if let Some(parts) = parts {
            let _ = parts.send(Ok(lines)).await;
        }
        Ok(())
    }

    async fn finish(&self, of: u64, whole: bool) -> Result<()> {
        let parts = self.state().restores.remove(&of);
        if let (Some(parts), false) = (parts, whole) {
            let broke = Error::invalid("the dump was interrupted; nothing of it was kept");
            let _ = parts.send(Err(broke)).await;
        }
        Ok(())
    }
}

/// The lines of a dump as its parts arrive.
struct Fed {
    parts: mpsc::Receiver<Result<Vec<Vec<u8>>>>,
    lines: std::vec::IntoIter<Vec<u8>>,
}

impl Stream for Fed {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.lines.next() {
                return Poll::Ready(Some(Ok(line)));
            }
            match self.parts.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(Some(Ok(lines))) => self.lines = lines.into_iter(),
            }
        }
    }
}
