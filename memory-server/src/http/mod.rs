//! `memory serve --http`: MCP, health and metrics over HTTP, for callers with tokens. Users read `docs/http.md`.

mod authority;
mod body;
pub(crate) mod caller;
mod gate;
mod listen;
mod mcp;
mod metrics;
mod refusal;
mod server;
pub(crate) mod token;
pub(crate) mod tokens;

pub(crate) use server::run;
