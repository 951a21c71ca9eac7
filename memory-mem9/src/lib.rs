//! [`memory_core::MemoryLayer`] over [mem9](https://mem9.ai), API v1alpha2. The API is a preview, so the
//! configuration must say `preview = true`.
//!
//! At mem9 a key *is* a space, and within a space only `agent_id` separates memories: mem9 ignores `session_id` when it
//! searches and when new facts replace old ones. So each tenant has its own key, unless the operator says otherwise,
//! and a scope is an `agent_id`.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # fn example(clock: Arc<dyn memory_core::Clock>, ids: Arc<dyn memory_core::IdGen>) -> memory_core::Result<()> {
//! use memory_http::{EgressPolicy, KeyRef};
//! use memory_mem9::{Mem9Options, Mem9Provider};
//!
//! let mut options = Mem9Options::new("https://api.mem9.ai");
//! options.preview = true;
//! options.tenant_keys.insert("acme".into(), KeyRef::env("ACME_MEM9_KEY"));
//! let provider = Mem9Provider::open(options, EgressPolicy::new(), clock, ids)?;
//! let memory = memory_core::Checked::new(provider)?;
//! # let _ = memory; Ok(()) }
//! ```

mod client;
mod config;
mod error;
mod forget;
mod layer;
mod listing;
mod owner;
mod provider;
mod rows;

pub use crate::config::{MEM9_BASE_URL, Mem9Options, Ranking};
pub use crate::owner::agent_id;
pub use crate::provider::Mem9Provider;
