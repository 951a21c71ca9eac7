//! The only HTTP client of the workspace. Whatever it is asked to call, it reaches only what the operator allows, every
//! call ends, and it reveals nothing of its contents.
//!
//! - **Egress**: [`EgressPolicy`] allows public addresses over https, and other hosts only if listed. Names are judged
//!   by the address used for connecting, so a second DNS answer cannot differ. Redirects and proxies are not followed.
//! - **Limits**: bytes of requests and of decompressed replies are counted while streaming; there are timeouts for
//!   connecting and for silence, and an overall deadline: [`Limits`].
//! - **Retries**: each call declares whether it may be repeated ([`CallKind`]); waits are jittered and honour
//!   `Retry-After` ([`RetryPolicy`]); calls to an origin that keeps failing are suspended ([`BreakerPolicy`]).
//! - **Paths**: [`Endpoint`] adds paths and parameters to a base URL safely.
//! - **Secrets**: keys are loaded by reference and chosen by tenant and run ([`Keyring`]), with patterns that never
//!   collide between tenants ([`TenantPattern`]); a [`Credential`] is sent only to its own origin. Errors, logs and
//!   `Debug` show origins and sizes, never paths, parameters, headers or bodies.
//! - **Memory services**: [`service`] is shared by the providers for mem0 and mem9.
//!
//! TLS is rustls with the ring provider and the operating system's roots.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # async fn example(clock: Arc<dyn memory_core::Clock>, ids: Arc<dyn memory_core::IdGen>) -> memory_core::Result<()> {
//! use memory_http::{Call, CallKind, Credential, EgressPolicy, HttpClient, Method, Origin, SecretSource};
//!
//! let policy = EgressPolicy::new().allow_host("localhost:11434")?;
//! let client = HttpClient::builder(policy, clock, ids).build()?;
//!
//! let url = "https://api.example/v1/embeddings";
//! let key = SecretSource::Env("EXAMPLE_API_KEY".into()).load()?;
//! let call = Call::new(Method::Post, url)?
//!     .kind(CallKind::Safe)
//!     .json(&serde_json::json!({ "input": ["hello"] }))?
//!     .credential(Credential::bearer(Origin::of(url)?, &key)?)?;
//! let reply: serde_json::Value = client.request(call).await?.json()?;
//! # Ok(()) }
//! ```

mod call;
mod client;
mod egress;
mod keys;
pub mod service;
mod tls;

pub use crate::call::breaker::BreakerPolicy;
pub use crate::call::kind::{CallKind, Method};
pub use crate::call::reply::Reply;
pub use crate::call::request::{Call, Credential};
pub use crate::call::retry::RetryPolicy;
pub use crate::call::timer::{Timer, TokioTimer};
pub use crate::call::transfer::{Download, Upload};
pub use crate::client::{HttpClient, HttpClientBuilder, Limits};
pub use crate::egress::address::AddressClass;
pub use crate::egress::endpoint::Endpoint;
pub use crate::egress::origin::{MAX_URL_BYTES, Origin};
pub use crate::egress::policy::EgressPolicy;
pub use crate::egress::resolve::{Resolver, SystemResolver};
pub use crate::keys::keyring::Keyring;
pub use crate::keys::options::{KeyOptions, KeyRef, Tenancy, scope_id};
pub use crate::keys::secret::{MAX_SECRET_BYTES, SecretSource};
pub use crate::keys::tenancy::{PLACEHOLDER, PatternOf, TenantPattern};
