//! The loops in plain Rust, shaped so that a compiler vectorises them: [`super::x86`] compiles the same bodies
//! again with more of the processor allowed.
#![allow(
    clippy::indexing_slicing,
    reason = "constant lanes of arrays of that length; bounds are checked once a row"
)]

use super::{CENTRE_UNIT, GROUP, LANES, QueryCodes, QueryPlanes, SignRows};

/// Most numbers whose products `255 · 16,256` fit a sum of 32 bits per lane, with room to spare.
const FLUSH: usize = 2_048;

/// See [`super::Kernel::dots`].
#[inline(always)]
pub(super) fn dots(codes: &[u8], query: &QueryCodes, rows: &[u32], out: &mut [i64]) {
    let width = query.wide.len();
    for (row, out) in rows.iter().zip(out) {
        let Some(codes) = row_of(codes, width, *row) else {
            *out = 0;
            continue;
        };
        let mut total = 0_i64;
        for (codes, query) in codes.chunks(FLUSH).zip(query.wide.chunks(FLUSH)) {
            let mut sums = [0_i32; 16];
            for (codes, query) in codes.as_chunks::<16>().0.iter().zip(query.as_chunks::<16>().0) {
                for lane in 0..16 {
                    sums[lane] += i32::from(codes[lane]) * i32::from(query[lane]);
                }
            }
            total += sums.iter().map(|sum| i64::from(*sum)).sum::<i64>();
        }
        *out = total - query.excess;
    }
}

/// The codes of a row.
#[inline(always)]
pub(super) fn row_of(codes: &[u8], width: usize, row: u32) -> Option<&[u8]> {
    let from = usize::try_from(row).ok()?.checked_mul(width)?;
    codes.get(from..from.checked_add(width)?)
}

/// See [`super::Kernel::above`].
#[inline(always)]
pub(super) fn above(rows: SignRows<'_>, query: &QueryPlanes, floor: f32, out: &mut [u64]) {
    let groups = rows.bits.chunks_exact((query.words.len() * GROUP).max(1));
    let factors = rows.centres.as_chunks::<GROUP>().0.iter().zip(rows.gains.as_chunks::<GROUP>().0);
    let mut masks = groups.zip(factors).map(|(group, (centres, gains))| {
        let mut sums = [0_i32; GROUP];
        for (bits, planes) in group.as_chunks::<GROUP>().0.iter().zip(&query.words) {
            for lane in 0..GROUP {
                sums[lane] += (bits[lane] & planes[0]).count_ones().cast_signed()
                    + ((bits[lane] & planes[1]).count_ones().cast_signed() << 1)
                    + ((bits[lane] & planes[2]).count_ones().cast_signed() << 2)
                    - ((bits[lane] & planes[3]).count_ones().cast_signed() << 3);
            }
        }
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
    });
    for out in out {
        *out = 0;
        for (at, mask) in masks.by_ref().take(64 / GROUP).enumerate() {
            *out |= mask << (GROUP * at);
        }
    }
}

/// Turns a vector by a fixed pseudo-random rotation, so that no coordinate matters more than another and one
/// quantisation suits every embedding: four rounds of sign flips and a Walsh–Hadamard transform over the greatest
/// power of two that fits, at the front and at the back in turn.
#[inline(always)]
pub(super) fn rotate(vector: &mut [f32]) {
    let width = vector.len();
    let Some(power) = width.checked_ilog2().map(|log| 1_usize << log) else { return };
    for round in 0..4_u64 {
        let mut seed = round << 32;
        for chunk in vector.chunks_mut(32) {
            seed += 1;
            flip(chunk, splitmix(seed));
        }
        let from = if round % 2 == 0 { 0 } else { width - power };
        if let Some(part) = vector.get_mut(from..from + power) {
            hadamard(part);
        }
    }
}

/// The sign flips of up to 32 numbers.
#[inline(always)]
fn flip(numbers: &mut [f32], random: u64) {
    let (_, bits) = (random >> 32, random & 0xFFFF_FFFF);
    for (at, number) in numbers.iter_mut().enumerate() {
        let flip = u32::try_from((bits >> at) & 1).unwrap_or(0);
        *number = f32::from_bits(number.to_bits() ^ (flip << 31));
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

/// The Walsh–Hadamard transform of a power of two of numbers, at least 8, scaled to keep lengths.
#[inline(always)]
fn hadamard(numbers: &mut [f32]) {
    #[allow(clippy::cast_precision_loss, reason = "at most 16,384")]
    let scale = 1.0 / (numbers.len() as f32).sqrt();
    for eight in numbers.as_chunks_mut::<8>().0 {
        let [a, b, c, d, e, f, g, h] = *eight;
        let (a, b, c, d, e, f, g, h) = (a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h);
        let (a, b, c, d, e, f, g, h) = (a + c, b + d, a - c, b - d, e + g, f + h, e - g, f - h);
        *eight = [a + e, b + f, c + g, d + h, a - e, b - f, c - g, d - h].map(|number| number * scale);
    }
    let mut half = 8;
    while half < numbers.len() {
        for pair in numbers.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (low, high) in low.as_chunks_mut::<8>().0.iter_mut().zip(high.as_chunks_mut::<8>().0) {
                for lane in 0..8 {
                    let (a, b) = (low[lane], high[lane]);
                    low[lane] = a + b;
                    high[lane] = a - b;
                }
            }
        }
        half *= 2;
    }
}

/// Codes of a vector: `vector ≈ scale · (code − 128)`, codes 1 to 255. Returns the scale and the length of the
/// difference.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 1..=255 by the scale")]
pub(super) fn quantise(vector: &[f32], codes: &mut [u8]) -> (f32, f32) {
    let mut most = [0_f32; 16];
    for numbers in vector.as_chunks::<16>().0 {
        for lane in 0..16 {
            most[lane] = if numbers[lane].abs() > most[lane] { numbers[lane].abs() } else { most[lane] };
        }
    }
    let most = most.iter().fold(f32::MIN_POSITIVE, |most, number| most.max(*number));
    let (scale, inverse) = (most / 127.0, 127.0 / most);
    let mut lost = [0_f32; 16];
    for (numbers, codes) in vector.as_chunks::<16>().0.iter().zip(codes.as_chunks_mut::<16>().0) {
        for lane in 0..16 {
            let code = nearest(numbers[lane] * inverse);
            let difference = numbers[lane] - code * scale;
            lost[lane] += difference * difference;
            codes[lane] = (code + 128.0) as i32 as u8;
        }
    }
    (scale, lost.iter().sum::<f32>().sqrt())
}

/// Rounds what lies within ±2^22 without the function call that `round` is on processors of old.
#[inline(always)]
fn nearest(number: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    (number + SHIFT) - SHIFT
}

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
