//! Encoding a vector.

use super::block::loss_unit;
use super::kernel::{Codes, Kernel, LANES, Line, QueryCodes};

/// Bound of the rounding error of normalising, rotating and summing, as a cosine: a hundred times that of single
/// precision over 16,384 numbers.
pub(super) const ROUNDING: f32 = 2e-5;

/// Numbers stored for a vector of `dimensions`.
pub(super) fn width_of(dimensions: usize) -> usize {
    dimensions.max(1).next_multiple_of(LANES)
}

/// Writes the rotated unit vector in the direction of `vector` to `into`; false if it has no direction.
pub(super) fn rotate_unit(kernel: Kernel, vector: &[f32], into: &mut Vec<f32>) -> bool {
    let width = width_of(vector.len());
    into.clear();
    into.resize(2 * width, 0.0);
    let (rotated, scratch) = into.split_at_mut(width);
    let has_direction = kernel.normalise(vector, rotated);
    kernel.rotate(rotated, scratch);
    into.truncate(width);
    has_direction
}

/// The codes of a rotated unit vector, its scale and its loss in [`loss_unit`]s of it.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 16 bits")]
pub(super) fn quantise(kernel: Kernel, vector: &[f32], codes: &mut [Codes]) -> (f32, u16) {
    let (scale, lost) = kernel.quantise(vector, codes);
    let loss = (lost / (scale * loss_unit(vector.len()))).ceil().clamp(0.0, 65_535.0) as u16;
    (scale, loss)
}

/// A quantised query.
#[derive(Debug, Default)]
pub(super) struct Query {
    pub(super) codes: QueryCodes,
    /// The value of one unit of a dot product of codes, times the row's scale.
    pub(super) step: f64,
    /// Length of the query's quantisation error.
    pub(super) loss: f32,
}

impl Query {
    /// Quantises a rotated unit query with 15 bits per number, so that nearly all of the error comes from the rows.
    #[allow(clippy::cast_possible_truncation, reason = "within ±16,256")]
    pub(super) fn new(query: &[f32]) -> Self {
        let most = query.iter().fold(f32::MIN_POSITIVE, |most, number| most.max(number.abs()));
        let step = most / 16_256.0;
        let wide: Vec<i16> =
            query.iter().map(|number| (number / step).round().clamp(-16_256.0, 16_256.0) as i16).collect();
        let loss = query
            .iter()
            .zip(&wide)
            .map(|(number, code)| (number - step * f32::from(*code)).powi(2))
            .sum::<f32>()
            .sqrt();
        let half = |of: fn(i16) -> i8| -> Vec<Line<i8, LANES>> {
            wide.as_chunks::<LANES>().0.iter().map(|codes| Line(codes.map(of))).collect()
        };
        let high = half(high_half);
        let low = half(|code| (code - 128 * i16::from(high_half(code))) as i8);
        let excess = 128 * wide.iter().map(|code| i64::from(*code)).sum::<i64>();
        Self { codes: QueryCodes { wide, high, low, excess }, step: f64::from(step), loss }
    }
}

/// The nearest multiple of 128, over 128: −127 to 127 for codes of up to 16,256.
#[allow(clippy::cast_possible_truncation, reason = "within ±127")]
fn high_half(code: i16) -> i8 {
    ((code + 64) >> 7) as i8
}
