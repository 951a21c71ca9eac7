//! Reports of the work that an open issue asks for: "Added a dark mode" for an issue titled "Add dark mode".

use super::Context;
use crate::bucket::{Bucket, Operation};
use crate::request::{WriteRequest, is_id};
use crate::resolve::{report, restates_other_work};

/// The end of the open issue whose work the first sentence of a note reports. No other issue may fit as well.
pub(super) fn restated(text: &str, context: &Context) -> Option<WriteRequest> {
    let report = report(text)?;
    let mut fitting: Vec<(usize, &str, &str, String)> = Vec::new();
    for row in context.rows(Bucket::Issues) {
        if let Some(repeated) = report.repeats(&row.title) {
            fitting.push((repeated.shared, &row.id, &row.title, repeated.sentence));
        }
    }
    fitting.sort_unstable();
    let (shared, id, title, sentence) = fitting.pop().filter(|(_, id, ..)| is_id(id))?;
    if fitting.last().is_some_and(|(other, ..)| *other == shared) || restates_other_work(&sentence, title) {
        return None;
    }
    let mut request = WriteRequest::new(Bucket::Issues, Operation::Resolve).with_target(id);
    request.rationale = "it reports as done what the issue asks for".to_owned();
    Some(request)
}
