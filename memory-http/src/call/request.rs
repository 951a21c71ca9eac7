//! One call: [`Call`], and its credential.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use memory_core::{Error, ErrorKind, Result, Secret};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Serialize;
use url::Url;

use crate::call::kind::{CallKind, Method};
use crate::call::reply::Reply;
use crate::egress::origin::{self, Origin};

/// Most headers a call may set.
const MAX_HEADERS: usize = 64;
/// Longest name or value of a header set by a call, in bytes.
const MAX_HEADER_BYTES: usize = 8_192;

/// Headers that frame the message or carry credentials; both are set separately.
const RESERVED_HEADERS: &[&str] = &[
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-api-key",
];

/// A secret and the only origin it may be sent to.
///
/// A call to another origin that carries it is refused before connecting.
#[derive(Clone)]
pub struct Credential {
    origin: Origin,
    header: HeaderName,
    value: HeaderValue,
}

impl Credential {
    /// `Authorization: Bearer <secret>`.
    ///
    /// # Errors
    /// As [`Credential::header`].
    pub fn bearer(origin: Origin, secret: &Secret) -> Result<Self> {
        Self::header(origin, "authorization", "Bearer ", secret)
    }

    /// A header `name: <prefix><secret>`, as in `Authorization: Token …` or `X-API-Key: …`.
    ///
    /// # Errors
    /// `invalid_argument` if a header cannot carry the name, prefix or secret.
    pub fn header(origin: Origin, name: &str, prefix: &str, secret: &Secret) -> Result<Self> {
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            Error::invalid("the name of the credential's header is not a token of letters, digits and `-`")
        })?;
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", secret.expose())).map_err(|_| {
            Error::invalid("the credential holds a character that a header cannot carry; check its source")
        })?;
        value.set_sensitive(true);
        Ok(Self { origin, header, value })
    }

    /// The origin it may be sent to.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("origin", &format_args!("{}", self.origin))
            .field("header", &self.header.as_str())
            .field("value", &format_args!("…"))
            .finish()
    }
}

/// A call to make. `Debug` shows method, origin and sizes: no path, header value or body.
#[derive(Clone)]
pub struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) origin: Origin,
    pub(crate) kind: CallKind,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_response_bytes: Option<usize>,
    pub(crate) credential: Option<Credential>,
    pub(crate) judge: Option<fn(&Reply) -> Option<bool>>,
}

impl Call {
    /// A call without a body. `GET` is `Safe`, `PUT` and `DELETE` are `Idempotent`, the rest is not repeated;
    /// [`Call::kind`] overrides this.
    ///
    /// # Errors
    /// As [`Origin::of`].
    pub fn new(method: Method, url: &str) -> Result<Self> {
        let (url, origin) = origin::parse(url)?;
        let kind = match method {
            Method::Get => CallKind::Safe,
            Method::Put | Method::Delete => CallKind::Idempotent,
            Method::Post | Method::Patch => CallKind::NotIdempotent,
        };
        Ok(Self {
            method,
            url,
            origin,
            kind,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: None,
            max_response_bytes: None,
            credential: None,
            judge: None,
        })
    }

    memory_core::setters! {
        /// The effect of repeating the call.
        kind(kind: CallKind);
        /// Lets `judge` read a whole reply and decide whether to repeat the call, for services that say more than their
        /// status; `None` leaves it to the kind. A judged reply counts as a sign of health, whatever its status: the
        /// service answered about this one call.
        judged_by(judge: fn(&Reply) -> Option<bool> => Some(judge));
    }

    /// The judge's verdict on a reply.
    pub(crate) fn judged(&self, reply: &Reply) -> Option<bool> {
        self.judge.and_then(|judge| judge(reply))
    }

    /// Sends `body` as JSON and asks for JSON.
    ///
    /// # Errors
    /// `invalid_argument` if it does not serialise.
    pub fn json<T: Serialize + ?Sized>(mut self, body: &T) -> Result<Self> {
        let bytes = serde_json::to_vec(body)
            .map_err(|_| Error::invalid("the body of the call cannot be written as JSON"))?;
        self.body = Bytes::from(bytes);
        self.headers.insert(reqwest::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.headers.insert(reqwest::header::ACCEPT, HeaderValue::from_static("application/json"));
        Ok(self)
    }

    /// Sends `body` unchanged, with the media type `content_type`.
    ///
    /// # Errors
    /// As [`Call::header`].
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Result<Self> {
        self.body = body.into();
        self.header("content-type", content_type)
    }

    /// Sets a header. Credentials and framing are not set this way.
    ///
    /// # Errors
    /// `invalid_argument` for a reserved name, or a name or value that is malformed; `too_large` for
    /// more than 64 headers or 8 KiB in one.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self> {
        let longest = name.len().max(value.len());
        if longest > MAX_HEADER_BYTES {
            return Err(Error::too_large("header", longest, MAX_HEADER_BYTES, "bytes"));
        }
        if self.headers.len() >= MAX_HEADERS {
            return Err(Error::too_large(
                "headers of a call",
                self.headers.len().saturating_add(1),
                MAX_HEADERS,
                "headers",
            ));
        }
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| Error::invalid("a header's name is not a token of letters, digits and `-`"))?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(Error::invalid(format!(
                "the header `{name}` is not set by hand; credentials travel as `Credential`, framing is the client's"
            )));
        }
        let value = HeaderValue::from_str(value).map_err(|_| {
            Error::invalid(format!("the value of the header `{name}` holds a control character"))
        })?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Sends a credential. It must belong to the call's origin.
    ///
    /// # Errors
    /// `egress_denied` if it belongs to another origin.
    pub fn credential(mut self, credential: Credential) -> Result<Self> {
        if credential.origin != self.origin {
            return Err(Error::new(
                ErrorKind::EgressDenied,
                format!(
                    "the credential belongs to {} and is not sent to {}; give each origin its own",
                    credential.origin, self.origin
                ),
            ));
        }
        self.credential = Some(credential);
        Ok(self)
    }

    memory_core::setters! {
        /// The deadline over all attempts and the waits between them. Default: the client's.
        timeout(timeout: Duration => Some(timeout));
        /// The most bytes of a reply, after decompression. Default: the client's.
        max_response_bytes(max_response_bytes: usize => Some(max_response_bytes));
    }

    /// The origin of the call.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Every header to send, including the credential's.
    pub(crate) fn all_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        if let Some(credential) = &self.credential {
            headers.insert(credential.header.clone(), credential.value.clone());
        }
        headers
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("method", &self.method.as_str())
            .field("origin", &format_args!("{}", self.origin))
            .field("kind", &self.kind)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .field("credential", &self.credential)
            .finish_non_exhaustive()
    }
}
