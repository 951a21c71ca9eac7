//! The rows of a matrix: added, removed, described, compacted.

use memory_core::filter::FilterView;
use memory_core::{Field, Filter};

use super::block::{self, Block, RowCode};
use super::centre::{Centre, SignCode};
use super::columns::Columns;
use super::encode;
use super::kernel::{Codes, Kernel, LANES, Line};
use super::selection::Selection;

/// Up to this many selected rows are searched exactly.
pub(crate) const EXACT_ROWS: usize = 32_768;

/// A matrix with fewer gaps than this is not compacted.
const MIN_GAPS: usize = 256;

/// The vectors of one model in one scope. Not synchronised: the owner locks it; searches share it.
pub(crate) struct Matrix {
    pub(super) dimensions: usize,
    /// Numbers stored per vector: `dimensions`, rounded up.
    pub(super) width: usize,
    /// Rows of every block except the last.
    pub(super) block_rows: usize,
    pub(super) exact_rows: usize,
    pub(super) kernel: Kernel,
    pub(super) blocks: Vec<Block>,
    /// Bytes of all blocks.
    pub(super) block_bytes: usize,
    /// Rows that are not removed.
    living: usize,
    /// The greatest id ever pushed.
    last_id: Option<i64>,
    pub(super) centre: Option<Centre>,
    columns: Columns,
    /// Buffer to encode a row in.
    vector: Vec<f32>,
    codes: Vec<Codes>,
    sign: SignCode,
}

impl Matrix {
    /// An empty matrix of vectors of `dimensions` numbers, at least 1.
    pub(crate) fn new(dimensions: usize) -> Self {
        Self::with(dimensions, Kernel::detect(), EXACT_ROWS)
    }

    pub(super) fn with(dimensions: usize, kernel: Kernel, exact_rows: usize) -> Self {
        let width = encode::width_of(dimensions);
        Self {
            dimensions,
            width,
            block_rows: block::block_rows(width),
            exact_rows,
            kernel,
            blocks: Vec::new(),
            block_bytes: 0,
            living: 0,
            last_id: None,
            centre: None,
            columns: Columns::default(),
            vector: Vec::with_capacity(2 * width),
            codes: vec![Line([0; LANES]); width / LANES],
            sign: SignCode::new(width),
        }
    }

    /// Adds a row. `id` must exceed all before it; the vector must be finite, not zero, and of the matrix's
    /// dimensions. It need not be normalised. A row that breaks this is ignored.
    ///
    /// If [`has_columns`](Self::has_columns), [`describe`](Self::describe) must follow.
    pub(crate) fn push(&mut self, id: i64, vector: &[f32], expires_at: Option<i64>) {
        if self.last_id.is_some_and(|last| last >= id)
            || vector.len() != self.dimensions
            || !encode::rotate_unit(self.kernel, vector, &mut self.vector)
        {
            return;
        }
        self.last_id = Some(id);
        let (scale, loss) = encode::quantise(self.kernel, &self.vector, &mut self.codes);
        if let Some(centre) = &self.centre {
            centre.code(self.kernel, &self.vector, &mut self.sign);
        }
        let sign = self.centre.as_ref().map(|_| &self.sign);
        let row = RowCode { id, expires_at, codes: &self.codes, scale, loss };
        self.block_bytes += append(&mut self.blocks, self.block_rows, row, sign);
        self.living += 1;
        let due = self.centre.as_ref().map_or(self.exact_rows, |centre| 2 * centre.made_at);
        if self.slots() > due {
            self.centre();
        }
    }

    /// Removes a row; returns whether it was there.
    pub(crate) fn remove(&mut self, id: i64) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        let Some(block) = self.blocks.get_mut(slot / self.block_rows) else { return false };
        block.remove(slot % self.block_rows);
        self.living -= 1;
        let gaps = self.slots() - self.living;
        if gaps >= MIN_GAPS && gaps * 4 >= self.slots() || self.living == 0 {
            self.compact();
        }
        true
    }

    /// Whether a row exists, expired or not.
    #[cfg(test)]
    pub(crate) fn contains(&self, id: i64) -> bool {
        self.slot(id).is_some()
    }

    /// The ids of all rows, expired ones included, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = i64> + '_ {
        self.blocks.iter().flat_map(|block| {
            (0..block.len()).filter(|row| block.is_alive(*row)).filter_map(|row| block.id(row))
        })
    }

    /// Rows, expired ones included.
    pub(crate) fn len(&self) -> usize {
        self.living
    }

    /// Bytes on the heap, including columns. Cheap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.block_bytes
            + self.blocks.capacity() * size_of::<Block>()
            + self.centre.as_ref().map_or(0, Centre::heap_bytes)
            + self.columns.heap_bytes()
            + self.vector.capacity() * size_of::<f32>()
            + self.codes.capacity() * size_of::<Codes>()
            + self.sign.words.capacity() * size_of::<u64>()
    }

    /// The fields of `filter` that [`select`](Self::select) still lacks, each once. `None` if it names more than
    /// the matrix keeps columns for: then evaluate it row by row and use [`selection_of`](Self::selection_of).
    pub(crate) fn unloaded<'f>(&self, filter: &'f Filter) -> Option<Vec<&'f Field>> {
        self.columns.unloaded(filter)
    }

    /// Loads columns. `rows` calls its argument once for each row of the matrix, in any order. Unknown rows are
    /// ignored; rows left out have none of the fields. On an error, nothing is loaded.
    pub(crate) fn load_columns<E>(
        &mut self,
        fields: &[&Field],
        rows: impl FnOnce(&mut dyn FnMut(i64, &FilterView<'_>)) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut loading = Columns::of(fields);
        let slots = self.slots();
        rows(&mut |id, view| {
            if let Some(slot) = self.slot(id) {
                loading.describe(slot, slots, view);
            }
        })?;
        self.columns.adopt(loading);
        Ok(())
    }

    /// Whether a pushed row must be described.
    pub(crate) fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Sets the filterable fields of a row just pushed.
    pub(crate) fn describe(&mut self, id: i64, view: &FilterView<'_>) {
        if let Some(slot) = self.slot(id) {
            self.columns.describe(slot, self.slots(), view);
        }
    }

    /// The rows matched by `filter`, exactly as [`Filter::matches`]; `None` while a field is
    /// [`unloaded`](Self::unloaded). Any change of the matrix invalidates the selection.
    pub(crate) fn select(&self, filter: &Filter) -> Option<Selection> {
        self.columns.select(filter, self.slots())
    }

    /// The rows with these ids. Ascending ids are looked up fastest; unknown ones are ignored.
    pub(crate) fn selection_of(&self, ids: impl Iterator<Item = i64>) -> Selection {
        Selection::from_slots(ids.filter_map(|id| self.slot(id)))
    }

    /// Number of rows and gaps.
    pub(super) fn slots(&self) -> usize {
        let full = self.blocks.len().saturating_sub(1) * self.block_rows;
        self.blocks.last().map_or(0, |last| full + last.len())
    }

    /// The slot of a living row.
    fn slot(&self, id: i64) -> Option<usize> {
        let after = self.blocks.partition_point(|block| block.id(0).is_some_and(|first| first <= id));
        let at = after.checked_sub(1)?;
        let block = self.blocks.get(at)?;
        let row = block.find(id)?;
        block.is_alive(row).then_some(at * self.block_rows + row)
    }

    /// Recomputes the centre, and the signs, from the current rows.
    fn centre(&mut self) {
        let mut mean = vec![0.0_f32; self.width];
        for block in &self.blocks {
            let mut sum = vec![0.0_f32; self.width];
            for row in (0..block.len()).filter(|row| block.is_alive(*row)) {
                block.vector(row, &mut self.vector);
                sum.iter_mut().zip(&self.vector).for_each(|(sum, number)| *sum += number);
            }
            #[allow(clippy::cast_precision_loss, reason = "a mean of rows that fit memory")]
            mean.iter_mut().zip(&sum).for_each(|(mean, sum)| *mean += sum / self.living as f32);
        }
        let centre = Centre::new(mean, self.slots());
        self.block_bytes = 0;
        for block in &mut self.blocks {
            block.sign(self.kernel, &centre, &mut self.vector, &mut self.sign);
            self.block_bytes += block.heap_bytes();
        }
        self.centre = Some(centre);
    }

    /// Closes the gaps, one block at a time so that memory does not double.
    pub(super) fn compact(&mut self) {
        let (blocks, rows) = (&self.blocks, self.block_rows);
        let alive = |slot: usize| blocks.get(slot / rows).is_some_and(|block| block.is_alive(slot % rows));
        self.columns.compact(&alive);
        self.block_bytes = 0;
        for block in std::mem::take(&mut self.blocks) {
            for row in (0..block.len()).filter(|row| block.is_alive(*row)) {
                let Some(code) = block.row(row) else { continue };
                let sign = self.centre.is_some().then(|| {
                    block.sign_code(row, &mut self.sign);
                    &self.sign
                });
                self.block_bytes += append(&mut self.blocks, self.block_rows, code, sign);
            }
        }
        let slots = self.slots();
        if let Some(centre) = &mut self.centre {
            centre.made_at = centre.made_at.min(slots.max(self.exact_rows));
        }
    }
}

/// Shows no stored data.
impl std::fmt::Debug for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matrix")
            .field("dimensions", &self.dimensions)
            .field("rows", &self.living)
            .finish_non_exhaustive()
    }
}

/// Appends a row; returns by how many bytes the blocks grew.
fn append(blocks: &mut Vec<Block>, block_rows: usize, row: RowCode<'_>, sign: Option<&SignCode>) -> usize {
    let mut reserved = 0;
    if blocks.last().is_none_or(|last| last.len() >= block_rows) {
        let mut block = Block::new(row.id);
        // Only the first block grows gradually: growing leaves holes in the heap that nothing else fits into.
        if !blocks.is_empty() {
            block.reserve(block_rows, row.codes.len(), sign.map_or(0, |sign| sign.words.len()));
            reserved = block.heap_bytes();
        }
        blocks.push(block);
    }
    let Some(block) = blocks.last_mut() else { return reserved };
    let before = block.heap_bytes() - reserved;
    block.push(row, sign, block_rows);
    block.heap_bytes() - before
}
