//! A tracker's history: each note is judged among what was there when it was written.

use std::collections::BTreeMap;

use memory_core::Result;
use memory_eval::Judged;
use memory_governed::resolve::{BoundBy, Model, Resolution, Row, Space, lab};
use memory_governed::{Actor, Bucket, Note, NoteSource, Operation, Trust, WriteRequest};
use serde::Serialize;
use serde_json::{Value, json};

use super::data::{Case, Id, Item, Tracker};

/// Words in fewer rows are not listed: they are common nowhere.
const LISTED: u32 = 3;

/// Judges every note twice: with the issue it closed, and without it, its words gone too.
pub(super) fn replay(
    model: &Model,
    tracker: Tracker,
    with_features: bool,
    write: &mut dyn FnMut(&Value) -> Result<()>,
) -> Result<Vec<Judged>> {
    let Tracker { name, items, cases, left_out: _ } = tracker;
    if with_features {
        write(&json!({ "repo": name, "rows": items.len(), "words": words(&items) }))?;
    }
    let any = model.at_any_odds();
    let mut items = items.into_iter().peekable();
    let mut space = Space::new();
    let mut judged = Vec::new();
    for case in cases {
        while let Some(item) = items.next_if(|item| item.created_at <= case.observed_at) {
            space.insert(row(item));
        }
        for Id(id) in &case.open {
            space.set_live(Bucket::Issues, id, true);
        }
        let present = Seen::of(&any, &space, &case);
        let gold = space.remove(Bucket::Issues, &case.gold);
        let removed = Seen::of(&any, &space, &case);
        space.extend(gold);
        for Id(id) in &case.open {
            space.set_live(Bucket::Issues, id, false);
        }
        if with_features {
            write(&json!({
                "repo": name, "case": case.case, "gold": case.gold, "guarded": lab::is_guarded(&case.note),
                "present": present, "removed": removed,
            }))?;
        }
        let bound = |seen: &Seen| seen.bound.is_some() && seen.certainty >= model.threshold();
        judged.push(Judged {
            group: name.clone(),
            rank: place(&present.features.ranked, &case.gold),
            offered: place(&present.features.offered, &case.gold),
            answered: bound(&present).then(|| present.bound.as_ref() == Some(&case.gold)),
            answered_without: bound(&removed),
            certainty: present.certainty,
            certainty_without: removed.certainty,
        });
    }
    Ok(judged)
}

/// The place of an id, from 1.
fn place(ids: &[String], wanted: &str) -> Option<usize> {
    ids.iter().position(|id| id == wanted).map(|at| at + 1)
}

/// What was made of a note.
#[derive(Serialize)]
struct Seen {
    /// The row that the rules let the words bind, however unlikely.
    bound: Option<String>,
    /// The log odds that it is meant; infinite, written as `null` with `bound`, where the note names it.
    certainty: f64,
    features: lab::Features,
}

impl Seen {
    fn of(any: &Model, space: &Space, case: &Case) -> Self {
        let note = Note {
            id: case.case.clone(),
            actor: Actor { agent: "lab".to_owned(), run: "lab".to_owned(), trust: Trust::Authority },
            source: NoteSource::Agent,
            observed_at: case.observed_at,
            text: case.note.clone(),
        };
        let request = WriteRequest::new(Bucket::Issues, Operation::Resolve);
        let features = lab::features(any, space, Bucket::Issues, &case.note, case.observed_at);
        let (bound, certainty) = match lab::resolve_by(any, space, &request, &note) {
            Resolution::Bind(binding) if binding.by == BoundBy::Words => {
                (Some(binding.id), features.certainty)
            }
            Resolution::Bind(binding) => (Some(binding.id), f64::INFINITY),
            _ => (None, f64::NEG_INFINITY),
        };
        Self { bound, certainty, features }
    }
}

fn row(item: Item) -> Row {
    Row {
        id: item.id,
        bucket: Bucket::Issues,
        title: item.title,
        description: item.description,
        opened_at: item.created_at,
        ended_at: item.closed_at,
        live: false,
        creator: String::new(),
        owner: None,
        trust: Trust::Agent,
        aliases: Vec::new(),
    }
}

/// In how many issues each word occurs.
fn words(items: &[Item]) -> BTreeMap<String, u32> {
    let mut words: BTreeMap<String, u32> = BTreeMap::new();
    for item in items {
        for stem in lab::stems(&item.title, &item.description) {
            *words.entry(stem).or_default() += 1;
        }
    }
    words.retain(|_, rows| *rows >= LISTED);
    words
}
