//! The turns' embeddings, one byte per dimension.

use super::place;

/// Rows of one dimension, each scaled to whole numbers of -127 to 127.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    dimensions: usize,
    rows: Vec<i8>,
    /// The factor that turns a row's numbers into a unit vector; 0 if a slot has no vector.
    scales: Vec<f32>,
}

impl Vectors {
    /// Adds the row of the next slot. A vector of another dimension than the first one is left out: it is of another
    /// model, and cannot be compared.
    pub(super) fn push(&mut self, vector: Option<&[f32]>) {
        let vector = vector.filter(|vector| !vector.is_empty());
        if let Some(vector) = vector
            && self.dimensions == 0
        {
            self.dimensions = vector.len();
            self.rows.resize(self.scales.len() * self.dimensions, 0);
        }
        let usable = vector.filter(|vector| vector.len() == self.dimensions).and_then(|vector| {
            let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
            let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            (largest.is_normal() && length.is_normal()).then_some((vector, largest, length))
        });
        match usable {
            Some((vector, largest, length)) => {
                #[allow(clippy::cast_possible_truncation, reason = "within ±127")]
                self.rows.extend(vector.iter().map(|x| (x / largest * 127.0).round() as i8));
                self.scales.push(largest / 127.0 / length);
            }
            None => {
                self.rows.resize(self.rows.len() + self.dimensions, 0);
                self.scales.push(0.0);
            }
        }
    }

    /// Forgets the row of a slot.
    pub(super) fn clear(&mut self, slot: u32) {
        let (at, dimensions) = (place(slot), self.dimensions);
        if let Some(row) = self.rows.get_mut(at * dimensions..(at + 1) * dimensions) {
            row.fill(0);
        }
        if let Some(scale) = self.scales.get_mut(at) {
            *scale = 0.0;
        }
    }

    /// Keeps the slots for which `kept` is true, in their order.
    pub(super) fn keep(&mut self, kept: impl Fn(u32) -> bool) {
        let mut rows = Vec::new();
        let mut scales = Vec::new();
        for (slot, scale) in (0_u32..).zip(&self.scales) {
            if kept(slot) {
                rows.extend_from_slice(self.row(slot));
                scales.push(*scale);
            }
        }
        self.rows = rows;
        self.scales = scales;
        if self.scales.is_empty() {
            self.dimensions = 0;
        }
    }

    fn row(&self, slot: u32) -> &[i8] {
        let (at, dimensions) = (place(slot), self.dimensions);
        self.rows.get(at * dimensions..(at + 1) * dimensions).unwrap_or_default()
    }

    /// The cosine of each slot's vector with `question`, 0 if a slot has none; `None` if nothing can be compared.
    pub(super) fn cosines(&self, question: &[f32]) -> Option<Vec<f32>> {
        let question = Question::new(question, self.dimensions)?;
        let scores = self.rows.chunks_exact(self.dimensions).zip(&self.scales);
        Some(scores.map(|(row, scale)| question.dot(row) * scale).collect())
    }

    /// Gives slots without a vector the value from `others`.
    pub(super) fn fill_missing(&self, cosines: &mut [f32], others: &[f32]) {
        for ((cosine, scale), other) in cosines.iter_mut().zip(&self.scales).zip(others) {
            if *scale == 0.0 {
                *cosine = *other;
            }
        }
    }

    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Adds a share of a slot's unit vector to `sum`.
    pub(super) fn add_to(&self, slot: u32, share: f32, sum: &mut [f32]) {
        let scale = self.scales.get(place(slot)).copied().unwrap_or_default() * share;
        for (sum, x) in sum.iter_mut().zip(self.row(slot)) {
            *sum += f32::from(*x) * scale;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() + self.scales.capacity() * size_of::<f32>()
    }
}

/// A question's vector in whole numbers, so that a product of rows is exact and quick.
struct Question {
    numbers: Vec<i16>,
    scale: f32,
}

/// Largest number of a question's vector: with rows of ±127, sums of 16,384 products stay within an `i32`.
const LARGEST: f32 = 1_000.0;

impl Question {
    fn new(vector: &[f32], dimensions: usize) -> Option<Self> {
        let largest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        if dimensions == 0 || vector.len() != dimensions || !largest.is_normal() || !length.is_normal() {
            return None;
        }
        #[allow(clippy::cast_possible_truncation, reason = "within ±1,000")]
        let numbers = vector.iter().map(|x| (x / largest * LARGEST).round() as i16).collect();
        Some(Self { numbers, scale: largest / LARGEST / length })
    }

    fn dot(&self, row: &[i8]) -> f32 {
        let product = |a: i8, b: i16| i32::from(a) * i32::from(b);
        let (rows, rest) = row.as_chunks::<16>();
        let (numbers, others) = self.numbers.as_chunks::<16>();
        // Eight sums of two products: what a vector unit does in one step.
        let mut sums = [0_i32; 8];
        for (row, numbers) in rows.iter().zip(numbers) {
            let ((a, c), (b, d)) = (row.split_at(8), numbers.split_at(8));
            for (sum, ((a, b), (c, d))) in sums.iter_mut().zip(a.iter().zip(b).zip(c.iter().zip(d))) {
                *sum += product(*a, *b) + product(*c, *d);
            }
        }
        let rest: i32 = rest.iter().zip(others).map(|(a, b)| product(*a, *b)).sum();
        let sum = sums.iter().sum::<i32>() + rest;
        #[allow(clippy::cast_precision_loss, reason = "24 bits are enough for a cosine")]
        let sum = sum as f32;
        sum * self.scale
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cosines_are_those_of_the_vectors_to_a_hundredth() {
        let mut vectors = Vectors::default();
        vectors.push(None);
        vectors.push(Some(&[3.0, 4.0]));
        vectors.push(Some(&[1.0, 2.0, 3.0]));
        vectors.push(Some(&[-0.3, -0.4]));
        vectors.push(Some(&[f32::NAN, 1.0]));
        let cosines = vectors.cosines(&[0.0, 2.0]).unwrap();
        for (cosine, expected) in cosines.iter().zip([0.0, 0.8, 0.0, -0.8, 0.0]) {
            assert!((cosine - expected).abs() < 0.01, "{cosines:?}");
        }
        assert_eq!(vectors.cosines(&[1.0]), None);
        assert_eq!(vectors.cosines(&[0.0, 0.0]), None);
    }

    #[test]
    fn a_cleared_row_has_no_direction() {
        let mut vectors = Vectors::default();
        vectors.push(Some(&[3.0, 4.0]));
        vectors.push(Some(&[1.0, 0.0]));
        vectors.clear(0);
        assert_eq!(vectors.row(0), [0, 0]);
        vectors.keep(|slot| slot == 1);
        assert_eq!(vectors.cosines(&[1.0, 0.0]).unwrap().len(), 1);
    }
}
