//! Time and ids are passed in: [`Clock`], [`IdGen`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::json::Json;

/// Milliseconds since 1970-01-01T00:00:00Z, without leap seconds; 0 to [`Timestamp::MAX`].
///
/// Displayed and serialised as RFC 3339 in UTC with milliseconds; deserialised from that or from a number of
/// milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct Timestamp(i64);

impl Timestamp {
    /// 1970-01-01T00:00:00.000Z.
    pub const EPOCH: Self = Self(0);
    /// 9999-12-30T22:00:00.000Z, the last instant that every part of the workspace can print.
    pub const MAX: Self = Self(253_402_207_200_000);

    /// From milliseconds since the epoch.
    ///
    /// # Errors
    /// `invalid_argument` outside `0..=Timestamp::MAX`.
    pub fn from_millis(millis: i64) -> Result<Self> {
        if (0..=Self::MAX.0).contains(&millis) {
            Ok(Self(millis))
        } else {
            Err(Error::invalid(format!("{millis} ms is outside 1970-01-01 to 9999-12-30")))
        }
    }

    /// From milliseconds since the epoch, clamped into the range.
    #[must_use]
    pub fn from_millis_clamped(millis: i64) -> Self {
        Self(millis.clamp(0, Self::MAX.0))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// `self + duration` (whole milliseconds, rounded down), or `None` past [`Timestamp::MAX`].
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let millis = i64::try_from(duration.as_millis()).ok()?;
        let sum = self.0.checked_add(millis)?;
        (sum <= Self::MAX.0).then_some(Self(sum))
    }

    /// The time since `earlier`; zero if this is not after it.
    #[must_use]
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed: jiff::Timestamp = text.parse().map_err(|error: jiff::Error| {
            Error::invalid("a time is RFC 3339 with an offset, as 2026-01-31T09:30:00Z, and no later than 9999-12-30T22:00:00Z")
                .with_source(error)
        })?;
        Self::from_millis(parsed.as_millisecond())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <Json as Deserialize>::deserialize(deserializer)?;
        match json.as_i64_exact() {
            Some(millis) => Self::from_millis(millis),
            None => json.deserialize::<String>().map_err(Error::from).and_then(|text| text.parse()),
        }
        .map_err(serde::de::Error::custom)
    }
}

/// An optional duration as whole milliseconds; a shorter one counts as one millisecond.
pub(crate) mod optional_millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        duration
            .map(|duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1))
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<u64>::deserialize(deserializer).map(|millis| millis.map(Duration::from_millis))
    }
}

/// The source of the current time. Implementations go backwards only as far as the host's clock does.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// The source of new ids: at least 122 bits that no other call, process or machine repeats.
pub trait IdGen: Send + Sync + fmt::Debug {
    /// A new id. Ids sort by creation time if the implementation supports it.
    fn fresh(&self) -> u128;
}

impl<T: Clock + ?Sized> Clock for std::sync::Arc<T> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }
}

impl<T: IdGen + ?Sized> IdGen for std::sync::Arc<T> {
    fn fresh(&self) -> u128 {
        (**self).fresh()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_print_as_rfc_3339_and_parse_back() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_792_016_461_007, "2026-10-14T22:21:01.007Z"),
            (Timestamp::MAX.0, "9999-12-30T22:00:00.000Z"),
        ] {
            let timestamp = Timestamp::from_millis(millis).unwrap();
            assert_eq!(timestamp.to_string(), text);
            assert_eq!(text.parse::<Timestamp>().unwrap(), timestamp);
            assert_eq!(serde_json::from_str::<Timestamp>(&millis.to_string()).unwrap(), timestamp);
        }
    }

    #[test]
    fn sums_past_the_end_of_time_are_none() {
        assert_eq!(Timestamp::MAX.checked_add(Duration::from_millis(1)), None);
        assert_eq!(Timestamp::EPOCH.checked_add(Duration::MAX), None);
    }
}
