//! A [`Provider`](memory_core::Provider) whose store is behind the API `/v1` of a server: `memory serve --http`, or a
//! server in any language that serves the same.
//!
//! Every call of every facet is one request. What the server refuses is the same error here. Reads are repeated if a reply
//! is lost; a write whose reply is lost is `outcome_unknown`, since it may have been done. Streams are read and sent as
//! they come, and one that was cut is an error, never a shorter stream.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # async fn example(clock: Arc<dyn memory_core::Clock>, ids: Arc<dyn memory_core::IdGen>) -> memory_core::Result<()> {
//! use memory_http::EgressPolicy;
//! use memory_remote::RemoteOptions;
//!
//! let mut options = RemoteOptions::new("http://localhost:7077");
//! options.api_key_env = Some("MEMORY_TOKEN".into());
//! let policy = EgressPolicy::new().allow_host("localhost:7077")?;
//! let provider = memory_remote::open(options, policy, clock, ids).await?;
//! let memory = memory_core::Checked::new(provider)?;
//! # let _ = memory; Ok(()) }
//! ```

mod config;
mod remote;
mod streams;

pub use config::RemoteOptions;
pub use remote::{RemoteProvider, open};
