//! Forgetting: what is to go, what stays of it, and how old a copy is that comes back (`docs/spec/forget.md`).

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::scope::{Key, Scope, TenantId};
use crate::time::Timestamp;

/// What is to be erased.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EraseTarget {
    /// Every scope of a tenant, of every kind.
    Tenant(TenantId),
    /// A scope: its entries and its SQL database.
    Scope(Scope),
    /// One entry.
    Key {
        /// Whose.
        scope: Scope,
        /// Which.
        key: Key,
    },
}

impl EraseTarget {
    /// Whose it is.
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

    /// The key; `None` for what is larger.
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

    /// Whether all of a scope goes.
    #[must_use]
    pub fn has_scope(&self, scope: &Scope) -> bool {
        match self {
            Self::Tenant(tenant) => *tenant == scope.tenant,
            Self::Scope(only) => only == scope,
            Self::Key { .. } => false,
        }
    }

    /// Whether an entry goes.
    #[must_use]
    pub fn has_entry(&self, scope: &Scope, key: &Key) -> bool {
        match self {
            Self::Key { scope: of, key: only } => of == scope && only == key,
            _ => self.has_scope(scope),
        }
    }
}

/// What stands for a name that is to be forgotten: its SHA-256. As text, 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
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

    /// Of a tenant. Encoding, fixed for ever: `"memory.tenant.v1"`, then the id as its length in bytes (unsigned 64-bit
    /// big-endian) and its UTF-8 bytes.
    #[must_use]
    pub fn of_tenant(tenant: &TenantId) -> Self {
        Self::of(b"memory.tenant.v1", tenant.as_str(), &[])
    }

    /// Of a scope: [`Scope::digest`].
    #[must_use]
    pub fn of_scope(scope: &Scope) -> Self {
        Self(*scope.digest().as_bytes())
    }

    /// Of a key of the scope that has this digest: `"memory.key.v1"`, the scope's digest, then the key as its length and
    /// bytes.
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

/// What a tombstone is about, in the order in which they are listed: a tenant before its scopes, a scope before its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TombstoneId {
    /// Of the tenant.
    pub tenant: NameDigest,
    /// Of the scope; `None`: all of the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<NameDigest>,
    /// Of the key; `None`: all of the scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<NameDigest>,
}

impl TombstoneId {
    /// Of a target.
    #[must_use]
    pub fn of(target: &EraseTarget) -> Self {
        let scope = target.scope().map(NameDigest::of_scope);
        Self {
            tenant: NameDigest::of_tenant(target.tenant()),
            scope,
            key: scope.as_ref().zip(target.key()).map(|(scope, key)| NameDigest::of_key(scope, key)),
        }
    }

    /// The most precise of its digests, by which the target is known.
    #[must_use]
    pub fn digest(&self) -> NameDigest {
        self.key.or(self.scope).unwrap_or(self.tenant)
    }

    /// Whether it concerns a scope: the whole tenant, the scope, or a key of it.
    #[must_use]
    pub fn concerns(&self, tenant: &NameDigest, scope: &NameDigest) -> bool {
        self.tenant == *tenant && self.scope.is_none_or(|of| of == *scope)
    }
}

/// What stays of something that was erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tombstone {
    /// What was erased.
    #[serde(flatten)]
    pub id: TombstoneId,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// No entry that was erased had a version above it.
    pub version: u64,
}

impl Tombstone {
    /// Whether a copy that was taken at this moment is from before.
    #[must_use]
    pub fn is_after(&self, taken: Timestamp) -> bool {
        taken <= self.at
    }

    /// The two of one target as one.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        Self { id: self.id, at: self.at.max(other.at), version: self.version.max(other.version) }
    }
}

/// How old what is imported is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Taken {
    /// It is no copy: an ordinary write, stored whatever was forgotten before.
    #[default]
    New,
    /// It is a copy that was taken at this moment.
    At(Timestamp),
    /// It is a copy without a date: each record is as old as its last update.
    Undated,
}

impl Taken {
    /// The moment by which a record of that last update is judged; `None`: it is not judged.
    #[must_use]
    pub fn moment(self, updated_at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::New => None,
            Self::At(at) => Some(at),
            Self::Undated => Some(updated_at),
        }
    }
}

/// What [`Provider::erase`](crate::Provider::erase) did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Erased {
    /// The tombstone it left.
    pub tombstone: Tombstone,
    /// Scopes that held entries, or had held some; for a key, none.
    pub scopes: u64,
    /// Entries, those that had expired included.
    pub entries: u64,
    /// SQL databases.
    pub databases: u64,
    /// What is left on the medium, where, and until when; without a name. Empty: nothing.
    pub remains: Vec<String>,
}

impl Erased {
    /// A tombstone was written, and nothing was there.
    #[must_use]
    pub fn new(tombstone: Tombstone) -> Self {
        Self { tombstone, scopes: 0, entries: 0, databases: 0, remains: Vec::new() }
    }
}

/// Which tombstones are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TombstonesOf {
    /// All.
    #[default]
    Store,
    /// Those of a tenant, its scopes and their keys.
    Tenant(TenantId),
    /// Those that concern a scope: of its tenant, itself, its keys.
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
    fn names_that_run_together_have_digests_of_their_own() {
        let scope = NameDigest::of_scope(&Scope::user("a", "b").unwrap());
        let key = |text: &str| NameDigest::of_key(&scope, &Key::new(text).unwrap());
        assert_ne!(key("a"), key("aa"));
        let other = NameDigest::of_scope(&Scope::user("a", "c").unwrap());
        assert_ne!(key("a"), NameDigest::of_key(&other, &Key::new("a").unwrap()));
    }

    #[test]
    fn a_copy_of_the_same_moment_is_from_before() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let id = TombstoneId::of(&EraseTarget::Tenant(TenantId::new("t").unwrap()));
        let tombstone = Tombstone { id, at: at(5), version: 0 };
        assert!(tombstone.is_after(at(5)) && tombstone.is_after(at(4)) && !tombstone.is_after(at(6)));
        assert_eq!(Taken::New.moment(at(1)), None);
        assert_eq!(Taken::Undated.moment(at(1)), Some(at(1)));
        assert_eq!(Taken::At(at(9)).moment(at(1)), Some(at(9)));
    }
}
