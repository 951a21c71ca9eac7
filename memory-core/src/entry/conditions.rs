//! Conditions of a write: lifetime, precondition, quota.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::json::Json;
use crate::limits::MAX_TTL_MILLIS;
use crate::time::Timestamp;

/// SHA-256 of a value's JSON text, for [`Expect::Sha256`].
#[must_use]
pub fn value_sha256(value: &Json) -> [u8; 32] {
    Sha256::digest(value.as_str().as_bytes()).into()
}

/// An entry's lifetime. JSON: `"keep"`, `"never"`, `{"after_ms": 60000}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Ttl {
    /// Keeps the stored expiry; a new entry never expires.
    #[default]
    Keep,
    /// The entry never expires.
    Never,
    /// The entry is invisible this long after the write, in whole milliseconds: 1 ms to 100 years.
    #[serde(rename = "after_ms", with = "duration_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    After(Duration),
}

mod duration_millis {
    use std::fmt;
    use std::time::Duration;

    use serde::de::{Error, Unexpected, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        deserializer.deserialize_u64(Millis)
    }

    struct Millis;

    impl Visitor<'_> for Millis {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a whole number of milliseconds: 1 at least, and 100 years at most")
        }

        fn visit_u64<E: Error>(self, millis: u64) -> Result<Duration, E> {
            Ok(Duration::from_millis(millis))
        }

        fn visit_i64<E: Error>(self, millis: i64) -> Result<Duration, E> {
            let millis =
                u64::try_from(millis).map_err(|_| E::invalid_value(Unexpected::Signed(millis), &self))?;
            self.visit_u64(millis)
        }
    }
}

impl Ttl {
    /// Checks the range of [`Ttl::After`].
    ///
    /// # Errors
    /// `invalid_argument` below 1 ms or above 100 years.
    pub fn check(self) -> Result<()> {
        match self {
            Self::After(duration) if duration.as_millis() == 0 => Err(Error::invalid(
                "the TTL is below 1 ms; use `never` to clear an expiry or delete the entry to end it now",
            )),
            Self::After(duration) if duration.as_millis() > u128::from(MAX_TTL_MILLIS) => {
                Err(Error::invalid("the TTL is over 100 years; use `never` for an entry that stays"))
            }
            _ => Ok(()),
        }
    }

    /// The expiry stored by a write at `now`, given the live entry's expiry (`None`: no live entry, or one that never
    /// expires).
    ///
    /// # Errors
    /// `invalid_argument` if out of range, or after [`Timestamp::MAX`].
    pub fn expiry(self, now: Timestamp, stored: Option<Timestamp>) -> Result<Option<Timestamp>> {
        self.check()?;
        match self {
            Self::Keep => Ok(stored),
            Self::Never => Ok(None),
            Self::After(duration) => now
                .checked_add(duration)
                .map(Some)
                .ok_or_else(|| Error::invalid("the TTL reaches past the year 9999; use `never`")),
        }
    }
}

/// A precondition of a write. JSON: `"any"`, `"absent"`, `{"version": 7}`, `{"sha256": "…64 hex…"}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Whatever is stored.
    #[default]
    Any,
    /// No live entry.
    Absent,
    /// A live entry of exactly this version.
    Version(u64),
    /// A live entry whose value text has this SHA-256.
    #[serde(with = "hex_bytes")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    Sha256([u8; 32]),
}

pub(crate) mod hex_bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer, const N: usize>(
        bytes: &[u8; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::scope::hex(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, const N: usize>(
        deserializer: D,
    ) -> Result<[u8; N], D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text
            .chars()
            .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect::<Option<Vec<u8>>>()
            .filter(|digits| digits.len() == 2 * N)
            .ok_or_else(|| serde::de::Error::custom(format!("{} hexadecimal digits are expected", 2 * N)))?;
        let mut bytes = [0; N];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |value, digit| value << 4 | digit);
        }
        Ok(bytes)
    }
}

impl Expect {
    /// Whether the precondition holds for the live entry (`None`: no live entry).
    #[must_use]
    pub fn holds(&self, live: Option<(u64, &Json)>) -> bool {
        match (self, live) {
            (Self::Any, _) | (Self::Absent, None) => true,
            (Self::Version(expected), Some((version, _))) => *expected == version,
            (Self::Sha256(expected), Some((_, value))) => *expected == value_sha256(value),
            (Self::Absent, Some(_)) | (Self::Version(_) | Self::Sha256(_), None) => false,
        }
    }
}

/// How much one scope may hold. A write that would grow the scope past it is refused; shrinking and deleting are always
/// allowed. Expired entries do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// Most live entries; `None`: unlimited.
    pub max_entries: Option<u64>,
    /// Most bytes, as counted by [`Entry::size_bytes`](super::Entry::size_bytes); `None`: unlimited.
    pub max_bytes: Option<u64>,
}

impl Quota {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        self.max_entries.is_none() && self.max_bytes.is_none()
    }

    /// Checks a write that takes the scope from `before` to `after`, each the count and bytes of its live entries.
    ///
    /// # Errors
    /// `quota_exceeded` with `details.resource`, `limit`, `used` and `requested` if the write grows a resource past its
    /// limit.
    pub fn check(&self, before: (u64, u64), after: (u64, u64)) -> Result<()> {
        for (resource, limit, used, requested) in
            [("entries", self.max_entries, before.0, after.0), ("bytes", self.max_bytes, before.1, after.1)]
        {
            if let Some(limit) = limit
                && requested > used
                && requested > limit
            {
                return Err(Error::quota_exceeded(format!(
                    "the write would take the scope to {requested} {resource}; its quota is {limit}; \
                         delete or shorten entries first (both always work)"
                ))
                .with_detail("resource", resource)
                .with_detail("limit", limit)
                .with_detail("used", used)
                .with_detail("requested", requested));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttl_and_expect_have_plain_json_forms() {
        for (text, ttl) in [
            (r#""keep""#, Ttl::Keep),
            (r#""never""#, Ttl::Never),
            (r#"{"after_ms":1500}"#, Ttl::After(Duration::from_millis(1_500))),
        ] {
            assert_eq!(serde_json::from_str::<Ttl>(text).unwrap(), ttl);
            assert_eq!(serde_json::to_string(&ttl).unwrap(), text);
        }
        let expect = Expect::Sha256(value_sha256(&Json::null()));
        let text = serde_json::to_string(&expect).unwrap();
        assert_eq!(serde_json::from_str::<Expect>(&text).unwrap(), expect);
    }

    #[test]
    fn a_ttl_that_is_no_length_is_told_what_it_may_be() {
        for wrong in ["-5", "1.5", "\"1h\""] {
            let error =
                serde_json::from_str::<Ttl>(&format!(r#"{{"after_ms":{wrong}}}"#)).unwrap_err().to_string();
            assert!(error.contains("expected a whole number of milliseconds: 1 at least"), "{error}");
        }
    }

    #[test]
    fn ttl_refuses_both_ends() {
        assert!(Ttl::After(Duration::from_micros(999)).check().is_err());
        assert!(Ttl::After(Duration::MAX).check().is_err());
        assert!(Ttl::After(Duration::from_millis(1)).check().is_ok());
        assert!(Ttl::After(Duration::from_millis(2)).expiry(Timestamp::MAX, None).is_err());
    }

    #[test]
    fn a_quota_refuses_only_growth() {
        let quota = Quota { max_entries: Some(2), max_bytes: Some(100) };
        assert!(quota.check((2, 90), (3, 90)).is_err());
        assert!(quota.check((2, 90), (2, 101)).is_err());
        assert!(quota.check((5, 500), (5, 400)).is_ok());
        assert!(quota.check((2, 90), (2, 100)).is_ok());
    }
}
