//! The loops for processors with AVX2, and with AVX-512 as of 2019 (VNNI, VPOPCNTDQ).
#![allow(unsafe_code, reason = "calls code compiled for the detected processor; loads from arrays")]

use std::arch::x86_64::*;

use super::layout::{CENTRE_UNIT, Codes, GROUP, Line, QueryCodes, QueryPlanes, SignRows, Words};
use super::portable::{self, SignSums};

/// Proof that this processor has AVX2, FMA, BMI and POPCNT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

/// Proof that this processor has what [`Avx2`] has, and AVX-512 F, BW, DQ, VL, VNNI and VPOPCNTDQ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx512(());

/// Calls a function compiled for the features that `Self` proves.
macro_rules! with_features {
    ($proof:ident, $features:literal, $($name:ident($($argument:ident: $type:ty),*) $(-> $returns:ty)? = $body:path;)*) => {
        impl $proof {$(
            pub(super) fn $name(self, $($argument: $type),*) $(-> $returns)? {
                #[target_feature(enable = $features)]
                fn compiled($($argument: $type),*) $(-> $returns)? {
                    $body($($argument),*)
                }
                // SAFETY: a value of this type exists only if `detect` found all of the features.
                unsafe { compiled($($argument),*) }
            }
        )*}
    };
}

with_features! { Avx2, "avx2,bmi1,bmi2,popcnt,lzcnt",
    dots(codes: &[Codes], query: &QueryCodes, rows: &[u32], out: &mut [i64]) = portable::dots;
    above(rows: SignRows<'_>, query: &QueryPlanes, floor: f32, out: &mut [u64]) = above_shuffled;
    normalise(vector: &[f32], into: &mut [f32]) -> bool = portable::normalise;
    rotate(vector: &mut [f32], scratch: &mut [f32]) = portable::rotate;
    quantise(vector: &[f32], codes: &mut [Codes]) -> (f32, f32) = portable::quantise;
    signs(vector: &[f32], mean: &[f32], words: &mut [u64]) -> SignSums = portable::signs;
}

with_features! { Avx512, "avx2,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vpopcntdq",
    dots(codes: &[Codes], query: &QueryCodes, rows: &[u32], out: &mut [i64]) = dots_vnni;
    above(rows: SignRows<'_>, query: &QueryPlanes, floor: f32, out: &mut [u64]) = above_vpopcnt;
    normalise(vector: &[f32], into: &mut [f32]) -> bool = portable::normalise;
    rotate(vector: &mut [f32], scratch: &mut [f32]) = portable::rotate;
    quantise(vector: &[f32], codes: &mut [Codes]) -> (f32, f32) = portable::quantise;
    signs(vector: &[f32], mean: &[f32], words: &mut [u64]) -> SignSums = portable::signs;
}

impl Avx2 {
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("lzcnt"))
        .then_some(Self(()))
    }
}

impl Avx512 {
    pub(super) fn detect() -> Option<Self> {
        Avx2::detect()?;
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
            && is_x86_feature_detected!("avx512vpopcntdq"))
        .then_some(Self(()))
    }
}

/// Integers without padding: every byte of an array of them is initialised.
trait Integer {}
impl Integer for u8 {}
impl Integer for i8 {}
impl Integer for u64 {}

/// Loads a line of 64 bytes into a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn load<T: Integer, const N: usize>(line: &Line<T, N>) -> __m512i {
    const { assert!(size_of::<Line<T, N>>() == 64 && size_of::<T>() * N == 64) };
    // SAFETY: the line is 64 initialised bytes (asserted above; the trait), and the load asks for no alignment.
    unsafe { _mm512_loadu_si512(std::ptr::from_ref(line).cast()) }
}

/// Prefetches memory that is needed soon.
#[inline]
#[target_feature(enable = "avx512f")]
fn prefetch<T>(lines: &[T]) {
    for line in lines {
        #[allow(unused_unsafe, reason = "safe in compilers newer than the oldest supported")]
        // SAFETY: a prefetch has no visible effect, and the address is that of a live reference.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast());
        }
    }
}

/// Sums of u8 · i8 products: at most 4 · 255 · 127 per lane and step, so 256 steps of the widest row fit 32 bits
/// easily.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn dots_vnni(codes: &[Codes], query: &QueryCodes, rows: &[u32], out: &mut [i64]) {
    /// Rows to prefetch ahead of the current one.
    const AHEAD: usize = 4;
    let lines = query.high.len();
    for ((at, row), out) in rows.iter().enumerate().zip(out) {
        if let Some(row) = rows.get(at + AHEAD)
            && let Some(codes) = portable::row_of(codes, lines, *row)
        {
            prefetch(codes);
        }
        let Some(codes) = portable::row_of(codes, lines, *row) else {
            *out = 0;
            continue;
        };
        let (mut high, mut low) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (codes, (query_high, query_low)) in codes.iter().zip(query.high.iter().zip(&query.low)) {
            let codes = load(codes);
            high = _mm512_dpbusd_epi32(high, codes, load(query_high));
            low = _mm512_dpbusd_epi32(low, codes, load(query_low));
        }
        let high = i64::from(_mm512_reduce_add_epi32(high));
        let low = i64::from(_mm512_reduce_add_epi32(low));
        *out = 128 * high + low - query.excess;
    }
}

/// Eight rows per register: word w of each, against the four planes of the query's word w.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq")]
fn above_vpopcnt(rows: SignRows<'_>, query: &QueryPlanes, floor: f32, out: &mut [u64]) {
    /// Lines to prefetch ahead of the current ones: pages are small, and the hardware prefetcher stops at the end
    /// of a page.
    const AHEAD: usize = 64;
    let lines = query.words.len().max(1);
    let groups = rows.bits.chunks_exact(lines).enumerate();
    let factors = rows.centres.as_chunks::<GROUP>().0.iter().zip(rows.gains.as_chunks::<GROUP>().0);
    let (slope, offset) = (_mm256_set1_ps(query.slope), _mm256_set1_ps(query.offset));
    let (unit, floor) = (_mm256_set1_ps(CENTRE_UNIT), _mm256_set1_ps(floor));
    let mut groups = groups.zip(factors);
    out.fill(0);
    for out in out {
        for at in 0..64 / GROUP {
            let Some(((index, group), (centres, gains))) = groups.next() else { return };
            let ahead = index * lines + AHEAD;
            if let Some(ahead) = rows.bits.get(ahead..ahead + lines) {
                prefetch(ahead);
            }
            let zero = _mm512_setzero_si512();
            let (mut one, mut two, mut four, mut eight) = (zero, zero, zero, zero);
            for (bits, planes) in group.iter().zip(&query.words) {
                let bits = load(bits);
                let [p1, p2, p4, p8] = planes.map(|plane| _mm512_set1_epi64(plane.cast_signed()));
                one = _mm512_add_epi64(one, _mm512_popcnt_epi64(_mm512_and_si512(bits, p1)));
                two = _mm512_add_epi64(two, _mm512_popcnt_epi64(_mm512_and_si512(bits, p2)));
                four = _mm512_add_epi64(four, _mm512_popcnt_epi64(_mm512_and_si512(bits, p4)));
                eight = _mm512_add_epi64(eight, _mm512_popcnt_epi64(_mm512_and_si512(bits, p8)));
            }
            let low = _mm512_add_epi64(one, _mm512_slli_epi64::<1>(two));
            let high = _mm512_sub_epi64(_mm512_slli_epi64::<2>(four), _mm512_slli_epi64::<3>(eight));
            let sums = _mm256_cvtepi32_ps(_mm512_cvtepi64_epi32(_mm512_add_epi64(low, high)));
            let [c0, c1, c2, c3, c4, c5, c6, c7] = *centres;
            let centres = _mm256_cvtepi16_epi32(_mm_set_epi16(c7, c6, c5, c4, c3, c2, c1, c0));
            let centres = _mm256_mul_ps(_mm256_cvtepi32_ps(centres), unit);
            let [g0, g1, g2, g3, g4, g5, g6, g7] = gains.map(u16::cast_signed);
            let gains = _mm256_cvtepu16_epi32(_mm_set_epi16(g7, g6, g5, g4, g3, g2, g1, g0));
            let gains = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(gains));
            let most = _mm256_add_ps(_mm256_mul_ps(slope, sums), offset);
            let most = _mm256_add_ps(centres, _mm256_mul_ps(gains, most));
            let mask = _mm256_cmp_ps_mask::<_CMP_GE_OQ>(most, floor);
            *out |= u64::from(mask) << (GROUP * at);
        }
    }
}

/// Like [`portable::above`], counting the bits of four rows per register by looking up their half bytes (Muła,
/// Kurz, Lemire: "Faster Population Counts Using AVX2 Instructions", The Computer Journal, 2018).
#[inline]
#[target_feature(enable = "avx2")]
fn above_shuffled(rows: SignRows<'_>, query: &QueryPlanes, floor: f32, out: &mut [u64]) {
    let groups = rows.bits.chunks_exact(query.words.len().max(1));
    let factors = rows.centres.as_chunks::<GROUP>().0.iter().zip(rows.gains.as_chunks::<GROUP>().0);
    let mut groups = groups.zip(factors);
    out.fill(0);
    for out in out {
        for at in 0..64 / GROUP {
            let Some((group, (centres, gains))) = groups.next() else { return };
            let [a, b, c, d] = sums_of_four::<0>(group, query);
            let [e, f, g, h] = sums_of_four::<1>(group, query);
            *out |= portable::mark(&[a, b, c, d, e, f, g, h], centres, gains, query, floor) << (GROUP * at);
        }
    }
}

/// The sums of the query's codes at the set bits of rows `4 · HALF ..` of a group.
#[inline]
#[target_feature(enable = "avx2")]
#[allow(clippy::cast_possible_truncation, reason = "at most 15 · 16,384")]
fn sums_of_four<const HALF: usize>(group: &[Words], query: &QueryPlanes) -> [i32; 4] {
    /// Words whose counts, 8 per byte, fit a byte.
    const FLUSH: usize = 31;
    let zero = _mm256_setzero_si256();
    let nibble = _mm256_set1_epi8(0x0F);
    let ones = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    let mut sums = zero;
    for (group, planes) in group.chunks(FLUSH).zip(query.words.chunks(FLUSH)) {
        let mut counts = [zero; 4];
        for (bits, planes) in group.iter().zip(planes) {
            let bits = load_half::<HALF>(bits);
            let low = _mm256_and_si256(bits, nibble);
            let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bits), nibble);
            for (count, plane) in counts.iter_mut().zip(planes) {
                let plane = _mm256_set1_epi64x(plane.cast_signed());
                let low = _mm256_and_si256(low, plane);
                let high = _mm256_and_si256(high, _mm256_srli_epi16::<4>(plane));
                let both = _mm256_add_epi8(_mm256_shuffle_epi8(ones, low), _mm256_shuffle_epi8(ones, high));
                *count = _mm256_add_epi8(*count, both);
            }
        }
        let [one, two, four, eight] = counts.map(|count| _mm256_sad_epu8(count, zero));
        let small = _mm256_add_epi64(one, _mm256_slli_epi64::<1>(two));
        let large = _mm256_sub_epi64(_mm256_slli_epi64::<2>(four), _mm256_slli_epi64::<3>(eight));
        sums = _mm256_add_epi64(sums, _mm256_add_epi64(small, large));
    }
    [
        _mm256_extract_epi64::<0>(sums) as i32,
        _mm256_extract_epi64::<1>(sums) as i32,
        _mm256_extract_epi64::<2>(sums) as i32,
        _mm256_extract_epi64::<3>(sums) as i32,
    ]
}

/// Loads the lower or upper half of a line into a register.
#[inline]
#[target_feature(enable = "avx2")]
fn load_half<const HALF: usize>(line: &Words) -> __m256i {
    const { assert!(HALF < 2 && size_of::<Words>() == 64) };
    // SAFETY: the line is 64 initialised bytes, a half of it 32, and the load asks for no alignment.
    unsafe { _mm256_loadu_si256(std::ptr::from_ref(line).cast::<__m256i>().add(HALF)) }
}
