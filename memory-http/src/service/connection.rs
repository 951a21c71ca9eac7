//! Calls to one service.

use std::time::Duration;

use memory_core::Result;
use serde_json::Value;

use crate::call::kind::{CallKind, Method};
use crate::call::reply::Reply;
use crate::call::request::{Call, Credential};
use crate::client::HttpClient;
use crate::egress::endpoint::Endpoint;
use crate::egress::origin::Origin;

/// One call, without its key.
#[derive(Debug)]
pub struct Request<'a> {
    method: Method,
    path: &'a [&'a str],
    parameters: &'a [(&'a str, &'a str)],
    body: Option<Value>,
    kind: CallKind,
    timeout: Duration,
}

impl<'a> Request<'a> {
    /// A read-only request, which may be repeated.
    #[must_use]
    pub fn new(method: Method, path: &'a [&'a str], timeout: Duration) -> Self {
        Self { method, path, parameters: &[], body: None, kind: CallKind::Safe, timeout }
    }

    memory_core::setters! {
        /// Those of the URL.
        parameters(parameters: &'a [(&'a str, &'a str)]);
        body(body: Value => Some(body));
        /// The effect of repeating the request.
        kind(kind: CallKind);
    }
}

/// The connection to one service.
#[derive(Clone, Debug)]
pub struct Connection {
    http: HttpClient,
    endpoint: Endpoint,
    max_reply_bytes: usize,
}

impl Connection {
    /// # Errors
    /// `egress_denied` if the client's policy does not allow the endpoint.
    pub fn new(http: HttpClient, endpoint: Endpoint, max_reply_bytes: usize) -> Result<Self> {
        http.policy().check(&endpoint.url(&[], &[])?)?;
        Ok(Self { http, endpoint, max_reply_bytes })
    }

    /// The origin that keys may be sent to.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        self.endpoint.origin()
    }

    /// Makes a call and returns the reply whatever its status. `judge` decides whether to repeat it, as in
    /// [`Call::judged_by`].
    ///
    /// # Errors
    /// As [`HttpClient::exchange`].
    pub async fn exchange(
        &self,
        request: Request<'_>,
        credential: Option<Credential>,
        judge: Option<fn(&Reply) -> Option<bool>>,
    ) -> Result<Reply> {
        let url = self.endpoint.url(request.path, request.parameters)?;
        let mut call = Call::new(request.method, &url)?
            .kind(request.kind)
            .timeout(request.timeout)
            .max_response_bytes(self.max_reply_bytes);
        if let Some(judge) = judge {
            call = call.judged_by(judge);
        }
        if let Some(body) = &request.body {
            call = call.json(body)?;
        }
        if let Some(credential) = credential {
            call = call.credential(credential)?;
        }
        self.http.exchange(call).await
    }
}
