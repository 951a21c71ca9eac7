//! The provider: what it serves, and whether it can be served now.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Capabilities, Clock, Consistency, EmbeddingOwner, Error, Health, IdGen, MemoryLayer, Provider, Result,
    ScopeId, TenantId,
};
use memory_http::service::{self, Request};
use memory_http::{EgressPolicy, HttpClient, Keyring, Method};
use serde::Deserialize;

use crate::client::{Client, check_key};
use crate::config::{Mem9Options, Ranking};
use crate::error;
use crate::listing::MOST;

/// A mem9 as a conversational layer.
///
/// # Behavior
/// - A scope is one `agent_id` at mem9, [`agent_id`](crate::agent_id), in the space of its tenant's key. A reply
///   that contains another agent's memory is rejected as `corrupt`. Sessions do not isolate memories.
/// - `add` is retried only if it cannot have arrived. It returns no facts. If the server does not wait
///   (`sync = false`), an add may be lost without an error.
/// - Verbatim messages and metadata are refused, because mem9 drops both from an agent's memories.
/// - Key/value, vectors and SQL are not served.
pub struct Mem9Provider {
    pub(crate) client: Client,
    pub(crate) keys: Keyring,
    pub(crate) options: Mem9Options,
}

impl Mem9Provider {
    /// Reads the keys and creates an HTTP client under `policy`. Does not connect.
    ///
    /// # Errors
    /// `invalid_argument` for options out of range, without `preview`, and for a key of a chain of spaces;
    /// `egress_denied` if the policy does not allow the base URL; `unauthenticated` if a key is missing.
    pub fn open(
        options: Mem9Options,
        policy: EgressPolicy,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
    ) -> Result<Self> {
        options.check()?;
        let longest_call = options.add_timeout().max(options.forget_timeout());
        let http = service::client(policy, clock, ids, longest_call, options.ca_file.as_deref())?;
        Self::with_client(options, http)
    }

    /// As [`Mem9Provider::open`], with a client that can be shared.
    ///
    /// # Errors
    /// As [`Mem9Provider::open`].
    pub fn with_client(options: Mem9Options, http: HttpClient) -> Result<Self> {
        options.check()?;
        let client = Client::new(&options, http)?;
        let keys = Keyring::load(&options.keys())?;
        keys.configured().try_for_each(check_key)?;
        Ok(Self { client, keys, options })
    }

    /// Asks whether the server answers and knows a configured key.
    async fn ask_health(&self) -> Result<&'static str> {
        let timeout = self.options.timeout();
        let reply = self.client.exchange(Request::new(Method::Get, &["healthz"], timeout), None).await?;
        error::error_of(&reply).map_or(Ok(()), Err)?;
        let Some(key) = self.keys.configured().next() else {
            return Ok("reachable; runs bring their keys");
        };
        let reply = self
            .client
            .exchange(Request::new(Method::Get, &["v1alpha2", "status"], timeout), Some(key))
            .await?;
        let refused = |what: &'static str| Err(Error::unauthenticated(what));
        match reply.status() {
            401 | 404 => {
                return refused(
                    "mem9 does not know the key; check the environment variable or file that it is read from",
                );
            }
            _ => error::error_of(&reply).map_or(Ok(()), Err)?,
        }
        let space: Space = reply.trusted_json()?;
        match space.status.as_str() {
            "active" => Ok("reachable, and the space is active"),
            _ => refused("the space of the key is suspended"),
        }
    }
}

#[derive(Deserialize)]
struct Space {
    status: String,
}

#[async_trait]
impl Provider for Mem9Provider {
    fn name(&self) -> &str {
        "mem9"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        capabilities.memory_layer = true;
        capabilities.layer_sync = self.options.sync;
        capabilities.layer_forget = true;
        capabilities.layer_threshold = self.options.ranking == Ranking::Confidence;
        capabilities.embedding = EmbeddingOwner::Remote;
        capabilities.consistency =
            if self.options.sync { Consistency::ReadYourWrites } else { Consistency::Eventual };
        capabilities.max_top_k = MOST;
        capabilities
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        Some(self)
    }

    async fn health(&self) -> Result<Health> {
        Ok(service::health(self.ask_health().await))
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        let deadline = self.options.forget_timeout();
        service::end_run(&self.keys, tenant, root_run, deadline, |key, owner| self.session_of(key, owner))
            .await
    }
}

impl fmt::Debug for Mem9Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mem9Provider")
            .field("client", &self.client)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
