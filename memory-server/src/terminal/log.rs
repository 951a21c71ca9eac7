//! The libraries' log, on standard error.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The environment variable that sets the log level: `debug`, or `memory::audit=info,memory_http=debug`.
const VARIABLE: &str = "MEMORY_LOG";

/// Starts logging to standard error, by default warnings and audit records, and traces where the environment asks for them.
/// What cannot be started is told, and the rest is.
pub(crate) fn start() -> Result<(), String> {
    let standard =
        || Targets::new().with_default(LevelFilter::WARN).with_target("memory::audit", LevelFilter::INFO);
    #[allow(unused_mut, reason = "traces may add to it")]
    let (filter, mut told) = match std::env::var(VARIABLE).map(|text| text.parse::<Targets>()) {
        Ok(Ok(filter)) => (filter, Ok(())),
        Ok(Err(error)) => {
            let why = format!("{VARIABLE} is not understood ({error}); write a level, or TARGET=LEVEL,…");
            (standard(), Err(why))
        }
        Err(_) => (standard(), Ok(())),
    };
    let lines =
        tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let all = tracing_subscriber::registry().with(lines.with_filter(filter));
    #[cfg(feature = "otel")]
    let all = all.with(match super::traces::layer() {
        Ok(traces) => traces,
        Err(why) => {
            told = told.and(Err(why));
            None
        }
    });
    // An earlier subscriber, if any, stays.
    let _ = all.try_init();
    told
}
