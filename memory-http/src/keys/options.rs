//! The sources of a service's keys: [`KeyOptions`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memory_core::{Error, Result, Scope, TenantId};
use serde::Deserialize;

use crate::keys::secret::SecretSource;
use crate::keys::tenancy::{PatternOf, TenantPattern};

/// Most tenants with their own key.
pub(super) const MAX_TENANTS: usize = 10_000;
/// Longest name of a run's credential, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// How tenants share a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tenancy {
    /// Every tenant has its own key, and the service separates the data of different keys.
    KeyPerTenant,
    /// All tenants use one key and are separated by the scope digests that the client sends as ids.
    SharedKey,
    /// The same, with a prefix per tenant in each id, so that the owner is visible at the service and to its own rules.
    SharedKeyWithPrefix,
}

/// The source of one key: exactly one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct KeyRef {
    /// The environment variable with the key.
    pub env: Option<String>,
    /// The file with the key.
    pub file: Option<PathBuf>,
}

impl KeyRef {
    /// In this environment variable.
    #[must_use]
    pub fn env(name: impl Into<String>) -> Self {
        Self { env: Some(name.into()), file: None }
    }

    /// In this file.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { env: None, file: Some(path.into()) }
    }

    /// From this variable or file; `None` if neither is named.
    #[must_use]
    pub fn named(env: Option<&str>, file: Option<&Path>) -> Option<Self> {
        let named = Self { env: env.map(str::to_owned), file: file.map(Path::to_path_buf) };
        (named != Self::default()).then_some(named)
    }

    /// The source that it names.
    ///
    /// # Errors
    /// `invalid_argument` unless exactly one of the two is named.
    pub fn source(&self) -> Result<SecretSource> {
        match (&self.env, &self.file) {
            (Some(name), None) => Ok(SecretSource::Env(name.clone())),
            (None, Some(path)) => Ok(SecretSource::File(path.clone())),
            _ => Err(Error::invalid("name exactly one of `env` and `file` for a key")),
        }
    }
}

/// The sources of a service's keys, always by reference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyOptions {
    /// How tenants share the service.
    pub tenancy: Tenancy,
    /// The shared key of all tenants.
    pub shared: Option<KeyRef>,
    /// The keys of tenants; only with [`Tenancy::KeyPerTenant`].
    pub tenants: BTreeMap<String, KeyRef>,
    /// A [`TenantPattern`] for the keys of tenants not listed in `tenants`: variables with `env`, files with `file`.
    /// Only with [`Tenancy::KeyPerTenant`].
    pub tenant_pattern: Option<KeyRef>,
    /// A [`TenantPattern`] of prefixes; only with [`Tenancy::SharedKeyWithPrefix`].
    pub prefix: Option<String>,
    /// Longest id that the service stores uncut, in bytes; `None` for unlimited.
    pub max_id_bytes: Option<usize>,
    /// The name under which a run may pass its own key in
    /// [`RunContext::credentials`](memory_core::RunContext::credentials).
    pub run_credential: Option<String>,
}

impl KeyOptions {
    /// No key yet.
    #[must_use]
    pub fn new(tenancy: Tenancy) -> Self {
        Self {
            tenancy,
            shared: None,
            tenants: BTreeMap::new(),
            tenant_pattern: None,
            prefix: None,
            max_id_bytes: None,
            run_credential: None,
        }
    }

    /// Checks everything that does not require loading a key.
    ///
    /// # Errors
    /// `invalid_argument` for keys that do not fit the tenancy, or if no key is possible.
    pub fn check(&self) -> Result<()> {
        let Self { tenancy, shared, tenants, run_credential, .. } = self;
        let (pattern, _) = (self.pattern()?, self.prefix_pattern()?);
        match tenancy {
            Tenancy::KeyPerTenant if shared.is_some() => {
                return Err(Error::invalid(
                    "one key for all tenants is configured, and a key for each tenant is asked for; give \
                     `tenant_keys`, or say `tenancy = \"shared_key\"` if all tenants are to share the key",
                ));
            }
            Tenancy::SharedKey | Tenancy::SharedKeyWithPrefix if !tenants.is_empty() || pattern.is_some() => {
                return Err(Error::invalid(
                    "`tenant_keys` and patterns of keys go with `tenancy = \"key_per_tenant\"`; give one key, or say so",
                ));
            }
            _ => {}
        }
        if tenants.len() > MAX_TENANTS {
            return Err(Error::too_large("tenant_keys", tenants.len(), MAX_TENANTS, "tenants"));
        }
        if shared.is_none() && tenants.is_empty() && pattern.is_none() && run_credential.is_none() {
            return Err(Error::invalid(
                "no key is configured; give `api_key=env:VARIABLE` in the URL, or in memory.toml `api_key_env` or \
                 `api_key_file`, `tenant_keys`, `tenant_key_env` or `tenant_key_file`, or `run_credential`",
            ));
        }
        if let Some(name) = run_credential
            && (name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control))
        {
            return Err(Error::invalid("`run_credential` must have 1 to 128 bytes and no control character"));
        }
        shared.iter().chain(tenants.values()).try_for_each(|key| key.source().map(drop))?;
        for (name, key) in tenants {
            let tenant = TenantId::new(name.as_str())?;
            let place = key.env.clone().or_else(|| key.file.as_ref().map(|path| path.display().to_string()));
            let of_pattern = pattern.as_ref().zip(place).and_then(|(pattern, place)| pattern.tenant(&place));
            if of_pattern.is_some_and(|other| other != tenant) {
                return Err(Error::invalid(
                    "one of `tenant_keys` is in the place where the pattern has another tenant's key; use another place",
                ));
            }
        }
        Ok(())
    }

    /// The pattern of tenants' keys.
    pub(super) fn pattern(&self) -> Result<Option<TenantPattern>> {
        let Some(key) = &self.tenant_pattern else { return Ok(None) };
        match key.source()? {
            SecretSource::Env(text) => TenantPattern::parse(&text, PatternOf::Variables).map(Some),
            SecretSource::File(path) => match path.to_str() {
                Some(text) => TenantPattern::parse(text, PatternOf::Files).map(Some),
                None => Err(Error::invalid("the pattern of key files is not UTF-8; use one that is UTF-8")),
            },
        }
    }

    pub(super) fn prefix_pattern(&self) -> Result<Option<TenantPattern>> {
        match (self.tenancy, &self.prefix) {
            (Tenancy::SharedKeyWithPrefix, Some(text)) => {
                let pattern = TenantPattern::parse(text, PatternOf::Prefixes)?;
                let room = self.max_id_bytes.map_or(usize::MAX, |most| most.saturating_sub(SCOPE_ID_BYTES));
                pattern.within(room).map(Some)
            }
            (Tenancy::SharedKeyWithPrefix, None) => Err(Error::invalid(
                "`tenancy = \"shared_key_with_prefix\"` needs `prefix`, as acme-{tenant}.",
            )),
            (_, Some(_)) => Err(Error::invalid(
                "`prefix` goes with `tenancy = \"shared_key_with_prefix\"`; say so, or leave it out",
            )),
            (_, None) => Ok(None),
        }
    }
}

/// The maximal length of [`scope_id`].
const SCOPE_ID_BYTES: usize = "m1.agent.".len() + 64;

/// A scope's id at a service: `m1.`, the kind, a dot, and the 64 digits of the scope's digest.
///
/// Only letters, digits and dots, never blank and never `*`, so that no filter, path or parameter misinterprets it.
/// Different scopes have different ids, whatever their tenants and ids.
#[must_use]
pub fn scope_id(scope: &Scope) -> String {
    format!("m1.{}.{}", scope.kind, scope.digest().to_hex())
}
