//! Common options of services, and their client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{Clock, Error, Health, HealthStatus, IdGen, Result};

use crate::client::{HttpClient, Limits};
use crate::egress::policy::EgressPolicy;

/// Default deadline of a call, in milliseconds.
#[must_use]
pub fn default_timeout_ms() -> u64 {
    30_000
}

/// Default deadline of `add`, `forget` and the end of a run, in milliseconds.
#[must_use]
pub fn default_long_timeout_ms() -> u64 {
    120_000
}

/// Default size limit of a reply, in bytes.
#[must_use]
pub fn default_max_reply_bytes() -> usize {
    16 << 20
}

/// Longest deadline that may be configured, in milliseconds.
const MAX_TIMEOUT_MS: u64 = 600_000;
/// Largest reply that may be configured, in bytes.
const MAX_REPLY_BYTES: usize = 64 << 20;

/// Checks deadlines, each with the name of its option, and the cap on replies.
///
/// # Errors
/// `invalid_argument`, naming the option.
pub fn check_limits(deadlines_ms: &[(&str, u64)], max_reply_bytes: usize) -> Result<()> {
    for (option, millis) in deadlines_ms {
        if !(1..=MAX_TIMEOUT_MS).contains(millis) {
            return Err(Error::invalid(format!("`{option}` must be 1 to {MAX_TIMEOUT_MS}, not {millis}")));
        }
    }
    if !(1_024..=MAX_REPLY_BYTES).contains(&max_reply_bytes) {
        return Err(Error::invalid(format!("`max_reply_bytes` must be 1,024 to {MAX_REPLY_BYTES}")));
    }
    Ok(())
}

/// A client that waits in silence for as long as the longest call may take: services say nothing until their language
/// model has answered, or everything is deleted.
///
/// # Errors
/// As [`HttpClientBuilder::trust_file`](crate::HttpClientBuilder::trust_file) and
/// [`HttpClientBuilder::build`](crate::HttpClientBuilder::build).
pub fn client(
    policy: EgressPolicy,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdGen>,
    longest_call: Duration,
    ca_file: Option<&Path>,
) -> Result<HttpClient> {
    let limits = Limits { idle_timeout: longest_call, ..Limits::default() };
    HttpClient::builder(policy, clock, ids).limits(limits).trust_file(ca_file)?.build()
}

/// The health according to the result of a request.
#[must_use]
pub fn health(asked: Result<&'static str>) -> Health {
    match asked {
        Ok(message) => Health::new(HealthStatus::Ok, message),
        Err(error) => Health::new(HealthStatus::Down, error.message().to_owned()),
    }
}
