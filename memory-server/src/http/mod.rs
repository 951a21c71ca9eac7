//! `memory serve --http`: MCP, the API `/v1`, the operator's page, health and metrics over HTTP, for callers with
//! tokens. For users: `docs/http.md`, `docs/http-api.md` and `docs/page.md`. The request path of the API is in the
//! crate `memory-api`.

mod answers;
mod mcp;
mod page;
mod routes;
mod server;
mod tokens;

#[doc(hidden)]
pub use server::guarded;
pub(crate) use server::run;
pub(crate) use tokens::tokens_file;
