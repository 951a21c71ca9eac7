//! `memory serve --http`: MCP, the API `/v1`, the operator's page, health and metrics over HTTP, for callers with tokens. Users
//! read `docs/http.md`, `docs/http-api.md` and `docs/page.md`. What a request to the API passes is the crate `memory-api`.

mod mcp;
mod page;
mod routes;
mod server;
mod tokens;

#[doc(hidden)]
pub use server::guarded;
pub(crate) use server::run;
pub(crate) use tokens::tokens_file;
