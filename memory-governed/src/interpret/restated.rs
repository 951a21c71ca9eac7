//! Reports of work that an open issue asks for: "Added a dark mode", where an issue is called "Add dark mode".

use super::Context;
use crate::bucket::{Bucket, Operation};
use crate::request::{WriteRequest, is_id};
use crate::resolve::speech::{sentences, tokens, turned, without_quotes};
use crate::resolve::{is_unturned, restates_other_work, stems};

/// Fewer words of a title are no description of work.
const TITLE: usize = 3;

/// The end of the open issue whose title the first sentence of a note repeats in the past: at least half of its words, after
/// `Implemented` or the past of the verb that the title begins with. Nothing in the note may turn that, and no other issue may fit
/// as well.
pub(super) fn restated(text: &str, context: &Context) -> Option<WriteRequest> {
    let spoken = without_quotes(text);
    let sentences = sentences(&spoken);
    let first = sentences.first()?;
    if !is_unturned(first) || sentences.iter().any(|sentence| turned(sentence).is_some()) {
        return None;
    }
    let opening = tokens(first).into_iter().next()?;
    let said = stems(first);
    let mut fitting: Vec<(usize, &str)> = Vec::new();
    for row in context.rows(Bucket::Issues) {
        let title = stems(&row.title);
        let shared = title.iter().filter(|stem| said.contains(stem)).count();
        // "P2: Add …" begins with a label.
        let mut begins = row.title.split(':').filter_map(|part| tokens(part).into_iter().next());
        let is_asked = opening == "implemented" || begins.any(|asked| is_past(&opening, &asked));
        if title.len() >= TITLE && 2 * shared >= title.len() && is_asked {
            fitting.push((shared, &row.id));
        }
    }
    fitting.sort_unstable();
    let (shared, id) = fitting.pop().filter(|(_, id)| is_id(id))?;
    if fitting.last().is_some_and(|(other, _)| *other == shared) {
        return None;
    }
    let row = context.rows(Bucket::Issues).iter().find(|row| row.id == id)?;
    if restates_other_work(first, &row.title) {
        return None;
    }
    let mut request = WriteRequest::new(Bucket::Issues, Operation::Resolve).with_target(id);
    request.rationale = "it reports as done what the issue asks for".to_owned();
    Some(request)
}

/// Whether a word is the regular past of a verb: "added" of "add", "moved" of "move", "copied" of "copy", "dropped" of "drop".
fn is_past(said: &str, verb: &str) -> bool {
    let Some(stem) = said.strip_suffix("ed") else { return false };
    let doubled = || verb.chars().next_back().and_then(|last| stem.strip_suffix(last)) == Some(verb);
    let is_y = || verb.strip_suffix('y').is_some_and(|verb| stem.strip_suffix('i') == Some(verb));
    stem == verb || verb.strip_suffix('e') == Some(stem) || is_y() || doubled()
}
