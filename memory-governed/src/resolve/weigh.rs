//! From the words of a note to what the model decides on: a short list of rows, what speaks for each, and the scene.

use std::collections::HashMap;

use memory_core::Timestamp;

use super::measure::{Background, Measures, Rivals, Scene, count, likeness, relative};
use super::note_words::NoteWords;
use super::row::{Prepared, Space};
use crate::bucket::Bucket;

/// Rows that are looked at closely.
pub(super) const SHORT_LIST: usize = 30;
/// Spaces with fewer rows, or fewer live rows, than this are smaller than those the table was fitted to: rarity means
/// little there, and a row without rivals leads by nothing.
const FEW_ROWS: usize = 50;
const FEW_LIVE: usize = 3;
/// Rows that ended last: so many are looked at, and each counts for so much of the one that ended after it.
const LAST: usize = 8;
const FADES: f64 = 0.6;
/// A row opened so many rows before or after one that ended counts half of one opened beside it.
const SPAN: f64 = 3.0;
/// Rows that may be offered beside the short list, for when they were opened: a note in other words than its row's has
/// others on the list.
const BESIDE: usize = 8;

/// The names of [`Offer`], in order.
pub(super) const OFFER: [&str; 2] = ["beside", "alike"];
/// How near a row was opened to those that ended last, and how alike its words are to the note's.
pub(super) type Offer = [f64; OFFER.len()];
/// Names of [`Weighed::scene`], in order.
pub(super) const SCENE: [&str; 7] = ["rows", "words", "unknown", "ended", "left_out", "head", "names"];

/// The rows that a note may mean, and what speaks for each.
#[derive(Clone, Debug)]
pub(super) struct Weighed<'a> {
    /// The short list, in no order that matters; behind it, if it is full, [`BESIDE`] others that may only be offered.
    pub(super) rows: Vec<&'a Prepared>,
    /// What speaks for each.
    pub(super) measures: Vec<Measures>,
    /// What speaks for offering each where nothing is bound.
    pub(super) offers: Vec<Offer>,
    /// How alike the title of the most similar live row is, for each of the short list.
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
    let (live, over): (Vec<&Prepared>, Vec<&Prepared>) =
        space.prepared(bucket).filter(|row| row.row.opened_at <= observed_at).partition(|row| row.row.live);
    let scene = Scene::new(space, background, note, &live, observed_at);
    let scored = |rows: &[&'a Prepared]| -> Vec<(f64, f64, &'a Prepared)> {
        let scored = rows.iter().map(|row| {
            let explained = scene.explained(row);
            (scene.simple(row, explained), explained, *row)
        });
        scored.collect()
    };
    let (mut ranked, ended) = (scored(&live), scored(&over));
    let explained = |(_, explained, _): &(f64, f64, &Prepared)| *explained;
    let rivals = Rivals::new(ranked.iter().map(explained), ended.iter().map(explained));
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.2.row.id.cmp(&b.2.row.id)));
    ranked.truncate(SHORT_LIST);
    let mut rows: Vec<&Prepared> = ranked.into_iter().map(|(.., row)| row).collect();
    let opened = Opened::new(&live, &over, observed_at);
    rows.extend(opened.nearest(&live, &rows));
    let mut measures: Vec<Measures> = rows.iter().map(|row| scene.measure(row, &rivals)).collect();
    relative(&mut measures, SHORT_LIST);
    let offers = rows.iter().map(|row| [opened.beside(row), scene.alike(row)]).collect();
    let twins = rows
        .iter()
        .take(SHORT_LIST)
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
    Weighed { rows, measures, offers, twins, scene, small: space.len() < FEW_ROWS || live.len() < FEW_LIVE }
}

/// Where rows were opened, and where those that ended last were.
///
/// Work is written down in one go and done in its order, so what was opened beside what ended last is the likelier next.
struct Opened<'a> {
    places: HashMap<&'a str, f64>,
    /// Of those that ended last, the latest first.
    last: Vec<f64>,
}

impl<'a> Opened<'a> {
    fn new(live: &[&'a Prepared], ended: &[&'a Prepared], observed_at: Timestamp) -> Self {
        let mut opened: Vec<(Timestamp, &str)> =
            live.iter().chain(ended).map(|row| (row.row.opened_at, row.row.id.as_str())).collect();
        opened.sort_unstable();
        let places: HashMap<&str, f64> =
            opened.iter().enumerate().map(|(at, (_, id))| (*id, count(at))).collect();
        let mut last: Vec<(Timestamp, f64)> = ended
            .iter()
            .filter_map(|row| {
                let at = row.row.ended_at.filter(|at| *at < observed_at)?;
                Some((at, places.get(row.row.id.as_str()).copied()?))
            })
            .collect();
        last.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
        last.truncate(LAST);
        Self { places, last: last.into_iter().map(|(_, place)| place).collect() }
    }

    /// How near a row was opened to those that ended last.
    fn beside(&self, row: &Prepared) -> f64 {
        let own = self.places.get(row.row.id.as_str()).copied().unwrap_or_default();
        let near = |other: &f64| 1.0 / (1.0 + (own - other).abs() / SPAN);
        // From the earliest: each step fades what ended before.
        self.last.iter().rev().fold(0.0, |sum, one| FADES * sum + near(one))
    }

    /// Of the live rows that are not listed, those opened nearest to what ended last.
    fn nearest<'r>(&self, live: &[&'r Prepared], listed: &[&Prepared]) -> Vec<&'r Prepared> {
        if self.last.is_empty() {
            return Vec::new();
        }
        let others = live.iter().filter(|row| !listed.iter().any(|one| one.row.id == row.row.id));
        let mut near: Vec<(f64, &Prepared)> = others.map(|row| (self.beside(row), *row)).collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.row.id.cmp(&b.1.row.id)));
        near.into_iter().map(|(_, row)| row).take(BESIDE).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::decide::resolve_with;
    use super::super::{Model, OFFERED, Resolution, Row, Space};
    use super::*;
    use crate::bucket::{Bucket, Operation};
    use crate::note::{Actor, Note, NoteSource, Trust};
    use crate::request::WriteRequest;

    const HANDBOOK: [&str; 12] = [
        "birds", "bridges", "clocks", "glass", "harbours", "lenses", "mills", "paper", "quarries", "rope",
        "salt", "tin",
    ];

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_millis_clamped(1_700_000_000_000 + minute * 60_000)
    }

    fn opened(id: &str, title: String, at: i64) -> Row {
        Row {
            id: id.to_owned(),
            bucket: Bucket::Issues,
            title,
            description: String::new(),
            opened_at: minute(at),
            ended_at: None,
            live: true,
            creator: "ann".to_owned(),
            owner: None,
            trust: Trust::Agent,
            aliases: Vec::new(),
        }
    }

    /// What is offered, and what is watched beside it, for a note of minute 100 after these chapters ended, which were
    /// opened one after the other.
    fn candidates(model: &Model, text: &str, ended: &[(&str, i64)]) -> (Vec<String>, Vec<String>) {
        let chapters =
            HANDBOOK.iter().zip(0..).map(|(of, at)| opened(of, format!("Write the chapter about {of}"), at));
        among(model, text, chapters, ended)
    }

    fn among(
        model: &Model,
        text: &str,
        rows: impl Iterator<Item = Row>,
        ended: &[(&str, i64)],
    ) -> (Vec<String>, Vec<String>) {
        let mut space = Space::new();
        space.extend(rows.map(|row| match ended.iter().find(|(id, _)| *id == row.id) {
            Some((_, at)) => Row { live: false, ended_at: Some(minute(*at)), ..row },
            None => row,
        }));
        let note = Note {
            id: "n".to_owned(),
            actor: Actor { agent: "ann".to_owned(), run: "r".to_owned(), trust: Trust::Agent },
            source: NoteSource::Agent,
            observed_at: minute(100),
            text: text.to_owned(),
        };
        let request = WriteRequest::new(Bucket::Issues, Operation::Resolve);
        let Resolution::Defer(deferral) = resolve_with(model, &space, &request, &note, &[]) else {
            unreachable!()
        };
        let mut ids: Vec<String> = deferral.candidates.into_iter().map(|one| one.id).collect();
        let watched = ids.split_off(OFFERED.min(ids.len()));
        (ids, watched)
    }

    #[test]
    fn what_was_opened_beside_the_last_end_is_offered() {
        let model = Model::built_in().unwrap();
        let offered = |ended: &[(&str, i64)]| candidates(model, "Wrote the next chapter.", ended).0;
        for (ended, next) in [("lenses", "mills"), ("clocks", "glass"), ("salt", "tin")] {
            let offered = offered(&[(ended, 50)]);
            assert!(offered.iter().any(|id| id == next), "after {ended}: {offered:?}");
        }
        let both = offered(&[("bridges", 40), ("rope", 50)]);
        assert_eq!(
            both.iter().filter(|id| ["quarries", "salt"].contains(&id.as_str())).count(),
            2,
            "{both:?}"
        );
        // What ended after the note tells nothing about it.
        assert_eq!(offered(&[("lenses", 101)]), offered(&[("lenses", 100)]));
        assert_ne!(offered(&[("lenses", 101)]), offered(&[("lenses", 99)]));
    }

    /// A table by which words rank so much, and only what ended beside a row tells what to offer.
    fn by_place(words: f64) -> Model {
        let table = format!(
            r#"{{"background": {{}}, "rank": {{"cov": {words}}}, "offer": {{"words": 0, "beside": 1}}, "intercept": 0,
            "bind": {{}}, "threshold": 1, "least_share": 0.5}}"#
        );
        Model::from_json(&table).unwrap()
    }

    #[test]
    fn what_the_words_make_likely_is_offered_whatever_ended_beside_others() {
        let (offered, _) = candidates(&by_place(9.0), "Wrote the chapter about tin.", &[("bridges", 50)]);
        assert_eq!(offered, ["tin", "birds", "clocks"]);
    }

    /// Regression: only rows whose words were among the best were offered.
    #[test]
    fn what_was_opened_beside_the_last_end_is_offered_whatever_its_words() {
        let chapters =
            (0..40).map(|at| opened(&format!("day_{at}"), format!("Write the chapter about day {at}"), at));
        let others = [("maps", "Draw a plan", 50), ("covers", "Print them", 51)];
        let rows = chapters.chain(others.map(|(id, title, at)| opened(id, title.to_owned(), at)));
        let (offered, watched) =
            among(&by_place(9.0), "Finished the chapter about a day.", rows, &[("covers", 90)]);
        assert_eq!(offered.first().map(String::as_str), Some("maps"), "{offered:?}");
        assert!(watched.iter().all(|id| id.starts_with("day_")), "{watched:?}");
    }

    /// Its end must still keep the rest from being bound by elimination.
    #[test]
    fn what_the_words_fit_is_watched_where_others_are_offered() {
        let (offered, watched) =
            candidates(&by_place(0.1), "Wrote the chapter about tin.", &[("bridges", 50)]);
        assert_eq!(offered, ["birds", "clocks", "glass"]);
        assert_eq!(watched.first().map(String::as_str), Some("tin"), "{watched:?}");
        assert!(watched.len() <= OFFERED);
    }
}
