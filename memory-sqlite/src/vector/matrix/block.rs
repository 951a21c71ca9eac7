//! A block of rows: their quantised vectors, ids and expiries.

use super::centre::{Centre, SignCode};
use super::kernel::{Codes, GROUP, Kernel, Line, SignRows, Words};

/// Target size of a block's codes: the most that growing copies at once, and a search raises its threshold after
/// each block.
const BLOCK_BYTES: usize = 1 << 18;

/// Rows of a full block for vectors of this width: a power of two, so that a slot splits into block and row.
pub(super) fn block_rows(width: usize) -> usize {
    let rows = (BLOCK_BYTES / width.max(1)).clamp(64, 1_024);
    1 << rows.ilog2()
}

/// Up to a block's rows, in ascending order of id.
pub(super) struct Block {
    ids: Ids,
    /// Bit `row % 64` of word `row / 64`: the row was not removed.
    alive: Vec<u64>,
    /// One row after another.
    codes: Vec<Codes>,
    scales: Vec<f32>,
    /// Length of the quantisation error, in units of [`loss_unit`] times the scale.
    losses: Vec<u16>,
    /// Empty until some row has an expiry; then one per row, `i64::MAX` for never.
    expiries: Vec<i64>,
    /// The smallest expiry.
    first_expiry: i64,
    /// Empty until the matrix has a centre. These three are in whole groups of rows.
    bits: Vec<Words>,
    centres: Vec<i16>,
    gains: Vec<u16>,
}

/// Ids as differences from the first, where they fit.
enum Ids {
    Near { first: i64, offsets: Vec<u32> },
    Far(Vec<i64>),
}

/// The encoded form of one vector.
#[derive(Clone, Copy)]
pub(super) struct RowCode<'a> {
    pub(super) id: i64,
    pub(super) expires_at: Option<i64>,
    pub(super) codes: &'a [Codes],
    pub(super) scale: f32,
    pub(super) loss: u16,
}

/// Rounding loses at most half a step in each of `width` numbers, so a loss is at most 65,535 of these times the
/// scale. The small extra covers the arithmetic's own rounding.
pub(super) fn loss_unit(width: usize) -> f32 {
    #[allow(clippy::cast_precision_loss, reason = "at most 16,384")]
    let width = width as f32;
    0.501 * width.sqrt() / 65_535.0
}

impl Block {
    pub(super) fn new(first: i64) -> Self {
        Self {
            ids: Ids::Near { first, offsets: Vec::new() },
            alive: Vec::new(),
            codes: Vec::new(),
            scales: Vec::new(),
            losses: Vec::new(),
            expiries: Vec::new(),
            first_expiry: i64::MAX,
            bits: Vec::new(),
            centres: Vec::new(),
            gains: Vec::new(),
        }
    }

    /// Number of rows, including removed ones.
    pub(super) fn len(&self) -> usize {
        self.scales.len()
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let ids = match &self.ids {
            Ids::Near { offsets, .. } => offsets.capacity() * size_of::<u32>(),
            Ids::Far(ids) => ids.capacity() * size_of::<i64>(),
        };
        ids + self.alive.capacity() * size_of::<u64>()
            + self.bits.capacity() * size_of::<Words>()
            + self.codes.capacity() * size_of::<Codes>()
            + self.scales.capacity() * size_of::<f32>()
            + (self.losses.capacity() + self.centres.capacity() + self.gains.capacity()) * size_of::<u16>()
            + self.expiries.capacity() * size_of::<i64>()
    }

    /// Adds a row; `most` is the final number of rows in the block.
    pub(super) fn push(&mut self, row: RowCode<'_>, sign: Option<&SignCode>, most: usize) {
        let at = self.len();
        if at == self.scales.capacity() {
            self.grow(row.codes.len(), sign.map_or(0, |sign| sign.words.len()), most);
        }
        self.ids.push(row.id, most);
        if at.is_multiple_of(64) {
            self.alive.push(0);
        }
        if let Some(word) = self.alive.last_mut() {
            *word |= 1 << (at % 64);
        }
        self.codes.extend_from_slice(row.codes);
        self.scales.push(row.scale);
        self.losses.push(row.loss);
        if let Some(expires_at) = row.expires_at {
            if self.expiries.is_empty() {
                self.expiries.reserve_exact(self.scales.capacity());
                self.expiries.resize(at, i64::MAX);
            }
            self.first_expiry = self.first_expiry.min(expires_at);
        }
        if row.expires_at.is_some() || !self.expiries.is_empty() {
            self.expiries.push(row.expires_at.unwrap_or(i64::MAX));
        }
        if let Some(sign) = sign {
            self.push_sign(at, sign);
        }
    }

    /// Reserves an eighth of a block, less while it is small.
    fn grow(&mut self, lines: usize, words: usize, most: usize) {
        let more = self.len().clamp(GROUP, (most / 8).max(GROUP)).min(most.saturating_sub(self.len()).max(1));
        self.reserve(more, lines, words);
    }

    /// Reserves space for more rows.
    pub(super) fn reserve(&mut self, more: usize, lines: usize, words: usize) {
        self.scales.reserve_exact(more);
        self.losses.reserve_exact(more);
        self.codes.reserve_exact(more * lines);
        self.alive.reserve_exact((self.len() + more).div_ceil(64) - self.alive.len());
        match &mut self.ids {
            Ids::Near { offsets, .. } => offsets.reserve_exact(more),
            Ids::Far(ids) => ids.reserve_exact(more),
        }
        if !self.expiries.is_empty() {
            self.expiries.reserve_exact(more);
        }
        if words > 0 {
            self.reserve_signs(more, words);
        }
    }

    fn reserve_signs(&mut self, more: usize, words: usize) {
        let more = more.next_multiple_of(GROUP);
        self.bits.reserve_exact(more / GROUP * words);
        self.centres.reserve_exact(more);
        self.gains.reserve_exact(more);
    }

    /// Stores the sign code of the next row, `at`, in its lane.
    fn push_sign(&mut self, at: usize, sign: &SignCode) {
        let (group, lane) = (at / GROUP, at % GROUP);
        let words = sign.words.len();
        if lane == 0 {
            self.bits.resize((group + 1) * words, Line([0; GROUP]));
            self.centres.resize((group + 1) * GROUP, 0);
            self.gains.resize((group + 1) * GROUP, 0);
        }
        let kept = self.bits.iter_mut().skip(group * words).filter_map(|line| line.0.get_mut(lane));
        for (kept, word) in kept.zip(&sign.words) {
            *kept = *word;
        }
        if let (Some(centre), Some(gain)) = (self.centres.get_mut(at), self.gains.get_mut(at)) {
            (*centre, *gain) = (sign.centre, sign.gain);
        }
    }

    /// Recomputes the sign codes of all rows.
    pub(super) fn sign(
        &mut self,
        kernel: Kernel,
        centre: &Centre,
        scratch: &mut Vec<f32>,
        sign: &mut SignCode,
    ) {
        let (len, capacity) = (self.len(), self.scales.capacity());
        (self.bits, self.centres, self.gains) = (Vec::new(), Vec::new(), Vec::new());
        self.reserve_signs(capacity, centre.words());
        for row in 0..len {
            self.vector(row, scratch);
            centre.code(kernel, scratch, sign);
            self.push_sign(row, sign);
        }
    }

    /// Decodes a row's approximate vector.
    pub(super) fn vector(&self, row: usize, into: &mut Vec<f32>) {
        into.clear();
        if let Some(code) = self.row(row) {
            let numbers = code.codes.iter().flat_map(|line| &line.0);
            into.extend(numbers.map(|number| (f32::from(*number) - 128.0) * code.scale));
        }
    }

    /// A row's encoded form, without its sign code.
    pub(super) fn row(&self, row: usize) -> Option<RowCode<'_>> {
        let lines = self.codes.len().checked_div(self.len())?;
        Some(RowCode {
            id: self.id(row)?,
            expires_at: self.expiries.get(row).copied().filter(|at| *at != i64::MAX),
            codes: self.codes.get(row * lines..(row + 1) * lines)?,
            scale: *self.scales.get(row)?,
            loss: *self.losses.get(row)?,
        })
    }

    /// Copies the sign code of a row.
    pub(super) fn sign_code(&self, row: usize, into: &mut SignCode) {
        let (group, lane) = (row / GROUP, row % GROUP);
        let words = into.words.len();
        let kept = self.bits.iter().skip(group * words).filter_map(|line| line.0.get(lane));
        for (word, kept) in into.words.iter_mut().zip(kept) {
            *word = *kept;
        }
        into.centre = self.centres.get(row).copied().unwrap_or(0);
        into.gain = self.gains.get(row).copied().unwrap_or(0);
    }

    pub(super) fn id(&self, row: usize) -> Option<i64> {
        match &self.ids {
            Ids::Near { first, offsets } => offsets.get(row).map(|offset| first + i64::from(*offset)),
            Ids::Far(ids) => ids.get(row).copied(),
        }
    }

    /// The position of an id, removed or not.
    pub(super) fn find(&self, id: i64) -> Option<usize> {
        match &self.ids {
            Ids::Near { first, offsets } => {
                let offset = u32::try_from(id.checked_sub(*first)?).ok()?;
                offsets.binary_search(&offset).ok()
            }
            Ids::Far(ids) => ids.binary_search(&id).ok(),
        }
    }

    pub(super) fn is_alive(&self, row: usize) -> bool {
        self.alive.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Marks a row as removed.
    pub(super) fn remove(&mut self, row: usize) {
        if let Some(word) = self.alive.get_mut(row / 64) {
            *word &= !(1 << (row % 64));
        }
    }

    /// The rows that are neither removed nor expired at `now`, 64 per word.
    pub(super) fn living(&self, now: i64) -> impl Iterator<Item = u64> + '_ {
        let expired = now >= self.first_expiry;
        self.alive.iter().enumerate().map(move |(at, alive)| {
            if !expired || *alive == 0 {
                return *alive;
            }
            let expiries = self.expiries.get(at * 64..).unwrap_or(&[]).iter().take(64);
            *alive
                & expiries.enumerate().fold(0, |word, (bit, expiry)| word | u64::from(now < *expiry) << bit)
        })
    }

    pub(super) fn codes(&self) -> &[Codes] {
        &self.codes
    }

    /// A row's scale, and its loss in [`loss_unit`]s of the scale.
    pub(super) fn scale(&self, row: usize) -> Option<(f32, u16)> {
        Some((*self.scales.get(row)?, *self.losses.get(row)?))
    }

    pub(super) fn sign_rows(&self) -> SignRows<'_> {
        SignRows { bits: &self.bits, centres: &self.centres, gains: &self.gains }
    }
}

impl Ids {
    fn push(&mut self, id: i64, most: usize) {
        if let Self::Near { first, offsets } = self {
            if let Some(offset) = id.checked_sub(*first).and_then(|offset| u32::try_from(offset).ok()) {
                offsets.push(offset);
                return;
            }
            let mut ids = Vec::with_capacity(most);
            ids.extend(offsets.iter().map(|offset| *first + i64::from(*offset)));
            *self = Self::Far(ids);
        }
        if let Self::Far(ids) = self {
            ids.push(id);
        }
    }
}
