//! Calls to mem0, with the header and key that the flavour requires.

use memory_core::{Error, Result, Secret};
use memory_http::service::{Connection, Owner, Request};
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

    /// Makes a call and returns its reply, whatever the status; `retries` decides which replies are retried.
    pub(crate) async fn exchange(
        &self,
        request: Request<'_>,
        key: Option<&Secret>,
        retries: fn(&Reply) -> Option<bool>,
    ) -> Result<Reply> {
        let credential = key.map(|key| self.credential(key)).transpose()?;
        self.connection.exchange(request, credential, Some(retries)).await
    }

    pub(crate) fn error_of(&self, reply: &Reply) -> Option<Error> {
        error::error_of(reply, self.flavour)
    }
}

/// Calls about one owner, with the key of its tenant or run.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(crate) client: &'a Client,
    pub(crate) options: &'a Mem0Options,
    pub(crate) key: Secret,
    pub(crate) owner: Owner,
}

impl Session<'_> {
    /// Makes a call and returns its reply, whatever the status.
    pub(crate) async fn exchange(&self, request: Request<'_>) -> Result<Reply> {
        self.client.exchange(request, Some(&self.key), error::retries).await
    }

    /// Makes a call that must succeed.
    pub(crate) async fn request(&self, request: Request<'_>) -> Result<Reply> {
        let reply = self.exchange(request).await?;
        self.client.error_of(&reply).map_or(Ok(reply), Err)
    }

    /// Chooses by the flavour.
    pub(crate) fn by_flavour<T>(&self, self_hosted: T, platform: T) -> T {
        match self.client.flavour {
            Flavour::SelfHosted => self_hosted,
            Flavour::Platform => platform,
        }
    }
}
