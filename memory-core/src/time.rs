//! Time and ids are passed in, as [`Clock`] and [`IdGen`].

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

    /// `self + duration` (whole milliseconds, rounded down), or `None` beyond [`Timestamp::MAX`].
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

/// Larger numbers are milliseconds. The limit is the year 5138 in seconds, or 1973 in milliseconds.
const MOST_SECONDS: f64 = 1e11;
/// Fewest characters of a number taken as seconds; in effect, 1973 at the earliest.
const LEAST_DIGITS: usize = 9;
/// How many characters of a time an error shows.
const SHOWN: usize = 60;

impl Timestamp {
    /// Reads a time as people and programs write it: RFC 3339; in UTC, a time without an offset or with `UTC` or `GMT`,
    /// or just a date; RFC 2822, as in mails; or seconds or milliseconds since 1970, with at least nine digits.
    ///
    /// # Errors
    /// `invalid_argument`, which shows the text, for anything else, including dates whose day and month could be
    /// swapped.
    pub fn read(text: &str) -> Result<Self> {
        let text = text.trim();
        let shown = || text.chars().take(SHOWN).collect::<String>();
        if let Some(read) = zoned(text) {
            return Self::from_millis(read.as_millisecond()).map_err(|error| {
                Error::invalid(format!("`{}` is outside 1970-01-01 to 9999-12-30", shown()))
                    .with_source(error)
            });
        }
        // A year or another short number does not name an instant.
        let read = match text.parse::<f64>() {
            Ok(number) if text.len() >= LEAST_DIGITS => Self::of_number(number),
            _ => Err(Error::invalid("it has none of the forms that are read")),
        };
        read.map_err(|error| {
            let shown = shown();
            Error::invalid(format!(
                "`{shown}` is not read as a time; write 2026-01-31T09:30:00Z, or without an offset, or 2026-01-31, which are in \
                 UTC, or the seconds or milliseconds since 1970, no later than 9999-12-30T22:00:00Z"
            ))
            .with_source(error)
        })
    }

    /// From seconds since 1970, or milliseconds if the number exceeds 100,000,000,000, to the millisecond.
    ///
    /// # Errors
    /// `invalid_argument` outside 1970 to [`Timestamp::MAX`].
    pub fn of_number(number: f64) -> Result<Self> {
        let seconds = if number > MOST_SECONDS { number / 1_000.0 } else { number };
        // Adds half a millisecond, so that a fraction that a float only approximates is not cut to the millisecond
        // below.
        jiff::SignedDuration::try_from_secs_f64(seconds + 0.0005)
            .ok()
            .filter(|_| seconds >= 0.0)
            .and_then(|duration| i64::try_from(duration.as_millis()).ok())
            .ok_or_else(|| Error::invalid(format!("{number} is no time; give the seconds since 1970")))
            .and_then(Self::from_millis)
    }
}

/// The instant that a text names, in the forms that name a day.
fn zoned(text: &str) -> Option<jiff::Timestamp> {
    let utc = |text: &str| {
        let local = text.parse::<jiff::civil::DateTime>().ok()?;
        Some(local.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let spelled = || {
        let (local, zone) = text.rsplit_once(' ')?;
        match zone {
            "UTC" | "GMT" | "Z" => utc(local),
            _ if zone.starts_with(['+', '-']) => format!("{local}{zone}").parse().ok(),
            _ => None,
        }
    };
    // If read as a local time, it would lose its offset.
    if is_too_far(text) {
        return None;
    }
    let parsed: Option<jiff::Timestamp> = text.parse().ok();
    // The name of a time zone alone gives no offset.
    if parsed.is_none() && text.contains('[') {
        return None;
    }
    let parsed = parsed.or_else(|| utc(text)).or_else(spelled);
    parsed.or_else(|| Some(jiff::fmt::rfc2822::parse(text).ok()?.timestamp()))
}

/// Whether a time has an offset of more than 23 hours, which jiff accepts and RFC 3339 does not.
fn is_too_far(text: &str) -> bool {
    let is_time = |time: &str| {
        time.rsplit_once(':')
            .is_some_and(|(_, rest)| rest.chars().all(|c| c.is_ascii_digit() || " .".contains(c)))
    };
    let offset = text.rsplit_once(['+', '-']).filter(|(time, _)| is_time(time));
    let hours = offset.and_then(|(_, offset)| offset.get(..2)?.parse::<u8>().ok());
    hours.is_some_and(|hours| hours > 23)
}

/// Deserialises a time in any form of [`Timestamp::read`] or [`Timestamp::of_number`]; `null` is `None`. For
/// `#[serde(default, deserialize_with = "…")]`.
///
/// # Errors
/// As these.
pub fn read_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(json) = <Option<Json> as Deserialize>::deserialize(deserializer)? else { return Ok(None) };
    let read = match json.as_i64_exact() {
        // Avoids the detour through a float.
        Some(millis) if millis > 100_000_000_000 => Timestamp::from_millis(millis),
        _ => match json.deserialize::<f64>() {
            Ok(number) => Timestamp::of_number(number),
            Err(_) => {
                json.deserialize::<String>().map_err(Error::from).and_then(|text| Timestamp::read(&text))
            }
        },
    };
    read.map(Some).map_err(serde::de::Error::custom)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(timestamp) = jiff::Timestamp::from_millisecond(self.0) else {
            return write!(f, "{} ms", self.0);
        };
        let at = jiff::tz::Offset::UTC.to_datetime(timestamp);
        // By hand, for speed: every entry that is read has two times.
        let mut text = *b"0000-00-00T00:00:00.000Z";
        for (end, number) in [
            (4, at.year()),
            (7, at.month().into()),
            (10, at.day().into()),
            (13, at.hour().into()),
            (16, at.minute().into()),
            (19, at.second().into()),
            (23, at.millisecond()),
        ] {
            put(&mut text, end, number);
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

/// Writes a number over the zeros that end at `end`.
fn put(text: &mut [u8], end: usize, mut number: i16) {
    for place in text.iter_mut().take(end).rev().take_while(|place| **place == b'0') {
        *place += u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = "a time is RFC 3339 with an offset, as 2026-01-31T09:30:00Z, and no later than 9999-12-30T22:00:00Z";
        if is_too_far(text) {
            return Err(Error::invalid(form));
        }
        let parsed: jiff::Timestamp =
            text.parse().map_err(|error: jiff::Error| Error::invalid(form).with_source(error))?;
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

/// The source of the current time. It goes backwards only if the host's clock does.
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
    fn every_time_prints_as_jiff_prints_it() {
        for millis in (0..=Timestamp::MAX.0).step_by(86_399_999_989) {
            let expected = format!("{:.3}", jiff::Timestamp::from_millisecond(millis).unwrap());
            assert_eq!(Timestamp(millis).to_string(), expected);
        }
    }

    #[test]
    fn a_time_is_read_as_people_and_programs_write_it() {
        let read = |json: &str| {
            let mut json = serde_json::Deserializer::from_str(json);
            read_or_none(&mut json).map(|time| time.map(|time| time.to_string()))
        };
        assert!("2023-05-08T13:56:00+24:00".parse::<Timestamp>().is_err());
        for (json, expected) in [
            (r#""2023-05-09T13:55:00+23:59""#, "2023-05-08T13:56:00.000Z"),
            (r#""2023-05-08T13:56:00Z""#, "2023-05-08T13:56:00.000Z"),
            (r#""2023-05-08T15:56:00.5+02:00""#, "2023-05-08T13:56:00.500Z"),
            (r#""2023-05-08 13:56:00""#, "2023-05-08T13:56:00.000Z"),
            (r#""2023-05-08 13:56:00 UTC""#, "2023-05-08T13:56:00.000Z"),
            (r#""2023-05-08 13:56:00.25 GMT""#, "2023-05-08T13:56:00.250Z"),
            (r#""2023-05-08 15:56:00 +0200""#, "2023-05-08T13:56:00.000Z"),
            (r#"" 2023-05-08 ""#, "2023-05-08T00:00:00.000Z"),
            (r#""Mon, 8 May 2023 15:56:00 +0200""#, "2023-05-08T13:56:00.000Z"),
            ("1683554160", "2023-05-08T13:56:00.000Z"),
            ("1683554160.123", "2023-05-08T13:56:00.123Z"),
            ("1683554160123", "2023-05-08T13:56:00.123Z"),
            (r#""2023-05-08T15:56:00+02:00[Europe/Berlin]""#, "2023-05-08T13:56:00.000Z"),
            (r#""1683554160""#, "2023-05-08T13:56:00.000Z"),
            (r#""1683554160123""#, "2023-05-08T13:56:00.123Z"),
            ("0", "1970-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(read(json).unwrap().as_deref(), Some(expected), "{json}");
        }
        assert_eq!(read("null").unwrap(), None);
        for bad in [
            r#""yesterday""#,
            r#""""#,
            r#""NaN""#,
            r#""2024""#,
            r#""12345678""#,
            r#""2023-05-08T13:56:00[Europe/Berlin]""#,
            r#""2023-05-08 13:56:00[Europe/Berlin]""#,
            r#""02/03/2026, 10:00""#,
            "-1",
            "1e300",
            "true",
            r#""0001-01-01""#,
            r#""2023-05-08T13:56:00+25:00""#,
            r#""2023-05-08 13:56:00 -24:00""#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read(r#""tomorrow""#).unwrap_err().to_string().contains("`tomorrow`"));
        assert!(
            read(r#""1950-01-01""#)
                .unwrap_err()
                .to_string()
                .contains("`1950-01-01` is outside 1970-01-01 to")
        );
    }

    #[test]
    fn sums_past_the_end_of_time_are_none() {
        assert_eq!(Timestamp::MAX.checked_add(Duration::from_millis(1)), None);
        assert_eq!(Timestamp::EPOCH.checked_add(Duration::MAX), None);
    }
}
