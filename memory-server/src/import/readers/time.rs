//! Parses the times of transcripts.

use jiff::civil::DateTime;
use memory_core::{Error, Result, Timestamp};
use serde_json::value::RawValue;

use crate::terminal::values;

/// The instant of a time in a transcript, as [`Timestamp::read`] and [`Timestamp::of_number`] read it; `None` for `null`.
pub(crate) fn instant(raw: &RawValue) -> Result<Option<Timestamp>> {
    let broken = |error: serde_json::Error| Error::invalid(error.to_string());
    memory_core::time::read_or_none(&mut serde_json::Deserializer::from_str(raw.get())).map_err(broken)
}

/// The instant of a text.
pub(crate) fn written(text: &str) -> Result<Timestamp> {
    Timestamp::read(text)
}

/// A LoCoMo date, `1:56 pm on 8 May, 2023`, read as UTC: the dataset names no zone.
pub(crate) fn locomo(text: &str) -> Result<Timestamp> {
    let broken = || Error::invalid("the date of the session does not have the form `1:56 pm on 8 May, 2023`");
    DateTime::strptime("%I:%M %p on %d %B, %Y", text.trim()).map_err(|_| broken()).and_then(values::utc)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<String> {
        let time = instant(serde_json::from_str(json).unwrap()).ok()?;
        Some(time.map_or_else(|| "none".to_owned(), |time| time.to_string()))
    }

    #[test]
    fn times_are_read_in_the_forms_transcripts_use() {
        for (json, expected) in [
            (r#""2023-05-08T13:56:00Z""#, "2023-05-08T13:56:00.000Z"),
            (r#""2023-05-08T15:56:00.5+02:00""#, "2023-05-08T13:56:00.500Z"),
            (r#""2023-05-08 13:56:00""#, "2023-05-08T13:56:00.000Z"),
            (r#""2023-05-08""#, "2023-05-08T00:00:00.000Z"),
            ("1683554160", "2023-05-08T13:56:00.000Z"),
            ("1683554160.25", "2023-05-08T13:56:00.250Z"),
            (r#""1683554160""#, "2023-05-08T13:56:00.000Z"),
            (r#""Mon, 8 May 2023 15:56:00 +0200""#, "2023-05-08T13:56:00.000Z"),
            ("null", "none"),
            ("1683554160000", "2023-05-08T13:56:00.000Z"),
        ] {
            assert_eq!(read(json).as_deref(), Some(expected), "{json}");
        }
        for bad in [
            r#""yesterday""#,
            r#""""#,
            r#""NaN""#,
            r#""02/03/2026, 10:00""#,
            "-1",
            "1e300",
            "true",
            r#""0001-01-01""#,
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn locomo_dates_are_read_as_utc() {
        for (text, expected) in [
            ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00.000Z"),
            ("12:13 am on 15 September, 2023", "2023-09-15T00:13:00.000Z"),
            ("12:06 pm on 11 November, 2022", "2022-11-11T12:06:00.000Z"),
        ] {
            assert_eq!(locomo(text).unwrap().to_string(), expected);
        }
        assert!(locomo("8 May 2023").is_err());
    }
}
