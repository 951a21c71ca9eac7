//! The key of a call: [`Keyring`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_core::{Error, Result, RunContext, Scope, ScopeId, ScopeKind, Secret, TenantId};

use crate::keys::options::{KeyOptions, KeyRef, MAX_TENANTS, Tenancy, scope_id};
use crate::keys::secret::{MAX_SECRET_BYTES, SecretSource};
use crate::keys::tenancy::{PatternOf, TenantPattern, without_key};

/// Most runs with their own stored key.
const MAX_RUNS: usize = 10_000;

/// The loaded keys of a service. `Debug` shows none.
pub struct Keyring {
    tenancy: Tenancy,
    shared: Option<Secret>,
    tenants: BTreeMap<TenantId, Secret>,
    pattern: Option<TenantPattern>,
    prefix: Option<TenantPattern>,
    /// Keys found by the pattern.
    found: Mutex<BTreeMap<TenantId, Secret>>,
    run_credential: Option<String>,
    /// Keys of runs that wrote into their own scope; the end of the run needs them again.
    runs: Mutex<BTreeMap<(TenantId, ScopeId), Secret>>,
}

impl Keyring {
    /// Loads the keys.
    ///
    /// # Errors
    /// As [`KeyOptions::check`] and [`SecretSource::load`]; `invalid_argument` if two tenants have the same key, since
    /// they would share data.
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

    /// The id of a scope at the service: [`scope_id`], after the tenant's prefix if there is one. All operations use
    /// it.
    ///
    /// # Errors
    /// `too_large` if the tenant's id is too long for the prefix: it is never cut.
    pub fn remote_id(&self, scope: &Scope) -> Result<String> {
        let id = scope_id(scope);
        match &self.prefix {
            Some(prefix) => Ok(prefix.name(&scope.tenant)? + &id),
            None => Ok(id),
        }
    }

    /// Every configured key.
    pub fn configured(&self) -> impl Iterator<Item = &Secret> {
        self.shared.iter().chain(self.tenants.values())
    }

    /// The key of a run: its own if it has one, otherwise its tenant's.
    ///
    /// # Errors
    /// `unauthenticated` if there is none, or if a header cannot carry the run's own.
    pub fn of(&self, run: &RunContext) -> Result<Secret> {
        match self.brought(run)? {
            Some(secret) => Ok(secret),
            None => self.of_tenant(&run.tenant)?.ok_or_else(|| self.missing()),
        }
    }

    /// Like [`Keyring::of`], for a write into `scope`. If this is the scope of a run with its own key, the key is kept
    /// for the cleanup at the end of the run, until [`Keyring::forget_run`].
    ///
    /// # Errors
    /// As [`Keyring::of`]; `unavailable` if too many runs with their own keys are open.
    pub fn of_writer(&self, run: &RunContext, scope: &Scope) -> Result<Secret> {
        if scope.kind == ScopeKind::Run
            && let Some(secret) = self.brought(run)?
        {
            let mut runs = self.runs();
            let key = (scope.tenant.clone(), scope.id.clone());
            if runs.len() >= MAX_RUNS && !runs.contains_key(&key) {
                return Err(Error::unavailable("too many runs with their own keys are open; end some"));
            }
            runs.insert(key, secret);
        }
        self.of(run)
    }

    /// The key for cleaning up a run's scope; `None` if nothing was stored with a key known to this process.
    #[must_use]
    pub fn of_ended_run(&self, tenant: &TenantId, root_run: &ScopeId) -> Option<Secret> {
        let key = (tenant.clone(), root_run.clone());
        let brought = self.runs().get(&key).cloned();
        brought.or_else(|| self.of_tenant(tenant).ok().flatten())
    }

    /// Drops the key of an ended run.
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

    /// The key of a tenant by the pattern, loaded once.
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
            return Err(Error::unauthenticated(
                "another tenant has the same key, so they would share a memory; give each its own",
            ));
        }
        if found.len() >= MAX_TENANTS && !found.contains_key(tenant) {
            return Err(Error::unavailable(format!(
                "keys of more than {MAX_TENANTS} tenants are in use; use another process for the rest"
            )));
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
            return Err(Error::unauthenticated(
                "the run's credential for this service is not one word of printable ASCII; check where it comes from",
            ));
        }
        Ok(Some(secret.clone()))
    }

    fn missing(&self) -> Error {
        let advice = match (self.tenancy, &self.run_credential) {
            (Tenancy::KeyPerTenant, None) => "add it to `tenant_keys`",
            (Tenancy::KeyPerTenant, Some(_)) => "add it to `tenant_keys`, or pass it with the run",
            (Tenancy::SharedKey | Tenancy::SharedKeyWithPrefix, _) => {
                "pass it with the run, or configure one"
            }
        };
        Error::unauthenticated(format!("there is no key for this tenant; {advice}"))
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<TenantId, Secret>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self) -> MutexGuard<'_, BTreeMap<(TenantId, ScopeId), Secret>> {
        // Every change is one insert or remove, so a poisoned map is intact.
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
    use memory_core::ErrorKind;

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
