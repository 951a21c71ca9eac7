//! The provider: what it serves, and whether it can be served now.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{
    Capabilities, Clock, Consistency, EmbeddingOwner, Health, IdGen, MemoryLayer, Provider, Result, ScopeId,
    TenantId,
};
use memory_http::service::{self, Request};
use memory_http::{EgressPolicy, HttpClient, Keyring, Method, Reply};

use crate::client::Client;
use crate::config::{Flavour, Mem0Options};
use crate::error;

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
        let ask = async |request, key| self.client.exchange(request, key, error::retries).await;
        let accepted = |reply: Reply| self.client.error_of(&reply).map_or(Ok(()), Err);
        if self.client.flavour == Flavour::SelfHosted {
            accepted(ask(Request::new(Method::Get, &["auth", "setup-status"], timeout), None).await?)?;
            if key.is_some() {
                // Listing the memories of a user that does not exist tests the key without reading anything.
                let parameters = [("user_id", "m1.health"), ("top_k", "1")];
                let listing = Request::new(Method::Get, &["memories"], timeout).parameters(&parameters);
                accepted(ask(listing, key).await?)?;
            }
        } else {
            let reply = ask(Request::new(Method::Get, &["v1", "ping", ""], timeout), key).await?;
            // Without a key, a refusal shows that the server answers.
            if key.is_some() || reply.status() >= 500 {
                accepted(reply)?;
            }
        }
        Ok(if key.is_some() { "reachable, and accepts the key" } else { "reachable; runs bring their keys" })
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
        let deadline = self.options.forget_timeout();
        service::end_run(&self.keys, tenant, root_run, deadline, |key, owner| self.session_of(key, owner))
            .await
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
