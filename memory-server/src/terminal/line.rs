//! One line of `memory shell`, as seen by the command that it runs.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::failure::{Exit, Failure};
use super::stop::{Signal, Signals, Stop};

/// How long an interrupted command may block its thread; after that, the process ends.
const BLOCKED: Duration = Duration::from_secs(15);

/// A line that was typed or arrived through a pipe.
pub(crate) struct Line {
    words: Vec<String>,
    keeps_history: bool,
    ask: watch::Sender<bool>,
    /// Whether the command stops on its own when asked to.
    stops: AtomicBool,
}

/// How the command of a line ended.
pub(crate) enum Ended {
    Done(Result<Exit, Failure>),
    By(Signal),
}

impl Line {
    pub(crate) fn new(words: Vec<String>, keeps_history: bool) -> Self {
        Self { words, keeps_history, ask: watch::Sender::new(false), stops: AtomicBool::new(false) }
    }

    pub(super) fn words(&self) -> &[String] {
        &self.words
    }

    pub(super) fn keeps_history(&self) -> bool {
        self.keeps_history
    }

    /// For a command that stops on its own.
    pub(super) fn stop(&self) -> Stop {
        self.stops.store(true, Ordering::Relaxed);
        Stop::of(&self.ask)
    }

    /// Runs the line's command to its end, or until a signal arrives. Acknowledged writes are stored.
    pub(crate) async fn until_interrupted(
        &self,
        command: impl Future<Output = Result<Exit, Failure>>,
    ) -> Ended {
        let Ok(mut signals) = Signals::listen() else { return Ended::Done(command.await) };
        let blocked = tokio::spawn(async {
            super::stop::signal().await;
            tokio::time::sleep(BLOCKED).await;
            std::process::exit(i32::from(Exit::Interrupted.code()));
        });
        let ended = self.raced(command, &mut signals).await;
        blocked.abort();
        ended
    }

    async fn raced(
        &self,
        command: impl Future<Output = Result<Exit, Failure>>,
        signals: &mut Signals,
    ) -> Ended {
        let mut command = pin!(command);
        let signal = tokio::select! {
            done = &mut command => return Ended::Done(done),
            signal = signals.any() => signal,
        };
        self.ask.send_replace(true);
        let ended = if self.stops.load(Ordering::Relaxed) {
            tokio::select! {
                done = &mut command => Ended::Done(done),
                again = signals.any() => Ended::By(again),
                () = tokio::time::sleep(Stop::GRACE) => Ended::By(signal),
            }
        } else {
            Ended::By(signal)
        };
        match ended {
            // The command stopped as asked; the shell must stop too.
            Ended::Done(_) if signal == Signal::Terminate => Ended::By(signal),
            ended => ended,
        }
    }
}
