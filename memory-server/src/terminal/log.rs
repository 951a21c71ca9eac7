//! The libraries' log on standard error, and its format: text, or one JSON object per line.

use std::fmt;
use std::io::{self, IsTerminal as _};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::output::{complain, json_line, write_json_lines};

/// The environment variable that sets the log level: `debug`, or `memory::audit=info,memory_http=debug`.
const VARIABLE: &str = "MEMORY_LOG";
/// The environment variable that sets the format: `text` or `json`.
const FORMAT: &str = "MEMORY_LOG_FORMAT";

/// A library whose warnings quote what clients sent, such as URIs of resources.
const TELLS_REQUESTS: &str = "rmcp";

/// What is logged. For [`TELLS_REQUESTS`] only errors, unless the text names it.
fn filter(text: Option<&str>) -> Result<Targets, String> {
    let filter = match text {
        None => {
            Targets::new().with_default(LevelFilter::WARN).with_target("memory::audit", LevelFilter::INFO)
        }
        Some(text) => text.parse::<Targets>().map_err(|error| {
            format!("{VARIABLE} is not understood ({error}); write a level, or TARGET=LEVEL,…")
        })?,
    };
    if filter.iter().any(|(target, _)| target.starts_with(TELLS_REQUESTS)) {
        return Ok(filter);
    }
    let level = filter.default_level().unwrap_or(LevelFilter::OFF).min(LevelFilter::ERROR);
    Ok(filter.with_target(TELLS_REQUESTS, level))
}

/// Starts logging to standard error, by default warnings and audit records, and tracing if the environment asks for it.
/// Returns what could not be started; the rest works.
pub(crate) fn start() -> Result<(), String> {
    let wanted = std::env::var_os(VARIABLE).map(|text| text.to_string_lossy().into_owned());
    let (filter, mut told) = match filter(wanted.as_deref()) {
        Ok(filter) => (filter, Ok(())),
        Err(why) => (filter(None).unwrap_or_default(), Err(why)),
    };
    let text =
        || tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    let lines = match std::env::var(FORMAT).as_deref() {
        Err(_) | Ok("" | "text") => text().boxed(),
        Ok("json") => {
            write_json_lines();
            Lines.boxed()
        }
        Ok(other) => {
            told = told.and(Err(format!("{FORMAT} is `{other}`; it can be text or json")));
            text().boxed()
        }
    };
    let all = tracing_subscriber::registry().with(lines.with_filter(filter));
    #[cfg(feature = "otel")]
    let all = all.with(match super::traces::layer() {
        Ok(traces) => traces,
        Err(why) => {
            told = told.and(Err(why));
            None
        }
    });
    // An earlier subscriber stays in place.
    let _ = all.try_init();
    told
}

/// Writes each event as a line of JSON.
struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let of = event.metadata();
        complain(&json_line(of.level().as_str(), of.target(), &fields.message, fields.others));
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.others.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.put(field, format!("{value:?}").into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::filter;

    #[test]
    fn what_clients_sent_is_logged_only_where_it_is_asked_for() {
        let warns = |text| filter(text).unwrap().would_enable("rmcp::service", &Level::WARN);
        let tells = |text| filter(text).unwrap().would_enable("rmcp::service", &Level::ERROR);
        assert!(!warns(None) && !warns(Some("debug")) && !warns(Some("memory_http=debug")));
        assert!(tells(None) && tells(Some("debug")) && !tells(Some("off")));
        assert!(warns(Some("warn,rmcp=debug")));
    }
}
