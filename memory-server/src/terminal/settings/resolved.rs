//! The settings that result from options, environment and `memory.toml`.

use std::path::{Path, PathBuf};

use memory::{BackendUrl, Config, Registry};
use memory_core::{Error, Result, Scope, ScopeId, ScopeKind, TenantId};

use super::global::{Global, reaching, registry};
use super::openings::Openings;
use super::store::{Origin, Store, sqlite_url, store};

/// The default tenant, and the id of its default scope.
pub(crate) const DEFAULT_ID: &str = "default";

/// Just a store: for programs that bring their own clock, ids and embedder.
#[derive(Debug)]
pub struct BareStore {
    /// Where it is.
    pub url: BackendUrl,
    /// The base of its relative paths; `None` for the working directory.
    pub base_dir: Option<PathBuf>,
    /// Opens it, at hosts listed on the command line or in `memory.toml`.
    pub registry: Registry,
}

/// What options, environment and `memory.toml` add up to.
pub(crate) struct Settings {
    pub(crate) config: Option<Config>,
    pub(super) store: Store,
    pub(crate) store_origin: Origin,
    pub(super) global: Global,
    /// Closes what these settings open.
    pub(super) openings: Openings,
    pub(crate) tenant: TenantId,
    pub(crate) tenant_origin: Origin,
    pub(crate) scope: Scope,
    pub(crate) scope_origin: Origin,
}

impl Settings {
    /// Reads the configuration and decides, without opening anything.
    pub(crate) fn resolve(global: &Global, openings: &Openings) -> Result<Self> {
        let config = Config::discover(global.config.as_deref())?;
        let default = config.as_ref().map(|config| &config.file().default);
        let (store, store_origin) = store(global, config.as_ref())?;
        let (tenant, tenant_origin) =
            match (&global.tenant, default.and_then(|section| section.tenant.clone())) {
                (Some(tenant), _) => (TenantId::new(tenant.as_str())?, Origin::CommandLine),
                (None, Some(tenant)) => (tenant, Origin::Configuration),
                (None, None) => (TenantId::new(DEFAULT_ID)?, Origin::Default),
            };
        let (scope, scope_origin) =
            match (named_scope(global, &tenant)?, default.and_then(|section| section.user.clone())) {
                (Some(scope), _) => (scope, Origin::CommandLine),
                (None, Some(user)) => {
                    (Scope::new(tenant.clone(), ScopeKind::User, user), Origin::Configuration)
                }
                (None, None) => {
                    (Scope::new(tenant.clone(), ScopeKind::User, ScopeId::new(DEFAULT_ID)?), Origin::Default)
                }
            };
        let (global, openings) = (global.clone(), openings.clone());
        Ok(Self { config, store, store_origin, global, openings, tenant, tenant_origin, scope, scope_origin })
    }

    /// Whether the command line names the scope.
    pub(crate) fn scope_is_chosen(&self) -> bool {
        self.scope_origin == Origin::CommandLine
    }

    /// The registry, with the embedder and hosts from options, environment and `memory.toml`.
    pub(crate) fn registry(&self) -> Result<Registry> {
        let registry = registry(&self.global, || Ok(self.config.clone()))?;
        Ok(registry.with_allowed_hosts(self.listed_hosts()))
    }

    /// The hosts that `memory.toml` lists.
    fn listed_hosts(&self) -> impl Iterator<Item = &String> {
        self.config.iter().flat_map(|config| &config.file().egress.allow)
    }

    /// The store itself, without fallback or embedder.
    pub(crate) fn bare_store(&self) -> Result<BareStore> {
        let (url, base_dir) = self.backend_url()?;
        let registry = reaching(&self.global).with_allowed_hosts(self.listed_hosts());
        let registry = match &base_dir {
            Some(base_dir) => registry.with_base_dir(base_dir),
            None => registry,
        };
        Ok(BareStore { url, base_dir, registry })
    }

    /// The name of the store's embedder and its origin; `None` if its entries get no vectors.
    pub(crate) fn shown_embedder(&self) -> Result<Option<(String, Origin)>> {
        if let Some(chosen) = self.global.embedder() {
            return Ok(Some((chosen.to_owned(), Origin::CommandLine)));
        }
        Ok(match (&self.store, &self.config) {
            (Store::Named(name), Some(config)) if config.file().backends.contains_key(name) => {
                config.embedder_of(name)?.map(|name| (name.to_owned(), Origin::Configuration))
            }
            _ => None,
        })
    }

    /// The store's URL, and the folder its relative paths are resolved against.
    pub(crate) fn backend_url(&self) -> Result<(BackendUrl, Option<PathBuf>)> {
        match (&self.store, &self.config) {
            (Store::Url(url), _) => Ok((BackendUrl::parse(url)?, None)),
            (Store::Named(name), Some(config)) => {
                let base = config.origin().parent().filter(|folder| !folder.as_os_str().is_empty());
                Ok((config.backend_url(name)?.clone(), base.map(Path::to_path_buf)))
            }
            (Store::Named(name), None) => Err(Error::internal(format!("no configuration defines `{name}`"))),
            (Store::DataFile(file), _) => Ok((BackendUrl::parse(&sqlite_url(file)?)?, None)),
        }
    }

    /// The store's URL without its secrets.
    pub(crate) fn shown_url(&self) -> Result<String> {
        match (&self.store, &self.config) {
            (Store::Url(url), _) => Ok(BackendUrl::parse(url)?.to_string()),
            (Store::Named(name), Some(config)) => match config.file().backends.get(name) {
                Some(section) => Ok(section.url.to_string()),
                None => Ok(format!("the definition {name}")),
            },
            (Store::Named(name), None) => Ok(name.clone()),
            (Store::DataFile(file), _) => Ok(format!("sqlite:{}", file.display())),
        }
    }
}

fn named_scope(global: &Global, tenant: &TenantId) -> Result<Option<Scope>> {
    for (kind, id) in
        [(ScopeKind::Agent, &global.agent), (ScopeKind::User, &global.user), (ScopeKind::Run, &global.run)]
    {
        if let Some(id) = id {
            return Ok(Some(Scope::new(tenant.clone(), kind, ScopeId::new(id.as_str())?)));
        }
    }
    global.scope.as_deref().map(|text| scope_of(text, tenant)).transpose()
}

/// `user:ada`.
pub(crate) fn scope_of(text: &str, tenant: &TenantId) -> Result<Scope> {
    let (kind, id) = text
        .split_once(':')
        .ok_or_else(|| Error::invalid("a scope has the form agent:ID, user:ID or run:ID"))?;
    Ok(Scope::new(tenant.clone(), kind.parse()?, ScopeId::new(id)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_a_kind_and_an_id() {
        let tenant = TenantId::new("t").unwrap();
        assert_eq!(scope_of("user:a:b", &tenant).unwrap(), Scope::user("t", "a:b").unwrap());
        for bad in ["user", "user:", "team:x", "user:*", ":x"] {
            assert!(scope_of(bad, &tenant).is_err(), "{bad}");
        }
    }
}
