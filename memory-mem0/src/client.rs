//! Calls to mem0, with the right header, path and key for its flavour.

use std::fmt;
use std::time::Duration;

use memory_core::{Result, Secret};
use memory_http::{Call, CallKind, Credential, Endpoint, HttpClient, Method, Reply};
use serde_json::Value;

use crate::config::{Flavour, Mem0Options};
use crate::error;

/// One call, before it has a key.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a [&'a str],
    pub(crate) parameters: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<Value>,
    pub(crate) kind: CallKind,
    pub(crate) timeout: Duration,
}

impl<'a> Ask<'a> {
    /// A question: it changes nothing and may be repeated.
    pub(crate) fn of(method: Method, path: &'a [&'a str], timeout: Duration) -> Self {
        Self { method, path, parameters: &[], body: None, kind: CallKind::Safe, timeout }
    }

    pub(crate) fn with(mut self, parameters: &'a [(&'a str, &'a str)]) -> Self {
        self.parameters = parameters;
        self
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub(crate) fn kind(mut self, kind: CallKind) -> Self {
        self.kind = kind;
        self
    }
}

/// The connection to one mem0.
#[derive(Clone)]
pub(crate) struct Client {
    http: HttpClient,
    endpoint: Endpoint,
    pub(crate) flavour: Flavour,
    max_reply_bytes: usize,
}

impl Client {
    pub(crate) fn new(options: &Mem0Options, http: HttpClient) -> Result<Self> {
        let endpoint = options.endpoint()?;
        http.policy().check(&endpoint.url(&[], &[])?)?;
        Ok(Self { http, endpoint, flavour: options.flavour, max_reply_bytes: options.max_reply_bytes })
    }

    /// The header that carries a key.
    ///
    /// # Errors
    /// `invalid_argument` for a key that a header cannot carry.
    fn credential(&self, key: &Secret) -> Result<Credential> {
        let origin = self.endpoint.origin().clone();
        match self.flavour {
            Flavour::SelfHosted => Credential::header(origin, "x-api-key", "", key),
            Flavour::Platform => Credential::header(origin, "authorization", "Token ", key),
        }
    }

    /// Makes a call, whatever status it ends with.
    ///
    /// # Errors
    /// As [`HttpClient::exchange`].
    pub(crate) async fn exchange(&self, ask: Ask<'_>, key: Option<&Secret>) -> Result<Reply> {
        let url = self.endpoint.url(ask.path, ask.parameters)?;
        let judge: fn(&Reply) -> Option<bool> = match ask.kind {
            CallKind::NotIdempotent => error::add_repeats,
            _ => error::read_repeats,
        };
        let mut call = Call::new(ask.method, &url)?
            .kind(ask.kind)
            .judged_by(judge)
            .timeout(ask.timeout)
            .max_response_bytes(self.max_reply_bytes);
        if let Some(body) = &ask.body {
            call = call.json(body)?;
        }
        if let Some(key) = key {
            call = call.credential(self.credential(key)?)?;
        }
        self.http.exchange(call).await
    }

    /// Makes a call that must succeed.
    ///
    /// # Errors
    /// As [`Client::exchange`], and the typed error of the status.
    pub(crate) async fn request(&self, ask: Ask<'_>, key: &Secret) -> Result<Reply> {
        let reply = self.exchange(ask, Some(key)).await?;
        match self.error_of(&reply) {
            Some(error) => Err(error),
            None => Ok(reply),
        }
    }

    pub(crate) fn error_of(&self, reply: &Reply) -> Option<memory_core::Error> {
        error::error_of(reply, self.flavour)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("endpoint", &self.endpoint)
            .field("flavour", &self.flavour)
            .finish_non_exhaustive()
    }
}
