//! One exchange with the server: sends statements, receives their answer to the end, and cancels them if that takes too
//! long.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use memory_sql::Interrupt;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::sql::protocol::results::Sink;
use crate::sql::protocol::{Fault, Lost, Oid, Reply, Session};

/// How long the server has to end a statement: by its own timeout, after a cancel request, and after its process is
/// terminated.
const PATIENCE: [Duration; 3] =
    [Duration::from_millis(60), Duration::from_millis(300), Duration::from_millis(250)];

/// Why a statement is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its caller went away, or its transaction must end.
    Unwanted,
    /// It exceeds its quota.
    QuotaExceeded,
}

/// Cancels a statement.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    why: AtomicU8,
    called: Notify,
}

impl Cancel {
    pub(crate) fn call(&self, why: Why) {
        let number = match why {
            Why::Unwanted => 1,
            Why::QuotaExceeded => 2,
        };
        let _ = self.why.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
        self.called.notify_one();
    }

    pub(crate) fn why(&self) -> Option<Why> {
        match self.why.load(Ordering::Acquire) {
            1 => Some(Why::Unwanted),
            2 => Some(Why::QuotaExceeded),
            _ => None,
        }
    }
}

impl Interrupt for Cancel {
    fn interrupt(&self) {
        self.call(Why::Unwanted);
    }
}

/// A cancel that is never triggered.
pub(crate) fn never() -> &'static Cancel {
    static NEVER: LazyLock<Cancel> = LazyLock::new(Cancel::default);
    &NEVER
}

/// The server's answer up to one `Ready`.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// `I`, `T` or `E`.
    pub(crate) status: u8,
    pub(crate) fault: Option<Fault>,
    /// The first command tag.
    pub(crate) tag: Option<String>,
    /// The last command tag.
    pub(crate) last: Option<String>,
    pub(crate) parameters: Vec<Oid>,
    pub(crate) copied: bool,
    /// More rows may follow.
    pub(crate) suspended: bool,
    /// The first value of the last row after the first command.
    pub(crate) further: Option<Vec<u8>>,
    /// The server sent a warning; after a commit: it may not have reached a standby.
    pub(crate) warned: bool,
    /// Leading commands that were not done.
    pub(crate) leading: u32,
}

impl Answer {
    /// The command tag, if the statement ran to its end.
    pub(crate) fn done(&self) -> Option<&str> {
        self.tag.as_deref().filter(|_| self.fault.is_none() && !self.suspended)
    }
}

/// Why a session is unusable.
#[derive(Debug)]
pub(crate) enum Broken {
    Lost(Lost),
    /// The server did not end the statement in time. Its process is being terminated.
    Late,
    /// Its process was terminated, as it had not ended the statement in time: nothing was committed.
    Stopped,
}

impl From<Lost> for Broken {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

/// A session in use.
pub(crate) struct Exchange<'s> {
    pub(crate) session: &'s mut Session,
    pub(crate) cancel: &'s Cancel,
    pub(crate) deadline: Instant,
    /// The runtime's own commands before the statement, covered by the next answer.
    pub(crate) leading: u32,
    stage: usize,
    next_stage: Instant,
}

impl<'s> Exchange<'s> {
    pub(crate) fn new(session: &'s mut Session, cancel: &'s Cancel, deadline: Instant) -> Self {
        Self {
            session,
            cancel,
            deadline,
            leading: 0,
            stage: 0,
            next_stage: deadline + PATIENCE.first().copied().unwrap_or_default(),
        }
    }

    /// Sends what was written, and receives pending answers. Fails if the session is lost; an error among the pending
    /// answers counts as that, since the session's state is then unknown.
    pub(crate) async fn send(&mut self) -> Result<(), Broken> {
        let flush = self.session.flush();
        match tokio::time::timeout_at(self.deadline + Duration::from_secs(1), flush).await {
            Ok(done) => done?,
            Err(_) => return Err(Broken::Late),
        }
        if self.session.asks_pid {
            let mut sink = Sink::texts();
            let heard = self.receive(&mut sink).await?;
            self.session.asks_pid = false;
            if let Some(fault) = heard.fault {
                return Err(Broken::Lost(Lost::Ended(fault.state)));
            }
            let pid = sink.into_texts().into_iter().flatten().next().and_then(|pid| pid.parse().ok());
            self.session.pid.store(pid.unwrap_or_default(), Ordering::Release);
        }
        while self.session.unread > 0 {
            let heard = self.receive(&mut Sink::default()).await?;
            self.session.unread -= 1;
            if heard.fault.is_some() {
                return Err(Broken::Lost(Lost::ProtocolViolation));
            }
        }
        Ok(())
    }

    /// Receives an answer up to the next `Ready`.
    pub(crate) async fn receive(&mut self, sink: &mut Sink) -> Result<Answer, Broken> {
        let mut heard = Answer { leading: std::mem::take(&mut self.leading), ..Answer::default() };
        loop {
            let reply = match self.session.take(sink.longest())? {
                Some(reply) => reply,
                None => tokio::select! {
                    biased;
                    reply = self.session.next(sink.longest()) => reply.map_err(|lost| match lost {
                        // A process that is terminated while it sends a row cannot say so.
                        Lost::Broken(_) if self.stage > 1 => Broken::Late,
                        lost => Broken::Lost(lost),
                    })?,
                    () = self.cancel.called.notified(), if self.stage == 0 => {
                        self.next_stage = Instant::now();
                        self.escalate().await?;
                        continue;
                    }
                    () = sleep_until(self.next_stage) => {
                        self.escalate().await?;
                        continue;
                    }
                },
            };
            match reply {
                Reply::Ready(status) => {
                    heard.status = status;
                    return Ok(heard);
                }
                Reply::Done(_) if heard.leading > 0 => heard.leading -= 1,
                Reply::Row(row) if heard.leading == 0 && heard.tag.is_none() => sink.push(&row),
                Reply::LongRow => sink.cut(),
                Reply::Columns(columns) if heard.tag.is_none() => sink.describe(columns),
                Reply::Parameters(parameters) => heard.parameters = parameters,
                Reply::Done(tag) => {
                    heard.last = Some(tag.clone());
                    heard.tag.get_or_insert(tag);
                }
                // One more row than the limit was requested.
                Reply::Suspended => {
                    heard.suspended = true;
                    heard.tag.get_or_insert_default();
                }
                Reply::Fault(fault) => {
                    if fault.fatal {
                        if self.stage > 1 && fault.state == "57P01" {
                            // After a commit that waits for a standby, a warning comes first.
                            return Err(if heard.warned { Broken::Late } else { Broken::Stopped });
                        }
                        return Err(Broken::Lost(Lost::Ended(fault.state)));
                    }
                    heard.fault.get_or_insert(*fault);
                }
                Reply::CopyIn => {
                    heard.copied = true;
                    self.session.copy_fail();
                    self.session.flush().await?;
                }
                Reply::Copy => heard.copied = true,
                Reply::Warning => heard.warned = true,
                Reply::Row(row) if heard.leading == 0 => {
                    heard.further = row.values().next().flatten().map(<[u8]>::to_vec);
                }
                Reply::Row(_) | Reply::Columns(_) | Reply::Parsed | Reply::Other => {}
            }
            let is_unwanted = sink.wants_no_more() || self.cancel.why().is_some();
            if is_unwanted && self.stage == 0 {
                self.next_stage = Instant::now();
            }
            // Rows that keep arriving must not delay the cancellation.
            self.escalate().await?;
        }
    }

    /// Takes the next, harder measure against the statement.
    async fn escalate(&mut self) -> Result<(), Broken> {
        if Instant::now() < self.next_stage {
            return Ok(());
        }
        self.stage += 1;
        let Some(patience) = PATIENCE.get(self.stage) else { return Err(Broken::Late) };
        self.next_stage = Instant::now() + *patience;
        match self.stage {
            1 => self.session.ask_to_cancel(),
            _ => self.session.ask_to_end(),
        }
        Ok(())
    }

    /// Whether a cancel request was sent, which may still hit a later statement: the session must not be used again.
    pub(crate) fn was_cancelled(&self) -> bool {
        self.stage > 0
    }
}

/// Runs the runtime's own statements; the sink receives the rows of the first that returns any.
pub(crate) async fn run_own(
    session: &mut Session,
    sql: &str,
    deadline: Instant,
    sink: &mut Sink,
) -> Result<Answer, Broken> {
    let mut exchange = Exchange::new(session, never(), deadline);
    exchange.session.query(sql);
    exchange.send().await?;
    exchange.receive(sink).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_that_ends_once_its_process_is_terminated_is_late() {
        for (stage, is_late) in [(0, false), (1, false), (2, true)] {
            let (ours, server) = tokio::io::duplex(1 << 10);
            let mut session = Session::new(Box::new(ours));
            let mut exchange =
                Exchange::new(&mut session, never(), Instant::now() + Duration::from_secs(3_600));
            exchange.stage = stage;
            drop(server);
            match exchange.receive(&mut Sink::default()).await {
                Err(Broken::Late) => assert!(is_late, "stage {stage}"),
                Err(Broken::Lost(Lost::Broken(_))) => assert!(!is_late, "stage {stage}"),
                _ => panic!("the connection has ended"),
            }
        }
    }
}
