//! Calls to mem9.

use memory_core::{Error, Result, Secret};
use memory_http::service::{Connection, Owner, Request};
use memory_http::{Credential, Endpoint, HttpClient, Reply};

use crate::config::Mem9Options;
use crate::error;

/// Path of the memories.
pub(crate) const MEMORIES: [&str; 3] = ["v1alpha2", "mem9s", "memories"];
/// Prefix of a key for a chain of spaces.
const CHAIN: &str = "chain_";

/// The connection to one mem9.
#[derive(Clone, Debug)]
pub(crate) struct Client(Connection);

impl Client {
    pub(crate) fn new(options: &Mem9Options, http: HttpClient) -> Result<Self> {
        Connection::new(http, Endpoint::parse(&options.base_url)?, options.max_reply_bytes).map(Self)
    }

    /// Makes a call and returns its reply, whatever the status. Fails as [`HttpClient::exchange`] does;
    /// `invalid_argument` for a key of a chain of spaces.
    pub(crate) async fn exchange(&self, request: Request<'_>, key: Option<&Secret>) -> Result<Reply> {
        let credential = |key: &Secret| {
            check_key(key)?;
            Credential::header(self.0.origin().clone(), "x-api-key", "", key)
        };
        self.0.exchange(request, key.map(credential).transpose()?, None).await
    }
}

/// Calls about one owner, with the key of its tenant or run.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(crate) client: &'a Client,
    pub(crate) options: &'a Mem9Options,
    pub(crate) key: Secret,
    pub(crate) owner: Owner,
}

impl Session<'_> {
    /// Makes a call and returns its reply, whatever the status.
    pub(crate) async fn exchange(&self, request: Request<'_>) -> Result<Reply> {
        self.client.exchange(request, Some(&self.key)).await
    }

    /// Makes a call that must succeed.
    pub(crate) async fn request(&self, request: Request<'_>) -> Result<Reply> {
        let reply = self.exchange(request).await?;
        error::error_of(&reply).map_or(Ok(reply), Err)
    }
}

/// Refuses a key for a chain of spaces: it would show memories of other tenants.
pub(crate) fn check_key(key: &Secret) -> Result<()> {
    if key.expose().starts_with(CHAIN) {
        return Err(Error::invalid(
            "the key is for a chain of spaces, which would mix tenants' memories; use the key of a single space",
        ));
    }
    Ok(())
}
