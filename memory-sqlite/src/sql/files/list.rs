//! Which tenants and scopes have a database.

use std::fs;
use std::io::ErrorKind as IoErrorKind;
use std::path::Path;

use memory_core::{Result, Scope, TenantId};

use super::folders::{TRASH, discard, strange};
use super::identity::{identity, is_digest, owner};
use super::root::Files;
use crate::error::file;

impl Files {
    /// The scopes of a tenant that have an identity and a database, in no order. A folder seen before is not looked into
    /// again, so it may have lost its database.
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
                // Its removal was interrupted, or is under way.
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
                // One unreadable folder does not hide the others.
                Err(error) => {
                    tracing::warn!(%error, folder = name, "whose a SQL database is cannot be read; it is left out");
                    continue;
                }
            };
            // A folder in the wrong place belongs to nobody: it was put there by hand.
            if scope.tenant == *tenant && scope.digest().to_hex() == name {
                // The strings of the scope, the name, and what holds them.
                let weight = 192 + name.len() + scope.tenant.as_str().len() + scope.id.as_str().len();
                self.known.put(name.into(), scope.clone(), weight);
                scopes.push(scope);
            } else {
                tracing::warn!(folder = name, "a scope's folder names another scope and is left out");
            }
        }
        Ok(scopes)
    }

    /// The scopes of a tenant that have a folder, whether it holds a database or not; what others came not to remove is.
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

    /// Whose a tenant's folder is, as its scopes say.
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
            // What belongs there is told by both names; listing the tenant warns of the rest.
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
