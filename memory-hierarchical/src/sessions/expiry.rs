//! When an entry expires: one meaning on every store.

use memory_core::{Error, Result, Timestamp};

/// The end of the year 9999 in Unix seconds.
const LAST_SECOND: i64 = 253_402_300_799;

/// The instant of a written expiry: RFC 3339 with any offset, or Unix seconds.
///
/// # Errors
/// `invalid_argument` for anything else, and for a time before 1970 or after 9999. The last two days of that year,
/// which [`Timestamp`] cannot represent, count as its end.
pub fn parse_expiry(text: &str) -> Result<Timestamp> {
    let refused = || {
        Error::invalid(
            "expires_at must be RFC 3339 with an offset, as 2026-01-31T09:30:00+01:00, or Unix seconds, as 1769848200",
        )
    };
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse::<i64>().ok().filter(|seconds| *seconds <= LAST_SECOND);
        return seconds.map(|seconds| Timestamp::from_millis_clamped(seconds * 1_000)).ok_or_else(refused);
    }
    // The parser also reads a bracketed zone, which RFC 3339 does not have.
    if text.contains('[') {
        return Err(refused());
    }
    text.parse().or_else(|error: Error| {
        // "Never" is often written as the last second of 9999, which is later than any timestamp.
        let a_year_before = text.strip_prefix("9999-12-3").map(|rest| format!("9998-12-3{rest}"));
        match a_year_before.map(|text| text.parse::<Timestamp>()) {
            Some(Ok(_)) => Ok(Timestamp::MAX),
            _ => Err(refused().with_source(error)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_an_instant_is_the_same_instant() {
        for text in [
            "1769848200",
            "2026-01-31T08:30:00Z",
            "2026-01-31T08:30:00.000000000+00:00",
            "2026-01-31T09:30:00+01:00",
            "2026-01-31T03:00:00-05:30",
        ] {
            assert_eq!(parse_expiry(text).unwrap().as_millis(), 1_769_848_200_000, "{text}");
        }
    }

    #[test]
    fn the_last_second_that_can_be_written_is_an_expiry() {
        for text in [
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59.999999999+00:00",
            "9999-12-30T23:00:00-05:00",
            // Regression: in seconds it was refused.
            "253402300799",
        ] {
            assert_eq!(parse_expiry(text).unwrap(), Timestamp::MAX, "{text}");
        }
        for text in [
            "9999-12-32T00:00:00Z",
            "9999-12-31T23:59:59",
            "9999-12-31",
            "10000-01-01T00:00:00Z",
            "253402300800",
        ] {
            assert!(parse_expiry(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "soon",
            "2026-01-31",
            "2026-01-31T09:30:00",
            "-1",
            "1e9",
            "1769848200.5",
            " 1769848200",
            "99999999999999999999",
            "2026-13-01T00:00:00Z",
            "2026-01-31T09:30:00+01:00[Europe/Berlin]",
        ] {
            assert!(parse_expiry(text).is_err(), "{text}");
        }
    }
}
