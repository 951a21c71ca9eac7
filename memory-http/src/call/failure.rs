//! An attempt without a usable reply: the cause, whether to retry, and the typed error.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use memory_core::{Error, ErrorKind, Retry};

use crate::call::kind::CallKind;
use crate::call::request::Call;
use crate::egress::policy;
use crate::egress::resolve::AddressRefused;

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// Whether a retry is safe.
    pub(crate) repeats: bool,
    /// Whether it counts against the origin's health.
    pub(crate) counts: bool,
}

impl Failure {
    /// Converts a transport error.
    pub(crate) fn of_transport(error: reqwest::Error, call: &Call) -> Self {
        // Its message would contain path and parameters.
        let error = error.without_url();
        let origin = &call.origin;
        if let Some(AddressRefused(class)) = find::<AddressRefused>(&error) {
            return Self { error: policy::refusal(origin, *class), repeats: false, counts: false };
        }
        if error.is_builder() {
            let error =
                Error::invalid("the call is not a valid HTTP request; check its URL").with_source(error);
            return Self { error, repeats: false, counts: false };
        }
        if error.is_connect() {
            if let Some(tls) = find::<rustls::Error>(&error) {
                return Self::tls(call, tls.clone());
            }
            // Nothing was sent, so even a call that must not happen twice can be retried.
            let failure = Self::unconnected(call, error.is_timeout());
            return Self { error: failure.error.with_source(error), ..failure };
        }
        // The transport reports any failure in a body as a decoding failure, even a broken connection.
        if error.is_decode() && !error.is_timeout() && !is_cut(&error) {
            return Self::unusable(call, "is not what its content encoding says", Some(error));
        }
        Self::lost(call, error.is_timeout(), Some(error))
    }

    /// No connection, so nothing was sent.
    pub(crate) fn unconnected(call: &Call, timed_out: bool) -> Self {
        let (kind, what) = if timed_out {
            (ErrorKind::Timeout, "no connection in time to")
        } else {
            (ErrorKind::Unavailable, "no connection to")
        };
        let origin = &call.origin;
        let error =
            Error::new(kind, format!("{what} {origin}; check that it runs and is reachable from here"));
        Self { error, repeats: true, counts: true }
    }

    /// The overall deadline passed during an attempt; `unsent`: before anything was sent.
    pub(crate) fn out_of_time(call: &Call, timeout: Duration, unsent: bool) -> Self {
        let failure = if unsent { Self::unconnected(call, true) } else { Self::lost(call, true, None) };
        let error =
            failure.error.with_detail("timeout_ms", u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        Self { error, repeats: false, counts: failure.counts }
    }

    /// No complete reply, although the request may have arrived.
    fn lost(call: &Call, timed_out: bool, source: Option<reqwest::Error>) -> Self {
        let origin = &call.origin;
        let error = match (call.kind, timed_out) {
            (CallKind::NotIdempotent, _) => Error::outcome_unknown(format!(
                "the reply of {origin} was lost and the call may have had its effect; \
                     read before calling again"
            )),
            (_, true) => {
                Error::timeout(format!("{origin} did not answer in time; try again, or raise the timeout"))
            }
            (_, false) => {
                Error::unavailable(format!("the reply of {origin} ended before it was whole; try again"))
            }
        };
        let error = match source {
            Some(source) => error.with_source(source),
            None => error,
        };
        Self { error, repeats: call.kind != CallKind::NotIdempotent, counts: true }
    }

    /// A successful reply that cannot be used.
    fn unusable(call: &Call, what: &str, source: Option<reqwest::Error>) -> Self {
        let origin = &call.origin;
        let error = if call.kind == CallKind::NotIdempotent {
            Error::outcome_unknown(format!(
                "{origin} took the call, but its reply {what}; read before calling again"
            ))
        } else {
            Error::unavailable(format!(
                "the reply of {origin} {what}; check the server and any proxy in between"
            ))
        };
        let error = match source {
            Some(source) => error.with_source(source),
            None => error,
        };
        Self { error, repeats: false, counts: false }
    }

    /// A reply in an unsupported encoding that was not requested.
    pub(crate) fn unread_encoding(call: &Call) -> Self {
        Self::unusable(call, "has a content encoding that was not requested", None)
    }

    /// A reply over the cap.
    pub(crate) fn too_large(call: &Call, at_least: usize, limit: usize) -> Self {
        // If the call changes something, asking for less would not help.
        if call.kind != CallKind::Safe {
            return Self::unusable(call, "is larger than allowed", None);
        }
        let error = Error::new(
            ErrorKind::TooLarge,
            format!(
                "the reply of {} has more than the {limit} bytes allowed; request less at a time",
                call.origin
            ),
        )
        .with_detail("what", "reply")
        .with_detail("limit", limit)
        .with_detail("actual", at_least)
        .with_detail("unit", "bytes");
        Self { error, repeats: false, counts: false }
    }

    fn tls(call: &Call, tls: rustls::Error) -> Self {
        let origin = &call.origin;
        let (message, advice) = match tls {
            // What `openssl req -x509` makes unless it is told otherwise.
            rustls::Error::InvalidCertificate(ref why)
                if format!("{why:?}").contains("CaUsedAsEndEntity") =>
            {
                (
                    format!(
                        "the certificate of {origin} is that of an authority, which no server may show; make one with \
                     basicConstraints=CA:FALSE for the server"
                    ),
                    Retry::Never,
                )
            }
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => (
                format!(
                    "the certificate of {origin} is not trusted; install the system's CA certificates, \
                     or give the client the root that signed it"
                ),
                Retry::Never,
            ),
            _ => (
                format!("no TLS connection to {origin}; check that it speaks TLS 1.2 or 1.3 on this port"),
                Retry::Never,
            ),
        };
        let error = Error::unavailable(message).with_retry(advice).with_source(tls);
        Self { error, repeats: false, counts: true }
    }
}

/// Whether a body ended early: its connection broke, or compressed data is incomplete.
fn is_cut(error: &reqwest::Error) -> bool {
    let Some(source) = error.source() else { return false };
    find::<reqwest::Error>(source).is_some_and(reqwest::Error::is_body)
        || find::<io::Error>(source).is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
}

/// The error of type `T` in a chain, including inside I/O errors, which hide what they wrap.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(wrapped) = wrapped {
            let wrapped: &(dyn StdError + 'static) = wrapped;
            if let Some(found) = find(wrapped) {
                return Some(found);
            }
        }
        next = error.source();
    }
    None
}
