//! The HTTP server's request path: connections, tokens, limits, and the API `/v1`. Users read `docs/http.md` and
//! `docs/http-api.md`.
//!
//! The crate is for `memory serve --http`, which adds MCP, the operator's page and the figures. It is one of its own, so that
//! what every request passes, hyper's code for a connection too, is optimised for speed while the product around it is for
//! size. It is not an interface for other programs: those speak HTTP.

// A request's future nests one future per layer down to the backend's connection, which counts against this limit.
#![recursion_limit = "256"]

mod authority;
mod body;
mod boxed;
mod caller;
mod connections;
mod gate;
mod jwt;
mod metrics;
mod place;
mod recording;
mod refusal;
mod rules;
mod served;
mod span;
mod token;
mod tokens;
mod v1;

pub use authority::Authority;
pub use body::{bearer, cause, keeping, until};
pub use boxed::Boxed;
pub use caller::{Caller, Grant, needs};
pub use connections::{fit, tls};
pub use gate::{Around, Gate};
pub use jwt::Jwt;
pub use metrics::Metrics;
pub use place::Place;
pub use place::shares::{LATER, Share, Shares};
pub use recording::{Reads, Recording};
pub use refusal::{json, refused, refused_as, status};
pub use rules::Rules;
pub use served::Served;
pub use token::{Token, hexadecimal};
pub use tokens::{Known, Look, STANDS, TokenFile};
pub use v1::{OnState, Tools, V1, unguarded};
