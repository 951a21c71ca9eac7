//! The real clock and real randomness. No other place in the workspace touches them.

use std::time::{Duration, SystemTime};

use memory_core::{Clock, Error, IdGen, Result, Timestamp};

/// The host's clock, in milliseconds. A time before 1970 reads as 1970.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the adapter between Clock and the host's clock")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::from_millis_clamped(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    }
}

/// UUIDs of version 7 (RFC 9562): ordered by creation time, 74 random bits from the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl IdGen for RandomIds {
    #[allow(clippy::disallowed_methods, reason = "the adapter between IdGen and the host's randomness")]
    fn fresh(&self) -> u128 {
        // Version 7 cannot represent times before 1970.
        if SystemTime::now() < SystemTime::UNIX_EPOCH {
            return uuid::Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, 0, 0)).as_u128();
        }
        uuid::Uuid::now_v7().as_u128()
    }
}

/// 32 random bytes from the host, for a secret.
///
/// # Errors
/// `unavailable` if the host provides no randomness.
pub fn secret() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::unavailable("the host gives no random bytes; try again").with_source(error)
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_reads_a_time_of_this_century_and_moves_forward() {
        let first = SystemClock.now();
        assert!(first > "2020-01-01T00:00:00Z".parse().unwrap() && first < Timestamp::MAX);
        assert!(SystemClock.now() >= first);
    }

    #[test]
    fn ids_differ_and_sort_by_creation() {
        let ids: Vec<u128> = (0..1_000).map(|_| RandomIds.fresh()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
