//! `scope.json`: the scope to which a folder belongs.

use std::fs::{self, File};
use std::io::{ErrorKind as IoErrorKind, Read as _};
use std::path::Path;

use memory_core::{Error, Result, Scope, ScopeId, ScopeKind, TenantId};
use serde::{Deserialize, Serialize};

use super::place::DATABASE;
use crate::error::{file, foreign};

pub(super) const IDENTITY: &str = "scope.json";
/// Longest identity to read: two ids of 256 bytes, each at most six times as long in JSON.
const IDENTITY_BYTES: u64 = 8_192;

/// The content of `scope.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    format: u32,
    tenant: TenantId,
    #[serde(deserialize_with = "stored")]
    kind: ScopeKind,
    id: ScopeId,
}

fn stored<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<ScopeKind, D::Error> {
    ScopeKind::from_stored(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// The scope that a folder belongs to; `None` if it holds no database or is incomplete.
pub(super) fn identity(folder: &Path) -> Result<Option<Scope>> {
    let is_file = |name| fs::symlink_metadata(folder.join(name)).is_ok_and(|found| found.is_file());
    let is_folder = fs::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    if !is_folder || !is_file(DATABASE) {
        return Ok(None);
    }
    owner(folder)
}

/// As [`identity`], even without a database.
pub(super) fn owner(folder: &Path) -> Result<Option<Scope>> {
    if !fs::symlink_metadata(folder.join(IDENTITY)).is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let mut content = Vec::new();
    let read = File::open(folder.join(IDENTITY))
        .and_then(|opened| opened.take(IDENTITY_BYTES).read_to_end(&mut content));
    match read {
        Ok(_) => {}
        // Dropped meanwhile.
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(file(error)),
    }
    let identity: Identity = serde_json::from_slice(&content).map_err(|error| {
        foreign("the identity file of a SQL database cannot be read; restore it from a copy")
            .with_source(error)
    })?;
    if identity.format != 1 {
        return Err(foreign("a SQL database was created by a newer version; open it with that version"));
    }
    Ok(Some(Scope::new(identity.tenant, identity.kind, identity.id)))
}

pub(super) fn content_of(scope: &Scope) -> Result<Vec<u8>> {
    let identity =
        Identity { format: 1, tenant: scope.tenant.clone(), kind: scope.kind, id: scope.id.clone() };
    serde_json::to_vec(&identity)
        .map_err(|error| Error::internal("a scope's identity cannot be written").with_source(error))
}

pub(super) fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
