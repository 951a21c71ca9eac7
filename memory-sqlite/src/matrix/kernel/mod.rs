//! The loops that a search spends its time in, chosen once for the processor at hand.
//!
//! Every path gives the same answers: [`dots`](Kernel::dots) is integer arithmetic, and
//! [`above`](Kernel::above) does the same float operations per row in the same order.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Numbers of a vector that kernels take at a time; the width of every row is a multiple of it.
pub(super) const LANES: usize = 64;
/// Rows whose sign words lie side by side: word w of eight rows fills one register.
pub(super) const GROUP: usize = 8;

/// What fills a register and a line of the cache, and starts where one does: reads of it never touch two.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Line<T, const N: usize>(pub(super) [T; N]);

/// Codes of [`LANES`] numbers of a row, each kept as code + 128.
pub(super) type Codes = Line<u8, LANES>;
/// One word of the sign bits of each row of a group.
pub(super) type Words = Line<u64, GROUP>;

/// A query in integers: `q ≈ step · (128·high + low)`, `wide = 128·high + low`.
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only AVX-512 multiplies halves"))]
pub(super) struct QueryCodes {
    pub(super) wide: Vec<i16>,
    pub(super) high: Vec<Line<i8, LANES>>,
    pub(super) low: Vec<Line<i8, LANES>>,
    /// 128 times the sum of `wide`: what codes kept as code + 128 add to every dot product.
    pub(super) excess: i64,
}

/// A query against sign bits: four bit planes of a signed 4-bit code per number, the last one of weight −8.
#[derive(Debug, Default)]
pub(super) struct QueryPlanes {
    pub(super) words: Vec<[u64; 4]>,
    /// A row's similarity is at most about `centre + gain · (slope · S + offset)`, S the sum of the codes where
    /// the row's bit is set.
    pub(super) slope: f32,
    pub(super) offset: f32,
}

/// Sign bits of the rows of a block and what turns a sum over them into a similarity.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignRows<'a> {
    /// Groups of [`GROUP`] rows: each has as many lines as a row has words.
    pub(super) bits: &'a [Words],
    /// In units of [`CENTRE_UNIT`].
    pub(super) centres: &'a [i16],
    /// The upper half of an `f32`.
    pub(super) gains: &'a [u16],
}

/// What one step of a stored centre is worth: centres are cosines, kept within ±1.
pub(super) const CENTRE_UNIT: f32 = 1.0 / 32_767.0;

#[derive(Clone, Copy, Debug)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512),
}

/// The loops for one kind of processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel(Level);

impl Kernel {
    /// The fastest that this processor runs.
    pub(super) fn detect() -> Self {
        Self::all().pop().unwrap_or(Self(Level::Portable))
    }

    /// All that this processor runs, the portable one first and the fastest last.
    pub(super) fn all() -> Vec<Self> {
        let all = std::iter::once(Self(Level::Portable));
        #[cfg(target_arch = "x86_64")]
        let all = all
            .chain(x86::Avx2::detect().map(|avx2| Self(Level::Avx2(avx2))))
            .chain(x86::Avx512::detect().map(|avx512| Self(Level::Avx512(avx512))));
        all.collect()
    }

    /// Dot products of the query and some rows of a block: `out[i]` belongs to `rows[i]`. Codes are kept as
    /// code + 128, a row after another; a row past the end counts as 0.
    pub(super) fn dots(&self, codes: &[Codes], query: &QueryCodes, rows: &[u32], out: &mut [i64]) {
        match self.0 {
            Level::Portable => portable::dots(codes, query, rows, out),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.dots(codes, query, rows, out),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.dots(codes, query, rows, out),
        }
    }

    /// Which rows may reach `floor`: bit `r % 64` of word `r / 64`, for every row that has a full group.
    pub(super) fn above(&self, rows: SignRows<'_>, query: &QueryPlanes, floor: f32, out: &mut [u64]) {
        match self.0 {
            Level::Portable => portable::above(rows, query, floor, out),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.above(rows, query, floor, out),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.above(rows, query, floor, out),
        }
    }

    /// Puts the unit vector in the direction of `vector` at the front of `into`; false where it has none.
    pub(super) fn normalise(&self, vector: &[f32], into: &mut [f32]) -> bool {
        match self.0 {
            Level::Portable => portable::normalise(vector, into),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.normalise(vector, into),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.normalise(vector, into),
        }
    }

    /// Turns a vector by the fixed pseudo-random rotation. See [`portable::rotate`].
    pub(super) fn rotate(&self, vector: &mut [f32], scratch: &mut [f32]) {
        match self.0 {
            Level::Portable => portable::rotate(vector, scratch),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.rotate(vector, scratch),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.rotate(vector, scratch),
        }
    }

    /// Quantises a vector to `code + 128`. The scale and the length of what was lost. See [`portable::quantise`].
    pub(super) fn quantise(&self, vector: &[f32], codes: &mut [Codes]) -> (f32, f32) {
        match self.0 {
            Level::Portable => portable::quantise(vector, codes),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.quantise(vector, codes),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.quantise(vector, codes),
        }
    }

    /// The sign bits of a vector about a mean. See [`portable::signs`].
    pub(super) fn signs(&self, vector: &[f32], mean: &[f32], words: &mut [u64]) -> portable::SignSums {
        match self.0 {
            Level::Portable => portable::signs(vector, mean, words),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.signs(vector, mean, words),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.signs(vector, mean, words),
        }
    }
}
