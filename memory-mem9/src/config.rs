//! Options: [`Mem9Options`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use memory_core::{Error, Result};
use memory_http::service::{
    check_limits, default_long_timeout_ms, default_max_reply_bytes, default_timeout_ms,
};
use memory_http::{Endpoint, KeyOptions, KeyRef, Tenancy};
use serde::Deserialize;

/// Base URL of mem9's hosted service.
pub const MEM9_BASE_URL: &str = "https://api.mem9.ai";

/// Longest id, in bytes. mem9 silently drops messages with a longer one.
const MAX_ID_BYTES: usize = 100;

/// How mem9 ranks the facts it finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ranking {
    /// By confidence, a similarity. Leaves out facts below 65 of 100, and needs an embedder on the server.
    #[default]
    Confidence,
    /// By plain hybrid search. Finds more and works without an embedder, but its scores are only ranks. Thresholds are
    /// refused.
    Plain,
}

/// How to reach a mem9, and its keys.
///
/// ```
/// let mut options = memory_mem9::Mem9Options::new(memory_mem9::MEM9_BASE_URL);
/// options.tenant_keys.insert("acme".into(), memory_http::KeyRef::env("ACME_MEM9_KEY"));
/// assert!(options.check().unwrap_err().message().contains("preview"));
/// options.preview = true;
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Mem9Options {
    /// Accepts that the API is a preview and may change. Must be true.
    #[serde(default)]
    pub preview: bool,
    /// Its address. Default: [`MEM9_BASE_URL`].
    #[serde(default = "default_base_url")]
    pub base_url: String,
    /// How tenants share it. Default: one key, and so one space, per tenant.
    #[serde(default = "default_tenancy")]
    pub tenancy: Tenancy,
    /// With `tenancy = "shared_key"`: the environment variable with the key of all tenants.
    pub api_key_env: Option<String>,
    /// The file with the key of all tenants. Set at most one of these two.
    pub api_key_file: Option<PathBuf>,
    /// Where each tenant's key is.
    #[serde(default)]
    pub tenant_keys: BTreeMap<String, KeyRef>,
    /// With `tenancy = "key_per_tenant"`: the environment variables with the keys of all other tenants, such as
    /// `MEM9_KEY_{tenant}`; see [`memory_http::TenantPattern`].
    pub tenant_key_env: Option<String>,
    /// The files with these keys, such as `/run/secrets/{tenant}.key`. Set at most one of these two.
    pub tenant_key_file: Option<PathBuf>,
    /// With `tenancy = "shared_key_with_prefix"`: the prefix of every id of a tenant, such as `acme-{tenant}.`.
    pub prefix: Option<String>,
    /// The name under which a run may bring its own key.
    pub run_credential: Option<String>,
    /// Whether `add` waits until mem9 has processed the messages. Default: true. Otherwise its outcome is never reported.
    #[serde(default = "default_sync")]
    pub sync: bool,
    /// How it ranks the facts it finds.
    #[serde(default)]
    pub ranking: Ranking,
    /// A PEM file with root certificates to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Deadline of one call except `add`, retries included, in milliseconds: 1 to 600,000. Default: 30,000.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// Deadline of one `add`, which can take mem9 up to nine minutes. Default: 120,000.
    #[serde(default = "default_long_timeout_ms")]
    pub add_timeout_ms: u64,
    /// Deadline of `forget` and of the end of a run, which take several calls. Default: 120,000.
    #[serde(default = "default_long_timeout_ms")]
    pub forget_timeout_ms: u64,
    /// Largest reply, in bytes: 1 KiB to 64 MiB. Default: 16 MiB.
    #[serde(default = "default_max_reply_bytes")]
    pub max_reply_bytes: usize,
}

fn default_base_url() -> String {
    MEM9_BASE_URL.to_owned()
}

fn default_tenancy() -> Tenancy {
    Tenancy::KeyPerTenant
}

fn default_sync() -> bool {
    true
}

impl Mem9Options {
    /// A mem9 at `base_url`, without a key and with `preview` still false.
    #[must_use]
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            preview: false,
            base_url: base_url.into(),
            tenancy: default_tenancy(),
            api_key_env: None,
            api_key_file: None,
            tenant_keys: BTreeMap::new(),
            tenant_key_env: None,
            tenant_key_file: None,
            prefix: None,
            run_credential: None,
            sync: default_sync(),
            ranking: Ranking::default(),
            ca_file: None,
            timeout_ms: default_timeout_ms(),
            add_timeout_ms: default_long_timeout_ms(),
            forget_timeout_ms: default_long_timeout_ms(),
            max_reply_bytes: default_max_reply_bytes(),
        }
    }

    /// Checks the options without connecting.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field.
    pub fn check(&self) -> Result<()> {
        if !self.preview {
            return Err(Error::invalid(
                "mem9's API v1alpha2 is a preview: it may change, it may lose messages that it accepted, and its replies \
                 say little about the outcome; set `preview = true` to use it anyway",
            ));
        }
        Endpoint::parse(&self.base_url)?;
        self.keys().check()?;
        check_limits(
            &[
                ("timeout_ms", self.timeout_ms),
                ("add_timeout_ms", self.add_timeout_ms),
                ("forget_timeout_ms", self.forget_timeout_ms),
            ],
            self.max_reply_bytes,
        )
    }

    /// Where its keys are.
    pub(crate) fn keys(&self) -> KeyOptions {
        let mut keys = KeyOptions::new(self.tenancy);
        keys.shared = KeyRef::named(self.api_key_env.as_deref(), self.api_key_file.as_deref());
        keys.tenants = self.tenant_keys.clone();
        keys.tenant_pattern = KeyRef::named(self.tenant_key_env.as_deref(), self.tenant_key_file.as_deref());
        keys.prefix.clone_from(&self.prefix);
        keys.max_id_bytes = Some(MAX_ID_BYTES);
        keys.run_credential.clone_from(&self.run_credential);
        keys
    }

    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    pub(crate) fn add_timeout(&self) -> Duration {
        Duration::from_millis(self.add_timeout_ms)
    }

    pub(crate) fn forget_timeout(&self) -> Duration {
        Duration::from_millis(self.forget_timeout_ms)
    }
}

/// Shows tenancy and origin, but no keys.
impl fmt::Debug for Mem9Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mem9Options")
            .field("preview", &self.preview)
            .field("endpoint", &Endpoint::parse(&self.base_url).ok())
            .field("tenancy", &self.tenancy)
            .finish_non_exhaustive()
    }
}
