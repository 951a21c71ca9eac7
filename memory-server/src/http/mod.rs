//! `memory serve --http`: MCP, the API, health and metrics over HTTP. Users read `docs/http.md`.

pub(crate) mod caller;
mod metrics;
pub(crate) mod refusal;
pub mod v1;
