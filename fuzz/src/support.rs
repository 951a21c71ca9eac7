//! Shared by several targets.

use std::time::{Duration, Instant};

/// Time limit for half a megabyte. It takes milliseconds; quadratic work takes minutes.
const PATIENCE: Duration = Duration::from_secs(8);

/// The input as text.
#[must_use]
pub fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// A number that depends on every byte (FNV-1a).
#[must_use]
pub fn hash(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// True for one input in `n`, always the same ones: for slow checks.
#[must_use]
pub fn one_in(n: u64, data: &[u8]) -> bool {
    (hash(data) >> 7).is_multiple_of(n)
}

/// The text repeated with `between` in between, up to half a megabyte.
#[must_use]
pub fn repeated(text: &str, between: &str) -> String {
    let times = (512_usize << 10).checked_div(text.len() + between.len());
    vec![text; times.unwrap_or(1).max(1)].join(between)
}

/// Runs work on a large input and panics if it takes too long to be linear. libFuzzer detects real hangs.
pub fn quickly<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    let took = started.elapsed();
    assert!(took < PATIENCE, "{what} took {took:?} on half a megabyte");
    result
}
