//! Forgetting: what to erase, the tombstones this leaves, and the age of imported copies (`docs/spec/forget.md`).

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::scope::{Key, Scope, TenantId};
use crate::time::Timestamp;

/// What to erase.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EraseTarget {
    /// Every scope of a tenant, of every kind.
    Tenant(TenantId),
    /// A scope: its entries and its SQL database.
    Scope(Scope),
    /// One entry.
    Key {
        /// Its scope.
        scope: Scope,
        /// The key.
        key: Key,
    },
}

impl EraseTarget {
    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        match self {
            Self::Tenant(tenant) => tenant,
            Self::Scope(scope) | Self::Key { scope, .. } => &scope.tenant,
        }
    }

    /// The scope; `None` for a tenant.
    #[must_use]
    pub fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Tenant(_) => None,
            Self::Scope(scope) | Self::Key { scope, .. } => Some(scope),
        }
    }

    /// The key; `None` for a scope or a tenant.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Key { key, .. } => Some(key),
            Self::Tenant(_) | Self::Scope(_) => None,
        }
    }

    /// `tenant`, `scope` or `key`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Tenant(_) => "tenant",
            Self::Scope(_) => "scope",
            Self::Key { .. } => "key",
        }
    }

    /// Whether a whole scope is covered.
    #[must_use]
    pub fn has_scope(&self, scope: &Scope) -> bool {
        match self {
            Self::Tenant(tenant) => *tenant == scope.tenant,
            Self::Scope(only) => only == scope,
            Self::Key { .. } => false,
        }
    }

    /// Whether an entry is covered.
    #[must_use]
    pub fn has_entry(&self, scope: &Scope, key: &Key) -> bool {
        match self {
            Self::Key { scope: of, key: only } => of == scope && only == key,
            _ => self.has_scope(scope),
        }
    }
}

/// Stands for a forgotten name: its SHA-256. As text, 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct NameDigest([u8; 32]);

impl NameDigest {
    /// From its bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest of a tenant. The encoding is fixed forever: `"memory.tenant.v1"`, then the length of the id in bytes
    /// (unsigned 64-bit big-endian) and its UTF-8 bytes.
    #[must_use]
    pub fn of_tenant(tenant: &TenantId) -> Self {
        Self::of(b"memory.tenant.v1", tenant.as_str(), &[])
    }

    /// The digest of a scope: [`Scope::digest`].
    #[must_use]
    pub fn of_scope(scope: &Scope) -> Self {
        Self(*scope.digest().as_bytes())
    }

    /// The digest of a key in the scope with this digest: `"memory.key.v1"`, the scope's digest, then the key's length
    /// and bytes.
    #[must_use]
    pub fn of_key(scope: &Self, key: &Key) -> Self {
        Self::of(b"memory.key.v1", key.as_str(), &scope.0)
    }

    fn of(space: &[u8], name: &str, within: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(space);
        hash.update(within);
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name.as_bytes());
        Self(hash.finalize().into())
    }
}

impl fmt::Display for NameDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for NameDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NameDigest({self})")
    }
}

impl From<NameDigest> for String {
    fn from(digest: NameDigest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for NameDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let malformed = "a digest has 64 lower-case hexadecimal digits";
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
        match bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
            Some(bytes) if rest.is_empty() => Ok(Self(bytes)),
            _ => Err(malformed),
        }
    }
}

/// The target of a tombstone. Ids sort a tenant before its scopes, and a scope before its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TombstoneId {
    /// The tenant.
    pub tenant: NameDigest,
    /// The scope; `None`: the whole tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<NameDigest>,
    /// The key; `None`: the whole scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<NameDigest>,
}

impl TombstoneId {
    /// The id of a target.
    #[must_use]
    pub fn of(target: &EraseTarget) -> Self {
        let scope = target.scope().map(NameDigest::of_scope);
        Self {
            tenant: NameDigest::of_tenant(target.tenant()),
            scope,
            key: scope.as_ref().zip(target.key()).map(|(scope, key)| NameDigest::of_key(scope, key)),
        }
    }

    /// The most specific of its digests, which identifies the target.
    #[must_use]
    pub fn digest(&self) -> NameDigest {
        self.key.or(self.scope).unwrap_or(self.tenant)
    }

    /// Whether it affects a scope: by its tenant, the scope itself, or a key in it.
    #[must_use]
    pub fn concerns(&self, tenant: &NameDigest, scope: &NameDigest) -> bool {
        self.tenant == *tenant && self.scope.is_none_or(|of| of == *scope)
    }
}

/// The record that remains of something erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tombstone {
    /// What was erased.
    #[serde(flatten)]
    pub id: TombstoneId,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// No erased entry had a higher version.
    pub version: u64,
}

impl Tombstone {
    /// Whether a copy taken at this time is older.
    #[must_use]
    pub fn is_after(&self, taken: Timestamp) -> bool {
        taken <= self.at
    }

    /// Merges two tombstones of the same target.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Self { id: self.id, at: self.at.max(other.at), version: self.version.max(other.version) }
    }
}

/// Whether an import is a copy, and how old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Taken {
    /// Not a copy: an ordinary write, stored whatever was forgotten before.
    #[default]
    New,
    /// A copy taken at this time.
    At(Timestamp),
    /// A copy without a date: each record is as old as its last update.
    Undated,
}

impl Taken {
    /// When a record last updated at this time counts as taken; `None` if it is not a copy.
    #[must_use]
    pub fn taken_at(self, updated_at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::New => None,
            Self::At(at) => Some(at),
            Self::Undated => Some(updated_at),
        }
    }
}

/// The result of [`Provider::erase`](crate::Provider::erase).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Erased {
    /// The tombstone.
    pub tombstone: Tombstone,
    /// Scopes that held entries at some time; for a key, none.
    pub scopes: u64,
    /// Entries, including expired ones.
    pub entries: u64,
    /// SQL databases.
    pub databases: u64,
    /// What remains on the medium, where, and until when, without names. Empty: nothing.
    pub remains: Vec<String>,
}

impl Erased {
    /// A tombstone without any erased data.
    #[must_use]
    pub fn new(tombstone: Tombstone) -> Self {
        Self { tombstone, scopes: 0, entries: 0, databases: 0, remains: Vec::new() }
    }
}

/// Which tombstones to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TombstonesOf {
    /// All.
    #[default]
    Store,
    /// Those of a tenant, its scopes and their keys.
    Tenant(TenantId),
    /// Those that concern a scope: its tenant's, its own, its keys'.
    Scope(Scope),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_pinned_and_survive_their_text() {
        let scope = Scope::user("acme", "ada").unwrap();
        let target = EraseTarget::Key { scope: scope.clone(), key: Key::new("tea").unwrap() };
        let id = TombstoneId::of(&target);
        assert_eq!(id.scope.unwrap().to_string(), scope.digest().to_hex());
        assert_eq!(id.tenant.to_string(), "30f283b01dc8b8e8e5dc433dfaecdf6c89e9576eedabb8f575cfa5d0f646903f");
        assert_eq!(
            id.digest().to_string(),
            "ac9eab8939785f945e4334a7a92a8296c48c65e605551323c389df1679ac5a02"
        );
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<TombstoneId>(&text).unwrap(), id);
        for bad in ["", "zz", &"A".repeat(64), &"0".repeat(63), &"0".repeat(66)] {
            assert!(NameDigest::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_that_concatenate_alike_have_different_digests() {
        let scope = NameDigest::of_scope(&Scope::user("a", "b").unwrap());
        let key = |text: &str| NameDigest::of_key(&scope, &Key::new(text).unwrap());
        assert_ne!(key("a"), key("aa"));
        let other = NameDigest::of_scope(&Scope::user("a", "c").unwrap());
        assert_ne!(key("a"), NameDigest::of_key(&other, &Key::new("a").unwrap()));
    }

    #[test]
    fn a_copy_of_the_same_millisecond_counts_as_older() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let id = TombstoneId::of(&EraseTarget::Tenant(TenantId::new("t").unwrap()));
        let tombstone = Tombstone { id, at: at(5), version: 0 };
        assert!(tombstone.is_after(at(5)) && tombstone.is_after(at(4)) && !tombstone.is_after(at(6)));
        assert_eq!(Taken::New.taken_at(at(1)), None);
        assert_eq!(Taken::Undated.taken_at(at(1)), Some(at(1)));
        assert_eq!(Taken::At(at(9)).taken_at(at(1)), Some(at(9)));
    }
}
