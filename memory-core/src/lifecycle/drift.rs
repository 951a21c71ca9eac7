//! Drift: compares what a session last saw with what is stored now. `docs/spec/drift.md` specifies it.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::entry::{Entry, Metadata, Scalar, Source, hex_bytes};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::json::Json;
use crate::time::Timestamp;

/// When a write is refused for drift; later variants are stricter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DriftPolicy {
    /// Never.
    #[default]
    Off,
    /// If somebody else changed, deleted or created the entry since the session read it; of an entry that it has not
    /// read, if somebody else wrote it since the session began.
    Row,
    /// If somebody else changed anything in the scope since the session read it.
    Strict,
}

impl DriftPolicy {
    /// Every policy, loosest first.
    pub const ALL: [Self; 3] = [Self::Off, Self::Row, Self::Strict];

    /// Its wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Row => "row",
            Self::Strict => "strict",
        }
    }
}

impl fmt::Display for DriftPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One state of one scope. Tokens are only equal or different; they have no order, since a restored copy may be at a
/// lower generation, or at the same one with another history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct DriftToken {
    /// The database's id, fixed at its creation.
    pub database: u128,
    /// Grows with every change of an entry; `None`: nothing was ever written.
    pub generation: Option<NonZeroU64>,
    /// Changes with every generation; 0 without one.
    pub nonce: u64,
}

impl DriftToken {
    /// The token of a scope at `generation`; 0 means none.
    #[must_use]
    pub fn new(database: u128, generation: u64, nonce: u64) -> Self {
        let generation = NonZeroU64::new(generation);
        Self { database, generation, nonce: if generation.is_some() { nonce } else { 0 } }
    }

    /// Sets the `actual` token of a drift refusal to this one; leaves other errors alone. For calls with many items
    /// that wrote nothing: the scope still has the token from before the first item.
    #[must_use]
    pub fn restate_in(self, refused: Error) -> Error {
        match refused.kind() {
            ErrorKind::DriftDetected => refused.with_detail("actual", self.to_string()),
            _ => refused,
        }
    }
}

impl fmt::Display for DriftToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.generation {
            Some(generation) => write!(f, "{:032x}.{generation}.{:016x}", self.database, self.nonce),
            None => write!(f, "{:032x}.none", self.database),
        }
    }
}

impl FromStr for DriftToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let hex = |text: &str, digits: usize| {
            let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            plain.then(|| u128::from_str_radix(text, 16).ok()).flatten()
        };
        let read = || {
            let (database, rest) = text.split_once('.')?;
            let database = hex(database, 32)?;
            if rest == "none" {
                return Some(Self::new(database, 0, 0));
            }
            let (generation, nonce) = rest.split_once('.')?;
            let generation: NonZeroU64 =
                generation.bytes().all(|byte| byte.is_ascii_digit()).then(|| generation.parse().ok())??;
            Some(Self::new(database, generation.get(), u64::try_from(hex(nonce, 16)?).ok()?))
        };
        read().ok_or_else(|| {
            Error::invalid("this is not a drift token; copy one from a refusal or from `drift status`")
        })
    }
}

impl Serialize for DriftToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DriftToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A 128-bit digest of an entry's value, metadata, source, text and expiry, without its history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct ContentDigest(#[serde(with = "hex_bytes")] [u8; 16]);

impl ContentDigest {
    /// The first half of SHA-256 over the parts, each preceded by its length.
    #[must_use]
    pub fn of(
        value: &Json,
        metadata: &Metadata,
        source: Option<&Source>,
        text: Option<&str>,
        expires_at: Option<Timestamp>,
    ) -> Self {
        let mut hash = Sha256::new();
        let mut part = |tag: u8, bytes: &[u8]| {
            hash.update([tag]);
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(b'v', value.as_str().as_bytes());
        for (name, scalar) in metadata.iter() {
            part(b'm', name.as_bytes());
            match scalar {
                Scalar::Bool(value) => part(b'b', &[u8::from(*value)]),
                Scalar::Int(value) => part(b'i', &value.to_le_bytes()),
                Scalar::Float(value) => part(b'f', &value.to_bits().to_le_bytes()),
                Scalar::Text(value) => part(b't', value.as_bytes()),
            }
        }
        if let Some(source) = source {
            part(b's', source.as_str().as_bytes());
        }
        if let Some(text) = text {
            part(b'x', text.as_bytes());
        }
        if let Some(at) = expires_at {
            part(b'e', &at.as_millis().to_le_bytes());
        }
        let mut half = [0; 16];
        half.iter_mut().zip(hash.finalize()).for_each(|(to, from)| *to = from);
        Self(half)
    }

    /// The digest of an entry that was read.
    #[must_use]
    pub fn of_entry(entry: &Entry) -> Self {
        Self::of(
            &entry.value,
            &entry.metadata,
            entry.source.as_ref(),
            entry.text.as_deref(),
            entry.expires_at,
        )
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContentDigest")
    }
}

/// What a session last saw of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// Nothing: the session has not looked. An entry of a later version than this one, the highest of the scope when the
    /// session began ([`DriftState::version`]), was written by somebody else since.
    Unread(u64),
    /// No live entry.
    Absent,
    /// A live entry.
    Entry {
        /// Its version.
        version: u64,
        /// Its expiry. After that, a missing entry is no drift.
        expires_at: Option<Timestamp>,
        /// Its content, to notice changes that left the version alone; `None`: unknown.
        digest: Option<ContentDigest>,
    },
}

impl Seen {
    /// What a read saw.
    #[must_use]
    pub fn of(entry: Option<&Entry>) -> Self {
        entry.map_or(Self::Absent, |entry| Self::Entry {
            version: entry.version,
            expires_at: entry.expires_at,
            digest: Some(ContentDigest::of_entry(entry)),
        })
    }

    /// Compares with the version of the live entry (`None`: there is none).
    ///
    /// # Errors
    /// How it differs.
    pub fn compare(&self, live: Option<u64>, now: Timestamp) -> std::result::Result<(), DriftReason> {
        match (self, live) {
            (Self::Unread(_) | Self::Absent, None) => Ok(()),
            (Self::Unread(began), Some(live)) if live <= *began => Ok(()),
            (Self::Unread(_) | Self::Absent, Some(_)) => Err(DriftReason::Appeared),
            (Self::Entry { version, .. }, Some(live)) if *version == live => Ok(()),
            (Self::Entry { .. }, Some(_)) => Err(DriftReason::Changed),
            (Self::Entry { expires_at: Some(at), .. }, None) if *at <= now => Ok(()),
            (Self::Entry { .. }, None) => Err(DriftReason::Vanished),
        }
    }
}

/// What a write compares, inside its own transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DriftCheck {
    /// Nothing; the outcome has no tokens.
    #[default]
    Off,
    /// Nothing; the outcome has the tokens before and after.
    Observe,
    /// The entry with what was seen of it.
    Row(Seen),
    /// The scope with its token, and the entry with what was seen of it, if anything.
    Strict(DriftToken, Option<Seen>),
}

impl DriftCheck {
    /// The policy of this check; `None`: any.
    #[must_use]
    pub const fn policy(&self) -> Option<DriftPolicy> {
        match self {
            Self::Off => Some(DriftPolicy::Off),
            Self::Observe => None,
            Self::Row(_) => Some(DriftPolicy::Row),
            Self::Strict(..) => Some(DriftPolicy::Strict),
        }
    }

    /// Whether it compares anything.
    #[must_use]
    pub const fn compares(&self) -> bool {
        matches!(self, Self::Row(_) | Self::Strict(..))
    }

    /// Whether the outcome reports the tokens.
    #[must_use]
    pub const fn tells(&self) -> bool {
        !matches!(self, Self::Off)
    }

    /// Compares a scope at the token `actual` whose entry has the version `live`.
    ///
    /// # Errors
    /// What has drifted.
    pub fn compare(
        &self,
        actual: DriftToken,
        live: Option<u64>,
        now: Timestamp,
    ) -> std::result::Result<(), DriftReason> {
        match self {
            Self::Off | Self::Observe => Ok(()),
            Self::Row(seen) => seen.compare(live, now),
            Self::Strict(token, _) if *token != actual => Err(DriftReason::ScopeChanged),
            // The scope is as last seen, so the entry is too. `Seen` covers what tokens do not.
            Self::Strict(..) => Ok(()),
        }
    }

    /// What was seen of the entry.
    #[must_use]
    pub const fn seen(&self) -> Option<Seen> {
        match self {
            Self::Row(seen) => Some(*seen),
            Self::Strict(_, seen) => *seen,
            Self::Off | Self::Observe => None,
        }
    }
}

/// Why a write was refused for drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DriftReason {
    /// The entry changed.
    Changed,
    /// The entry was deleted.
    Vanished,
    /// The entry was not there, or was not seen.
    Appeared,
    /// Something in the scope changed.
    ScopeChanged,
    /// Rows were changed by a program that bypassed the store's change records.
    Silent,
    /// The triggers that record changes were removed or altered.
    Triggers,
    /// The store's file was replaced.
    FileReplaced,
}

impl DriftReason {
    /// Whether the store itself is affected, so that even stored data cannot be trusted.
    #[must_use]
    pub const fn is_of_the_store(self) -> bool {
        matches!(self, Self::Triggers | Self::FileReplaced)
    }

    /// Its wire name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Vanished => "vanished",
            Self::Appeared => "appeared",
            Self::ScopeChanged => "scope_changed",
            Self::Silent => "silent",
            Self::Triggers => "triggers",
            Self::FileReplaced => "file_replaced",
        }
    }

    /// The message for people.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Changed => {
                "somebody else changed the entry since it was read and nothing was written; read it and decide again"
            }
            Self::Vanished => {
                "somebody else deleted the entry since it was read and nothing was written; read it and decide again"
            }
            Self::Appeared => {
                "somebody else wrote an entry that you have not seen under this key and nothing was written; read it and \
                 decide again"
            }
            Self::ScopeChanged => {
                "somebody else changed the scope since it was read and nothing was written; read what changed and decide again"
            }
            Self::Silent => {
                "another program changed the scope without the store's change records and nothing was written; read \
                 what it holds and decide again"
            }
            Self::Triggers => {
                "another program removed or changed the triggers that record changes and nothing was written; \
                 restore them with `memory drift repair`, on PostgreSQL with `memory postgres provision --apply`"
            }
            Self::FileReplaced => {
                "the database file was moved, deleted or replaced while it was open, and nothing was written because it \
                 would be lost; open the store again"
            }
        }
    }

    /// The refusal, with `details.reason` and `details.actual`.
    #[must_use]
    pub fn refusal(self, actual: DriftToken) -> Error {
        Error::new(ErrorKind::DriftDetected, self.message())
            .with_retry(Retry::Never)
            .with_detail("reason", self.as_str())
            .with_detail("actual", actual.to_string())
    }
}

/// How a write changed its scope's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DriftChange {
    /// Before it.
    pub before: DriftToken,
    /// After it.
    pub after: DriftToken,
    /// The digest of the entry now; `None`: it is gone, or was not read.
    pub digest: Option<ContentDigest>,
}

impl DriftChange {
    /// From one token to another.
    #[must_use]
    pub const fn new(before: DriftToken, after: DriftToken, digest: Option<ContentDigest>) -> Self {
        Self { before, after, digest }
    }
}

/// The answer of [`Backend::drift_state`](crate::Backend::drift_state).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DriftState {
    /// The scope's token.
    pub token: DriftToken,
    /// The highest version assigned in the scope; 0: none.
    pub version: u64,
}

impl DriftState {
    /// A state.
    #[must_use]
    pub const fn new(token: DriftToken, version: u64) -> Self {
        Self { token, version }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_printed_tokens_parse() {
        let tokens = [
            DriftToken::new(7, 1, 0),
            DriftToken::new(u128::MAX, u64::MAX, u64::MAX),
            DriftToken::new(0, 0, 5),
        ];
        for token in tokens {
            assert_eq!(token.to_string().parse::<DriftToken>().unwrap(), token);
            let json = serde_json::to_string(&token).unwrap();
            assert_eq!(serde_json::from_str::<DriftToken>(&json).unwrap(), token);
        }
        let id = "0".repeat(32);
        for bad in [
            String::new(),
            "none".into(),
            format!("{id}."),
            format!("{id}.0.0000000000000000"),
            format!("{id}.+1.0000000000000000"),
            format!("{id}.1.000000000000000"),
            format!("{id}.1.00000000000000001"),
            format!("{id}.1.000000000000000g"),
            format!("+{}.none", "0".repeat(31)),
            format!("{id}.none "),
            format!("{id}é.none"),
        ] {
            assert_eq!(bad.parse::<DriftToken>().unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn the_token_of_an_unwritten_scope_is_unique() {
        assert_eq!(DriftToken::new(1, 0, 9), DriftToken::new(1, 0, 8));
        assert_ne!(DriftToken::new(1, 0, 0), DriftToken::new(1, 1, 0));
    }

    #[test]
    fn entries_are_compared_by_version_and_an_expired_one_is_no_drift() {
        let now = Timestamp::from_millis(1_000).unwrap();
        let seen = |at| Seen::Entry { version: 3, expires_at: at, digest: None };
        assert_eq!(seen(None).compare(Some(3), now), Ok(()));
        // A restored copy has a lower one.
        assert_eq!(seen(None).compare(Some(2), now), Err(DriftReason::Changed));
        assert_eq!(seen(None).compare(None, now), Err(DriftReason::Vanished));
        assert_eq!(seen(Some(now)).compare(None, now), Ok(()));
        let later = Timestamp::from_millis(1_001).unwrap();
        assert_eq!(seen(Some(later)).compare(None, now), Err(DriftReason::Vanished));
        assert_eq!(seen(Some(now)).compare(Some(4), now), Err(DriftReason::Changed));
        assert_eq!(Seen::Absent.compare(None, now), Ok(()));
        assert_eq!(Seen::Absent.compare(Some(1), now), Err(DriftReason::Appeared));
        assert_eq!(Seen::Unread(3).compare(None, now), Ok(()));
        assert_eq!(Seen::Unread(3).compare(Some(3), now), Ok(()));
        assert_eq!(Seen::Unread(3).compare(Some(4), now), Err(DriftReason::Appeared));
    }

    #[test]
    fn different_contents_have_different_digests() {
        let value = |text: &str| Json::parse(text).unwrap();
        let at = Timestamp::from_millis(5).ok();
        let source = Source::new("a").unwrap();
        let metadata = Metadata::new().with("a", 1_i64);
        let none = Metadata::new();
        let all = [
            ContentDigest::of(&value("1"), &none, None, None, None),
            ContentDigest::of(&value("1.0"), &none, None, None, None),
            ContentDigest::of(&value("1"), &metadata, None, None, None),
            ContentDigest::of(&value("1"), &Metadata::new().with("a", 1.0), None, None, None),
            ContentDigest::of(&value("1"), &Metadata::new().with("a", "1"), None, None, None),
            ContentDigest::of(&value("1"), &none, Some(&source), None, None),
            ContentDigest::of(&value("1"), &none, None, Some("a"), None),
            ContentDigest::of(&value("1"), &none, None, Some(""), None),
            ContentDigest::of(&value("1"), &none, None, None, at),
        ];
        for (index, one) in all.iter().enumerate() {
            assert!(all.iter().skip(index + 1).all(|other| one != other), "{index}");
        }
    }

    #[test]
    fn a_refusal_says_what_happened_and_is_not_retryable() {
        let error = DriftReason::Vanished.refusal(DriftToken::new(1, 2, 3));
        assert_eq!((error.kind(), error.retry()), (ErrorKind::DriftDetected, Retry::Never));
        assert_eq!(error.details()["reason"], "vanished");
        assert_eq!(error.details()["actual"], DriftToken::new(1, 2, 3).to_string());
    }
}
