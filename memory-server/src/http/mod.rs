//! `memory serve --http`: MCP, the API `/v1`, the operator's page, health and metrics over HTTP, for callers with tokens. Users
//! read `docs/http.md`, `docs/http-api.md` and `docs/page.md`.

mod authority;
mod body;
pub(crate) mod caller;
mod gate;
pub(crate) mod jwt;
mod mcp;
mod metrics;
mod page;
mod place;
mod recording;
mod refusal;
mod routes;
mod rules;
mod server;
mod span;
pub(crate) mod token;
pub(crate) mod tokens;
pub mod v1;

#[doc(hidden)]
pub use routes::Served;
#[doc(hidden)]
pub use server::guarded;
pub(crate) use server::run;
