//! `memory serve --http`: MCP, the API, health and metrics over HTTP. Users read `docs/http.md`.

pub(crate) mod caller;
mod metrics;
