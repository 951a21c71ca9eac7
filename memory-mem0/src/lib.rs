//! [`memory_core::MemoryLayer`] over [mem0](https://mem0.ai), its self-hosted server and its Platform.
//!
//! mem0 separates users by ids in each request, and in filters it reads `*`, blank ids and logic words as "every user".
//! This crate turns a scope into one id of letters, digits and dots, and puts nothing else into a filter. It checks the
//! owner in every reply. Before it deletes a memory by its id, it fetches the memory and checks its owner.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # fn example(clock: Arc<dyn memory_core::Clock>, ids: Arc<dyn memory_core::IdGen>) -> memory_core::Result<()> {
//! use memory_http::EgressPolicy;
//! use memory_mem0::{Mem0Options, Mem0Provider};
//!
//! let mut options = Mem0Options::self_hosted("http://localhost:8888");
//! options.api_key_env = Some("MEM0_API_KEY".into());
//! let policy = EgressPolicy::new().allow_host("localhost:8888")?;
//! let memory = memory_core::Checked::new(Mem0Provider::open(options, policy, clock, ids)?)?;
//! # let _ = memory; Ok(()) }
//! ```

mod add;
mod client;
mod config;
mod error;
mod event;
mod forget;
mod layer;
mod listing;
mod owner;
mod provider;
mod rows;

pub use crate::config::{Flavour, Mem0Options, PLATFORM_BASE_URL};
pub use crate::owner::remote_id;
pub use crate::provider::Mem0Provider;
