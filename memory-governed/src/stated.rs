//! Deciders that guess nothing: what a note says is a request, written as one, and a row is meant where its id is given.

use async_trait::async_trait;

use crate::note::Note;
use crate::request::{Decision, WriteRequest};
use crate::seams::{Candidate, Context, Interpreter, Resolution, Resolver, Scored};

/// Candidates offered with a deferral.
const OFFERED: usize = 3;

/// Takes a note that is the JSON of a [`WriteRequest`], or of a list of them. Anything else means nothing to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stated;

#[async_trait]
impl Interpreter for Stated {
    async fn interpret(&self, note: &Note, _: &Context) -> Decision {
        let text = note.text.trim();
        let read = if text.starts_with('[') {
            serde_json::from_str::<Vec<WriteRequest>>(text)
        } else {
            serde_json::from_str(text).map(|request| vec![request])
        };
        match read {
            Ok(requests) => Decision::Accept(requests),
            Err(error) => Decision::Reject(format!("the note is not the JSON of a request: {error}")),
        }
    }

    fn version(&self) -> String {
        "stated/1".to_owned()
    }
}

/// Binds where a request gives the id of a row that has not ended, and defers everything else.
#[derive(Clone, Copy, Debug, Default)]
pub struct ById;

impl Resolver for ById {
    fn resolve(&self, request: &WriteRequest, _: &Note, candidates: &[Candidate]) -> Resolution {
        let scored = |row: &Candidate| Scored { id: row.id.clone(), rev: row.rev, score: 1.0 };
        let Some(id) = &request.target_id else {
            let mut latest: Vec<&Candidate> = candidates.iter().filter(|row| row.is_live).collect();
            latest.sort_by(|one, other| (other.opened_at, &one.id).cmp(&(one.opened_at, &other.id)));
            let candidates = latest.into_iter().take(OFFERED).map(|row| Scored { score: 0.0, ..scored(row) });
            return Resolution::Defer {
                candidates: candidates.collect(),
                reason: "it names no row".to_owned(),
            };
        };
        match candidates.iter().find(|row| row.id == *id) {
            Some(row) if row.is_live => Resolution::Bind {
                target: id.clone(),
                candidates: vec![scored(row)],
                reason: "its id".to_owned(),
            },
            Some(_) => Resolution::NoOp("it has ended already".to_owned()),
            None => {
                Resolution::Defer { candidates: Vec::new(), reason: "there is no row of that id".to_owned() }
            }
        }
    }

    fn version(&self) -> String {
        "by-id/1".to_owned()
    }
}
