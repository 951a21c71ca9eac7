//! Notices when the user asks to stop.

use std::time::Duration;

use tokio::sync::watch;

use super::failure::{Exit, Failure};

/// Whether the user asked to stop, by SIGINT or SIGTERM.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Grace period for a command to stop on its own.
    pub(super) const GRACE: Duration = Duration::from_secs(5);

    /// Starts listening. The first signal requests a stop; a second one, or the end of the grace period, ends the
    /// process. Acknowledged writes are stored by then.
    pub fn listen() -> Self {
        let (ask, stop) = watch::channel(false);
        let first = signal();
        tokio::spawn(async move {
            first.await;
            let _ = ask.send(true);
            tokio::select! {
                () = signal() => {}
                () = tokio::time::sleep(Self::GRACE) => {}
            }
            std::process::exit(i32::from(Exit::Interrupted.code()));
        });
        Self(stop)
    }

    /// Stops when the holder of the other end asks.
    pub(super) fn of(ask: &watch::Sender<bool>) -> Self {
        Self(ask.subscribe())
    }

    /// Whether a stop is asked for.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when a stop is requested, or when nobody can request one any more.
    pub(crate) async fn asked(&self) {
        let _ = self.0.clone().wait_for(|asked| *asked).await;
    }
}

/// Resolves on SIGINT or SIGTERM. These no longer end the process from the moment of the call, not only from the first
/// poll.
pub(crate) fn signal() -> impl Future<Output = ()> + Send + use<> {
    let signals = Signals::listen();
    async move {
        match signals {
            Ok(mut signals) => drop(signals.any().await),
            Err(_) => drop(tokio::signal::ctrl_c().await),
        }
    }
}

/// Which signal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    Terminate,
}

/// Signals from the moment of listening. From then on they do not end the process.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// # Errors
    /// If the system refuses.
    pub(crate) fn listen() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::File("signals cannot be received".to_owned(), error))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// The next one.
    pub(crate) async fn any(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

impl Signals {
    /// Resolves on SIGTERM.
    pub(crate) async fn terminated(&mut self) {
        while self.any().await != Signal::Terminate {}
    }
}

#[cfg(not(unix))]
impl Signals {
    /// # Errors
    /// None here.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Ok(Self {})
    }

    /// The next one.
    pub(crate) async fn any(&mut self) -> Signal {
        let _ = tokio::signal::ctrl_c().await;
        Signal::Interrupt
    }
}
