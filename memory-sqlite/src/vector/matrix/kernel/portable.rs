//! The loops in plain Rust, written so that a compiler vectorises them: [`super::x86`] compiles the same bodies
//! again with more instructions enabled.
#![allow(
    clippy::indexing_slicing,
    reason = "constant lanes of arrays of that length; bounds are checked once a row"
)]

use super::layout::{CENTRE_UNIT, Codes, GROUP, LANES, QueryCodes, QueryPlanes, SignRows};

/// Lines whose products, up to `255 · 16,256`, safely fit 32-bit sums: four per line and sum.
const FLUSH: usize = 32;

/// See [`super::Kernel::dots`].
#[inline(always)]
pub(super) fn dots(codes: &[Codes], query: &QueryCodes, rows: &[u32], out: &mut [i64]) {
    let query_lines = query.wide.as_chunks::<LANES>().0;
    for (row, out) in rows.iter().zip(out) {
        let Some(codes) = row_of(codes, query_lines.len(), *row) else {
            *out = 0;
            continue;
        };
        let mut total = 0_i64;
        for (codes, query) in codes.chunks(FLUSH).zip(query_lines.chunks(FLUSH)) {
            let mut sums = [0_i32; 16];
            for (codes, query) in codes.iter().zip(query) {
                for (codes, query) in codes.0.as_chunks::<16>().0.iter().zip(query.as_chunks::<16>().0) {
                    for lane in 0..16 {
                        sums[lane] += i32::from(codes[lane]) * i32::from(query[lane]);
                    }
                }
            }
            total += sums.iter().map(|sum| i64::from(*sum)).sum::<i64>();
        }
        *out = total - query.excess;
    }
}

/// The codes of a row with this many lines.
#[inline(always)]
pub(super) fn row_of(codes: &[Codes], lines: usize, row: u32) -> Option<&[Codes]> {
    let from = usize::try_from(row).ok()?.checked_mul(lines)?;
    codes.get(from..from.checked_add(lines)?)
}

/// See [`super::Kernel::above`].
#[inline(always)]
pub(super) fn above(rows: SignRows<'_>, query: &QueryPlanes, floor: f32, out: &mut [u64]) {
    let groups = rows.bits.chunks_exact(query.words.len().max(1));
    let factors = rows.centres.as_chunks::<GROUP>().0.iter().zip(rows.gains.as_chunks::<GROUP>().0);
    let mut masks = groups.zip(factors).map(|(group, (centres, gains))| {
        let mut sums = [0_i32; GROUP];
        for (bits, planes) in group.iter().zip(&query.words) {
            let bits = bits.0;
            for lane in 0..GROUP {
                sums[lane] += (bits[lane] & planes[0]).count_ones().cast_signed()
                    + ((bits[lane] & planes[1]).count_ones().cast_signed() << 1)
                    + ((bits[lane] & planes[2]).count_ones().cast_signed() << 2)
                    - ((bits[lane] & planes[3]).count_ones().cast_signed() << 3);
            }
        }
        mark(&sums, centres, gains, query, floor)
    });
    for out in out {
        *out = 0;
        for (at, mask) in masks.by_ref().take(64 / GROUP).enumerate() {
            *out |= mask << (GROUP * at);
        }
    }
}

/// Rows of a group that may reach `floor`, from the sums of the query's codes at their set bits.
#[inline(always)]
pub(super) fn mark(
    sums: &[i32; GROUP],
    centres: &[i16; GROUP],
    gains: &[u16; GROUP],
    query: &QueryPlanes,
    floor: f32,
) -> u64 {
    let mut mask = 0_u64;
    for lane in 0..GROUP {
        #[allow(clippy::cast_precision_loss, reason = "at most 15 · 16,384")]
        let sum = sums[lane] as f32;
        let centre = f32::from(centres[lane]) * CENTRE_UNIT;
        let gain = f32::from_bits(u32::from(gains[lane]) << 16);
        let most = centre + gain * (query.slope * sum + query.offset);
        mask |= u64::from(most >= floor) << lane;
    }
    mask
}

/// See [`super::Kernel::normalise`]. In double precision, so that squares neither overflow nor vanish.
#[inline(always)]
pub(super) fn normalise(vector: &[f32], into: &mut [f32]) -> bool {
    let mut squares = [0.0_f64; 16];
    let (chunks, rest) = vector.as_chunks::<16>();
    for chunk in chunks {
        for lane in 0..16 {
            squares[lane] += f64::from(chunk[lane]) * f64::from(chunk[lane]);
        }
    }
    let rest: f64 = rest.iter().map(|number| f64::from(*number) * f64::from(*number)).sum();
    let norm = (squares.iter().sum::<f64>() + rest).sqrt();
    if !norm.is_finite() || norm == 0.0 {
        return false;
    }
    let inverse = 1.0 / norm;
    for (into, number) in into.iter_mut().zip(vector) {
        #[allow(clippy::cast_possible_truncation, reason = "at most 1")]
        let number = (f64::from(*number) * inverse) as f32;
        *into = number;
    }
    true
}

/// Applies a fixed pseudo-random rotation, so that no coordinate matters more than another and one quantisation
/// suits every embedding.
///
/// Each of two rounds flips signs, then repeatedly takes sums and differences of the vector's halves, shifting the
/// upper half by 1, 2, 4, … positions in between. Every number reaches every position, as in a Walsh–Hadamard
/// transform, for any width, and no step moves a number between lanes. `scratch` is as long as the vector.
#[inline(always)]
pub(super) fn rotate(vector: &mut [f32], scratch: &mut [f32]) {
    let half = vector.len() / 2;
    if scratch.len() < 2 * half {
        return;
    }
    for round in 0..2_u64 {
        let mut seed = round << 32;
        for chunk in vector.as_chunks_mut::<32>().0 {
            seed += 1;
            flip(chunk, splitmix(seed));
        }
        let (low, high) = vector.split_at_mut(half);
        scratch[..half].copy_from_slice(high);
        butterflies(low, &mut scratch[..half]);
        let (mut from, mut shift, mut squares) = (0, 1, 2.0_f32);
        while 2 * shift <= half {
            // What leaves the front of the upper half re-enters at its end.
            scratch.copy_within(from..from + shift, from + half);
            from += shift;
            butterflies(low, &mut scratch[from..from + half]);
            shift *= 2;
            squares *= 2.0;
        }
        let scale = 1.0 / squares.sqrt();
        low.iter_mut().for_each(|number| *number *= scale);
        high.iter_mut().zip(&scratch[from..]).for_each(|(high, number)| *high = number * scale);
    }
}

/// `(a, b) → (a + b, a − b)`.
#[inline(always)]
fn butterflies(low: &mut [f32], high: &mut [f32]) {
    for (low, high) in low.iter_mut().zip(high) {
        (*low, *high) = (*low + *high, *low - *high);
    }
}

/// Flips the signs selected by the lower bits of `random`.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn flip(numbers: &mut [f32; 32], random: u64) {
    let random = random as u32;
    for (lane, number) in numbers.iter_mut().enumerate() {
        let flip = (random >> lane & 1) << 31;
        *number = f32::from_bits(number.to_bits() ^ flip);
    }
}

/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[inline(always)]
fn splitmix(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Codes of a vector: `vector ≈ scale · (code − 128)`, codes 1 to 255. Returns the scale and the length of the
/// error.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the last byte is what is wanted")]
pub(super) fn quantise(vector: &[f32], codes: &mut [Codes]) -> (f32, f32) {
    let mut most = [0_f32; 16];
    for numbers in vector.as_chunks::<16>().0 {
        for lane in 0..16 {
            most[lane] = if numbers[lane].abs() > most[lane] { numbers[lane].abs() } else { most[lane] };
        }
    }
    let most = most.iter().fold(f32::MIN_POSITIVE, |most, number| most.max(*number));
    let (scale, inverse) = (most / 127.0, 127.0 / most);
    let mut lost = [0_f32; 16];
    let codes = codes.iter_mut().flat_map(|line| line.0.as_chunks_mut::<16>().0);
    for (numbers, codes) in vector.as_chunks::<16>().0.iter().zip(codes) {
        for lane in 0..16 {
            let rounded = numbers[lane] * inverse + ROUND;
            let difference = numbers[lane] - (rounded - ROUND) * scale;
            lost[lane] += difference * difference;
            codes[lane] = rounded.to_bits() as u8;
        }
    }
    (scale, lost.iter().sum::<f32>().sqrt())
}

/// Adding this to a small number rounds it to the nearest integer; the last byte of the sum is that plus 128.
/// (`round` is a function call on older processors.)
const ROUND: f32 = 12_582_912.0 + 128.0;

/// Sums over a vector v and u = v − mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in super::super) struct SignSums {
    /// Σ |u|.
    pub(in super::super) absolute: f32,
    /// Σ u².
    pub(in super::super) squares: f32,
    /// Σ v · mean.
    pub(in super::super) centre: f32,
}

/// Sets bit i of the words where `vector[i] > mean[i]`.
#[inline(always)]
pub(super) fn signs(vector: &[f32], mean: &[f32], words: &mut [u64]) -> SignSums {
    let (mut absolute, mut squares, mut centre) = ([0_f32; 16], [0_f32; 16], [0_f32; 16]);
    let chunks = vector.as_chunks::<LANES>().0.iter().zip(mean.as_chunks::<LANES>().0);
    for ((vector, mean), word) in chunks.zip(words) {
        let mut bits = 0_u64;
        for part in 0..LANES / 16 {
            let mut mask = 0_u32;
            for lane in 0..16 {
                let (v, m) = (vector[part * 16 + lane], mean[part * 16 + lane]);
                let u = v - m;
                absolute[lane] += u.abs();
                squares[lane] += u * u;
                centre[lane] += v * m;
                mask |= u32::from(u > 0.0) << lane;
            }
            bits |= u64::from(mask) << (part * 16);
        }
        *word = bits;
    }
    SignSums { absolute: absolute.iter().sum(), squares: squares.iter().sum(), centre: centre.iter().sum() }
}
