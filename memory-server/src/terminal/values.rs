//! Parsers for values on the command line.

use std::time::Duration;

use jiff::civil::DateTime;
use memory_core::{Error, Filter, Json, Metadata, Result, Scalar, Timestamp, Ttl};

/// `250ms`, `10s`, `5m`, `12h`, `30d`, `2w`.
///
/// # Errors
/// `invalid_argument` for anything else.
pub fn duration(text: &str) -> Result<Duration> {
    let split = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => 0,
    };
    number
        .parse::<u64>()
        .ok()
        .filter(|_| millis > 0)
        .and_then(|number| number.checked_mul(millis))
        .map(Duration::from_millis)
        .ok_or_else(|| {
            Error::invalid("a duration is a whole number and ms, s, m, h, d or w, as in 250ms, 10m or 30d")
        })
}

/// A time, as [`Timestamp::read`] reads it.
///
/// # Errors
/// `invalid_argument` for anything else.
pub(crate) fn time(text: &str) -> Result<Timestamp> {
    Timestamp::read(text)
}

/// A time without a zone, read as UTC.
pub(crate) fn utc(local: DateTime) -> Result<Timestamp> {
    let zoned = local
        .to_zoned(jiff::tz::TimeZone::UTC)
        .map_err(|error| Error::invalid("the time is out of range").with_source(error))?;
    Timestamp::from_millis(zoned.timestamp().as_millisecond())
}

/// A duration, `never` or `keep`.
pub(crate) fn ttl(text: &str) -> Result<Ttl> {
    let ttl = match text {
        "never" => Ttl::Never,
        "keep" => Ttl::Keep,
        _ => Ttl::After(duration(text)?),
    };
    ttl.check()?;
    Ok(ttl)
}

/// What `incr` adds.
pub(crate) fn delta(text: &str) -> Result<i64> {
    text.parse().map_err(|_| Error::invalid("give an integer from -2^63 to 2^63-1, such as 1 or -5"))
}

/// `NAME=VALUE`: `true`, `false` and numbers keep their type, `"…"` is a JSON string, anything else is text.
pub(crate) fn member(text: &str) -> Result<(String, Scalar)> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Error::invalid("metadata has the form NAME=VALUE"))?;
    let scalar = match serde_json::from_str::<Scalar>(value) {
        Ok(scalar) => scalar,
        Err(_) => value.into(),
    };
    Ok((name.to_owned(), scalar))
}

/// Builds metadata from its members.
pub(crate) fn metadata(members: &[(String, Scalar)]) -> Result<Metadata> {
    let mut metadata = Metadata::new();
    for (name, value) in members {
        if metadata.get(name).is_some() {
            return Err(Error::invalid(format!("the metadata `{name}` is given twice; keep one")));
        }
        metadata.insert(name.clone(), value.clone());
    }
    metadata.check()?;
    Ok(metadata)
}

/// Some editors start UTF-8 files with it.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// A JSON value; the error says how to store text.
pub(crate) fn json(mut text: String) -> Result<Json> {
    if text.starts_with(BYTE_ORDER_MARK) {
        text.remove(0);
    }
    Json::parse(text).map_err(|error| {
        Error::invalid("the value must be JSON; for plain text add --text, which quotes it")
            .with_source(error)
    })
}

/// `LABEL=WEIGHT`.
pub(crate) fn weight(text: &str) -> Result<(String, f64)> {
    text.rsplit_once('=')
        .and_then(|(label, weight)| Some((label.to_owned(), weight.parse().ok()?)))
        .ok_or_else(|| Error::invalid("a source weight has the form LABEL=NUMBER"))
}

/// A filter, as JSON.
pub(crate) fn filter(text: Option<&str>) -> Result<Option<Filter>> {
    text.map(|text| {
        serde_json::from_str(text).map_err(|error| {
            Error::invalid(
                "the filter is JSON such as {\"eq\":[\"metadata.speaker\",\"Ada\"]}; see docs/cli.md",
            )
            .with_source(error)
        })
    })
    .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(duration("2w").unwrap(), Duration::from_secs(14 * 86_400));
        for bad in ["", "10", "m", "1.5h", "-1s", "10 m", "10y", "99999999999999999999s", "9999999999999999w"]
        {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(ttl("0ms").is_err());
        assert!(ttl("9999w").is_err());
        assert_eq!(ttl("never").unwrap(), Ttl::Never);
    }

    #[test]
    fn metadata_is_typed_by_how_it_is_written() {
        assert_eq!(member("n=10").unwrap().1, Scalar::Int(10));
        assert_eq!(member("f=1.5").unwrap().1, Scalar::Float(1.5));
        assert_eq!(member("b=true").unwrap().1, Scalar::Bool(true));
        assert_eq!(member("t=a=b").unwrap(), ("t".to_owned(), "a=b".into()));
        assert_eq!(member("t=\"10\"").unwrap().1, Scalar::from("10"));
        assert!(member("novalue").is_err() && member("=x").is_err());
    }
}
