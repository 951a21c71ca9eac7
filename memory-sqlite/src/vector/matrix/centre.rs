//! Sign codes: one bit per number of a vector relative to the mean of all, and how to estimate a cosine from them.
//!
//! The estimator is that of RaBitQ (Gao, Long: "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical
//! Error Bound for Approximate Nearest Neighbor Search", SIGMOD 2024). For a row v = m + u and a query q = m + δ
//! with mean m, `q·v = m·v + δ·m + δ·u`, and `δ·u` is estimated without bias by `Σu² / Σ|u| · Σ ±δ`, with the signs
//! of u. After a random rotation the error is approximately normal with deviation `.603 · |δ| · Σu² / Σ|u|`, known
//! in advance for any data. A row remains a candidate while its estimate plus [`MARGIN`] deviations reaches the
//! known lower bound of the k-th best row.

use super::kernel::{CENTRE_UNIT, Kernel, LANES, QueryPlanes};

/// Deviations added to a row's estimate. A row of the true answer is missed only if its estimate is too low by more
/// than this: at 2.6 about one in 200, and fewer the better the row is.
const MARGIN: f32 = 2.6;

/// `sqrt(1 − 2/π)`: the part of a Gaussian direction that its signs do not capture.
const SIGN_RESIDUE: f32 = 0.602_81;

/// The mean relative to which signs are taken.
pub(super) struct Centre {
    mean: Vec<f32>,
    /// Rows it was computed from, including removed ones; at twice as many it is recomputed.
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

    /// The bit planes of a rotated unit query, and the part of the cosine that every estimate lacks.
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
        let deviation = (SIGN_RESIDUE * SIGN_RESIDUE * squares + coarse).sqrt();
        let lacking = delta.iter().zip(&self.mean).map(|(d, m)| d * m).sum();
        // Signs are ±1: twice the sum over the set bits, minus the sum over all.
        (QueryPlanes { words, slope: 2.0 * step, offset: MARGIN * deviation - step * total as f32 }, lacking)
    }
}
