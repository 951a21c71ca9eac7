mod exact;
mod kernels;
mod memory;
mod recall;
mod selections;
mod updates;

use memory_core::embed::cosine;

use super::kernel::Kernel;
use super::nearest::Near;
use super::rows::Matrix;

/// A reproducible source of numbers (splitmix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// In (0, 1).
    fn unit(&mut self) -> f32 {
        (f32::from(u16::try_from(self.next() >> 48).unwrap()) + 0.5) / 65_536.0
    }

    /// About normal: Box and Muller.
    pub(super) fn normal(&mut self) -> f32 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f32::consts::TAU * self.unit()).cos()
    }

    pub(super) fn vector(&mut self, dimensions: usize) -> Vec<f32> {
        (0..dimensions).map(|_| self.normal()).collect()
    }
}

/// Searches all rows at time 0, without cancellation.
pub(super) fn search(matrix: &Matrix, query: &[f32], k: usize) -> Vec<Near> {
    matrix.shortlist(query, k, 0, None, &|| false)
}

/// The ids whose cosine is at least the k-th best, which every shortlist must contain.
pub(super) fn nearest<'a>(
    rows: impl Iterator<Item = (i64, &'a [f32])>,
    query: &[f32],
    k: usize,
) -> Vec<(i64, f64)> {
    let mut all: Vec<(i64, f64)> = rows.map(|(id, vector)| (id, cosine(vector, query))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    if let Some(kth) = k.checked_sub(1).and_then(|at| all.get(at)).map(|kth| kth.1) {
        all.retain(|(_, cosine)| *cosine >= kth);
    }
    all
}

/// A matrix that searches every number of rows exactly.
pub(super) fn exact(dimensions: usize, kernel: Kernel) -> Matrix {
    Matrix::with(dimensions, kernel, usize::MAX / 4)
}
