//! Traces for an OpenTelemetry collector, configured by the standard environment variables. A span says what was done
//! and how it ended, but contains no key, value, scope or other text of a tenant.

use std::env::var;
use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use axum::http::HeaderMap;
use memory::Memory;
use memory_core::{Hook, Next, Reply, Request, Result};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, global};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use super::output::note;

/// How long a program's end waits for the collector.
const ENDING: Duration = Duration::from_secs(5);

static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// Sends this workspace's spans to the collector; `None` if the environment names none.
pub(super) fn layer<S>() -> Result<Option<impl Layer<S>>, String>
where
    S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
{
    if !is_wanted() {
        return Ok(None);
    }
    let refused = |why: String| format!("no traces are sent: {why}");
    let protocol = protocol().map_err(refused)?;
    // The exporter's client uses the process's provider; something else may already have installed one.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let exporter = SpanExporter::builder().with_http().with_protocol(protocol).build();
    let exporter = exporter.map_err(|error| refused(error.to_string()))?;
    let mut resource =
        Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let names_service =
        |text: String| text.split(',').any(|pair| pair.trim_start().starts_with("service.name="));
    if var("OTEL_SERVICE_NAME").is_err() && !var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(names_service) {
        resource = resource.with_service_name("memory");
    }
    let provider =
        SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
    global::set_text_map_propagator(TraceContextPropagator::new());
    let tracer = provider.tracer("memory");
    let _ = PROVIDER.set(provider);
    // Events are left out, because they include audit records, which may quote stored text.
    let spans = filter_fn(|of| of.is_span() && of.target().starts_with("memory"));
    let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_target(false);
    Ok(Some(layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_filter(spans)))
}

/// Whether the environment names a collector, and does not switch traces off.
fn is_wanted() -> bool {
    let named = |name: &str| var(name).is_ok_and(|value| !value.is_empty());
    let is = |name: &str, what: &str| var(name).is_ok_and(|value| value.trim().eq_ignore_ascii_case(what));
    let is_off = is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none");
    let has_endpoint = named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") || named("OTEL_EXPORTER_OTLP_ENDPOINT");
    !is_off && (has_endpoint || is("OTEL_TRACES_EXPORTER", "otlp"))
}

fn protocol() -> Result<Protocol, String> {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    let Some((name, value)) = names.into_iter().find_map(|name| Some((name, var(name).ok()?))) else {
        return Ok(Protocol::HttpBinary);
    };
    match value.trim() {
        "" | "http/protobuf" => Ok(Protocol::HttpBinary),
        "http/json" => Ok(Protocol::HttpJson),
        other => Err(format!("{name} is `{other}`; it can be http/protobuf or http/json")),
    }
}

/// Makes a span part of the trace that a request belongs to.
pub(crate) fn continues(span: &Span, headers: &HeaderMap) {
    if PROVIDER.get().is_some() {
        let parent = global::get_text_map_propagator(|of| of.extract(&HeaderExtractor(headers)));
        // Fails for a span that nobody records.
        let _ = span.set_parent(parent);
    }
}

/// The same store, with a span for each operation.
pub(crate) fn watched(memory: Memory) -> Result<Memory> {
    if PROVIDER.get().is_none() {
        return Ok(memory);
    }
    let store = memory.name().to_owned();
    memory.with_hook(Watch { store })
}

/// Sends what is left.
pub(super) fn end() {
    if let Some(Err(error)) = PROVIDER.get().map(|provider| provider.shutdown_with_timeout(ENDING)) {
        note(&format!("memory: the last traces may not have arrived: {error}"));
    }
}

#[derive(Debug)]
struct Watch {
    store: String,
}

#[async_trait]
impl Hook for Watch {
    async fn around(&self, request: Request, next: Next<'_>) -> Result<Reply> {
        let op = request.op().as_str();
        let span = tracing::info_span!(
            "operation",
            otel.name = op,
            otel.kind = "client",
            otel.status_code = Empty,
            db.system.name = self.store,
            db.operation.name = op,
            error.type = Empty,
        );
        let reply = next.run(request).instrument(span.clone()).await;
        if let Err(error) = &reply {
            span.record("error.type", error.kind().code());
            span.record("otel.status_code", "ERROR");
        }
        reply
    }
}
