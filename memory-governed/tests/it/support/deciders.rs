//! Deciders simple enough to predict.

use std::time::Duration;

use async_trait::async_trait;
use memory_governed::{
    Candidate, Context, Decision, Interpretation, Interpreter, Note, Resolution, Resolver, Scored,
    WriteRequest,
};

/// A note is the JSON of its request, or of a list of them, after any words; `retry …` cannot be decided now; anything
/// else is noise.
#[derive(Debug)]
pub(crate) struct Literal;

#[async_trait]
impl Interpreter for Literal {
    fn name(&self) -> &str {
        "literal-1"
    }

    async fn interpret(&self, note: &Note, _: &Context) -> Interpretation {
        let retry_after = note.text.starts_with("retry in an hour").then(|| Duration::from_secs(3_600));
        Interpretation { retry_after, ..Interpretation::of(decide(note)) }
    }
}

fn decide(note: &Note) -> Decision {
    let json = note.text.find(['{', '[']).and_then(|at| note.text.get(at..)).unwrap_or_default();
    if let Ok(one) = serde_json::from_str::<WriteRequest>(json) {
        return Decision::Accept(vec![one]);
    }
    match serde_json::from_str(json) {
        Ok(requests) => Decision::Accept(requests),
        Err(_) if note.text.starts_with("retry") => Decision::Retry("busy".to_owned()),
        Err(_) => Decision::Reject("noise".to_owned()),
    }
}

/// Binds by an exact id, or to the one row whose id or alias is in the words of the reference.
pub(crate) struct Exact;

impl Resolver for Exact {
    fn resolve(&self, request: &WriteRequest, note: &Note, candidates: &[Candidate]) -> Resolution {
        let scored = |rows: &[&Candidate]| -> Vec<Scored> {
            rows.iter().map(|row| Scored { id: row.id.clone(), rev: row.rev, score: 0.5 }).collect()
        };
        if let Some(id) = &request.target_id {
            return match candidates.iter().find(|row| row.id == *id) {
                Some(row) if row.is_live => Resolution::Bind {
                    target: id.clone(),
                    candidates: scored(&[row]),
                    reason: "id".to_owned(),
                },
                Some(_) => Resolution::NoOp("ended".to_owned()),
                None => Resolution::Defer { candidates: Vec::new(), reason: "unknown id".to_owned() },
            };
        }
        let words = request.reference_text.as_deref().unwrap_or(&note.text).to_lowercase();
        let live: Vec<&Candidate> = candidates.iter().filter(|row| row.is_live).collect();
        let named: Vec<&Candidate> = live
            .iter()
            .copied()
            .filter(|row| {
                words.contains(&row.id) || row.aliases.iter().any(|alias| words.contains(&alias.alias))
            })
            .collect();
        match named.as_slice() {
            [one] => Resolution::Bind {
                target: one.id.clone(),
                candidates: scored(&[one]),
                reason: "alias".to_owned(),
            },
            [] => Resolution::Defer { candidates: scored(&live), reason: "not named".to_owned() },
            several => Resolution::Defer { candidates: scored(several), reason: "ambiguous".to_owned() },
        }
    }

    fn version(&self) -> String {
        "exact/1".to_owned()
    }
}
