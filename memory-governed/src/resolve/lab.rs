//! What the model is trained on: the very numbers that decide.

use memory_core::Timestamp;
use serde::Serialize;

use super::decide::{before_words, resolve_with};
use super::measure::NAMES;
use super::model::Model;
use super::note_words::NoteWords;
use super::resolution::Resolution;
use super::row::Space;
use super::speech::told;
use super::weigh::{OFFER, SCENE, weigh};
use super::words;
use crate::bucket::Bucket;
use crate::note::Note;
use crate::request::WriteRequest;

/// The evidence for each row of the short list, the overall situation, and the model's verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Features {
    /// The short list, and behind it the rows that may only be offered.
    pub ids: Vec<String>,
    /// What speaks for each, in the order of [`names`], with its similarity to its twin last (0 behind the short list).
    pub rows: Vec<Vec<f64>>,
    /// What speaks for offering each where nothing is bound, in the order of [`offer_names`].
    pub offers: Vec<Vec<f64>>,
    /// What is the same for all.
    pub scene: Vec<f64>,
    /// The log odds that the first row is meant; minus infinity, written as `null`, without rows.
    pub certainty: f64,
    /// The ids, likeliest first.
    pub ranked: Vec<String>,
    /// The ids in the order in which they are offered.
    pub offered: Vec<String>,
}

/// The names of the numbers of a row, and of the scene.
#[must_use]
pub const fn names() -> (&'static [&'static str], &'static [&'static str]) {
    (&NAMES, &SCENE)
}

/// The names of the numbers that speak for offering a row.
#[must_use]
pub const fn offer_names() -> &'static [&'static str] {
    &OFFER
}

/// The numbers that decide about a note.
#[must_use]
pub fn features(
    model: &Model,
    space: &Space,
    bucket: Bucket,
    note: &str,
    observed_at: Timestamp,
) -> Features {
    let words = NoteWords::new(&told(note));
    let weighed = weigh(space, model, bucket, &words, observed_at);
    let ranking = model.rank(&weighed);
    let ids: Vec<String> = weighed.rows.iter().map(|row| row.row.id.clone()).collect();
    let named = |order: &[(usize, f64)]| order.iter().filter_map(|(at, _)| ids.get(*at).cloned()).collect();
    Features {
        ranked: named(&ranking.order),
        offered: named(&ranking.offers),
        offers: weighed.offers.iter().map(|offer| offer.to_vec()).collect(),
        rows: weighed
            .measures
            .iter()
            .zip(weighed.twins.iter().chain(std::iter::repeat(&0.0)))
            .map(|(measures, twin)| measures.iter().copied().chain([*twin]).collect())
            .collect(),
        scene: weighed.scene.to_vec(),
        certainty: ranking.certainty,
        ids,
    }
}

/// Whether the note is deferred, whatever its words match.
#[must_use]
pub fn is_guarded(note: &str) -> bool {
    before_words(note).is_some()
}

/// As [`resolve`](super::resolve), with another table of weights.
///
/// With [`Model::at_any_odds`] it shows how much of a decision is left to the rules.
#[must_use]
pub fn resolve_by(model: &Model, space: &Space, request: &WriteRequest, note: &Note) -> Resolution {
    resolve_with(model, space, request, note, &[])
}

/// The table of this crate. `None` if it was damaged.
#[must_use]
pub fn built_in() -> Option<&'static Model> {
    Model::built_in()
}

/// The stems of the compared parts of a row, each once.
#[must_use]
pub fn stems(title: &str, description: &str) -> Vec<String> {
    let short: String = description.chars().take(super::row::DESCRIPTION).collect();
    let mut stems = [words::stems(title), words::stems(&short)].concat();
    stems.sort();
    stems.dedup();
    stems
}
