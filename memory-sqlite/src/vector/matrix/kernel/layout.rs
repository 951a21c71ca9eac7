//! Memory layout of rows and queries for the kernels.

/// Numbers that kernels process at a time; the width of every row is a multiple of it.
pub(in super::super) const LANES: usize = 64;
/// Rows whose sign words are interleaved: word w of eight rows fills one register.
pub(in super::super) const GROUP: usize = 8;

/// Fills and aligns to a register and a cache line: a read never touches two.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(in super::super) struct Line<T, const N: usize>(pub(in super::super) [T; N]);

/// Codes of [`LANES`] numbers of a row, each kept as code + 128.
pub(in super::super) type Codes = Line<u8, LANES>;
/// One word of the sign bits of each row of a group.
pub(in super::super) type Words = Line<u64, GROUP>;

/// A quantised query: `q ≈ step · (128·high + low)`, `wide = 128·high + low`.
#[derive(Debug, Default)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only AVX-512 multiplies halves"))]
pub(in super::super) struct QueryCodes {
    pub(in super::super) wide: Vec<i16>,
    pub(in super::super) high: Vec<Line<i8, LANES>>,
    pub(in super::super) low: Vec<Line<i8, LANES>>,
    /// 128 times the sum of `wide`: what codes stored as code + 128 add to every dot product.
    pub(in super::super) excess: i64,
}

/// A query against sign bits: four bit planes of a signed 4-bit code per number, the last one of weight −8.
#[derive(Debug, Default)]
pub(in super::super) struct QueryPlanes {
    pub(in super::super) words: Vec<[u64; 4]>,
    /// A row's similarity is at most about `centre + gain · (slope · S + offset)`, where S is the sum of the codes
    /// at the row's set bits.
    pub(in super::super) slope: f32,
    pub(in super::super) offset: f32,
}

/// Sign bits of a block's rows, and the factors that turn a sum over them into a similarity.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct SignRows<'a> {
    /// Groups of [`GROUP`] rows: each has one line per word of a row.
    pub(in super::super) bits: &'a [Words],
    /// In units of [`CENTRE_UNIT`].
    pub(in super::super) centres: &'a [i16],
    /// The upper half of an `f32`.
    pub(in super::super) gains: &'a [u16],
}

/// The unit of a stored centre: centres are cosines within ±1.
pub(in super::super) const CENTRE_UNIT: f32 = 1.0 / 32_767.0;
