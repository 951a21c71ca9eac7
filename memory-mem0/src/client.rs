//! Calls to mem0, with the header and key that its flavour takes.

use memory_core::{Result, Secret};
use memory_http::service::{Connection, Request};
use memory_http::{Credential, HttpClient, Reply};

use crate::config::{Flavour, Mem0Options};
use crate::error;

/// The connection to one mem0.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    connection: Connection,
    pub(crate) flavour: Flavour,
}

impl Client {
    pub(crate) fn new(options: &Mem0Options, http: HttpClient) -> Result<Self> {
        let connection = Connection::new(http, options.endpoint()?, options.max_reply_bytes)?;
        Ok(Self { connection, flavour: options.flavour })
    }

    /// The header that carries a key.
    /// Fails with `invalid_argument` for a key with characters that a header cannot carry.
    fn credential(&self, key: &Secret) -> Result<Credential> {
        let origin = self.connection.origin().clone();
        match self.flavour {
            Flavour::SelfHosted => Credential::header(origin, "x-api-key", "", key),
            Flavour::Platform => Credential::header(origin, "authorization", "Token ", key),
        }
    }

    /// Makes a call and returns its reply, whatever the status.
    pub(crate) async fn exchange(&self, request: Request<'_>, key: Option<&Secret>) -> Result<Reply> {
        self.exchange_with(request, key, error::retries).await
    }

    /// As [`Client::exchange`]; `retries` decides which replies are retried.
    pub(crate) async fn exchange_with(
        &self,
        request: Request<'_>,
        key: Option<&Secret>,
        retries: fn(&Reply) -> Option<bool>,
    ) -> Result<Reply> {
        let credential = key.map(|key| self.credential(key)).transpose()?;
        self.connection.exchange(request, credential, Some(retries)).await
    }

    /// Makes a call that must succeed.
    /// Fails as [`Client::exchange`], and the typed error of a status other than 2xx.
    pub(crate) async fn request(&self, request: Request<'_>, key: &Secret) -> Result<Reply> {
        let reply = self.exchange(request, Some(key)).await?;
        self.error_of(&reply).map_or(Ok(reply), Err)
    }

    pub(crate) fn error_of(&self, reply: &Reply) -> Option<memory_core::Error> {
        error::error_of(reply, self.flavour)
    }
}
