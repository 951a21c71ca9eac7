//! The libraries' log, on standard error.

use std::io::{self, IsTerminal as _};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The environment variable that sets the log level: `debug`, or `memory::audit=info,memory_http=debug`.
const VARIABLE: &str = "MEMORY_LOG";

/// Starts logging to standard error: by default warnings and audit records.
pub(crate) fn start() -> Result<(), String> {
    let filter = match std::env::var(VARIABLE) {
        Ok(text) => text.parse::<Targets>().map_err(|error| {
            format!("{VARIABLE} is not understood ({error}); write a level, or TARGET=LEVEL,…")
        })?,
        Err(_) => {
            Targets::new().with_default(LevelFilter::WARN).with_target("memory::audit", LevelFilter::INFO)
        }
    };
    let lines =
        tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    // An earlier subscriber, if any, stays.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Ok(())
}
