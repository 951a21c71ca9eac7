//! When to retry, and how long to wait before.

use std::time::Duration;

use memory_core::{IdGen, Timestamp};

/// How often, and after which wait, a call is retried.
///
/// The wait before attempt *n* is uniformly random from zero to `base · 2^(n-1)`, at most `cap` ("full jitter"), so
/// that clients that failed together do not retry together. `Retry-After` is a minimum; one longer than
/// `max_retry_after`, or than the rest of the deadline, ends the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts including the first; 1 never retries.
    pub attempts: u32,
    /// The longest first wait.
    pub base: Duration,
    /// The longest wait.
    pub cap: Duration,
    /// The longest `Retry-After` that is accepted.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 3,
            base: Duration::from_millis(200),
            cap: Duration::from_secs(5),
            max_retry_after: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// The wait after `failures` failed attempts, if the last reply had `retry_after`; `None` if that is too long.
    pub(crate) fn wait(
        &self,
        failures: u32,
        retry_after: Option<Duration>,
        ids: &dyn IdGen,
    ) -> Option<Duration> {
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let ceiling = self.base.saturating_mul(doubled).min(self.cap);
        let jittered = ceiling.mul_f64(fraction(ids));
        match retry_after {
            Some(asked) if asked > self.max_retry_after => None,
            // A little longer than requested, since many clients got the same value.
            Some(asked) => Some(asked.saturating_add(jittered.min(self.base))),
            None => Some(jittered),
        }
    }
}

/// A random number in `0..1` from a fresh id. Test ids merely count up, so the bits are mixed (the finaliser of
/// SplitMix64).
fn fraction(ids: &dyn IdGen) -> f64 {
    let id = ids.fresh();
    let low = u64::try_from(id & u128::from(u64::MAX)).unwrap_or(0);
    let mut mixed = low.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    f64::from(u32::try_from(mixed >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

/// The longest reported wait; a server may ask for years.
const MAX_REPORTED: Duration = Duration::from_secs(24 * 60 * 60);

/// `Retry-After`: seconds, or a date (RFC 9110, 10.2.3) relative to `now`. `None` if it is neither; a date in the past
/// means no wait.
pub(crate) fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if value.is_empty() || value.len() > 64 {
        return None;
    }
    if value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number with too many digits still means a long time.
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(MAX_REPORTED));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    let date = Timestamp::from_millis_clamped(date.as_millisecond());
    Some(date.saturating_since(now).min(MAX_REPORTED))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Counting(AtomicU64);

    impl IdGen for Counting {
        fn fresh(&self) -> u128 {
            u128::from(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    #[test]
    fn waits_are_spread_below_a_ceiling_that_doubles_to_the_cap() {
        let policy = RetryPolicy::default();
        let ids = Counting::default();
        for (failures, ceiling) in
            [(1, 200), (2, 400), (3, 800), (5, 3_200), (6, 5_000), (40, 5_000), (u32::MAX, 5_000)]
        {
            let waits: Vec<Duration> = (0..200).map(|_| policy.wait(failures, None, &ids).unwrap()).collect();
            let ceiling = Duration::from_millis(ceiling);
            assert!(waits.iter().all(|wait| *wait < ceiling));
            assert!(
                waits.iter().any(|wait| *wait < ceiling / 4)
                    && waits.iter().any(|wait| *wait > ceiling * 3 / 4)
            );
        }
    }

    #[test]
    fn what_the_server_asks_for_is_the_least_wait_up_to_a_cap() {
        let policy = RetryPolicy::default();
        let ids = Counting::default();
        let wait = policy.wait(1, Some(Duration::from_secs(7)), &ids).unwrap();
        assert!((Duration::from_secs(7)..Duration::from_millis(7_200)).contains(&wait));
        assert_eq!(policy.wait(1, Some(Duration::from_secs(31)), &ids), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "2026-11-22T00:00:00Z".parse().unwrap();
        let seconds = |text| parse_retry_after(text, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds(" 120 "), Some(120));
        assert_eq!(seconds("Sun, 22 Nov 2026 00:01:00 GMT"), Some(60));
        assert_eq!(seconds("Sat, 21 Nov 2026 00:01:00 GMT"), Some(0), "a date that has passed");
        assert_eq!(seconds("99999999999999999999999999"), Some(86_400));
        for nonsense in ["", "-1", "1.5", "soon", "Sun, 99 Nov 2026 00:01:00 GMT", &"1".repeat(65)] {
            assert_eq!(seconds(nonsense), None, "{nonsense:?}");
        }
    }
}
