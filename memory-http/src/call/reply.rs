//! The reply: [`Reply`], and the meaning of its status.

use std::fmt;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Result, Retry};
use reqwest::header::HeaderMap;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::call::kind::CallKind;
use crate::egress::origin::Origin;

/// A complete reply, decompressed and within the cap. `Debug` shows no header and no body.
#[derive(Clone)]
pub struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) origin: Origin,
    pub(crate) kind: CallKind,
    /// The value of `Retry-After` as a duration.
    pub(crate) retry_after: Option<Duration>,
}

impl Reply {
    /// The status code.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// How long `Retry-After` asks to wait, if present.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether it calls for another attempt.
    pub(crate) fn repeats(&self) -> bool {
        self.kind.repeats(self.status)
            || self.kind == CallKind::Safe && self.is_success() && self.ends_early()
    }

    /// Whether the body starts as JSON but is incomplete.
    fn ends_early(&self) -> bool {
        let begins = self.body.iter().find(|byte| !byte.is_ascii_whitespace());
        matches!(begins, Some(b'{' | b'['))
            && serde_json::from_slice::<IgnoredAny>(&self.body).is_err_and(|error| error.is_eof())
    }

    /// The first value of a header, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// `unavailable` for an HTML page, invalid JSON, or an unexpected shape. The message names the place of the error
    /// and quotes nothing.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            if let Some(error) = self.page_error() {
                return error;
            }
            let what = match error.classify() {
                serde_json::error::Category::Data => "JSON of an unexpected shape",
                serde_json::error::Category::Eof => "JSON that ends early",
                _ => "something that is not JSON",
            };
            Error::unavailable(format!(
                "{} answered with {what} (line {}, column {}); check the base URL and the server's version",
                self.origin,
                error.line(),
                error.column()
            ))
            .with_detail("status", self.status)
        })
    }

    /// As [`Reply::json`], for stored data: an invalid reply is `corrupt`, and retrying does not help.
    ///
    /// # Errors
    /// `unavailable` for an HTML page, otherwise `corrupt`.
    pub fn trusted_json<T: DeserializeOwned>(&self) -> Result<T> {
        self.json().map_err(|error| match self.page_error() {
            Some(page) => page,
            None => Error::corrupt(format!("a reply is invalid: {}", error.message()))
                .with_detail("status", self.status)
                .with_source(error),
        })
    }

    /// `unavailable` if this is an HTML page, as served by login forms and proxies; `None` otherwise.
    #[must_use]
    pub fn page_error(&self) -> Option<Error> {
        self.is_page().then(|| {
            Error::unavailable(format!(
                "{} answered with an HTML page where JSON was expected; check the base URL, \
                     and for a login page or proxy in between",
                self.origin
            ))
            .with_detail("status", self.status)
            .with_retry(Retry::Never)
        })
    }

    /// Whether this is HTML, by its content type or first character.
    fn is_page(&self) -> bool {
        let typed = self.header("content-type").is_some_and(|kind| {
            let kind = kind.trim_start().to_ascii_lowercase();
            kind.starts_with("text/html") || kind.starts_with("application/xhtml")
        });
        typed || self.body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'<')
    }

    /// The typed error of a status other than 2xx.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        (!self.is_success()).then(|| self.status_error())
    }

    fn status_error(&self) -> Error {
        let status = self.status;
        let unknown = self.kind == CallKind::NotIdempotent;
        let (kind, advice) = match status {
            100..=299 => (ErrorKind::Unavailable, "which does not complete a call"),
            300..=399 => (
                ErrorKind::EgressDenied,
                "a redirect, which is not followed; configure its target if it is the right address",
            ),
            401 | 407 => (ErrorKind::Unauthenticated, "check the credential and where it is read from"),
            402 => (ErrorKind::QuotaExceeded, "the account has no quota left"),
            403 => (ErrorKind::Forbidden, "the credential does not allow this"),
            404 | 410 => (ErrorKind::NotFound, "check the base URL and the requested name"),
            408 => (ErrorKind::Timeout, "it waited too long for the request"),
            409 | 412 => (ErrorKind::Conflict, "read again and decide again"),
            413 | 414 | 431 => (ErrorKind::TooLarge, "send less at a time"),
            425 | 429 => (ErrorKind::RateLimited, "call less often"),
            400..=499 => (ErrorKind::InvalidArgument, "the request is not what it expects"),
            501 | 505 => (ErrorKind::Unsupported, "it does not serve this"),
            500.. if unknown => {
                (ErrorKind::OutcomeUnknown, "and the call may have had its effect; read before calling again")
            }
            503 => (ErrorKind::Unavailable, "it is overloaded or down for now"),
            504 => (ErrorKind::Timeout, "what stands behind it did not answer in time"),
            _ => (ErrorKind::Unavailable, "it failed on its side"),
        };
        let mut error = Error::new(kind, format!("{} answered with status {status}: {advice}", self.origin))
            .with_detail("status", status);
        if let Some(location) = self.redirects_to() {
            error = error.with_detail("redirects_to", location);
        }
        match self.retry_after {
            // The same call would fail again.
            _ if kind == ErrorKind::Conflict => error.with_retry(Retry::Never),
            Some(after) if error.retry().is_retryable() => error.with_retry(Retry::After(after)),
            _ => error,
        }
    }

    /// The origin of a redirect's target, without path and parameters.
    fn redirects_to(&self) -> Option<String> {
        if !(300..400).contains(&self.status) {
            return None;
        }
        Origin::of(self.header("location")?).ok().map(|origin| origin.to_string())
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("status", &self.status)
            .field("origin", &format_args!("{}", self.origin))
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}
