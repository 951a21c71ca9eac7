//! Sign codes: a bit per number of a vector, about the mean of all, and what turns the bits into a cosine.
//!
//! The estimator is that of RaBitQ (Gao, Long: "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical
//! Error Bound for Approximate Nearest Neighbor Search", SIGMOD 2024). For a row v = m + u and a query q = m + δ,
//! m the mean, `q·v = m·v + δ·m + δ·u`, and `δ·u` is estimated without bias by `Σu² / Σ|u| · Σ ±δ`, the signs
//! those of u. After a random rotation the error is about normal, of deviation `.603 · |δ| · Σu² / Σ|u|`: known
//! before it is made, whatever the data. A row stays in the running while its estimate plus
//! [`MARGIN`] deviations reaches what the k-th best row is known to have.

use super::kernel::{CENTRE_UNIT, Kernel, LANES, QueryPlanes};

/// Deviations of the estimate that a row gets in its favour. A row that belongs to the answer is missed only if
/// its estimate is off by more, on the low side: at 2.6 about one in 200, and fewer the better the row is.
const MARGIN: f32 = 2.6;

/// `sqrt(1 − 2/π)`: the part of a Gaussian direction that its signs do not tell.
const UNTOLD: f32 = 0.602_81;

/// The mean about which signs are taken.
pub(super) struct Centre {
    mean: Vec<f32>,
    /// Rows it was made of, removed ones included; at twice as many it is made anew.
    pub(super) made_at: usize,
}

/// The sign code of one vector.
pub(super) struct SignCode {
    pub(super) words: Vec<u64>,
    /// `m·v` in units of [`CENTRE_UNIT`].
    pub(super) centre: i16,
    /// `Σu² / Σ|u|`, rounded up to the upper half of an `f32`.
    pub(super) gain: u16,
}

impl SignCode {
    pub(super) fn new(width: usize) -> Self {
        Self { words: vec![0; width / LANES], centre: 0, gain: 0 }
    }
}

impl Centre {
    pub(super) fn new(mean: Vec<f32>, made_at: usize) -> Self {
        Self { mean, made_at }
    }

    pub(super) fn words(&self) -> usize {
        self.mean.len() / LANES
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.mean.capacity() * size_of::<f32>()
    }

    /// The sign code of a rotated unit vector.
    #[allow(clippy::cast_possible_truncation, reason = "within ±32,767; the upper half of 32 bits")]
    pub(super) fn code(&self, kernel: Kernel, vector: &[f32], into: &mut SignCode) {
        let sums = kernel.signs(vector, &self.mean, &mut into.words);
        into.centre = (sums.centre / CENTRE_UNIT).round().clamp(-32_767.0, 32_767.0) as i16;
        let gain = if sums.absolute > 0.0 { sums.squares / sums.absolute } else { 0.0 };
        into.gain = (gain.to_bits().saturating_add(0xFFFF) >> 16) as u16;
    }

    /// A rotated unit query, ready to meet sign codes, and the cosine that every estimate lacks.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "codes are −8 to 7")]
    pub(super) fn query(&self, query: &[f32]) -> (QueryPlanes, f32) {
        let delta: Vec<f32> = query.iter().zip(&self.mean).map(|(q, m)| q - m).collect();
        let most = delta.iter().fold(f32::MIN_POSITIVE, |most, number| most.max(number.abs()));
        let step = most / 7.5;
        let mut words = Vec::with_capacity(self.words());
        let mut total = 0_i32;
        for chunk in delta.chunks(LANES) {
            let mut planes = [0_u64; 4];
            for (at, number) in chunk.iter().enumerate() {
                let code = (number / step).round().clamp(-8.0, 7.0) as i8;
                total += i32::from(code);
                for (bit, plane) in planes.iter_mut().enumerate() {
                    *plane |= u64::from(code.cast_unsigned() >> bit & 1) << at;
                }
            }
            words.push(planes);
        }
        let squares: f32 = delta.iter().map(|number| number * number).sum();
        let coarse = delta.len() as f32 * step * step / 12.0;
        let deviation = (UNTOLD * UNTOLD * squares + coarse).sqrt();
        let lacking = delta.iter().zip(&self.mean).map(|(d, m)| d * m).sum();
        // Signs are ±1: twice the sum over the set bits, less the sum over all.
        (QueryPlanes { words, slope: 2.0 * step, offset: MARGIN * deviation - step * total as f32 }, lacking)
    }
}
