//! The inner loops of a search, selected once for the processor.
//!
//! Every path gives the same results: [`dots`](Kernel::dots) is integer arithmetic, and [`above`](Kernel::above)
//! does the same float operations per row in the same order.

mod layout;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(super) use layout::{CENTRE_UNIT, Codes, GROUP, LANES, Line, QueryCodes, QueryPlanes, SignRows, Words};

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
    /// The fastest that this processor supports.
    pub(super) fn detect() -> Self {
        Self::all().pop().unwrap_or(Self(Level::Portable))
    }

    /// All that this processor supports, from the portable to the fastest.
    pub(super) fn all() -> Vec<Self> {
        let all = std::iter::once(Self(Level::Portable));
        #[cfg(target_arch = "x86_64")]
        let all = all
            .chain(x86::Avx2::detect().map(|avx2| Self(Level::Avx2(avx2))))
            .chain(x86::Avx512::detect().map(|avx512| Self(Level::Avx512(avx512))));
        all.collect()
    }

    /// Dot products of the query and some rows of a block: `out[i]` belongs to `rows[i]`. Codes are stored as code
    /// + 128, row after row; a row past the end counts as 0.
    pub(super) fn dots(&self, codes: &[Codes], query: &QueryCodes, rows: &[u32], out: &mut [i64]) {
        match self.0 {
            Level::Portable => portable::dots(codes, query, rows, out),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.dots(codes, query, rows, out),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.dots(codes, query, rows, out),
        }
    }

    /// Rows that may reach `floor`: bit `r % 64` of word `r / 64`, for every row in a full group.
    pub(super) fn above(&self, rows: SignRows<'_>, query: &QueryPlanes, floor: f32, out: &mut [u64]) {
        match self.0 {
            Level::Portable => portable::above(rows, query, floor, out),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.above(rows, query, floor, out),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.above(rows, query, floor, out),
        }
    }

    /// Writes the unit vector in the direction of `vector` to the front of `into`; false if it has no direction.
    pub(super) fn normalise(&self, vector: &[f32], into: &mut [f32]) -> bool {
        match self.0 {
            Level::Portable => portable::normalise(vector, into),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.normalise(vector, into),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.normalise(vector, into),
        }
    }

    /// Applies the fixed pseudo-random rotation. See [`portable::rotate`].
    pub(super) fn rotate(&self, vector: &mut [f32], scratch: &mut [f32]) {
        match self.0 {
            Level::Portable => portable::rotate(vector, scratch),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.rotate(vector, scratch),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.rotate(vector, scratch),
        }
    }

    /// Quantises a vector to `code + 128`. Returns the scale and the length of the error. See
    /// [`portable::quantise`].
    pub(super) fn quantise(&self, vector: &[f32], codes: &mut [Codes]) -> (f32, f32) {
        match self.0 {
            Level::Portable => portable::quantise(vector, codes),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2(avx2) => avx2.quantise(vector, codes),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512(avx512) => avx512.quantise(vector, codes),
        }
    }

    /// The sign bits of a vector relative to a mean. See [`portable::signs`].
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
