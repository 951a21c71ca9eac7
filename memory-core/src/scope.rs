//! Tenants, scopes, keys and run contexts: who owns an entry.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::limits::{MAX_ID_BYTES, MAX_KEY_BYTES};

fn check_id(what: &'static str, id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::invalid(format!("{what} is empty; give 1 to {MAX_ID_BYTES} bytes of UTF-8")));
    }
    if id.len() > MAX_ID_BYTES {
        return Err(Error::too_large(what, id.len(), MAX_ID_BYTES, "bytes"));
    }
    if id == "*" {
        return Err(Error::invalid(format!("{what} is `*`; a wildcard is not an id")));
    }
    if id.chars().any(char::is_control) {
        return Err(Error::invalid(format!("{what} has a control character; remove it")));
    }
    if id.trim() != id {
        return Err(Error::invalid(format!("{what} has leading or trailing white space; trim it")));
    }
    Ok(())
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        ///
        /// 1 to 256 bytes of UTF-8, no control characters, no leading or trailing white space, never `*`. Compared byte
        /// by byte: case matters, and nothing is normalised.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[cfg_attr(feature = "schema", schemars(with = "String", extend("minLength" = 1, "maxLength" = MAX_ID_BYTES)))]
        pub struct $name(Box<str>);

        impl $name {
            /// Validates `id`.
            ///
            /// # Errors
            /// `invalid_argument` or `too_large` if it breaks the rules of the type.
            pub fn new(id: impl Into<String>) -> Result<Self> {
                let id = id.into();
                check_id($what, &id)?;
                Ok(Self(id.into_boxed_str()))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;
            fn from_str(id: &str) -> Result<Self> {
                Self::new(id)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(id: String) -> Result<Self> {
                Self::new(id)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Error;
            fn try_from(id: &str) -> Result<Self> {
                Self::new(id)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.into_string()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

id_type!(
    /// The customer or installation that owns scopes; nothing ever crosses its boundary.
    TenantId,
    "tenant id"
);
id_type!(
    /// The agent, user or run a scope belongs to.
    ScopeId,
    "scope id"
);

/// The kind of owner of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScopeKind {
    /// The runtime itself: tables of its own beside those of its agents. Durable. No text names it: parsing and
    /// deserialising a kind refuse it, so that only the runtime's own code comes by such a scope, with
    /// [`Scope::host`].
    #[serde(skip_deserializing)]
    Host,
    /// One agent, across its users and runs. Durable.
    Agent,
    /// One user, across agents and runs. Durable.
    User,
    /// One spawn tree, identified by its root run. Dropped at its end.
    Run,
}

impl ScopeKind {
    /// Every kind that a caller may name: all but [`ScopeKind::Host`].
    pub const ALL: [Self; 3] = [Self::Agent, Self::User, Self::Run];

    /// `agent`, `user` or `run`; `host` for the one kind that cannot be parsed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Agent => "agent",
            Self::User => "user",
            Self::Run => "run",
        }
    }

    /// Reads what [`as_str`](Self::as_str) wrote, including `host`. For what a store itself has written, never for what
    /// a caller names.
    ///
    /// # Errors
    /// `invalid_argument` for any other text.
    pub fn from_stored(text: &str) -> Result<Self> {
        if text == Self::Host.as_str() { Ok(Self::Host) } else { text.parse() }
    }

    /// Whether scopes of this kind outlive a run.
    #[must_use]
    pub const fn is_durable(self) -> bool {
        !matches!(self, Self::Run)
    }
}

impl fmt::Display for ScopeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ScopeKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| Error::invalid("a scope kind is one of agent, user, run"))
    }
}

fn stored_kind<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<ScopeKind, D::Error> {
    let text = <std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
    ScopeKind::from_stored(&text).map_err(serde::de::Error::custom)
}

/// The unit of isolation: every operation names exactly one.
///
/// As JSON it is what a store, a snapshot or a journal has written down, scopes of the host included. A caller never
/// gives a scope, only a [`ScopeKind`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scope {
    /// The owner of the scope.
    pub tenant: TenantId,
    /// Agent, user or run; or the host's.
    #[serde(deserialize_with = "stored_kind")]
    pub kind: ScopeKind,
    /// The id within tenant and kind.
    pub id: ScopeId,
}

/// SHA-256 of a scope; every name created for the scope is derived from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScopeDigest([u8; 32]);

impl ScopeDigest {
    /// The digest with these bytes, as stored.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }
}

impl fmt::Debug for ScopeDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScopeDigest({})", self.to_hex())
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Scope {
    /// A scope from validated parts.
    #[must_use]
    pub fn new(tenant: TenantId, kind: ScopeKind, id: ScopeId) -> Self {
        Self { tenant, kind, id }
    }

    /// The scope of an agent.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` for a malformed id.
    pub fn agent(tenant: &str, id: &str) -> Result<Self> {
        Ok(Self::new(TenantId::new(tenant)?, ScopeKind::Agent, ScopeId::new(id)?))
    }

    /// The scope of a user.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` for a malformed id.
    pub fn user(tenant: &str, id: &str) -> Result<Self> {
        Ok(Self::new(TenantId::new(tenant)?, ScopeKind::User, ScopeId::new(id)?))
    }

    /// The scope of a run tree, by the id of its root run.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` for a malformed id.
    pub fn run(tenant: &str, root_run: &str) -> Result<Self> {
        Ok(Self::new(TenantId::new(tenant)?, ScopeKind::Run, ScopeId::new(root_run)?))
    }

    /// A scope of the runtime itself, which no agent or user can name. If the provider advertises
    /// [`host_tables`](crate::Capabilities::host_tables), its SQL database holds the tables of whatever is built on the
    /// provider. It belongs to its tenant, and is listed, copied and erased with it.
    ///
    /// # Errors
    /// `invalid_argument` or `too_large` for a malformed id.
    pub fn host(tenant: &str, space: &str) -> Result<Self> {
        Ok(Self::new(TenantId::new(tenant)?, ScopeKind::Host, ScopeId::new(space)?))
    }

    /// SHA-256 of a length-prefixed and so injective encoding: two scopes never share a file, schema, role, remote user
    /// id or cache line.
    ///
    /// The encoding is fixed forever: `"memory.scope.v1"`, then tenant, kind and id, each as its length in bytes
    /// (unsigned 64-bit big-endian) and its UTF-8 bytes.
    #[must_use]
    pub fn digest(&self) -> ScopeDigest {
        let mut hash = Sha256::new();
        hash.update(b"memory.scope.v1");
        for part in [self.tenant.as_str(), self.kind.as_str(), self.id.as_str()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        ScopeDigest(hash.finalize().into())
    }
}

/// `tenant/kind/id`, for people. Ambiguous if ids contain `/`, so never parse it.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant, self.kind, self.id)
    }
}

/// The name of an entry within its scope: 1 to 1,024 bytes of UTF-8 without NUL.
///
/// Ordered and compared by bytes; `%`, `_` and case have no special meaning.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String", extend("minLength" = 1, "maxLength" = MAX_KEY_BYTES)))]
pub struct Key(Box<str>);

impl Key {
    /// Validates `key`.
    ///
    /// # Errors
    /// `invalid_argument` for an empty key or one with NUL, `too_large` over 1,024 bytes.
    pub fn new(key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        if key.is_empty() {
            return Err(Error::invalid(format!("the key is empty; give 1 to {MAX_KEY_BYTES} bytes")));
        }
        if key.len() > MAX_KEY_BYTES {
            return Err(Error::too_large("key", key.len(), MAX_KEY_BYTES, "bytes"));
        }
        if key.contains('\0') {
            return Err(Error::invalid("the key has a NUL character; remove it"));
        }
        Ok(Self(key.into_boxed_str()))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Key {
    type Err = Error;
    fn from_str(key: &str) -> Result<Self> {
        Self::new(key)
    }
}

impl TryFrom<String> for Key {
    type Error = Error;
    fn try_from(key: String) -> Result<Self> {
        Self::new(key)
    }
}

impl TryFrom<&str> for Key {
    type Error = Error;
    fn try_from(key: &str) -> Result<Self> {
        Self::new(key)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0.into_string()
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A per-run secret for a remote backend. Never shown by `Debug`, never serialised.
#[derive(Clone)]
pub struct Secret(std::sync::Arc<str>);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub fn new(secret: impl Into<std::sync::Arc<str>>) -> Self {
        Self(secret.into())
    }

    /// The secret itself; keep it out of logs, errors and replies.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The caller. It comes from the runtime, never from a model's input.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "WrittenRun")]
#[non_exhaustive]
pub struct RunContext {
    /// The tenant of the run; a scope of another tenant is refused.
    pub tenant: TenantId,
    /// The running agent.
    pub agent: ScopeId,
    /// The user on whose behalf it runs, if any.
    pub user: Option<ScopeId>,
    /// This run.
    pub run: ScopeId,
    /// The root of its spawn tree, which identifies the run scope and owns transactions.
    pub root_run: ScopeId,
    /// The caller's trace id, for logs and audit.
    pub trace: Option<String>,
    /// Per-run secrets for remote backends, by reference name.
    #[serde(skip)]
    pub credentials: BTreeMap<String, Secret>,
}

/// A run as JSON: without credentials, which never leave the process in it; `root_run` is `run` if it is missing.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct WrittenRun {
    tenant: TenantId,
    agent: ScopeId,
    #[serde(default)]
    user: Option<ScopeId>,
    run: ScopeId,
    #[serde(default)]
    root_run: Option<ScopeId>,
    #[serde(default)]
    trace: Option<String>,
}

impl From<WrittenRun> for RunContext {
    fn from(written: WrittenRun) -> Self {
        let mut run = Self::new(written.tenant, written.agent, written.run);
        run.user = written.user;
        run.trace = written.trace;
        if let Some(root_run) = written.root_run {
            run.root_run = root_run;
        }
        run
    }
}

impl RunContext {
    /// A root run of `agent` without a user, trace or credentials.
    #[must_use]
    pub fn new(tenant: TenantId, agent: ScopeId, run: ScopeId) -> Self {
        Self {
            tenant,
            agent,
            user: None,
            root_run: run.clone(),
            run,
            trace: None,
            credentials: BTreeMap::new(),
        }
    }

    /// Sets the user.
    #[must_use]
    pub fn with_user(mut self, user: ScopeId) -> Self {
        self.user = Some(user);
        self
    }

    /// The scope of `kind` that belongs to this run; `None` for the host, and for the user scope if the run has no
    /// user.
    #[must_use]
    pub fn scope(&self, kind: ScopeKind) -> Option<Scope> {
        let id = match kind {
            ScopeKind::Agent => self.agent.clone(),
            ScopeKind::User => self.user.clone()?,
            ScopeKind::Run => self.root_run.clone(),
            ScopeKind::Host => return None,
        };
        Some(Scope::new(self.tenant.clone(), kind, id))
    }
}

/// The smallest string above every string that begins with `prefix`; `None` if there is none.
///
/// UTF-8 sorts by code point, so incrementing the last character that can be incremented bounds the prefix exactly.
#[must_use]
pub fn upper_bound(prefix: &str) -> Option<String> {
    let mut bound = prefix.to_owned();
    while let Some(last) = bound.pop() {
        let next = match u32::from(last) {
            // The surrogates in between are not characters.
            0xd7ff => 0xe000,
            point => point + 1,
        };
        if let Some(next) = char::from_u32(next) {
            bound.push(next);
            return Some(bound);
        }
    }
    None
}

/// The smallest string above `key`.
#[must_use]
pub fn successor(key: &str) -> String {
    format!("{key}\0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn ids_refuse_wildcards_and_confusing_characters() {
        for bad in ["", "*", " a", "a ", "\u{a0}a", "a\nb", "a\0", "\u{85}"] {
            assert_eq!(ScopeId::new(bad).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad:?}");
        }
        assert_eq!(ScopeId::new("x".repeat(257)).unwrap_err().kind(), ErrorKind::TooLarge);
        for good in ["../x", "a b", "%", "**", "é", &"x".repeat(256)] {
            assert_eq!(ScopeId::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn digests_are_injective_and_pinned() {
        let a = Scope::agent("t", "ab").unwrap();
        let b = Scope::agent("ta", "b").unwrap();
        assert_ne!(a.digest(), b.digest());
        assert_ne!(a.digest(), Scope::user("t", "ab").unwrap().digest());
        assert_eq!(
            Scope::agent("acme", "planner").unwrap().digest().to_hex(),
            "f5e5d0f41a407f3dfc25ed005a5748e0d916aee2029190b696967e541147a931",
        );
    }

    #[test]
    fn no_text_names_a_scope_of_the_host_but_a_store_reads_its_own() {
        assert!("host".parse::<ScopeKind>().is_err());
        assert!(serde_json::from_str::<ScopeKind>("\"host\"").is_err());
        assert!(!ScopeKind::ALL.contains(&ScopeKind::Host));
        let run = RunContext::new("t".parse().unwrap(), "host".parse().unwrap(), "host".parse().unwrap());
        assert!(
            ScopeKind::ALL.iter().all(|kind| run.scope(*kind).is_none_or(|own| own.kind != ScopeKind::Host))
        );
        assert_eq!(run.scope(ScopeKind::Host), None);
        let host = Scope::host("t", "shared").unwrap();
        let text = serde_json::to_string(&host).unwrap();
        assert_eq!(serde_json::from_str::<Scope>(&text).unwrap(), host);
        assert!(ScopeKind::Host.is_durable());
        for kind in ScopeKind::ALL {
            assert_ne!(host.digest(), Scope { kind, ..host.clone() }.digest());
            assert!(ScopeKind::Host < kind, "runs, which are not durable, are listed last");
        }
    }

    #[test]
    fn secrets_do_not_show() {
        let mut run = RunContext::new(
            TenantId::new("t").unwrap(),
            ScopeId::new("a").unwrap(),
            ScopeId::new("r").unwrap(),
        );
        run.credentials.insert("mem0".into(), Secret::new("sk-very-secret"));
        assert!(!format!("{run:?}").contains("very-secret"));
    }

    #[test]
    fn an_upper_bound_is_above_every_extension_and_below_every_other() {
        for prefix in ["a", "a\u{d7ff}", "é", "zz\u{10ffff}", "\u{7f}", "\u{ffff}", "a%_", "\u{10ffff}a"] {
            let bound = upper_bound(prefix).unwrap();
            for extension in ["", "\u{1}", "x", "\u{10ffff}\u{10ffff}"] {
                assert!(format!("{prefix}{extension}").as_bytes() < bound.as_bytes(), "{prefix:?}");
            }
            assert!(!bound.starts_with(prefix));
        }
        assert_eq!(upper_bound("\u{10ffff}\u{10ffff}"), None);
        assert_eq!(upper_bound(""), None);
        assert!("key" < successor("key").as_str() && successor("key").as_str() < "key\u{1}");
    }
}
