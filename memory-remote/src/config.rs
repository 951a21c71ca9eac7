//! Options: [`RemoteOptions`].

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use memory_core::{Result, Secret};
use memory_http::service::{check_limits, default_long_timeout_ms, default_timeout_ms};
use memory_http::{Endpoint, KeyRef, SecretSource};
use serde::Deserialize;

/// How to reach a server, and its token.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Its address, without `/v1`.
    pub base_url: String,
    /// The environment variable with the token. Without a token, none is sent.
    pub api_key_env: Option<String>,
    /// The file with the token. Set at most one of these two.
    pub api_key_file: Option<PathBuf>,
    /// A PEM file with root certificates to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Deadline of a call that reads, repeats included, in milliseconds: 1 to 600,000. Default: 30,000.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// Deadline of a call that writes. Default: 120,000.
    #[serde(default = "default_long_timeout_ms")]
    pub write_timeout_ms: u64,
    /// Deadline of sending a stream, and for each item of one that is read. Default: 600,000.
    #[serde(default = "default_stream_timeout_ms")]
    pub stream_timeout_ms: u64,
    /// Largest reply, in bytes, streams apart: 1 KiB to 64 MiB. Default: 64 MiB.
    #[serde(default = "default_max_reply_bytes")]
    pub max_reply_bytes: usize,
    /// Sends the time of this side's clock with each request, as `Memory-Clock: MILLISECONDS`: for a suite that moves a
    /// clock of its own. A server that is not under test ignores it.
    #[serde(skip)]
    pub tell_clock: bool,
}

fn default_stream_timeout_ms() -> u64 {
    600_000
}

fn default_max_reply_bytes() -> usize {
    64 << 20
}

impl RemoteOptions {
    /// The server at `base_url`, without a token yet.
    #[must_use]
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key_env: None,
            api_key_file: None,
            ca_file: None,
            timeout_ms: default_timeout_ms(),
            write_timeout_ms: default_long_timeout_ms(),
            stream_timeout_ms: default_stream_timeout_ms(),
            max_reply_bytes: default_max_reply_bytes(),
            tell_clock: false,
        }
    }

    /// Checks the options without connecting.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field.
    pub fn check(&self) -> Result<()> {
        Endpoint::parse(&self.base_url)?;
        self.source()?;
        check_limits(
            &[
                ("timeout_ms", self.timeout_ms),
                ("write_timeout_ms", self.write_timeout_ms),
                ("stream_timeout_ms", self.stream_timeout_ms),
            ],
            self.max_reply_bytes,
        )
    }

    fn source(&self) -> Result<Option<SecretSource>> {
        KeyRef::named(self.api_key_env.as_deref(), self.api_key_file.as_deref())
            .map(|key| key.source())
            .transpose()
    }

    /// Reads the token.
    pub(crate) fn token(&self) -> Result<Option<Secret>> {
        self.source()?.map(|source| source.load()).transpose()
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(crate) fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    pub(crate) fn stream_timeout(&self) -> Duration {
        Duration::from_millis(self.stream_timeout_ms)
    }
}

/// Shows the origin, but no token.
impl fmt::Debug for RemoteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteOptions")
            .field("endpoint", &Endpoint::parse(&self.base_url).ok())
            .finish_non_exhaustive()
    }
}
