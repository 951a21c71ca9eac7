//! Opaque positions in a listing, the same for every backend.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::scope::{Key, Scope, ScopeId, ScopeKind, TenantId};

const TAG_BYTES: usize = 8;
/// Longest accepted cursor text.
const MAX_CURSOR_BYTES: usize = 4_096;

/// Where the next page begins. Opaque to callers, and valid only for the same scope and prefix. It names the last key
/// seen, so it survives deletes, inserts and restarts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cursor(String);

impl Cursor {
    /// Accepts a cursor's text from outside; [`Cursor::key`] and [`Cursor::scope`] validate it.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text to pass back later.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A cursor after `key` in the listing of `scope` with `prefix`.
    #[must_use]
    pub fn after_key(scope: &Scope, prefix: &str, key: &Key) -> Self {
        Self::encode(list_of(scope, prefix), key.as_str())
    }

    /// The key that the page starts after.
    ///
    /// # Errors
    /// `invalid_argument` for a text that [`Cursor::after_key`] did not create for this scope and prefix.
    pub fn key(&self, scope: &Scope, prefix: &str) -> Result<Key> {
        self.decode(list_of(scope, prefix)).and_then(|text| Key::new(text).ok()).ok_or_else(foreign)
    }

    /// A cursor after a scope in the listing of a tenant's scopes.
    #[must_use]
    pub fn after_scope(tenant: &TenantId, kind: ScopeKind, id: &ScopeId) -> Self {
        Self::encode(scopes_of(tenant), &format!("{kind}:{id}"))
    }

    /// The (kind, id) that the page of scopes starts after.
    ///
    /// # Errors
    /// `invalid_argument` for a text that [`Cursor::after_scope`] did not create for this tenant.
    pub fn scope(&self, tenant: &TenantId) -> Result<(ScopeKind, ScopeId)> {
        let text = self.decode(scopes_of(tenant)).ok_or_else(foreign)?;
        let (kind, id) = text.split_once(':').ok_or_else(foreign)?;
        Ok((ScopeKind::from_stored(kind).map_err(|_| foreign())?, ScopeId::new(id).map_err(|_| foreign())?))
    }

    fn encode(listing: Sha256, last: &str) -> Self {
        let mut bytes = tag(listing, last.as_bytes()).to_vec();
        bytes.extend_from_slice(last.as_bytes());
        Self(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn decode(&self, listing: Sha256) -> Option<String> {
        if self.0.len() > MAX_CURSOR_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(&self.0).ok()?;
        let (found, last) = bytes.split_first_chunk::<TAG_BYTES>()?;
        if *found != tag(listing, last) {
            return None;
        }
        String::from_utf8(last.to_vec()).ok()
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

/// The first bytes of a cursor: a hash of the listing and the last item seen, so that no part of the text can be
/// altered.
fn tag(listing: Sha256, last: &[u8]) -> [u8; TAG_BYTES] {
    let hash = listing.chain_update(last).finalize();
    let mut tag = [0; TAG_BYTES];
    for (to, from) in tag.iter_mut().zip(hash) {
        *to = from;
    }
    tag
}

fn list_of(scope: &Scope, prefix: &str) -> Sha256 {
    // The length separates the prefix from the key that follows.
    let length = u64::try_from(prefix.len()).unwrap_or(u64::MAX);
    Sha256::new()
        .chain_update(b"list")
        .chain_update(scope.digest().as_bytes())
        .chain_update(length.to_be_bytes())
        .chain_update(prefix.as_bytes())
}

fn scopes_of(tenant: &TenantId) -> Sha256 {
    let length = u64::try_from(tenant.as_str().len()).unwrap_or(u64::MAX);
    Sha256::new().chain_update(b"scopes").chain_update(length.to_be_bytes()).chain_update(tenant.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_only_for_its_own_listing() {
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
    fn a_cursor_that_was_cut_or_changed_anywhere_is_refused() {
        let scope = Scope::agent("t", "a").unwrap();
        let tenant = TenantId::new("t").unwrap();
        let of_keys = Cursor::after_key(&scope, "", &Key::new("a-key-of-some-length").unwrap());
        let of_scopes = Cursor::after_scope(&tenant, ScopeKind::User, &ScopeId::new("some-user").unwrap());
        let reads = |text: &str| {
            let cursor = Cursor::from_text(text);
            cursor.key(&scope, "").is_ok() || cursor.scope(&tenant).is_ok()
        };
        for cursor in [of_keys, of_scopes] {
            let text = cursor.as_str();
            assert!(reads(text));
            for at in 0..text.len() {
                assert!(!reads(&text[..at]), "cut at {at}");
                let other = if text.as_bytes()[at] == b'A' { "B" } else { "A" };
                assert!(!reads(&format!("{}{other}{}", &text[..at], &text[at + 1..])), "changed at {at}");
            }
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
