//! How far a mean would move with other questions of the same kind.

use serde::Serialize;

use crate::metrics::{count, mean};

/// Resamples behind every interval.
const RESAMPLES: usize = 2_000;
/// Fixed, so that the same answers give the same report.
const SEED: u64 = 0x0C0_1DEA;

/// An interval that holds the mean of 95 % of resamples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// 2.5th percentile.
    pub low: f64,
    /// 97.5th percentile.
    pub high: f64,
}

/// The 95 % percentile bootstrap interval of the mean (Efron, 1979), by 2,000 resamples with a fixed
/// seed.
///
/// Values count as independent. Questions on one dialogue are not quite: with few dialogues the true
/// interval is wider.
#[must_use]
pub fn mean_interval(values: &[f64]) -> Interval {
    let mut random = SplitMix64(SEED);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sum: f64 = (0..values.len())
                .map(|_| values.get(random.below(values.len())).copied().unwrap_or_default())
                .sum();
            if values.is_empty() { 0.0 } else { sum / count(values.len()) }
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |place: usize| means.get(place).copied().unwrap_or_else(|| mean(values));
    Interval { low: at(RESAMPLES / 40), high: at(RESAMPLES - RESAMPLES / 40 - 1) }
}

/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform below `bound` up to one part in 2^64 over it; 0 for a bound of 0.
    fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next()) * (bound as u128);
        usize::try_from(product >> 64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_published_sequence() {
        let mut random = SplitMix64(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    /// For a share p of n the standard error is √(p(1−p)/n): 0.05 here, so 95 % is ± 0.098.
    #[test]
    fn the_interval_has_the_width_theory_gives() {
        let values: Vec<f64> = (0..100).map(|n| f64::from(n % 2)).collect();
        let interval = mean_interval(&values);
        assert!((interval.low - 0.402).abs() < 0.015, "{interval:?}");
        assert!((interval.high - 0.598).abs() < 0.015, "{interval:?}");
    }

    #[test]
    fn equal_values_and_no_values_have_no_width() {
        assert_eq!(mean_interval(&[0.25; 50]), Interval { low: 0.25, high: 0.25 });
        assert_eq!(mean_interval(&[]), Interval { low: 0.0, high: 0.0 });
    }

    #[test]
    fn the_same_values_give_the_same_interval() {
        let values = [0.0, 0.5, 1.0, 1.0, 0.3];
        assert_eq!(mean_interval(&values), mean_interval(&values));
    }
}
