//! The HTTP server's request path: connections, tokens, limits, and the API `/v1`. For users: `docs/http.md` and
//! `docs/http-api.md`.
//!
//! This crate serves `memory serve --http`, which adds MCP, the operator's page and the metrics. It is separate so that
//! everything a request passes through, including hyper's connection code, is optimised for speed, while the rest of
//! the product is optimised for size. It is not an interface for other programs; those speak HTTP.

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
pub use jwt::{Jwt, Resource};
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
