//! Reports of work: "Added a dark mode to the settings page".

use super::plain::is_unturned;
use super::speech::{sentences, tokens, turned, without_quotes};
use super::words::stems;

/// Fewer words of a title are no description of work.
const TITLE: usize = 3;

/// The first sentence of a note that tells of work.
pub(crate) struct Report {
    pub(crate) sentence: String,
    opening: String,
    said: Vec<String>,
}

/// The report that a note begins with. Nothing in the note may turn it.
pub(crate) fn report(text: &str) -> Option<Report> {
    let spoken = without_quotes(text);
    let sentences = sentences(&spoken);
    let first = sentences.first()?;
    if !is_unturned(first) || sentences.iter().any(|sentence| turned(sentence).is_some()) {
        return None;
    }
    let opening = tokens(first).into_iter().next()?;
    Some(Report { sentence: (*first).to_owned(), opening, said: stems(first) })
}

impl Report {
    /// How many words of a title it repeats: at least half of them, after `Implemented` or the past of the verb that the title begins
    /// with.
    pub(crate) fn repeats(&self, title: &str) -> Option<usize> {
        let words = stems(title);
        let shared = words.iter().filter(|stem| self.said.contains(stem)).count();
        // "P2: Add …" begins with a label.
        let mut begins = title.split(':').filter_map(|part| tokens(part).into_iter().next());
        let is_asked = self.opening == "implemented" || begins.any(|asked| is_past(&self.opening, &asked));
        (words.len() >= TITLE && 2 * shared >= words.len() && is_asked).then_some(shared)
    }
}

/// Whether a word is the regular past of a verb: "added" of "add", "moved" of "move", "copied" of "copy", "dropped" of "drop".
fn is_past(said: &str, verb: &str) -> bool {
    let Some(stem) = said.strip_suffix("ed") else { return false };
    let doubled = || verb.chars().next_back().and_then(|last| stem.strip_suffix(last)) == Some(verb);
    let is_y = || verb.strip_suffix('y').is_some_and(|verb| stem.strip_suffix('i') == Some(verb));
    stem == verb || verb.strip_suffix('e') == Some(stem) || is_y() || doubled()
}
