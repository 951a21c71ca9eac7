//! The resolver of [`resolve`](crate::resolve), over the rows of a store.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use crate::note::{Note, Trust};
use crate::request::WriteRequest;
use crate::resolve::{self, BoundBy, Row, Space};
use crate::seams::{Candidate, Resolution, Resolver, Scored};

/// Binds what is named or certain from its words, with the built-in weights; defers the rest.
///
/// It caches the words of the rows it was last given, and rereads only rows that differ.
#[derive(Debug, Default)]
pub struct Calibrated {
    words: Mutex<Space>,
}

impl Calibrated {
    /// With nothing read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Resolver for Calibrated {
    fn resolve(&self, request: &WriteRequest, note: &Note, candidates: &[Candidate]) -> Resolution {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        refresh(&mut words, request, candidates);
        let scored = |of: Vec<resolve::Scored>| -> Vec<Scored> {
            let rev = |id: &str| candidates.iter().find(|row| row.id == id).map(|row| row.rev);
            of.into_iter()
                .filter_map(|one| Some(Scored { rev: rev(&one.id)?, id: one.id, score: one.score }))
                .collect()
        };
        match resolve::resolve(&words, request, note, &[]) {
            resolve::Resolution::Bind(bound) => Resolution::Bind {
                target: bound.id,
                candidates: scored(bound.candidates),
                reason: match bound.by {
                    BoundBy::Words => format!("{}, with a probability of {:.3}", bound.by, bound.score),
                    by => by.to_string(),
                },
            },
            resolve::Resolution::NoOp { id } => Resolution::NoOp(format!("{id} has ended already")),
            resolve::Resolution::Defer(deferral) => Resolution::Defer {
                candidates: scored(deferral.candidates),
                reason: deferral.reason.to_string(),
            },
            resolve::Resolution::New { .. } => Resolution::Defer {
                candidates: Vec::new(),
                reason: "it refers to a row that is not there".to_owned(),
            },
        }
    }

    fn version(&self) -> String {
        "calibrated/5".to_owned()
    }
}

/// Makes `words` hold exactly the candidates of the request's bucket.
fn refresh(words: &mut Space, request: &WriteRequest, candidates: &[Candidate]) {
    let given: BTreeSet<&str> = candidates.iter().map(|row| row.id.as_str()).collect();
    let gone: Vec<String> = words
        .rows(request.bucket)
        .filter(|row| !given.contains(row.id.as_str()))
        .map(|row| row.id.clone())
        .collect();
    for id in gone {
        words.remove(request.bucket, &id);
    }
    for candidate in candidates {
        let row = row(candidate);
        if words.get(row.bucket, &row.id) != Some(&row) {
            words.insert(row);
        }
    }
}

fn row(candidate: &Candidate) -> Row {
    let Candidate {
        bucket,
        id,
        is_live,
        title,
        description,
        aliases,
        opened_at,
        ended_at,
        opened_by,
        trust,
        ..
    } = candidate;
    Row {
        id: id.clone(),
        bucket: *bucket,
        title: title.clone(),
        description: description.clone(),
        opened_at: *opened_at,
        ended_at: *ended_at,
        live: *is_live,
        creator: opened_by.clone(),
        owner: None,
        trust: *trust,
        // A name that a note or a model merely mentioned binds nothing.
        aliases: aliases
            .iter()
            .filter(|alias| alias.trust >= Trust::Authority)
            .map(|alias| alias.alias.clone())
            .collect(),
    }
}
