//! Notes that are read wrongly.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory_governed::{
    Bucket, Context, Decision, Interpretation, Interpreter, MAX_ALIASES, Note, Operation, WriteRequest,
};
use serde_json::Value;

use crate::governed::Setup;
use crate::mutants::mutant::mutants;

/// Changes what a note is read as.
struct Misread {
    inner: Arc<dyn Interpreter>,
    change: fn(&Note, Decision) -> Decision,
}

impl fmt::Debug for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Misread").field("inner", &self.inner).finish_non_exhaustive()
    }
}

#[async_trait]
impl Interpreter for Misread {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn interpret(&self, note: &Note, context: &Context) -> Interpretation {
        let Interpretation { decision, record, retry_after } = self.inner.interpret(note, context).await;
        Interpretation { decision: (self.change)(note, decision), record, retry_after }
    }
}

fn reads(setup: &mut Setup, change: fn(&Note, Decision) -> Decision) {
    setup.interpreter = Arc::new(Misread { inner: Arc::clone(&setup.interpreter), change });
}

/// Changes each write of a note.
fn each(decision: Decision, change: impl Fn(&mut WriteRequest)) -> Decision {
    match decision {
        Decision::Accept(mut requests) => {
            requests.iter_mut().for_each(change);
            Decision::Accept(requests)
        }
        other => other,
    }
}

mutants! {
    |memory, request, next|
    "gov.patch-is-a-replacement": ["GOV-3"] needs [Sql, HostTables], "a change of an issue removes the members that it does not give"
        => stages(|setup| reads(setup, |_, decision| each(decision, |write| {
            if write.bucket == Bucket::Issues && write.operation == Operation::Upsert {
                for member in ["description", "severity"] {
                    write.payload.entry(member).or_insert(Value::Null);
                }
            }
        })));
    "gov.denials-are-left-out": ["GOV-3", "GOV-4"] needs [Sql, HostTables], "of a form, words that end, deny or doubt what is there are not read"
        => stages(|setup| reads(setup, |_, decision| each(decision, |write| {
            for value in write.payload.values_mut() {
                if let Value::String(text) = value {
                    *text = ["no longer ", " (resolved)", "?", "if ", "maybe "].iter().fold(text.clone(), |text, word| text.replace(word, ""));
                }
            }
        })));
    "gov.finished-is-done": ["GOV-6"] needs [Sql, HostTables], "a state that there is not is taken for the likeliest"
        => stages(|setup| reads(setup, |_, decision| each(decision, |write| {
            if write.payload.get("status").is_some_and(|status| status == "finished") {
                write.payload.insert("status".to_owned(), Value::from("done"));
            }
        })));
    "gov.names-from-mentions": ["GOV-14"] needs [Sql, HostTables], "an id that a note mentions becomes a name of its row"
        => stages(|setup| reads(setup, |note, decision| each(decision, |write| {
            if !write.operation.is_lifecycle() {
                let mentioned = note.text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                let others = mentioned.filter(|word| word.contains('_') && Some(*word) != write.target_id.as_deref());
                write.candidate_aliases.extend(others.take(1).map(str::to_owned));
            }
        })));
    "gov.cuts-what-is-too-long": ["GOV-25"] needs [Sql, HostTables], "what is too long is cut, silently"
        => stages(|setup| reads(setup, |_, decision| each(decision, |write| {
            for value in write.payload.values_mut() {
                if let Value::String(text) = value {
                    text.truncate(8 << 10);
                }
            }
        })));
    "gov.takes-some-names": ["GOV-25"] needs [Sql, HostTables], "of a flood of names, the first are taken"
        => stages(|setup| reads(setup, |_, decision| each(decision, |write| write.candidate_aliases.truncate(MAX_ALIASES))));
    "gov.takes-some-writes": ["GOV-25"] needs [Sql, HostTables], "of a flood of writes, the first are taken"
        => stages(|setup| reads(setup, |_, decision| match decision {
            Decision::Accept(mut requests) => {
                requests.truncate(16);
                Decision::Accept(requests)
            }
            other => other,
        }));
    "gov.busy-is-a-rejection": ["GOV-35"] needs [Sql, HostTables], "a note whose model fails is rejected"
        => stages(|setup| reads(setup, |_, decision| match decision {
            Decision::Retry(reason) => Decision::Reject(reason),
            other => other,
        }));
    "gov.noise-is-a-learning": ["GOV-41"] needs [Sql, HostTables], "what means nothing is kept as a learning"
        => stages(|setup| reads(setup, |note, decision| match decision {
            Decision::Reject(_) => Decision::Accept(vec![
                WriteRequest::new(Bucket::Learnings, Operation::Append).with("statement", note.text.as_str()),
            ]),
            other => other,
        }));
    "gov.noise-waits": ["GOV-41"] needs [Sql, HostTables], "what means nothing waits to mean something"
        => stages(|setup| reads(setup, |note, decision| match decision {
            Decision::Reject(_) => {
                let mut vague = WriteRequest::new(Bucket::Issues, Operation::Resolve);
                vague.reference_text = Some(note.text.clone());
                Decision::Accept(vec![vague])
            }
            other => other,
        }));
}
