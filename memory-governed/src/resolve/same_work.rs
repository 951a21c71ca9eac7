//! Whether a report tells of the very work that a title asks for, or of other work in like words: a sibling, a part, a place.

use super::plain::is_quiet_text;
use super::plain::words::{ADVERBS, BE, DETERMINERS, ENDED, MEANS};
use super::words::stems;

/// A clause has at least as many stems.
const CLAUSE: usize = 3;
/// Words of a part.
const PARTS: &str = "first initial one two three four five some half several part parts";
/// Before what the work was done on: "an issue for …", "a prototype of …".
const OF: &str = "of for to about on in";
/// Words after which a report goes on to tell why or how.
const REASONS: &str = "so because since as";

/// Further words that say that something is done, and not what.
const DONE: &str = "already implemented implementation verified now";

/// A word of a sentence with its stems, or a mark.
enum Item {
    Word { said: String, stems: Vec<String> },
    Mark,
}

/// Whether a sentence whose clause repeats more than half of a title tells of other work nevertheless:
///
/// - in the place of a word of the title it has another: "the image loader" for "the image resizer", "version 4" for "version 5";
/// - where it repeats more than three quarters of it, what stands before and after them is not understood: "a prototype of …",
///   "… in staging", "… tests", "… resolved for Gmail".
///
/// The closer a note repeats a title, the more what it does not share counts; a long report in its own words is left to the odds.
pub(super) fn is_other_work(sentence: &str, asked: &str) -> bool {
    let title: Vec<String> = items(asked).iter().flat_map(|item| item.stems().to_vec()).collect();
    let all = items(sentence);
    let all = without_label(&all);
    let clause = clause(all);
    let is_shared = |item: &Item| item.stems().iter().any(|stem| title.contains(stem));
    let Some(last) = clause.iter().rposition(is_shared) else { return false };
    let place = |stem: &String| clause.iter().position(|item| item.stems().contains(stem));
    let shared = title.iter().filter(|stem| place(stem).is_some()).count();
    if 2 * shared <= title.len() {
        return false;
    }
    // "[setup] Add …" begins with a label, and its first word is the verb.
    let label =
        asked.strip_prefix('[').and_then(|asked| asked.split_once(']')).map_or("", |(label, _)| label);
    let label: usize = items(label).iter().map(|item| item.stems().len()).sum();
    if has_another_word(title.get(label..).unwrap_or_default(), clause, place, is_shared) {
        return true;
    }
    if 4 * shared <= 3 * title.len() {
        return false;
    }
    let before: Vec<&Item> = clause.iter().skip(1).take_while(|item| !is_shared(item)).collect();
    let is_part = clause.iter().take(last).any(|item| item.is(PARTS) && !is_shared(item))
        || before.windows(2).any(|pair| matches!(pair, [what, of] if !what.stems().is_empty() && of.is(OF)));
    let verb = all.iter().skip(last + 1).position(|item| item.is(ENDED)).map(|at| last + 1 + at);
    let after_verb = verb.and_then(|at| all.get(at + 1..)).unwrap_or_default();
    let end = verb.unwrap_or(clause.len()).min(clause.len());
    let being = clause.get(last + 1..end).unwrap_or_default();
    let is_being =
        verb.is_some() && being.iter().all(|item| [BE, "been", ADVERBS].iter().any(|list| item.is(list)));
    is_part || !is_known(after_verb) || !(is_being || is_known(clause.get(last + 1..).unwrap_or_default()))
}

/// Whether a clause has another word in the place of one of the title, between those or after those that both have.
fn has_another_word(
    title: &[String],
    clause: &[Item],
    place: impl Fn(&String) -> Option<usize>,
    is_shared: impl Fn(&Item) -> bool,
) -> bool {
    // A word of ending is the verb of the report, and stands in no other's place.
    let is_other =
        |item: &Item| !item.stems().is_empty() && !is_shared(item) && !item.is(ENDED) && !item.is(DONE);
    let mut at = 0;
    while let Some(stem) = title.get(at) {
        if place(stem).is_some() {
            at += 1;
            continue;
        }
        let length = title.iter().skip(at).take_while(|stem| place(stem).is_none()).count();
        // The first word of a title is a verb, and the clause begins with one.
        let (before, most) = match at.checked_sub(1).and_then(|at| title.get(at)) {
            Some(stem) => (place(stem), length + 1),
            None => (Some(0), length - 1),
        };
        let found = match (before, title.get(at + length)) {
            // A title may have a word twice.
            (Some(before), Some(stem)) => {
                let rest = clause.get(before + 1..).unwrap_or_default();
                let after = rest.iter().position(|item| item.stems().contains(stem));
                after.and_then(|after| rest.get(..after)).is_some_and(|between| {
                    let others = between.iter().filter(|item| is_other(item)).count();
                    (1..=most).contains(&others)
                        && between.iter().all(|item| matches!(item, Item::Word { .. }) && !is_shared(item))
                })
            }
            (Some(before), None) => {
                let rest = clause.get(before + 1..).unwrap_or_default();
                // "To the worker" for "to the gateway".
                let is_next = rest.iter().find(|item| !item.stems().is_empty() || matches!(item, Item::Mark));
                is_next.is_some_and(&is_other) && (rest.first().is_some_and(&is_other) || !is_known(rest))
            }
            _ => false,
        };
        if found {
            return true;
        }
        at += length;
    }
    false
}

/// A sentence without a label before it: "Completed: …", "[done] …", "Already fixed: …".
fn without_label(items: &[Item]) -> &[Item] {
    let label = |item: &&Item| matches!(item, Item::Mark) || item.is(ENDED) || item.is(DONE);
    let length = items.iter().take_while(label).count();
    let ends = items.iter().take(length).rposition(|item| matches!(item, Item::Mark));
    ends.and_then(|end| items.get(end + 1..)).unwrap_or(items)
}

/// The part of a sentence before the first mark, means or reason after enough words.
fn clause(items: &[Item]) -> &[Item] {
    let mut stems = 0;
    for (at, item) in items.iter().enumerate() {
        if stems >= CLAUSE && (matches!(item, Item::Mark) || item.is(MEANS) || item.is("so because")) {
            return items.get(..at).unwrap_or_default();
        }
        stems += item.stems().len();
    }
    items
}

/// Whether what follows leaves a report as it is: nothing, a mark, by what means, why, or when and in which change.
fn is_known(rest: &[Item]) -> bool {
    let words = rest.iter().map_while(|item| match item {
        Item::Word { said, .. } => Some(said.as_str()),
        Item::Mark => None,
    });
    let words: Vec<&str> = words.collect();
    // "To keep …" tells why, "to the roadmap" where.
    let is_place = matches!(words.as_slice(), ["to", article, ..] if DETERMINERS.split_whitespace().any(|one| one == *article));
    let begins = !is_place
        && rest
            .first()
            .is_some_and(|item| [MEANS, REASONS, ADVERBS, "and to"].iter().any(|list| item.is(list)));
    words.is_empty() || begins || is_quiet_text(&words.join(" "))
}

impl Item {
    fn stems(&self) -> &[String] {
        match self {
            Self::Word { stems, .. } => stems,
            Self::Mark => &[],
        }
    }

    fn is(&self, list: &str) -> bool {
        matches!(self, Self::Word { said, .. } if list.split_whitespace().any(|word| word == said))
    }
}

fn items(text: &str) -> Vec<Item> {
    let mut found = Vec::new();
    for piece in text.split_whitespace() {
        let bare = piece.trim_matches(|c: char| !c.is_alphanumeric());
        if !piece.starts_with(|c: char| c.is_alphanumeric()) {
            found.push(Item::Mark);
        }
        if bare.is_empty() {
            continue;
        }
        // A number counts, even of one digit.
        let is_number = bare.bytes().all(|byte| byte.is_ascii_digit());
        let stems = if is_number { vec![bare.to_owned()] } else { stems(bare) };
        found.push(Item::Word { said: bare.to_lowercase(), stems });
        if !piece.ends_with(|c: char| c.is_alphanumeric()) {
            found.push(Item::Mark);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_parts_and_places_are_other_work() {
        for (title, others) in [
            (
                "Add dark mode to the settings page",
                &[
                    "Added dark mode to the login page",
                    "Added dark mode to the settings page prototype",
                    "Added dark mode to the settings page on a branch",
                ][..],
            ),
            (
                "Upgrade PostgreSQL driver to version 5",
                &[
                    "Upgraded PostgreSQL driver to version 4",
                    "Upgraded PostgreSQL driver to version 5 in the sandbox",
                ],
            ),
            ("Fix memory leak in the image resizer", &["Fixed the memory leak in the image loader"]),
            ("Document the snapshot restore procedure", &["Documented the backup restore procedure"]),
            (
                "Migrate user table to UUID keys",
                &[
                    "Migrated 3 of 10 shards of the user table to UUID keys",
                    "Migrated user table to UUID keys in dev",
                ],
            ),
            (
                "Add retry logic to the upload worker",
                &["Added an issue for retry logic to the upload worker"],
            ),
            ("Rename account service to identity service", &["Renamed account service to billing service"]),
            ("Add health check endpoint to the gateway", &["Added health check endpoint to the worker"]),
            (
                "Translate the onboarding emails",
                &[
                    "Translated the first onboarding emails",
                    "Added: translated onboarding emails to the roadmap",
                    "Translated onboarding emails prototype complete",
                ],
            ),
            (
                "Implement rate limiting for the public API",
                &[
                    "Implemented rate limiting for the public API docs",
                    "Implemented rate limiting for the public API behind a disabled flag",
                ],
            ),
        ] {
            for other in others {
                assert!(is_other_work(other, title), "{title} | {other}");
            }
        }
    }

    #[test]
    fn the_same_work_with_its_means_its_reason_and_its_change_is_the_same() {
        for (title, said) in [
            ("Add dark mode to the settings page", "Added a dark mode to the settings page in PR 12"),
            ("Add dark mode to the settings page", "Added the dark mode to the settings page; tests pass."),
            ("Upgrade Redis client to version 7", "Upgraded Redis client to version 7 as requested"),
            (
                "Fix memory leak in the image resizer",
                "Fixed the memory leak in the image resizer by closing the buffer",
            ),
            (
                "Deadlock between importer and indexer",
                "Resolved the deadlock between importer and indexer today",
            ),
            (
                "Implement pagination for the audit log endpoint",
                "Implemented pagination for the audit log endpoint, with tests",
            ),
            (
                "Cross-rig worktree support for crew",
                "Cross-rig worktree support complete - all 4 tasks implemented.",
            ),
            ("Translate the onboarding emails", "The onboarding emails have been translated. Done."),
            (
                "[setup] Add package-owned config discovery",
                "Completed: setup now has explicit package-owned config discovery, with tests",
            ),
            (
                "Importer crashes on empty archives",
                "Rewrote the importer in Rust so that it reads archives without a header",
            ),
        ] {
            assert!(!is_other_work(said, title), "{title} | {said}");
        }
    }
}
