//! Lists the tenants and scopes that have a database.

use std::fs;
use std::io::ErrorKind as IoErrorKind;
use std::path::Path;

use memory_core::{Result, Scope, TenantId};

use super::folders::{TRASH, discard, strange};
use super::identity::{identity, is_digest, owner};
use super::root::Files;
use crate::error::file;

impl Files {
    /// A tenant's scopes with an identity and a database, in no order. A folder seen before is not read again, so it
    /// may have lost its database.
    pub(crate) fn list(&self, tenant: &TenantId) -> Result<Vec<Scope>> {
        let folder = self.tenant_folder(tenant);
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(strange("a tenant's folder")),
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file(error)),
        }
        let mut scopes = Vec::new();
        for item in fs::read_dir(&folder).map_err(file)? {
            let item = item.map_err(file)?;
            let name = item.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(TRASH) {
                // Its removal was interrupted, or is in progress.
                discard(&item.path());
            }
            if !is_digest(name) {
                continue;
            }
            if let Some(scope) = self.known.get(name) {
                if scope.tenant == *tenant {
                    scopes.push(scope);
                }
                continue;
            }
            let scope = match identity(&item.path()) {
                Ok(Some(scope)) => scope,
                Ok(None) => continue,
                // One unreadable folder must not hide the others.
                Err(error) => {
                    tracing::warn!(%error, folder = name, "the identity of a SQL database cannot be read; it is not listed");
                    continue;
                }
            };
            // Ignore a folder in the wrong place, which was put there by hand.
            if scope.tenant == *tenant && scope.digest().to_hex() == name {
                // The scope's strings, the name, and their overhead.
                let weight = 192 + name.len() + scope.tenant.as_str().len() + scope.id.as_str().len();
                self.known.put(name.into(), scope.clone(), weight);
                scopes.push(scope);
            } else {
                tracing::warn!(
                    folder = name,
                    "a scope's folder has the identity of another scope; it is not listed"
                );
            }
        }
        Ok(scopes)
    }

    /// A tenant's scopes that have a folder, with or without a database; removes leftovers of interrupted removals.
    pub(crate) fn all_of(&self, tenant: &TenantId) -> Result<Vec<Scope>> {
        let mut scopes = self.list(tenant)?;
        let folder = self.tenant_folder(tenant);
        let items = match fs::read_dir(&folder) {
            Ok(items) => items,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(scopes),
            Err(error) => return Err(file(error)),
        };
        for item in items {
            let path = item.map_err(file)?.path();
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            if let Ok(Some(scope)) = if is_folder { owner(&path) } else { Ok(None) }
                && scope.tenant == *tenant
                && path.file_name().is_some_and(|name| name == scope.digest().to_hex().as_str())
                && !scopes.contains(&scope)
            {
                scopes.push(scope);
            }
        }
        Ok(scopes)
    }

    /// Whether there may be any database at all.
    pub(crate) fn is_any(&self) -> Result<bool> {
        match fs::symlink_metadata(self.root()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == IoErrorKind::NotFound => Ok(false),
            Err(error) => Err(file(error)),
        }
    }

    /// The tenants that have a scope with a database, in no order.
    pub(crate) fn tenants(&self) -> Result<Vec<TenantId>> {
        let folders = match fs::read_dir(self.root()) {
            Ok(folders) => folders,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file(error)),
        };
        let mut tenants = Vec::new();
        for folder in folders {
            let folder = folder.map_err(file)?.path();
            if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
                continue;
            }
            if let Some(tenant) = self.tenant_of(&folder)? {
                tenants.push(tenant);
            }
        }
        Ok(tenants)
    }

    /// The tenant of a folder, according to its scopes.
    fn tenant_of(&self, folder: &Path) -> Result<Option<TenantId>> {
        let items = match fs::read_dir(folder) {
            Ok(items) => items,
            Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file(error)),
        };
        for item in items {
            let item = item.map_err(file)?;
            let name = item.file_name();
            let Some(name) = name.to_str().filter(|name| is_digest(name)) else { continue };
            // Both names must match; listing the tenant warns about the rest.
            if let Ok(Some(scope)) = identity(&item.path())
                && scope.digest().to_hex() == name
                && self.tenant_folder(&scope.tenant) == folder
            {
                return Ok(Some(scope.tenant));
            }
        }
        Ok(None)
    }
}
