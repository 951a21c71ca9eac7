//! The vectors to store and to query, from a seeded generator or a file.

use std::path::Path;

use memory_core::{Error, Result};

use crate::bench::machine::io;
use crate::bench::workload::Random;

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 30;

/// A matrix of unit vectors, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vectors {
    pub(crate) dimensions: usize,
    numbers: Vec<f32>,
}

impl Vectors {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len() / self.dimensions
    }

    pub(crate) fn row(&self, index: usize) -> &[f32] {
        let start = index * self.dimensions;
        self.numbers.get(start..start + self.dimensions).unwrap_or_default()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.numbers.chunks_exact(self.dimensions)
    }

    pub(crate) fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// Clusters on the sphere: about one centre per 100 vectors, drawn around a common direction, and each vector around its
    /// centre. As with sentence embeddings, the cosine of two vectors is about 0.6 within a cluster and about 0.15 across
    /// clusters. The same seed gives the same vectors. Queries are drawn the same way but are not stored.
    pub(crate) fn clustered(count: usize, queries: usize, dimensions: usize, seed: u64) -> (Self, Self) {
        let mut random = Random::new(seed);
        let common = gaussian(&mut random, dimensions);
        let clusters = (count / 100).max(1);
        let centres: Vec<Vec<f32>> =
            (0..clusters).map(|_| mixed(&common, 0.42, &gaussian(&mut random, dimensions), 1.0)).collect();
        let mut draw = |count: usize| {
            let mut numbers = Vec::with_capacity(count * dimensions);
            for _ in 0..count {
                let centre = centres.get(random.below(clusters)).map_or(common.as_slice(), Vec::as_slice);
                let mut vector = mixed(centre, 1.0, &gaussian(&mut random, dimensions), 0.8);
                normalise(&mut vector);
                numbers.append(&mut vector);
            }
            Self { dimensions, numbers }
        };
        let stored = draw(count);
        (stored, draw(queries))
    }

    /// Reads little-endian numbers, row by row: 16-bit floats from a file named `*.f16`, else 32-bit ones. The last
    /// `queries` rows are the queries and are not stored.
    pub(super) fn read(path: &Path, queries: usize, dimensions: usize) -> Result<(Self, Self)> {
        let doing = format!("read {}", path.display());
        let size = std::fs::metadata(path).map_err(|error| io(&doing, error))?.len();
        if size > MAX_FILE_BYTES {
            return Err(Error::invalid(format!("{} is over 64 GiB", path.display())));
        }
        let bytes = std::fs::read(path).map_err(|error| io(&doing, error))?;
        let half = path.extension().is_some_and(|extension| extension == "f16");
        let width = if half { 2 } else { 4 };
        if bytes.is_empty() || bytes.len() % (width * dimensions) != 0 {
            return Err(Error::invalid(format!(
                "{} has {} bytes, which is not a whole number of rows of {dimensions} numbers of {width} bytes; correct --dimensions",
                path.display(),
                bytes.len()
            )));
        }
        let mut numbers: Vec<f32> = if half {
            bytes.as_chunks::<2>().0.iter().map(|bytes| half_to_single(u16::from_le_bytes(*bytes))).collect()
        } else {
            bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        for (index, row) in numbers.chunks_exact_mut(dimensions).enumerate() {
            if row.iter().any(|x| !x.is_finite()) || row.iter().all(|x| *x == 0.0) {
                return Err(Error::invalid(format!(
                    "row {index} of {} is zero or not finite",
                    path.display()
                )));
            }
            normalise(row);
        }
        let rows = numbers.len() / dimensions;
        if rows < queries + 10 {
            return Err(Error::invalid(format!(
                "{} has {rows} vectors, and {queries} of them are queries; it needs more, or lower --queries",
                path.display()
            )));
        }
        let asked = numbers.split_off((rows - queries) * dimensions);
        Ok((Self { dimensions, numbers }, Self { dimensions, numbers: asked }))
    }
}

/// `a·x + b·y`
fn mixed(x: &[f32], a: f32, y: &[f32], b: f32) -> Vec<f32> {
    x.iter().zip(y).map(|(x, y)| a * x + b * y).collect()
}

/// A vector of about unit length in a random direction: the sum of 12 uniform numbers is nearly Gaussian.
fn gaussian(random: &mut Random, dimensions: usize) -> Vec<f32> {
    let scale = 1.0 / f32_of(dimensions).sqrt();
    (0..dimensions)
        .map(|_| {
            let bits = random.next();
            let more = random.next();
            let lanes = (0..6)
                .map(|lane| (bits >> (10 * lane)) & 1_023)
                .chain((0..6).map(|lane| (more >> (10 * lane)) & 1_023));
            let sum: u64 = lanes.sum();
            (f32_of(usize::try_from(sum).unwrap_or(0)) / 1_023.0 - 6.0) * scale
        })
        .collect()
}

#[allow(clippy::cast_precision_loss, reason = "far below 2^24")]
fn f32_of(count: usize) -> f32 {
    count as f32
}

fn normalise(vector: &mut [f32]) {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
}

/// IEEE 754 binary16.
fn half_to_single(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1_024.0 + fraction) * 2_f32.powi(exponent - 25),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::embed::cosine;

    #[test]
    fn the_same_seed_gives_the_same_clusters_and_queries_are_near_some_of_them() {
        let (stored, asked) = Vectors::clustered(2_000, 5, 64, 7);
        assert_eq!((stored.clone(), asked.clone()), Vectors::clustered(2_000, 5, 64, 7));
        assert_eq!((stored.len(), asked.len()), (2_000, 5));
        for query in asked.rows() {
            let mut cosines: Vec<f64> = stored.rows().map(|row| cosine(row, query)).collect();
            cosines.sort_by(f64::total_cmp);
            let (best, middle) = (cosines[1_999], cosines[1_000]);
            assert!(best > 0.5 && middle < 0.4, "{best} {middle}");
        }
    }

    #[test]
    fn half_precision_reads_as_ieee_has_it() {
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x0001, 5.960_464_5e-8),
            (0x7bff, 65_504.0),
        ] {
            assert!((half_to_single(bits) - value).abs() <= value.abs() * 1e-6, "{bits:x}");
        }
        assert!(half_to_single(0x7c00).is_infinite() && half_to_single(0x7e00).is_nan());
    }

    #[test]
    fn a_file_is_read_whole_and_one_that_does_not_fit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.f32");
        let bytes: Vec<u8> = (1..=60_u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
        std::fs::write(&path, &bytes).unwrap();
        let (stored, asked) = Vectors::read(&path, 5, 4).unwrap();
        assert_eq!((stored.len(), asked.len()), (10, 5));
        assert!((cosine(asked.row(4), &[57.0, 58.0, 59.0, 60.0]) - 1.0).abs() < 1e-6);
        for (queries, dimensions) in [(5, 7), (6, 4)] {
            assert!(Vectors::read(&path, queries, dimensions).is_err());
        }
        std::fs::write(&path, [0; 240]).unwrap();
        assert!(Vectors::read(&path, 1, 4).unwrap_err().message().contains("zero"));
    }
}
