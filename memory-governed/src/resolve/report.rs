//! Reports of work: "Added a dark mode to the settings page".

use super::plain::is_unturned;
use super::plain::words::BE;
use super::speech::{relapses, sentences, tokens, turned, without_quotes};
use super::words::stems;

/// A title with fewer words does not describe work.
const TITLE: usize = 3;

/// Words anywhere in a report that may undo it or show that it is incomplete.
const UNDONE: &str = "wip draft drafts reverted reverts reverting revert undone undid unmerged rollback backlog roadmap accident \
     accidentally mistake mistakenly";
const UNDONE_PAIRS: [[&str; 2]; 12] = [
    ["removed", "it"],
    ["deleted", "it"],
    ["dropped", "it"],
    ["disabled", "it"],
    ["review", "requested"],
    ["review", "pending"],
    ["in", "review"],
    ["found", "bugs"],
    ["a", "ticket"],
    ["to", "jira"],
    ["a", "flag"],
    ["not", "merged"],
];

/// Whether a text has such words.
fn is_undone(spoken: &str) -> bool {
    let words = tokens(spoken);
    words.iter().any(|word| UNDONE.split_whitespace().any(|one| one == word))
        || words.windows(2).any(|two| UNDONE_PAIRS.iter().any(|pair| pair[..] == two[..]))
}

/// Whether a later sentence takes back what the first one reports, or something is left: "another is left".
pub(super) fn is_taken_back(spoken: &str) -> bool {
    let words = tokens(spoken);
    words.windows(2).any(
        |two| matches!(two, [of, left] if left == "left" && ["is", "are", "more"].contains(&of.as_str())),
    ) || sentences(spoken).into_iter().skip(1).any(is_undone)
}

/// The first sentence of a note that reports work.
pub(crate) struct Report {
    sentence: String,
    opening: String,
    said: Vec<String>,
}

/// How a report repeats a title.
pub(crate) struct Repeated {
    /// How many of the title's words it shares.
    pub(crate) shared: usize,
    /// The report, with its verb first as in the title.
    pub(crate) sentence: String,
}

/// The report that a note starts with. Nothing in the note may change its meaning.
pub(crate) fn report(text: &str) -> Option<Report> {
    let spoken = without_quotes(text);
    let sentences = sentences(&spoken);
    let first = sentences.first()?;
    if !is_unturned(first)
        || relapses(&spoken)
        || sentences.iter().any(|sentence| turned(sentence).is_some())
        || is_undone(&spoken)
        || is_taken_back(&spoken)
    {
        return None;
    }
    let opening = tokens(first).into_iter().next()?;
    Some(Report { sentence: (*first).to_owned(), opening, said: stems(first) })
}

impl Report {
    /// Whether it reports what a title asks for: with at least half of the words, after `Implemented` or the past tense
    /// of the verb that the title starts with; or with more than three quarters of them, if that verb comes after its
    /// object ("dark mode was added").
    pub(crate) fn repeats(&self, title: &str) -> Option<Repeated> {
        let words = stems(title);
        let shared = words.iter().filter(|stem| self.said.contains(stem)).count();
        if words.len() < TITLE || 2 * shared < words.len() {
            return None;
        }
        // "P2: Add …" starts with a label.
        let asked: Vec<String> =
            title.split([':', ']']).filter_map(|part| tokens(part).into_iter().next()).collect();
        if self.opening == "implemented" || asked.iter().any(|asked| is_past(&self.opening, asked)) {
            return Some(Repeated { shared, sentence: self.sentence.clone() });
        }
        if 4 * shared <= 3 * words.len() {
            return None;
        }
        let sentence = asked.iter().find_map(|asked| self.active(asked, &words))?;
        Some(Repeated { shared, sentence })
    }

    /// "Dark mode was added to …" as "added Dark mode to …". The verb follows a word of the title.
    fn active(&self, asked: &str, title: &[String]) -> Option<String> {
        let pieces: Vec<&str> = self.sentence.split_whitespace().collect();
        let bare = |piece: &str| tokens(piece).concat();
        let at = pieces.iter().position(|piece| is_past(&bare(piece), asked))?;
        let (subject, rest) = (pieces.get(..at)?, pieces.get(at + 1..)?);
        let is_being =
            |piece: &&str| BE.split_whitespace().chain(["been", "now"]).any(|one| one == bare(piece));
        let length = subject.iter().rposition(|piece| !is_being(piece))? + 1;
        let subject = subject.get(..length)?;
        let last = *subject.last()?;
        let follows =
            last.ends_with(char::is_alphanumeric) && stems(last).iter().any(|stem| title.contains(stem));
        let verb = pieces.get(at)?;
        let mark = verb.trim_start_matches(|c: char| c.is_alphanumeric());
        follows.then(|| format!("{} {}{mark} {}", bare(verb), subject.join(" "), rest.join(" ")))
    }
}

/// Whether a word is the regular past of a verb: "added" of "add", "moved" of "move", "copied" of "copy", "dropped" of "drop".
fn is_past(said: &str, verb: &str) -> bool {
    let Some(stem) = said.strip_suffix("ed") else { return false };
    let doubled = || verb.chars().next_back().and_then(|last| stem.strip_suffix(last)) == Some(verb);
    let is_y = || verb.strip_suffix('y').is_some_and(|verb| stem.strip_suffix('i') == Some(verb));
    stem == verb || verb.strip_suffix('e') == Some(stem) || is_y() || doubled()
}
