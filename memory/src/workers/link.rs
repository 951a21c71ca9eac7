//! The parent's view of one worker process, which is started when needed and ended when it does not answer.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory_core::{Error, Result, Retry};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, oneshot};

use super::options::WorkerOptions;
use super::wire::{Call, Outcome, Reply, Request};

/// Most requests waiting to be written to one process.
const QUEUE: usize = 256;
/// How long a process may take to end.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A slot for a process.
#[derive(Debug)]
pub(super) struct Worker {
    options: Arc<WorkerOptions>,
    live: tokio::sync::Mutex<Option<Arc<Live>>>,
}

/// What a call may have done if its process ended before answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It had no effect.
    Nothing,
    /// It may have taken effect.
    Unknown,
    /// It belonged to a transaction that was rolled back with the process.
    Undone,
}

impl Fate {
    fn error(self, what: &str) -> Error {
        match self {
            Self::Nothing => Error::unavailable(format!("{what}; call again")).with_retry(Retry::Now),
            Self::Unknown => Error::outcome_unknown(format!(
                "{what}, and it is unknown whether the call took effect; check before you repeat it"
            )),
            Self::Undone => {
                Error::transaction_lost(format!("{what}, and its transaction was rolled back; begin again"))
            }
        }
    }
}

const ENDED: &str = "the worker process ended before it answered";
const ENDED_BY_US: &str = "the worker process did not answer within the deadline and was ended";

#[derive(Debug)]
struct Live {
    requests: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Mutex<Waiting>>,
    next: AtomicU64,
    /// A message ends the process, and so does dropping this.
    end: mpsc::Sender<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    replies: HashMap<u64, oneshot::Sender<Outcome>>,
    ended: bool,
}

fn locked(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails every waiting call, because the process will not answer.
fn give_up(waiting: &Mutex<Waiting>) {
    let mut waiting = locked(waiting);
    waiting.ended = true;
    waiting.replies.clear();
}

impl Live {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        locked(&self.waiting)
    }

    fn has_ended(&self) -> bool {
        self.waiting().ended
    }

    fn kill(&self) {
        give_up(&self.waiting);
        let _ = self.end.try_send(());
    }
}

/// Cancels a call when its caller stops waiting.
struct Withdrawal<'a> {
    session: &'a Session,
    id: u64,
    answered: bool,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        self.session.live.waiting().replies.remove(&self.id);
        self.session.withdraw(self.id);
    }
}

impl Worker {
    pub(super) fn new(options: Arc<WorkerOptions>) -> Self {
        Self { options, live: tokio::sync::Mutex::default() }
    }

    /// Sends a call and waits for the answer until the deadline plus the grace period.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        call: Call,
        fate: Fate,
        deadline: Option<Duration>,
    ) -> Result<T> {
        let session = self.session().await?;
        session.ask(call, fate, deadline).await
    }

    /// The current process; starts one if there is none.
    pub(super) async fn session(&self) -> Result<Session> {
        let mut live = self.live.lock().await;
        let current = match live.as_ref().filter(|live| !live.has_ended()) {
            Some(current) => Arc::clone(current),
            None => {
                let started = start(&self.options)?;
                *live = Some(Arc::clone(&started));
                started
            }
        };
        Ok(Session { live: current, options: Arc::clone(&self.options) })
    }

    /// The current process, if there is one.
    pub(super) async fn current(&self) -> Option<Session> {
        let live = self.live.lock().await;
        let live = live.as_ref().filter(|live| !live.has_ended())?;
        Some(Session { live: Arc::clone(live), options: Arc::clone(&self.options) })
    }
}

/// Calls to one process, which fail together when it ends.
#[derive(Clone, Debug)]
pub(super) struct Session {
    live: Arc<Live>,
    options: Arc<WorkerOptions>,
}

impl Session {
    /// Cancels a call, which may already have been answered.
    pub(super) fn withdraw(&self, of: u64) {
        if let Ok(line) = line(&Request { id: 0, call: Call::Cancel { of } }) {
            // If the queue is full, the process runs the call for nothing.
            let _ = self.live.requests.try_send(line);
        }
    }

    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        call: Call,
        fate: Fate,
        deadline: Option<Duration>,
    ) -> Result<T> {
        let (_, answer) = self.begin(call, fate, deadline).await?;
        answer.await
    }

    /// Sends a call whose number is known before its answer arrives.
    pub(super) async fn begin<T: DeserializeOwned>(
        &self,
        call: Call,
        fate: Fate,
        deadline: Option<Duration>,
    ) -> Result<(u64, impl Future<Output = Result<T>>)> {
        let id = self.live.next.fetch_add(1, Ordering::Relaxed);
        let line = line(&Request { id, call })?;
        let (reply, answer) = oneshot::channel();
        {
            let mut waiting = self.live.waiting();
            if waiting.ended {
                return Err(Fate::Nothing.error(ENDED));
            }
            waiting.replies.insert(id, reply);
        }
        let session = self.clone();
        if self.live.requests.send(line).await.is_err() {
            self.live.waiting().replies.remove(&id);
            return Err(Fate::Nothing.error(ENDED));
        }
        let limit = deadline.unwrap_or(self.options.deadline).saturating_add(self.options.grace);
        Ok((id, async move {
            let mut call = Withdrawal { session: &session, id, answered: false };
            let outcome = match tokio::time::timeout(limit, answer).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => {
                    call.answered = true;
                    return Err(fate.error(ENDED));
                }
                Err(_) => {
                    call.answered = true;
                    session.live.kill();
                    return Err(fate.error(ENDED_BY_US));
                }
            };
            call.answered = true;
            match outcome {
                Outcome::Ok(value) => read(&value),
                Outcome::Error(failure) => Err(failure.into()),
            }
        }))
    }
}

fn read<T: DeserializeOwned>(value: &RawValue) -> Result<T> {
    serde_json::from_str(value.get()).map_err(|error| {
        Error::internal("the worker process has another version; use the same program").with_source(error)
    })
}

fn line(request: &Request) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(request)
        .map_err(|error| Error::internal("a call has no JSON form").with_source(error))?;
    line.push(b'\n');
    Ok(line)
}

/// Starts a process and the tasks that write to it and read from it.
fn start(options: &WorkerOptions) -> Result<Arc<Live>> {
    let failed = |error: std::io::Error| {
        Error::unavailable(
            "no worker process can be started; check that its program exists and is executable",
        )
        .with_source(error)
    };
    let mut child = Command::new(&options.program)
        .args(&options.arguments)
        // This process alone decides which graphs are meant.
        .env_remove("AMPLIHACK_MEMORY_BACKEND")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::internal("a process was started without its pipes"));
    };
    let (requests, queue) = mpsc::channel(QUEUE);
    let (end, ending) = mpsc::channel(1);
    let waiting: Arc<Mutex<Waiting>> = Arc::default();
    tokio::spawn(feed(input, queue));
    tokio::spawn(hear(child, output, Arc::clone(&waiting), ending, options.reply_bytes));
    Ok(Arc::new(Live { requests, waiting, next: AtomicU64::new(1), end }))
}

async fn feed(mut input: ChildStdin, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = queue.recv().await {
        if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
}

/// Passes replies to their callers until the process ends, is told to end, or sends an invalid reply.
async fn hear(
    mut child: Child,
    output: ChildStdout,
    waiting: Arc<Mutex<Waiting>>,
    mut ending: mpsc::Receiver<()>,
    reply_bytes: usize,
) {
    let limit = u64::try_from(reply_bytes).unwrap_or(u64::MAX);
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    let patience = loop {
        line.clear();
        let mut bounded = (&mut output).take(limit);
        tokio::select! {
            read = bounded.read_until(b'\n', &mut line) => {
                if read.is_err() || line.last() != Some(&b'\n') {
                    break EXIT_TIMEOUT;
                }
            }
            word = ending.recv() => break if word.is_some() { Duration::ZERO } else { EXIT_TIMEOUT },
        }
        match serde_json::from_slice::<Reply>(&line) {
            Ok(reply) => {
                let asker = locked(&waiting).replies.remove(&reply.id);
                if let Some(asker) = asker {
                    let _ = asker.send(reply.outcome);
                }
            }
            Err(error) => {
                tracing::error!(%error, "a worker process sent an invalid reply and was ended");
                break Duration::ZERO;
            }
        }
    };
    give_up(&waiting);
    if tokio::time::timeout(patience, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}
