//! What decides in this example: a few fixed phrases, and names that were given.

use memory::async_trait;
use memory::governed::{
    Bucket, Candidate, Context, Decision, Interpreter, Note, Operation, Resolution, Resolver, Scored,
    WriteRequest,
};
use serde_json::{Map, Value};

/// Understands `issue ID: TITLE`, `decision ID: STATEMENT`, `ID is also called NAME` and `WHAT is fixed`.
pub(crate) struct Phrases;

#[async_trait]
impl Interpreter for Phrases {
    async fn interpret(&self, note: &Note, _: &Context) -> Decision {
        match read(&note.text) {
            Some(request) => Decision::Accept(vec![request]),
            None => Decision::Reject("none of the phrases".to_owned()),
        }
    }

    fn version(&self) -> String {
        "phrases/1".to_owned()
    }
}

fn request(bucket: Bucket, operation: Operation, target: Option<&str>) -> WriteRequest {
    WriteRequest {
        bucket,
        operation,
        target_id: target.map(str::to_owned),
        payload: Map::new(),
        reference_text: None,
        candidate_aliases: Vec::new(),
        confidence: None,
        rationale: String::new(),
    }
}

fn read(text: &str) -> Option<WriteRequest> {
    for (word, bucket, operation, member) in [
        ("issue ", Bucket::Issues, Operation::Upsert, "title"),
        ("decision ", Bucket::Decisions, Operation::Append, "statement"),
    ] {
        if let Some((id, said)) = text.strip_prefix(word).and_then(|rest| rest.split_once(": ")) {
            let mut new = request(bucket, operation, Some(id));
            new.payload.insert(member.to_owned(), Value::from(said));
            return Some(new);
        }
    }
    if let Some((id, name)) = text.split_once(" is also called ") {
        let mut named = request(Bucket::Issues, Operation::Upsert, Some(id));
        named.candidate_aliases.push(name.to_owned());
        return Some(named);
    }
    let what = text.strip_suffix(" is fixed")?;
    // An id is one word; anything else only refers to a row.
    let id = Some(what).filter(|what| !what.contains(' '));
    let mut fixed = request(Bucket::Issues, Operation::Resolve, id);
    fixed.reference_text = Some(what.to_owned());
    Some(fixed)
}

/// Binds by an id, or by a name that exactly one row was given.
pub(crate) struct Names;

impl Resolver for Names {
    fn resolve(&self, request: &WriteRequest, _: &Note, candidates: &[Candidate]) -> Resolution {
        let words = request.reference_text.as_deref().unwrap_or_default().to_lowercase();
        let is_meant = |row: &&Candidate| match &request.target_id {
            Some(id) => row.id == *id,
            None => row.is_live && row.aliases.iter().any(|name| words.contains(&name.alias)),
        };
        let scored = |row: &Candidate| Scored { id: row.id.clone(), rev: row.rev, score: 1.0 };
        let meant: Vec<&Candidate> = candidates.iter().filter(is_meant).collect();
        match meant.as_slice() {
            [row] if row.is_live => Resolution::Bind {
                target: row.id.clone(),
                candidates: vec![scored(row)],
                reason: "its name".to_owned(),
            },
            [_] => Resolution::NoOp("it is fixed already".to_owned()),
            _ => Resolution::Defer {
                candidates: candidates.iter().map(scored).collect(),
                reason: "it could be any of them".to_owned(),
            },
        }
    }

    fn version(&self) -> String {
        "names/1".to_owned()
    }
}
