//! Counters for `/metrics`. No label contains a tenant's text.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use memory_core::{Figure, Op};

/// Upper bounds of the latency histogram, in milliseconds.
const BOUNDS: [u64; 10] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000];

/// What a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The API.
    V1,
    /// MCP.
    Mcp,
    /// Everything else.
    Other,
}

impl Route {
    const ALL: [(Self, &str); 3] = [(Self::V1, "v1"), (Self::Mcp, "mcp"), (Self::Other, "other")];

    /// The paths of this route.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::V1 => "/v1/*",
            Self::Mcp => "/mcp",
            Self::Other => "/*",
        }
    }

    /// The route of a path.
    pub(crate) fn of(path: &str) -> Self {
        match path.split('/').nth(1) {
            Some("v1") => Self::V1,
            Some("mcp") => Self::Mcp,
            _ => Self::Other,
        }
    }
}

/// Why a request was refused before it reached a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Forged `Host` or foreign `Origin`.
    Host,
    /// A body in a coding that is not undone.
    Framing,
    /// No valid token.
    Unauthenticated,
    /// Over its rate.
    Rate,
    /// Too many requests in flight, or too many connections.
    Busy,
    /// A body over the limit.
    Size,
    /// Not answered in time.
    Timeout,
}

impl Refused {
    const ALL: [(Self, &str); 7] = [
        (Self::Host, "host"),
        (Self::Framing, "framing"),
        (Self::Unauthenticated, "unauthenticated"),
        (Self::Rate, "rate_limited"),
        (Self::Busy, "busy"),
        (Self::Size, "too_large"),
        (Self::Timeout, "timeout"),
    ];
}

#[derive(Debug, Default)]
struct Histogram {
    /// Each counts what is above the bound before it.
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Histogram {
    fn add(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if let Some((bucket, _)) = self.buckets.iter().zip(BOUNDS).find(|(_, bound)| micros <= bound * 1_000)
        {
            bucket.fetch_add(1, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.micros.fetch_add(micros, Relaxed);
    }

    /// Its lines; `label` is like `route="v1"`.
    fn write(&self, text: &mut String, name: &str, label: &str) {
        let count = self.count.load(Relaxed);
        let bounds = BOUNDS.iter().map(|bound| format!("{}.{:03}", bound / 1_000, bound % 1_000));
        let buckets = self.buckets.iter().scan(0, |below, bucket| {
            *below += bucket.load(Relaxed);
            Some(*below)
        });
        for (bound, value) in bounds.zip(buckets).chain([("+Inf".to_owned(), count)]) {
            let _ = writeln!(text, "{name}_bucket{{{label},le=\"{bound}\"}} {value}");
        }
        let micros = self.micros.load(Relaxed);
        let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
        let _ = writeln!(text, "{name}_sum{{{label}}} {whole}.{part:06}");
        let _ = writeln!(text, "{name}_count{{{label}}} {count}");
    }
}

/// The counters of one operation.
#[derive(Debug, Default)]
struct Operation {
    all: AtomicU64,
    denied: AtomicU64,
    took: Histogram,
}

/// The counters of a server.
#[derive(Debug)]
pub struct Metrics {
    operations: Vec<Operation>,
    refused: [AtomicU64; Refused::ALL.len()],
    /// By route, then by the first digit of the status.
    responses: [[AtomicU64; 4]; Route::ALL.len()],
    latencies: [Histogram; Route::ALL.len()],
    /// Requests being answered.
    pub(crate) in_flight: AtomicI64,
    /// Open connections.
    pub(crate) connections: AtomicI64,
    /// MCP sessions.
    pub sessions: AtomicI64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            operations: Op::ALL.iter().map(|_| Default::default()).collect(),
            refused: Default::default(),
            responses: Default::default(),
            latencies: Default::default(),
            in_flight: AtomicI64::default(),
            connections: AtomicI64::default(),
            sessions: AtomicI64::default(),
        }
    }
}

impl Metrics {
    /// Counts an operation that a token asked for.
    pub(crate) fn operation(&self, op: Op, refused: bool) {
        if let Some(of) = self.of(op) {
            of.all.fetch_add(1, Relaxed);
            of.denied.fetch_add(u64::from(refused), Relaxed);
        }
    }

    /// Records how long an allowed operation took.
    pub(crate) fn took(&self, op: Op, after: Duration) {
        if let Some(of) = self.of(op) {
            of.took.add(after);
        }
    }

    fn of(&self, op: Op) -> Option<&Operation> {
        self.operations.get(Op::ALL.iter().position(|known| *known == op)?)
    }

    /// Counts a request that was refused.
    pub(crate) fn refused(&self, why: Refused) {
        for ((known, _), counter) in Refused::ALL.iter().zip(&self.refused) {
            counter.fetch_add(u64::from(*known == why), Relaxed);
        }
    }

    /// Counts a response.
    pub(crate) fn answered(&self, route: Route, status: u16, after: Duration) {
        let Some(at) = Route::ALL.iter().position(|(known, _)| *known == route) else { return };
        let class = usize::from((status / 100).saturating_sub(2));
        if let Some(counter) = self.responses.get(at).and_then(|classes| classes.get(class)) {
            counter.fetch_add(1, Relaxed);
        }
        if let Some(histogram) = self.latencies.get(at) {
            histogram.add(after);
        }
    }

    /// The text format of Prometheus, with the figures of the store.
    pub fn text(&self, figures: &[Figure]) -> String {
        let mut text = String::new();
        head(&mut text, "memory_operations_total", "counter", "Operations that tokens asked for.");
        for (op, of) in Op::ALL.iter().zip(&self.operations) {
            let _ = writeln!(text, "memory_operations_total{{op=\"{op}\"}} {}", of.all.load(Relaxed));
        }
        head(&mut text, "memory_operations_denied_total", "counter", "Those that the token did not allow.");
        for (op, of) in Op::ALL.iter().zip(&self.operations) {
            let denied = of.denied.load(Relaxed);
            let _ = writeln!(text, "memory_operations_denied_total{{op=\"{op}\"}} {denied}");
        }
        head(&mut text, "memory_operation_seconds", "histogram", "Time until an operation answers.");
        for (op, Operation { took, .. }) in Op::ALL.iter().zip(&self.operations) {
            // There are many operations; skip those without data.
            if took.count.load(Relaxed) > 0 {
                took.write(&mut text, "memory_operation_seconds", &format!("op=\"{op}\""));
            }
        }
        head(&mut text, "memory_http_refused_total", "counter", "Requests refused before they were handled.");
        for ((_, reason), counter) in Refused::ALL.iter().zip(&self.refused) {
            let _ =
                writeln!(text, "memory_http_refused_total{{reason=\"{reason}\"}} {}", counter.load(Relaxed));
        }
        head(&mut text, "memory_http_responses_total", "counter", "Responses by route and class of status.");
        for ((_, route), classes) in Route::ALL.iter().zip(&self.responses) {
            for (class, counter) in ["2xx", "3xx", "4xx", "5xx"].iter().zip(classes) {
                let count = counter.load(Relaxed);
                let _ = writeln!(
                    text,
                    "memory_http_responses_total{{route=\"{route}\",class=\"{class}\"}} {count}"
                );
            }
        }
        head(&mut text, "memory_http_seconds", "histogram", "Time until the head of a response.");
        for ((_, route), histogram) in Route::ALL.iter().zip(&self.latencies) {
            histogram.write(&mut text, "memory_http_seconds", &format!("route=\"{route}\""));
        }
        for (name, help, gauge) in [
            ("memory_http_in_flight", "Requests being answered.", &self.in_flight),
            ("memory_http_connections", "Open connections.", &self.connections),
            ("memory_mcp_sessions", "MCP sessions.", &self.sessions),
        ] {
            head(&mut text, name, "gauge", help);
            let _ = writeln!(text, "{name} {}", gauge.load(Relaxed));
        }
        for Figure { name, help, is_counter, value, .. } in figures {
            let kind = if *is_counter { "counter" } else { "gauge" };
            head(&mut text, &format!("memory_{name}"), kind, help);
            let _ = writeln!(text, "memory_{name} {value}");
        }
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}
