//! `memory serve --http` as clients see it: each test starts the real binary on a free port.

mod agents;
mod api;
mod bad_input;
mod browser;
mod door;
mod jwt;
mod limits;
mod mcp;
mod operating;
mod page;
mod page_fuzz;
mod replicas;
mod tenants;
mod tokens;
#[cfg(feature = "otel")]
mod traces;
