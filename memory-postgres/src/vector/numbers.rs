//! How vectors are stored.

use crate::store::parameters::literal;

/// The longest vector that pgvector's type supports.
pub(crate) const MAX_VECTOR: usize = 16_000;

/// The stored form of a vector.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// What the engine compares; `None` for a vector that is too long.
    pub(crate) embedding: Option<String>,
    /// The exact numbers, if the engine compares others.
    pub(crate) exact: Option<String>,
}

impl Numbers {
    pub(crate) fn of(vector: &[f32]) -> Self {
        if vector.len() > MAX_VECTOR {
            return Self { embedding: None, exact: Some(literal(vector)) };
        }
        match comparable(vector) {
            None => Self { embedding: Some(literal(vector)), exact: None },
            Some(scaled) => Self { embedding: Some(literal(&scaled)), exact: Some(literal(vector)) },
        }
    }
}

/// The unit vector, if the squares of the components do not fit the engine's 32 bits; `None` if they do.
#[allow(clippy::cast_possible_truncation, reason = "components are 32-bit floats")]
pub(crate) fn comparable(vector: &[f32]) -> Option<Vec<f32>> {
    let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    let fits = (1e-10..1e10).contains(&norm);
    (!fits).then(|| vector.iter().map(|x| (f64::from(*x) / norm) as f32).collect())
}
