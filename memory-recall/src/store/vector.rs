//! Vectors in stored form, with a turn: 8 bits per number, with one scale.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use memory_core::Result;
use memory_core::embed::{EmbeddingModel, is_of_the_text};
use serde::{Deserialize, Serialize};

/// A stored vector and the model it is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredVector {
    model: String,
    /// The value of one step.
    scale: f32,
    /// The steps, base64.
    steps: String,
}

/// The name of a model in stored vectors.
fn name(model: &EmbeddingModel) -> String {
    format!("{}/{}/{}", model.provider, model.model, model.dimensions)
}

impl StoredVector {
    /// The vector; one without direction is empty.
    pub(crate) fn new(model: &EmbeddingModel, vector: &[f32]) -> Self {
        let largest = vector.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        if !largest.is_normal() {
            return Self { model: name(model), scale: 0.0, steps: String::new() };
        }
        let scale = largest / 127.0;
        #[allow(clippy::cast_possible_truncation, reason = "rounded and within -127 to 127")]
        let steps: Vec<u8> = vector.iter().map(|x| ((x / scale).round() as i8).to_ne_bytes()[0]).collect();
        Self { model: name(model), scale, steps: STANDARD_NO_PAD.encode(steps) }
    }

    /// What is stored for an embedder's answer. If it has no vector for a text, that is stored too, so that it is not
    /// asked again.
    ///
    /// # Errors
    /// The embedder's, unless the text is to blame.
    pub(crate) fn answered(model: &EmbeddingModel, answer: Result<Vec<f32>>) -> Result<Self> {
        match answer {
            Ok(vector) => Ok(Self::new(model, &vector)),
            Err(error) if is_of_the_text(&error) => Ok(Self::new(model, &[])),
            Err(error) => Err(error),
        }
    }

    /// Whether the model has a vector for the text.
    pub(crate) fn has_direction(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The name of its model, if it is not this one.
    pub(crate) fn foreign(&self, model: &EmbeddingModel) -> Option<&str> {
        (self.model != name(model)).then_some(self.model.as_str())
    }

    /// The vector, if it is of this model.
    pub(crate) fn of(&self, model: &EmbeddingModel) -> Option<Vec<f32>> {
        if self.model != name(model) || !self.scale.is_normal() {
            return None;
        }
        let steps = STANDARD_NO_PAD.decode(&self.steps).ok()?;
        let vector: Vec<f32> =
            steps.into_iter().map(|step| f32::from(i8::from_ne_bytes([step])) * self.scale).collect();
        (vector.len() == model.dimensions).then_some(vector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::embed::cosine;

    #[test]
    fn a_vector_keeps_its_direction_and_its_model() {
        let model = |model: &str| EmbeddingModel { provider: "p".into(), model: model.into(), dimensions: 5 };
        let vector = [0.5, -1.25, 3.0, 0.0, 0.01];
        let stored = StoredVector::new(&model("a"), &vector);
        assert!(cosine(&stored.of(&model("a")).unwrap(), &vector) > 0.999);
        assert_eq!(stored.of(&model("b")), None);
        assert_eq!((stored.foreign(&model("a")), stored.foreign(&model("b"))), (None, Some("p/a/5")));
        for none in [[0.0; 5], [f32::NAN, f32::INFINITY, 0.0, 0.0, 0.0]] {
            let stored = StoredVector::new(&model("a"), &none);
            assert_eq!((stored.has_direction(), stored.of(&model("a"))), (false, None));
        }
    }
}
