//! Resolvers that decide wrongly.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory_governed::{Actor, Candidate, Note, Resolution, Resolver, Trust, WriteRequest};

use crate::governed::Setup;

/// Changes the resolver's input or its answer.
pub(super) struct Other {
    pub(super) inner: Arc<dyn Resolver>,
    pub(super) decide: fn(&dyn Resolver, &WriteRequest, &Note, &[Candidate]) -> Resolution,
}

impl Resolver for Other {
    fn resolve(&self, request: &WriteRequest, note: &Note, candidates: &[Candidate]) -> Resolution {
        (self.decide)(self.inner.as_ref(), request, note, candidates)
    }

    fn version(&self) -> String {
        self.inner.version()
    }
}

/// Decides so instead.
pub(super) fn decides(
    setup: &mut Setup,
    decide: fn(&dyn Resolver, &WriteRequest, &Note, &[Candidate]) -> Resolution,
) {
    setup.resolver = Arc::new(Other { inner: Arc::clone(&setup.resolver), decide });
}

/// Binds the nearest live row if the resolver defers for this reason.
pub(super) fn anyway(
    inner: &dyn Resolver,
    reason: &str,
    request: &WriteRequest,
    note: &Note,
    rows: &[Candidate],
) -> Resolution {
    match inner.resolve(request, note, rows) {
        Resolution::Defer { candidates, reason: why } if why.contains(reason) => {
            match nearest(request, note, rows) {
                Some(row) => {
                    Resolution::Bind { target: row.id.clone(), candidates, reason: "the nearest".to_owned() }
                }
                None => Resolution::Defer { candidates, reason: why },
            }
        }
        resolution => resolution,
    }
}

/// The live row that fits best: its id is in the note or the request, or it shares the most words.
fn nearest<'a>(request: &WriteRequest, note: &Note, rows: &'a [Candidate]) -> Option<&'a Candidate> {
    let said = words(&note.text);
    let fits = |row: &Candidate| {
        let named = usize::from(note.text.to_lowercase().contains(&row.id)) * 100;
        let asked = usize::from(request.target_id.as_ref() == Some(&row.id)) * 50;
        named + asked + words(&format!("{} {}", row.id, row.title)).intersection(&said).count()
    };
    rows.iter().filter(|row| row.is_live).max_by_key(|row| fits(row))
}

fn words(text: &str) -> BTreeSet<String> {
    let split = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    split.map(str::to_lowercase).collect()
}

/// The note as if a person had written it.
pub(super) fn by_a_person(note: &Note) -> Note {
    Note { actor: Actor { trust: Trust::Person, ..note.actor.clone() }, ..note.clone() }
}
