//! Options: [`Mem0Options`].

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

/// Base URL of mem0's hosted Platform.
pub const PLATFORM_BASE_URL: &str = "https://api.mem0.ai";

/// Longest id, in bytes. mem0's databases may truncate longer ones.
const MAX_ID_BYTES: usize = 255;

/// Which mem0: the two have different paths, headers and replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Flavour {
    /// The REST server of the open-source package: `X-API-Key`; answers when the work is done.
    SelfHosted,
    /// The hosted Platform, v3: `Authorization: Token`; answers with an event.
    Platform,
}

/// How to reach a mem0, and its keys.
///
/// ```
/// let mut options = memory_mem0::Mem0Options::platform();
/// options.api_key_env = Some("MEM0_API_KEY".into());
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Mem0Options {
    /// Which mem0.
    pub flavour: Flavour,
    /// Its address. Default for the Platform: [`PLATFORM_BASE_URL`]. Required for a self-hosted server.
    pub base_url: Option<String>,
    /// How tenants share it. Default: one key for all tenants, separated by ids.
    #[serde(default = "default_tenancy")]
    pub tenancy: Tenancy,
    /// The environment variable with the key of all tenants.
    pub api_key_env: Option<String>,
    /// The file with the key of all tenants. Set at most one of these two.
    pub api_key_file: Option<PathBuf>,
    /// With `tenancy = "key_per_tenant"`: where each tenant's key is.
    #[serde(default)]
    pub tenant_keys: BTreeMap<String, KeyRef>,
    /// With `tenancy = "key_per_tenant"`: the environment variables with the keys of all other tenants, such as
    /// `MEM0_KEY_{tenant}`; see [`memory_http::TenantPattern`].
    pub tenant_key_env: Option<String>,
    /// The files with these keys, such as `/run/secrets/{tenant}.key`. Set at most one of these two.
    pub tenant_key_file: Option<PathBuf>,
    /// With `tenancy = "shared_key_with_prefix"`: the prefix of every id of a tenant, such as `acme-{tenant}.`.
    pub prefix: Option<String>,
    /// The name under which a run may bring its own key.
    pub run_credential: Option<String>,
    /// A PEM file with root certificates to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Deadline of one call except `add`, retries included, in milliseconds: 1 to 600,000. Default: 30,000.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// Deadline of one `add`, which on a self-hosted server waits for the language model. Default: 120,000.
    #[serde(default = "default_long_timeout_ms")]
    pub add_timeout_ms: u64,
    /// Deadline of `forget` and of the end of a run, which take several calls. Default: 120,000.
    #[serde(default = "default_long_timeout_ms")]
    pub forget_timeout_ms: u64,
    /// Largest reply, in bytes: 1 KiB to 64 MiB. Default: 16 MiB.
    #[serde(default = "default_max_reply_bytes")]
    pub max_reply_bytes: usize,
}

fn default_tenancy() -> Tenancy {
    Tenancy::SharedKey
}

impl Mem0Options {
    fn new(flavour: Flavour, base_url: Option<String>) -> Self {
        Self {
            flavour,
            base_url,
            tenancy: default_tenancy(),
            api_key_env: None,
            api_key_file: None,
            tenant_keys: BTreeMap::new(),
            tenant_key_env: None,
            tenant_key_file: None,
            prefix: None,
            run_credential: None,
            ca_file: None,
            timeout_ms: default_timeout_ms(),
            add_timeout_ms: default_long_timeout_ms(),
            forget_timeout_ms: default_long_timeout_ms(),
            max_reply_bytes: default_max_reply_bytes(),
        }
    }

    /// A self-hosted server at `base_url`, without a key yet.
    #[must_use]
    pub fn self_hosted(base_url: impl Into<String>) -> Self {
        Self::new(Flavour::SelfHosted, Some(base_url.into()))
    }

    /// The Platform, without a key yet.
    #[must_use]
    pub fn platform() -> Self {
        Self::new(Flavour::Platform, None)
    }

    /// Checks the options without connecting.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field.
    pub fn check(&self) -> Result<()> {
        self.endpoint()?;
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

    /// Its address.
    pub(crate) fn endpoint(&self) -> Result<Endpoint> {
        match (&self.base_url, self.flavour) {
            (Some(base), _) => Endpoint::parse(base),
            (None, Flavour::Platform) => Endpoint::parse(PLATFORM_BASE_URL),
            (None, Flavour::SelfHosted) => Err(Error::invalid(
                "a self-hosted mem0 needs `base_url`; set it, for example to http://localhost:8888",
            )),
        }
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

/// Shows flavour, tenancy and origin, but no keys.
impl fmt::Debug for Mem0Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mem0Options")
            .field("flavour", &self.flavour)
            .field("endpoint", &self.endpoint().ok())
            .field("tenancy", &self.tenancy)
            .finish_non_exhaustive()
    }
}
