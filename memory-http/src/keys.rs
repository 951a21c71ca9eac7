//! Whose key a call carries: [`KeyOptions`] say where keys are, [`Keyring`] hands them out.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::{Error, ErrorKind, Result, RunContext, Scope, ScopeId, ScopeKind, Secret, TenantId};
use serde::Deserialize;

use crate::secret::{MAX_SECRET_BYTES, SecretSource};
use crate::tenancy::{PatternOf, TenantPattern, without_key};

/// Most tenants with a key of their own.
const MAX_TENANTS: usize = 10_000;
/// Most runs whose own key is remembered.
const MAX_RUNS: usize = 10_000;
/// Longest name of a credential of a run, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// How tenants share a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tenancy {
    /// Every tenant has a key of its own, and the service keeps what is behind different keys apart.
    KeyPerTenant,
    /// All tenants use one key, and are told apart by the digests of their scopes that the client sends as ids.
    SharedKey,
    /// The same, and each id begins with a prefix of its tenant: its owner can be told at the service, by eye and by
    /// the service's own rules.
    SharedKeyWithPrefix,
}

/// Where one key is: exactly one of the two.
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

    fn source(&self) -> Result<SecretSource> {
        match (&self.env, &self.file) {
            (Some(name), None) => Ok(SecretSource::Env(name.clone())),
            (None, Some(path)) => Ok(SecretSource::File(path.clone())),
            _ => Err(Error::invalid("a key is either in `env` or in `file`; name exactly one")),
        }
    }
}

/// Where the keys of a service are, always by reference.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyOptions {
    /// How tenants share the service.
    pub tenancy: Tenancy,
    /// The key of all tenants; only where they share one.
    pub shared: Option<KeyRef>,
    /// The keys of tenants; only with [`Tenancy::KeyPerTenant`].
    pub tenants: BTreeMap<String, KeyRef>,
    /// Where the keys of tenants are that `tenants` does not name: a [`TenantPattern`] of variables in `env`, or of
    /// files in `file`. Only with [`Tenancy::KeyPerTenant`].
    pub tenant_pattern: Option<KeyRef>,
    /// A [`TenantPattern`] of prefixes; with [`Tenancy::SharedKeyWithPrefix`], and only there.
    pub prefix: Option<String>,
    /// Longest id that the service keeps whole, in bytes; `None`: any.
    pub max_id_bytes: Option<usize>,
    /// The name under which a run may bring a key of its own in [`RunContext::credentials`].
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

    /// Checks what can be checked without reading a key.
    ///
    /// # Errors
    /// `invalid_argument` for keys that do not go with the tenancy, and where no key can ever be had.
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
                "no key is configured; give `api_key_env` or `api_key_file`, `tenant_keys`, `tenant_key_env` or \
                 `tenant_key_file`, or `run_credential`",
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
                    "one of `tenant_keys` is where the pattern of keys has another tenant's key; name another place",
                ));
            }
        }
        Ok(())
    }

    /// Where the keys of tenants are by pattern.
    fn pattern(&self) -> Result<Option<TenantPattern>> {
        let Some(key) = &self.tenant_pattern else { return Ok(None) };
        match key.source()? {
            SecretSource::Env(text) => TenantPattern::parse(&text, PatternOf::Variables).map(Some),
            SecretSource::File(path) => match path.to_str() {
                Some(text) => TenantPattern::parse(text, PatternOf::Files).map(Some),
                None => Err(Error::invalid("the pattern of key files is not UTF-8; name one that is")),
            },
        }
    }

    fn prefix_pattern(&self) -> Result<Option<TenantPattern>> {
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

/// The length of [`scope_id`] at most.
const SCOPE_ID_BYTES: usize = "m1.agent.".len() + 64;

/// A scope as a service knows it: `m1.`, the kind, a dot, and the 64 digits of the scope's digest.
///
/// Of letters, digits and dots alone, never blank, never `*`: no filter, path or parameter reads anything into it.
/// Different scopes have different ids, whatever tenants and ids look like.
#[must_use]
pub fn scope_id(scope: &Scope) -> String {
    format!("m1.{}.{}", scope.kind, scope.digest().to_hex())
}

/// The keys of a service, read. `Debug` shows none.
pub struct Keyring {
    tenancy: Tenancy,
    shared: Option<Secret>,
    tenants: BTreeMap<TenantId, Secret>,
    pattern: Option<TenantPattern>,
    prefix: Option<TenantPattern>,
    /// Keys that were found by the pattern.
    found: Mutex<BTreeMap<TenantId, Secret>>,
    run_credential: Option<String>,
    /// Keys that runs brought along when they wrote into their own scope; the end of a run needs them once more.
    runs: Mutex<BTreeMap<(TenantId, ScopeId), Secret>>,
}

impl Keyring {
    /// Reads the keys.
    ///
    /// # Errors
    /// As [`KeyOptions::check`] and [`SecretSource::load`]; `invalid_argument` where two tenants have the same
    /// key, for they would share what is behind it.
    pub fn load(options: &KeyOptions) -> Result<Self> {
        options.check()?;
        let load = |key: &KeyRef| key.source()?.load();
        let mut tenants: BTreeMap<TenantId, Secret> = BTreeMap::new();
        for (tenant, key) in &options.tenants {
            let secret = load(key)?;
            if tenants.values().any(|other| other.expose() == secret.expose()) {
                return Err(Error::invalid(
                    "two of `tenant_keys` are the same key, so the tenants would share a memory; give each its own",
                ));
            }
            tenants.insert(TenantId::new(tenant.as_str())?, secret);
        }
        Ok(Self {
            tenancy: options.tenancy,
            shared: options.shared.as_ref().map(load).transpose()?,
            tenants,
            pattern: options.pattern()?,
            prefix: options.prefix_pattern()?,
            found: Mutex::default(),
            run_credential: options.run_credential.clone(),
            runs: Mutex::default(),
        })
    }

    /// How tenants share the service.
    #[must_use]
    pub fn tenancy(&self) -> Tenancy {
        self.tenancy
    }

    /// The id that stands for a scope at the service: [`scope_id`], behind the prefix of its tenant where there is one.
    /// The end of a run, reads, writes and deletes all ask here.
    ///
    /// # Errors
    /// `too_large` where the tenant's id is too long for the prefix: it is never cut.
    pub fn remote_id(&self, scope: &Scope) -> Result<String> {
        let id = scope_id(scope);
        match &self.prefix {
            Some(prefix) => Ok(prefix.name(&scope.tenant)? + &id),
            None => Ok(id),
        }
    }

    /// Every key that was configured.
    pub fn configured(&self) -> impl Iterator<Item = &Secret> {
        self.shared.iter().chain(self.tenants.values())
    }

    /// The key of a run: its own where it brought one, else its tenant's.
    ///
    /// # Errors
    /// `unauthenticated` where there is none, or the run's own is not what a header can carry.
    pub fn of(&self, run: &RunContext) -> Result<Secret> {
        match self.brought(run)? {
            Some(secret) => Ok(secret),
            None => self.of_tenant(&run.tenant)?.ok_or_else(|| self.missing()),
        }
    }

    /// As [`Keyring::of`], for a write into `scope`. Where it is the scope of a run that brought its own key, the
    /// key is kept until [`Keyring::forget_run`], so that the end of the run can clean up.
    ///
    /// # Errors
    /// As [`Keyring::of`]; `unavailable` where too many runs with keys of their own are open.
    pub fn of_writer(&self, run: &RunContext, scope: &Scope) -> Result<Secret> {
        if scope.kind == ScopeKind::Run
            && let Some(secret) = self.brought(run)?
        {
            let mut runs = self.runs();
            let key = (scope.tenant.clone(), scope.id.clone());
            if runs.len() >= MAX_RUNS && !runs.contains_key(&key) {
                return Err(Error::new(
                    ErrorKind::Unavailable,
                    "too many runs with keys of their own are open; end some",
                ));
            }
            runs.insert(key, secret);
        }
        self.of(run)
    }

    /// The key with which a run's scope is cleaned up; `None`: nothing can have been stored with a key this
    /// process knows.
    #[must_use]
    pub fn of_ended_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Option<Secret> {
        let key = (tenant.clone(), root_run.clone());
        let brought = self.runs().get(&key).cloned();
        brought.or_else(|| self.of_tenant(tenant).ok().flatten())
    }

    /// Drops the key of a run that has ended.
    pub fn forget_run(&self, tenant: &TenantId, root_run: &ScopeId) {
        self.runs().remove(&(tenant.clone(), root_run.clone()));
    }

    fn of_tenant(&self, tenant: &TenantId) -> Result<Option<Secret>> {
        match (self.tenancy, self.tenants.get(tenant), &self.pattern) {
            (Tenancy::SharedKey | Tenancy::SharedKeyWithPrefix, ..) => Ok(self.shared.clone()),
            (Tenancy::KeyPerTenant, Some(key), _) => Ok(Some(key.clone())),
            (Tenancy::KeyPerTenant, None, Some(pattern)) => self.of_pattern(tenant, pattern).map(Some),
            (Tenancy::KeyPerTenant, None, None) => Ok(None),
        }
    }

    /// The key of a tenant where the pattern has it; read once.
    fn of_pattern(&self, tenant: &TenantId, pattern: &TenantPattern) -> Result<Secret> {
        if let Some(key) = self.found().get(tenant) {
            return Ok(key.clone());
        }
        let name = pattern.name(tenant).map_err(without_key)?;
        let secret = match pattern.of() {
            PatternOf::Files => SecretSource::File(PathBuf::from(name)),
            _ => SecretSource::Env(name),
        }
        .load()?;
        let mut found = self.found();
        let same = |other: (&TenantId, &Secret)| other.0 != tenant && other.1.expose() == secret.expose();
        if self.tenants.iter().any(same) || found.iter().any(same) {
            return Err(Error::new(
                ErrorKind::Unauthenticated,
                "this tenant's key is another tenant's too, so they would share a memory; give each its own",
            ));
        }
        if found.len() >= MAX_TENANTS && !found.contains_key(tenant) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "keys of more than {MAX_TENANTS} tenants are in use; use another process for the rest"
                ),
            ));
        }
        found.insert(tenant.clone(), secret.clone());
        Ok(secret)
    }

    fn brought(&self, run: &RunContext) -> Result<Option<Secret>> {
        let Some(secret) = self.run_credential.as_ref().and_then(|name| run.credentials.get(name)) else {
            return Ok(None);
        };
        let text = secret.expose();
        if text.is_empty() || text.len() > MAX_SECRET_BYTES || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(Error::new(
                ErrorKind::Unauthenticated,
                "the run's credential for this service is not one word of printable ASCII; check where it comes from",
            ));
        }
        Ok(Some(secret.clone()))
    }

    fn missing(&self) -> Error {
        let advice = match (self.tenancy, &self.run_credential) {
            (Tenancy::KeyPerTenant, None) => "add it to `tenant_keys`",
            (Tenancy::KeyPerTenant, Some(_)) => "add it to `tenant_keys`, or bring it with the run",
            (Tenancy::SharedKey | Tenancy::SharedKeyWithPrefix, _) => {
                "bring it with the run, or configure one"
            }
        };
        Error::new(ErrorKind::Unauthenticated, format!("there is no key for this tenant; {advice}"))
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<TenantId, Secret>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<(TenantId, ScopeId), Secret>> {
        // Every change is one insert or remove, so a poisoned map is whole.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("tenancy", &self.tenancy)
            .field("shared", &self.shared.is_some())
            .field("tenants", &self.tenants.len())
            .field("pattern", &self.pattern)
            .field("prefix", &self.prefix)
            .field("run_credential", &self.run_credential.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dir: &tempfile::TempDir, name: &str, text: &str) -> KeyRef {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        KeyRef::file(path)
    }

    fn run(tenant: &str) -> RunContext {
        let id = |text: &str| ScopeId::new(text).unwrap();
        RunContext::new(TenantId::new(tenant).unwrap(), id("agent"), id("run"))
    }

    #[test]
    fn a_tenant_has_its_own_key_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = KeyOptions::new(Tenancy::KeyPerTenant);
        options.tenants.insert("acme".into(), file(&dir, "a", "key-a\n"));
        options.tenants.insert("umbrella".into(), file(&dir, "u", "key-u"));
        let keys = Keyring::load(&options).unwrap();
        assert_eq!(keys.of(&run("acme")).unwrap().expose(), "key-a");
        assert_eq!(keys.of(&run("umbrella")).unwrap().expose(), "key-u");
        let error = keys.of(&run("initech")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert!(!format!("{keys:?} {error:?}").contains("key-"));
    }

    #[test]
    fn tenants_that_would_fall_together_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = KeyOptions::new(Tenancy::KeyPerTenant);
        options.tenants.insert("acme".into(), file(&dir, "a", "same"));
        options.tenants.insert("umbrella".into(), file(&dir, "b", " same\n"));
        assert_eq!(Keyring::load(&options).unwrap_err().kind(), ErrorKind::InvalidArgument);
        options.tenants.clear();
        options.shared = Some(file(&dir, "a", "same"));
        assert_eq!(Keyring::load(&options).unwrap_err().kind(), ErrorKind::InvalidArgument);
        options.tenancy = Tenancy::SharedKey;
        assert_eq!(Keyring::load(&options).unwrap().of(&run("any")).unwrap().expose(), "same");
    }

    #[test]
    fn a_runs_own_key_comes_first_and_lasts_until_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = KeyOptions::new(Tenancy::SharedKey);
        options.shared = Some(file(&dir, "s", "shared"));
        options.run_credential = Some("service".into());
        let keys = Keyring::load(&options).unwrap();
        let mut own = run("acme");
        own.credentials.insert("service".into(), Secret::new("own"));
        assert_eq!(keys.of(&own).unwrap().expose(), "own");
        assert_eq!(keys.of(&run("acme")).unwrap().expose(), "shared");
        let scope = Scope::run("acme", "run").unwrap();
        keys.of_writer(&own, &scope).unwrap();
        assert_eq!(keys.of_ended_run(&scope.tenant, &scope.id).unwrap().expose(), "own");
        keys.forget_run(&scope.tenant, &scope.id);
        assert_eq!(keys.of_ended_run(&scope.tenant, &scope.id).unwrap().expose(), "shared");
        own.credentials.insert("service".into(), Secret::new("two words\n"));
        assert_eq!(keys.of(&own).unwrap_err().kind(), ErrorKind::Unauthenticated);
    }

    #[test]
    fn a_key_is_in_one_place() {
        for json in ["{}", r#"{"env":"A","file":"/b"}"#] {
            let key: KeyRef = serde_json::from_str(json).unwrap();
            let mut options = KeyOptions::new(Tenancy::SharedKey);
            options.shared = Some(key);
            assert!(options.check().is_err(), "{json}");
        }
        assert!(serde_json::from_str::<KeyRef>(r#"{"key":"sk-secret"}"#).is_err());
        assert!(KeyOptions::new(Tenancy::SharedKey).check().is_err(), "no key at all");
    }
}
