//! The provider: what is served, and whether it can be served now.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::layer::Forget;
use memory_core::{
    Capabilities, Clock, Consistency, EmbeddingOwner, ErrorKind, Health, IdGen, MemoryLayer, Provider,
    Result, Scope, ScopeId, ScopeKind, TenantId,
};
use memory_http::service::{self, Request};
use memory_http::{EgressPolicy, HttpClient, Keyring, Method};

use crate::client::Client;
use crate::config::{Flavour, Mem0Options};
use crate::owner::SERVICE;

/// A mem0, self-hosted or the Platform, as a conversational layer.
///
/// # Behavior
/// - A scope is one `user_id` at mem0, [`remote_id`](crate::remote_id). No other id, filter or wildcard is ever
///   sent. A reply that contains another user's memory is rejected as `corrupt`.
/// - `add` is retried only if it cannot have arrived or cannot have stored anything. If the outcome is not known, it
///   is `Unknown`.
/// - Scores are ranks: mem0 averages cosine, BM25 and entity scores, and how many of them varies between answers.
///   mem0 applies the threshold to the cosine, so it is not applied again here.
/// - Key/value, vectors and SQL are not served.
pub struct Mem0Provider {
    pub(crate) client: Client,
    pub(crate) keys: Keyring,
    pub(crate) options: Mem0Options,
}

impl Mem0Provider {
    /// Reads the keys and creates an HTTP client under `policy`. Does not connect.
    ///
    /// # Errors
    /// `invalid_argument` for options out of range; `egress_denied` if the policy does not allow the base URL;
    /// `unauthenticated` if a key is missing.
    pub fn open(
        options: Mem0Options,
        policy: EgressPolicy,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdGen>,
    ) -> Result<Self> {
        options.check()?;
        let longest_call = options.add_timeout().max(options.forget_timeout());
        let http = service::client(policy, clock, ids, longest_call, options.ca_file.as_deref())?;
        Self::with_client(options, http)
    }

    /// As [`Mem0Provider::open`], with a client that can be shared.
    ///
    /// # Errors
    /// As [`Mem0Provider::open`].
    pub fn with_client(options: Mem0Options, http: HttpClient) -> Result<Self> {
        options.check()?;
        let client = Client::new(&options, http)?;
        Ok(Self { client, keys: Keyring::load(&options.keys())?, options })
    }

    /// Asks whether the server answers and accepts a configured key.
    async fn ask_health(&self) -> Result<&'static str> {
        let (key, timeout) = (self.keys.configured().next(), self.options.timeout());
        match (self.client.flavour, key) {
            (Flavour::SelfHosted, key) => {
                let alive = Request::new(Method::Get, &["auth", "setup-status"], timeout);
                let reply = self.client.exchange(alive, None).await?;
                self.client.error_of(&reply).map_or(Ok(()), Err)?;
                let Some(key) = key else { return Ok("reachable; runs bring their keys") };
                // Listing the memories of a user that does not exist tests the key without reading anything.
                let parameters = [("user_id", "m1.health"), ("top_k", "1")];
                self.client
                    .request(Request::new(Method::Get, &["memories"], timeout).parameters(&parameters), key)
                    .await?;
            }
            (Flavour::Platform, Some(key)) => {
                self.client.request(Request::new(Method::Get, &["v1", "ping", ""], timeout), key).await?;
            }
            (Flavour::Platform, None) => {
                let reply = self
                    .client
                    .exchange(Request::new(Method::Get, &["v1", "ping", ""], timeout), None)
                    .await?;
                if reply.status() >= 500 {
                    self.client.error_of(&reply).map_or(Ok(()), Err)?;
                }
                return Ok("reachable; runs bring their keys");
            }
        }
        Ok("reachable, and accepts the key")
    }
}

#[async_trait]
impl Provider for Mem0Provider {
    fn name(&self) -> &str {
        "mem0"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        capabilities.memory_layer = true;
        capabilities.layer_sync = self.options.flavour == Flavour::SelfHosted;
        capabilities.layer_events = self.options.flavour == Flavour::Platform;
        capabilities.layer_forget = true;
        capabilities.layer_verbatim = true;
        capabilities.layer_metadata = true;
        capabilities.layer_threshold = true;
        capabilities.layer_ids = true;
        capabilities.embedding = EmbeddingOwner::Remote;
        capabilities.consistency = match self.options.flavour {
            Flavour::SelfHosted => Consistency::ReadYourWrites,
            Flavour::Platform => Consistency::Eventual,
        };
        capabilities
    }

    fn layer(&self) -> Option<&dyn MemoryLayer> {
        Some(self)
    }

    async fn health(&self) -> Result<Health> {
        Ok(service::health(self.ask_health().await))
    }

    async fn end_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Result<()> {
        let scope = Scope::new(tenant.clone(), ScopeKind::Run, root_run.clone());
        let Some(key) = self.keys.of_ended_run(tenant, root_run) else { return Ok(()) };
        self.forget_within(&key, &SERVICE.owner(&self.keys, &scope)?, Forget::All).await.map_err(
            |error| match error.kind() {
                ErrorKind::OutcomeUnknown => error.with_retry(memory_core::Retry::Now),
                _ => error,
            },
        )?;
        self.keys.forget_run(tenant, root_run);
        Ok(())
    }
}

impl fmt::Debug for Mem0Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mem0Provider")
            .field("client", &self.client)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}
