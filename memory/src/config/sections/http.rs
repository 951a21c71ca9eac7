//! `[http]` of `memory.toml`.

use std::path::PathBuf;
use std::time::Duration;

use memory_core::{Error, Result};
use serde::Deserialize;

/// `[http]`: `memory serve --http`, and the tokens it accepts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpSection {
    /// The file of tokens, which replicas may share; relative to the folder of `memory.toml`. Default:
    /// `memory.tokens.jsonl` in it.
    pub tokens: Option<PathBuf>,
    /// Open connections: 1 to 100,000. Default: 1,024.
    pub max_connections: usize,
    /// Requests answered at a time: 1 to 10,000. Default: 256.
    pub max_in_flight: usize,
    /// Bytes of a request's body: 1 KiB to 1 GiB. Default: 32 MiB.
    pub max_body_bytes: usize,
    /// How long a client may take for the TLS handshake, or for the head of its next request, in milliseconds: 100 ms to
    /// ten minutes. Default: 15 seconds.
    pub header_timeout_ms: u64,
    /// How long a client may pause while it sends a body, in milliseconds: 100 ms to ten minutes. Default: 10 seconds.
    pub body_timeout_ms: u64,
    /// How long a request may take until its answer begins, in milliseconds: 100 ms to one hour. Default: 2 minutes.
    pub request_timeout_ms: u64,
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            tokens: None,
            max_connections: 1_024,
            max_in_flight: 256,
            max_body_bytes: 32 << 20,
            header_timeout_ms: 15_000,
            body_timeout_ms: 10_000,
            request_timeout_ms: 120_000,
        }
    }
}

impl HttpSection {
    /// `header_timeout_ms`.
    #[must_use]
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    /// `body_timeout_ms`.
    #[must_use]
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// `request_timeout_ms`.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub(in crate::config) fn check(&self) -> Result<()> {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        for (name, value, low, high) in [
            ("max_connections", count(self.max_connections), 1, 100_000),
            ("max_in_flight", count(self.max_in_flight), 1, 10_000),
            ("max_body_bytes", count(self.max_body_bytes), 1 << 10, 1 << 30),
            ("header_timeout_ms", self.header_timeout_ms, 100, 600_000),
            ("body_timeout_ms", self.body_timeout_ms, 100, 600_000),
            ("request_timeout_ms", self.request_timeout_ms, 100, 3_600_000),
        ] {
            if !(low..=high).contains(&value) {
                return Err(Error::invalid(format!("[http] {name} is {value}; it must be {low} to {high}")));
            }
        }
        if self.tokens.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
            return Err(Error::invalid("`tokens` under [http] is empty; name a file or leave it out"));
        }
        Ok(())
    }
}
