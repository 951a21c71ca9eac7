//! Opaque positions in a listing, the same for every backend.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::scope::{Key, Scope, ScopeId, ScopeKind, TenantId};

const TAG_BYTES: usize = 8;
/// Longest cursor text that is looked at.
const MAX_CURSOR_BYTES: usize = 4_096;

/// Where the next page begins. Opaque to callers; valid for the same scope and prefix only, and
/// for ever: it names the last key seen, so it survives deletes, inserts and restarts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cursor(String);

impl Cursor {
    /// Takes a cursor's text from outside; [`Cursor::key`] and [`Cursor::scope`] judge it.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to hand back later.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A cursor behind `key` in the listing of `scope` with `prefix`.
    #[must_use]
    pub fn after_key(scope: &Scope, prefix: &str, key: &Key) -> Self {
        Self::encode(&list_tag(scope, prefix), key.as_str().as_bytes())
    }

    /// The key behind which the page begins.
    ///
    /// # Errors
    /// `invalid_argument` for a text that [`Cursor::after_key`] did not make for this scope and prefix.
    pub fn key(&self, scope: &Scope, prefix: &str) -> Result<Key> {
        self.decode(&list_tag(scope, prefix)).and_then(|text| Key::new(text).ok()).ok_or_else(foreign)
    }

    /// A cursor behind a scope in the listing of a tenant's scopes.
    #[must_use]
    pub fn after_scope(tenant: &TenantId, kind: ScopeKind, id: &ScopeId) -> Self {
        Self::encode(&scopes_tag(tenant), format!("{kind}:{id}").as_bytes())
    }

    /// The (kind, id) behind which the page of scopes begins.
    ///
    /// # Errors
    /// `invalid_argument` for a text that [`Cursor::after_scope`] did not make for this tenant.
    pub fn scope(&self, tenant: &TenantId) -> Result<(ScopeKind, ScopeId)> {
        let text = self.decode(&scopes_tag(tenant)).ok_or_else(foreign)?;
        let (kind, id) = text.split_once(':').ok_or_else(foreign)?;
        Ok((kind.parse().map_err(|_| foreign())?, ScopeId::new(id).map_err(|_| foreign())?))
    }

    fn encode(tag: &[u8; TAG_BYTES], payload: &[u8]) -> Self {
        let mut bytes = tag.to_vec();
        bytes.extend_from_slice(payload);
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn decode(&self, tag: &[u8; TAG_BYTES]) -> Option<String> {
        if self.0.len() > MAX_CURSOR_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(&self.0).ok()?;
        let payload = bytes.strip_prefix(tag)?;
        String::from_utf8(payload.to_vec()).ok()
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn foreign() -> Error {
    Error::invalid("the cursor is not one that this listing returned; start again without a cursor")
}

fn first_bytes(hash: &[u8]) -> [u8; TAG_BYTES] {
    let mut tag = [0; TAG_BYTES];
    for (to, from) in tag.iter_mut().zip(hash) {
        *to = *from;
    }
    tag
}

fn list_tag(scope: &Scope, prefix: &str) -> [u8; TAG_BYTES] {
    let mut hash = Sha256::new();
    hash.update(b"list");
    hash.update(scope.digest().as_bytes());
    hash.update(prefix.as_bytes());
    first_bytes(&hash.finalize())
}

fn scopes_tag(tenant: &TenantId) -> [u8; TAG_BYTES] {
    let mut hash = Sha256::new();
    hash.update(b"scopes");
    hash.update(tenant.as_str().as_bytes());
    first_bytes(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_good_for_its_own_listing_only() {
        let scope = Scope::agent("t", "a").unwrap();
        let other = Scope::agent("t", "b").unwrap();
        let key = Key::new("näme/1").unwrap();
        let cursor = Cursor::after_key(&scope, "n", &key);
        assert_eq!(cursor.key(&scope, "n").unwrap(), key);
        assert!(cursor.key(&other, "n").is_err());
        assert!(cursor.key(&scope, "nä").is_err());
        for bad in ["", "a", "!!!!", "AAAAAAAAAAAAAAAA", &"A".repeat(100_000)] {
            assert!(Cursor::from_text(bad).key(&scope, "n").is_err());
        }
    }

    #[test]
    fn scope_cursors_keep_ids_with_colons() {
        let tenant = TenantId::new("t").unwrap();
        let id = ScopeId::new("a:b").unwrap();
        let cursor = Cursor::after_scope(&tenant, ScopeKind::User, &id);
        assert_eq!(cursor.scope(&tenant).unwrap(), (ScopeKind::User, id));
        assert!(cursor.scope(&TenantId::new("u").unwrap()).is_err());
    }
}
