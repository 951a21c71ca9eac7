//! Times as the original's layouts have them.

use memory_core::Timestamp;

use crate::sessions::parse_expiry;

/// The time as the tables keep it: RFC 3339 stays as it is; `2026-01-31 09:30:00`, with or without `T`, is UTC.
pub(super) fn rfc3339(text: &str) -> Option<String> {
    if text.parse::<Timestamp>().is_ok() && text.contains('T') {
        return Some(text.to_owned());
    }
    let with_t = text.replacen(' ', "T", 1).replacen(' ', "", 1);
    let parsed = with_t.parse::<Timestamp>().or_else(|_| format!("{with_t}Z").parse::<Timestamp>());
    parsed.ok().map(|time| time.to_string())
}

/// Seconds since 1970 as RFC 3339, to the millisecond.
pub(super) fn seconds(seconds: f64) -> Option<String> {
    let millis = (seconds * 1_000.0).round();
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    let is_within = (0.0..=Timestamp::MAX.as_millis() as f64).contains(&millis);
    #[allow(clippy::cast_possible_truncation, reason = "a whole number within the range of times")]
    is_within.then(|| Timestamp::from_millis_clamped(millis as i64).to_string())
}

/// When an entry expires, as written and as an instant. A date means the beginning of that day, as in the original,
/// which compares texts.
pub(super) fn expiry(text: &str) -> Option<(String, Timestamp)> {
    let begin = format!("{text}T00:00:00Z");
    let text = if begin.parse::<Timestamp>().is_ok() { &begin } else { text };
    if let Ok(time) = parse_expiry(text) {
        return Some((text.to_owned(), time));
    }
    let text = rfc3339(text)?;
    let time = text.parse().ok()?;
    Some((text, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_has_its_own_way_to_write_a_time() {
        let kept = "2026-11-21T20:08:12.280445121+00:00";
        assert_eq!(rfc3339(kept).as_deref(), Some(kept));
        for text in ["2026-11-21 20:10:34", "2026-11-21T20:10:34", "2026-11-21 22:10:34 +02:00"] {
            assert_eq!(rfc3339(text).as_deref(), Some("2026-11-21T20:10:34.000Z"), "{text}");
        }
        assert_eq!(seconds(1_795_291_834.651_343).as_deref(), Some("2026-11-21T20:10:34.651Z"));
        assert_eq!(expiry("1795291834").map(|(_, time)| time.as_millis()), Some(1_795_291_834_000));
        assert_eq!(expiry("2026-11-21").map(|(text, _)| text).as_deref(), Some("2026-11-21T00:00:00Z"));
        assert!(["", "never", "2026-11-31", "2026-11-21T"].iter().all(|text| expiry(text).is_none()));
        for text in ["", "garbage", "2026-11-21"] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
        for number in [f64::NAN, f64::INFINITY, -1.0, 1e15] {
            assert_eq!(seconds(number), None, "{number}");
        }
    }
}
