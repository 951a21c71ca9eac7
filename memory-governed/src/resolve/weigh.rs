//! From the words of a note to what the model decides on: a short list of rows, what speaks for each, and the scene.

use memory_core::Timestamp;

use super::measure::{Background, Measures, Rivals, Scene, count, likeness, relative};
use super::note_words::NoteWords;
use super::row::{Prepared, Space};
use crate::bucket::Bucket;

/// Rows that are looked at closely.
const SHORT_LIST: usize = 30;
/// Spaces with fewer rows, or fewer live rows, than this are smaller than those the table was fitted to: rarity means
/// little there, and a row without rivals leads by nothing.
const FEW_ROWS: usize = 50;
const FEW_LIVE: usize = 3;
/// Names of [`Weighed::scene`], in order.
pub(super) const SCENE: [&str; 7] = ["rows", "words", "unknown", "ended", "left_out", "head", "names"];

/// The rows that a note may mean, and what speaks for each.
#[derive(Clone, Debug)]
pub(super) struct Weighed<'a> {
    /// The short list, in no order that matters.
    pub(super) rows: Vec<&'a Prepared>,
    /// What speaks for each.
    pub(super) measures: Vec<Measures>,
    /// How alike the title of the most similar live row is.
    pub(super) twins: Vec<f64>,
    /// What is the same for all of them.
    pub(super) scene: [f64; SCENE.len()],
    /// Whether the space is too small to bind by anything but a whole title.
    pub(super) small: bool,
}

/// Weighs the live rows of a bucket that were opened at `observed_at` or before.
pub(super) fn weigh<'a>(
    space: &'a Space,
    background: &dyn Background,
    bucket: Bucket,
    note: &NoteWords,
    observed_at: Timestamp,
) -> Weighed<'a> {
    let (live, ended): (Vec<&Prepared>, Vec<&Prepared>) =
        space.prepared(bucket).filter(|row| row.row.opened_at <= observed_at).partition(|row| row.row.live);
    let scene = Scene::new(space, background, note, &live, observed_at);
    let scored = |rows: &[&'a Prepared]| -> Vec<(f64, f64, &'a Prepared)> {
        let scored = rows.iter().map(|row| {
            let explained = scene.explained(row);
            (scene.simple(row, explained), explained, *row)
        });
        scored.collect()
    };
    let (mut ranked, ended) = (scored(&live), scored(&ended));
    let explained = |(_, explained, _): &(f64, f64, &Prepared)| *explained;
    let rivals = Rivals::new(ranked.iter().map(explained), ended.iter().map(explained));
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.2.row.id.cmp(&b.2.row.id)));
    ranked.truncate(SHORT_LIST);
    let rows: Vec<&Prepared> = ranked.into_iter().map(|(.., row)| row).collect();
    let mut measures: Vec<Measures> = rows.iter().map(|row| scene.measure(row, &rivals)).collect();
    relative(&mut measures);
    let twins = rows
        .iter()
        .map(|row| {
            let others = live.iter().filter(|other| other.row.id != row.row.id);
            others.map(|other| likeness(row, other)).fold(0.0, f64::max)
        })
        .collect();
    let best_ended = ended.iter().map(|(simple, ..)| *simple).fold(0.0, f64::max);
    let scene = [
        count(live.len()).ln_1p(),
        count(note.words.len()).ln_1p(),
        scene.unknown(),
        best_ended,
        count(note.left_out.min(1)),
        count(note.head.len()).ln_1p(),
        count(note.names.len()).ln_1p(),
    ];
    Weighed { rows, measures, twins, scene, small: space.len() < FEW_ROWS || live.len() < FEW_LIVE }
}
