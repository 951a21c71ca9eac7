//! Calls to mem9.

use std::fmt;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Result, Secret};
use memory_http::{Call, CallKind, Credential, Endpoint, HttpClient, Method, Reply};
use serde_json::Value;

use crate::config::Mem9Options;
use crate::error;

/// Where the memories are.
pub(crate) const MEMORIES: [&str; 3] = ["v1alpha2", "mem9s", "memories"];
/// What the key of a chain of spaces begins with.
const CHAIN: &str = "chain_";

/// One call, before it has a key.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    method: Method,
    path: &'a [&'a str],
    parameters: &'a [(&'a str, &'a str)],
    body: Option<Value>,
    kind: CallKind,
    timeout: Duration,
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

/// The connection to one mem9.
#[derive(Clone)]
pub(crate) struct Client {
    http: HttpClient,
    endpoint: Endpoint,
    max_reply_bytes: usize,
}

impl Client {
    pub(crate) fn new(options: &Mem9Options, http: HttpClient) -> Result<Self> {
        let endpoint = Endpoint::parse(&options.base_url)?;
        http.policy().check(&endpoint.url(&[], &[])?)?;
        Ok(Self { http, endpoint, max_reply_bytes: options.max_reply_bytes })
    }

    /// Makes a call, whatever status it ends with.
    ///
    /// # Errors
    /// As [`HttpClient::exchange`]; `invalid_argument` for the key of a chain of spaces.
    pub(crate) async fn exchange(&self, ask: Ask<'_>, key: Option<&Secret>) -> Result<Reply> {
        let url = self.endpoint.url(ask.path, ask.parameters)?;
        let mut call = Call::new(ask.method, &url)?
            .kind(ask.kind)
            .timeout(ask.timeout)
            .max_response_bytes(self.max_reply_bytes);
        if let Some(body) = &ask.body {
            call = call.json(body)?;
        }
        if let Some(key) = key {
            check_key(key)?;
            call =
                call.credential(Credential::header(self.endpoint.origin().clone(), "x-api-key", "", key)?)?;
        }
        self.http.exchange(call).await
    }

    /// Makes a call that must succeed.
    ///
    /// # Errors
    /// As [`Client::exchange`], and the typed error of the status.
    pub(crate) async fn request(&self, ask: Ask<'_>, key: &Secret) -> Result<Reply> {
        let reply = self.exchange(ask, Some(key)).await?;
        match error::error_of(&reply) {
            Some(error) => Err(error),
            None => Ok(reply),
        }
    }
}

/// Refuses a key that reads several spaces: what another tenant keeps in one of them would show.
///
/// # Errors
/// `invalid_argument`.
pub(crate) fn check_key(key: &Secret) -> Result<()> {
    if key.expose().starts_with(CHAIN) {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            "the key is of a chain of spaces, which would mix what is to be kept apart; use the key of one space",
        ));
    }
    Ok(())
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
