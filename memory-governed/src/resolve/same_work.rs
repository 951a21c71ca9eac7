//! Whether a report is about the very work that a title asks for, or about other work in similar words: a sibling, a
//! part, a place.

use super::plain::is_quiet_text;
use super::plain::words::{ADVERBS, BE, DETERMINERS, DID, ENDED, MEANS, REPORTED, WORKED};
use super::words::{stems, title_acts};

/// A clause has at least as many stems.
const CLAUSE: usize = 3;
/// Words of a part.
const PARTS: &str = "another other second first initial one two three four five some half several part parts";
/// Words before what the work was done on: "an issue for …", "a prototype of …".
const OF: &str = "of for to about on in";
/// Words after which a report explains why or how.
const REASONS: &str = "so because since as";

/// More words that say that something is done, but not what.
const DONE: &str = "already implemented implementation verified now";

/// Nouns of the work itself: "a fix for …" is all of it, "a benchmark for …" is not.
const WHOLE: &str = "fix support implementation work";

/// A word of a sentence, with its stem if it is informative, or a mark.
enum Item {
    Word { said: String, stem: Option<String> },
    Mark,
}

/// Whether a sentence whose clause repeats more than half of a title, or of its head, is nevertheless about other work:
///
/// - it has another word in the place of one of the title's: "the image loader" for "the image resizer", "version 4"
///   for "version 5";
/// - the words are preceded by something made for it, or a part of it: "a prototype of …", "tests for …", "the first
///   …";
/// - if it repeats more than three quarters of the title, what follows is not understood: "… in staging", "… tests", "…
///   resolved for Gmail".
///
/// The closer a note repeats a title, the more the differences count; a long report in its own words is left to the
/// odds.
pub(super) fn is_other_work(sentence: &str, asked: &str) -> bool {
    let head = asked
        .split([':', '(', '\u{2014}', '\u{2013}'])
        .next()
        .map(|head| head.split(" - ").next().unwrap_or(head));
    let head = head.filter(|head| head.len() < asked.len() && !head.starts_with('['));
    let is_of_head = |head: &str| stems(head).len() > 1 && is_other(sentence, head, false);
    is_other(sentence, asked, true) || head.is_some_and(is_of_head)
}

/// `is_whole`: the title ends here, so what follows in the sentence counts.
fn is_other(sentence: &str, asked: &str, is_whole: bool) -> bool {
    // "[setup] Add …" starts with a label, and its first word is the verb.
    let label = asked.strip_prefix('[').and_then(|asked| asked.split_once(']'));
    let (label, asked) = label.unwrap_or(("", asked));
    let asked = items(asked);
    let label = items(label);
    let title: Vec<&str> = label.iter().chain(&asked).filter_map(Item::stem).collect();
    let all = items(sentence);
    let all = without_label(&all);
    let clause = clause(all, &asked);
    let is_shared = |item: &Item| item.stem().is_some_and(|stem| title.contains(&stem));
    let Some(last) = clause.iter().rposition(is_shared) else { return false };
    let is_said = |stem: &&&str| clause.iter().any(|item| item.stem() == Some(**stem));
    let shared = title.iter().filter(is_said).count();
    if 2 * shared <= title.len() {
        return false;
    }
    if has_another_word(&asked, clause, is_shared) {
        return true;
    }
    if 4 * shared <= 3 * title.len() {
        return false;
    }
    let before: Vec<&Item> = clause.iter().skip(1).take_while(|item| !is_shared(item)).collect();
    let is_of = |what: &Item, of: &Item| what.stem().is_some() && of.is(OF);
    let begins_with_part =
        matches!(clause, [what, of, ..] if !is_shared(what) && !what.is_work() && is_of(what, of));
    let is_part = begins_with_part
        || clause.iter().take(last).any(|item| item.is(PARTS) && !is_shared(item))
        || before.windows(2).any(|pair| matches!(pair, [what, of] if is_of(what, of)));
    if is_part || !is_whole {
        return is_part;
    }
    // "… and give up": the title continues with such words, too.
    let rest = asked.iter().rposition(|item| item.stem().is_some()).and_then(|at| asked.get(at + 1..));
    let rest = rest.unwrap_or_default().iter().zip(clause.iter().skip(last + 1));
    let last =
        last + rest.take_while(|(asked, item)| asked.said().is_some() && asked.said() == item.said()).count();
    let verb = all.iter().skip(last + 1).position(|item| item.is(ENDED)).map(|at| last + 1 + at);
    let after_verb = verb.and_then(|at| all.get(at + 1..)).unwrap_or_default();
    let end = verb.unwrap_or(clause.len()).min(clause.len());
    let being = clause.get(last + 1..end).unwrap_or_default();
    let is_being =
        verb.is_some() && being.iter().all(|item| [BE, "been", ADVERBS].iter().any(|list| item.is(list)));
    !is_known(after_verb) || !(is_being || is_known(clause.get(last + 1..).unwrap_or_default()))
}

/// Whether a clause has another word in the place of one of the title, before, between or after those that both have.
fn has_another_word(asked: &[Item], clause: &[Item], is_shared: impl Fn(&Item) -> bool) -> bool {
    // A word of ending is the report's verb, not a replacement for another word.
    let is_other =
        |item: &Item| item.stem().is_some() && !is_shared(item) && !item.is(ENDED) && !item.is(DONE);
    let place = |at: usize| {
        let stem = asked.get(at)?.stem()?;
        clause.iter().position(|item| item.stem() == Some(stem))
    };
    let telling: Vec<usize> =
        (0..asked.len()).filter(|at| asked.get(*at).is_some_and(|item| item.stem().is_some())).collect();
    let mut next = 0;
    while let Some(first) = telling.get(next) {
        if place(*first).is_some() {
            next += 1;
            continue;
        }
        let length = telling.iter().skip(next).take_while(|at| place(**at).is_none()).count();
        let before = next.checked_sub(1).and_then(|before| telling.get(before).copied());
        let after = telling.get(next + length).copied();
        // The title has marks between them, so the clause may too.
        let is_marked = |end: usize| {
            asked
                .get(before.unwrap_or_default()..end)
                .is_some_and(|items| items.iter().any(|item| matches!(item, Item::Mark)))
        };
        let found = match (before.and_then(place), after) {
            // A title may contain a word twice.
            (Some(before), Some(after)) => {
                let rest = clause.get(before + 1..).unwrap_or_default();
                is_in_between(rest, asked.get(after), length + 1, is_marked(after), is_other, &is_shared)
            }
            (Some(before), None) => {
                let rest = clause.get(before + 1..).unwrap_or_default();
                // "To the worker" for "to the gateway".
                let is_next = rest.iter().find(|item| match item {
                    Item::Word { stem, .. } => stem.is_some(),
                    Item::Mark => !is_marked(asked.len()),
                });
                let little =
                    first.checked_sub(1).and_then(|at| asked.get(at)).filter(|item| item.stem().is_none());
                let is_same_way = little
                    .and_then(Item::said)
                    .is_some_and(|said| rest.first().and_then(Item::said) == Some(said));
                is_next.is_some_and(&is_other)
                    && (rest.first().is_some_and(&is_other) || is_same_way || !is_known(rest))
            }
            // The first word of a title is mostly a verb, and so is the clause's, possibly after "finished".
            (None, Some(after)) => {
                let is_verb = clause.first().is_none_or(Item::is_act);
                let is_end = clause.first().is_some_and(|item| item.is(ENDED) || item.is(DONE));
                let rest = clause.get(usize::from(is_verb)..).unwrap_or_default();
                let most = if is_verb && !is_end { length - 1 } else { length };
                let is_thing = |item: &Item| is_other(item) && (!item.is_act() || item.is_noun());
                is_in_between(rest, asked.get(after), most, is_marked(after), is_thing, &is_shared)
            }
            (None, None) => false,
        };
        if found {
            return true;
        }
        next += length;
    }
    false
}

/// Whether between one and `most` words, and nothing else, come before the next shared word.
fn is_in_between(
    rest: &[Item],
    next: Option<&Item>,
    most: usize,
    is_marked: bool,
    is_other: impl Fn(&Item) -> bool,
    is_shared: impl Fn(&Item) -> bool,
) -> bool {
    let next = next.and_then(Item::stem);
    let end = rest.iter().position(|item| item.stem().is_some() && item.stem() == next);
    end.and_then(|end| rest.get(..end)).is_some_and(|between| {
        let others = between.iter().filter(|item| is_other(item)).count();
        (1..=most).contains(&others)
            && between.iter().all(|item| (is_marked || matches!(item, Item::Word { .. })) && !is_shared(item))
    })
}

/// A sentence without a label before it: "Completed: …", "[done] …", "Already fixed: …".
fn without_label(items: &[Item]) -> &[Item] {
    let label = |item: &&Item| matches!(item, Item::Mark) || item.is(ENDED) || item.is(DONE);
    let length = items.iter().take_while(label).count();
    let ends = items.iter().take(length).rposition(|item| matches!(item, Item::Mark));
    ends.and_then(|end| items.get(end + 1..)).unwrap_or(items)
}

/// The part of a sentence before the first mark, means or reason after enough words, unless the title continues in the
/// same way and the sentence does so with words of the title that it did not have before.
fn clause<'a>(items: &'a [Item], asked: &[Item]) -> &'a [Item] {
    let is_marked = asked.iter().take(asked.len().saturating_sub(1)).any(|item| matches!(item, Item::Mark));
    let is_first = |at: usize, stem: &str| items.iter().take(at).all(|item| item.stem() != Some(stem));
    let is_asked = |stem: &str| asked.iter().any(|item| item.stem() == Some(stem));
    let goes_on = |at: usize| {
        let rest = items.iter().enumerate().skip(at).filter_map(|(at, item)| Some((at, item.stem()?)));
        rest.into_iter().any(|(at, stem)| is_asked(stem) && is_first(at, stem))
    };
    let mut stems = 0;
    for (at, item) in items.iter().enumerate() {
        let ends = match item {
            Item::Mark => !(is_marked && goes_on(at)),
            Item::Word { said, .. } => {
                item.is("so because") || item.is(MEANS) && !asked.iter().any(|asked| asked.is(said))
            }
        };
        if stems >= CLAUSE && ends {
            return items.get(..at).unwrap_or_default();
        }
        stems += usize::from(item.stem().is_some());
    }
    items
}

/// Whether what follows leaves a report unchanged: nothing, a mark, by what means, why, or when and in which change.
fn is_known(rest: &[Item]) -> bool {
    let words = rest.iter().map_while(|item| match item {
        Item::Word { said, .. } => Some(said.as_str()),
        Item::Mark => None,
    });
    let words: Vec<&str> = words.collect();
    // "To keep …" says why, "to the roadmap" where.
    let is_place = matches!(words.as_slice(), ["to", article, ..] if DETERMINERS.split_whitespace().any(|one| one == *article));
    let begins = !is_place
        && rest
            .first()
            .is_some_and(|item| [MEANS, REASONS, ADVERBS, "and to"].iter().any(|list| item.is(list)));
    words.is_empty() || begins || is_quiet_text(&words.join(" "))
}

impl Item {
    fn stem(&self) -> Option<&str> {
        match self {
            Self::Word { stem, .. } => stem.as_deref(),
            Self::Mark => None,
        }
    }

    fn said(&self) -> Option<&str> {
        match self {
            Self::Word { said, .. } => Some(said),
            Self::Mark => None,
        }
    }

    fn is(&self, list: &str) -> bool {
        matches!(self, Self::Word { said, .. } if list.split_whitespace().any(|word| word == said))
    }

    /// Whether it may be a verb of work, as titles start with: "review", "create".
    fn is_act(&self) -> bool {
        self.is_work() || self.said().is_some_and(|said| title_acts(said) != 0)
    }

    /// Whether it ends as a verb may but is no known one: "sorting", where "fixing" is known.
    fn is_noun(&self) -> bool {
        let Some(stem) = self.said().and_then(|said| said.strip_suffix("ing")) else { return false };
        let of = |list: &str| list.split_whitespace().any(|word| word.strip_suffix("ed") == Some(stem));
        self.said().is_none_or(|said| title_acts(said) == 0)
            && ![WORKED, REPORTED, ENDED, DONE].into_iter().any(of)
    }

    /// Whether it may start a report of the work itself: a verb, or a name for the work.
    fn is_work(&self) -> bool {
        let Self::Word { said, .. } = self else { return false };
        said.ends_with("ed")
            || said.ends_with("ing")
            || [WORKED, REPORTED, DID, ENDED, DONE, WHOLE].iter().any(|list| self.is(list))
    }
}

fn items(text: &str) -> Vec<Item> {
    let mut found = Vec::new();
    for piece in text.split_whitespace() {
        if !piece.starts_with(|c: char| c.is_alphanumeric()) {
            found.push(Item::Mark);
        }
        for part in piece.split(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '\'')) {
            let part = part.trim_matches(['.', '\'']);
            let said = part.to_lowercase();
            // Numbers, versions, quantities and files differ if any part of them differs.
            let is_one = part.contains('.') || part.bytes().any(|byte| byte.is_ascii_digit());
            match if is_one { vec![said.clone()] } else { stems(part) }.as_slice() {
                [] if part.is_empty() => {}
                [] => found.push(Item::Word { said, stem: None }),
                [stem] => found.push(Item::Word { said, stem: Some(stem.clone()) }),
                several => {
                    let words = several
                        .iter()
                        .map(|stem| Item::Word { said: stem.clone(), stem: Some(stem.clone()) });
                    found.extend(words);
                }
            }
        }
        if piece.chars().any(char::is_alphanumeric) && !piece.ends_with(|c: char| c.is_alphanumeric()) {
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
            (
                "Implement pagination for the audit log endpoint",
                &["Implemented sorting for the audit log endpoint"],
            ),
            ("Search is slow for queries with umlauts", &["Search is slow for queries with emojis: fixed"]),
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
                "Export shipments to Excel with formulas and totals",
                &["Exported shipments to CSV with formulas and totals"],
            ),
            ("Encrypt volumes using hardware keys", &["Finished encrypting disks using hardware keys"]),
            ("MCP server (stdio) \u{2014} list tools", &["MCP server (http) \u{2014} list tools done"]),
            ("Nightly vacuum: purge old sessions", &["Weekly vacuum: purge old sessions done"]),
            ("Search index (English) for the manual", &["Search index (German) for the manual is built"]),
            ("Create SECURITY.md for the project", &["Created SUPPORT.md for the project"]),
            ("Bump serde to v1.0.200", &["Bumped serde to v1.0.100"]),
            ("Raise the heap limit to 512MB", &["Raised the heap limit to 256MB"]),
            ("Stream telemetry to Kafka", &["Streamed telemetry to NATS"]),
            ("Upload receipts via signed links", &["Finished downloads of receipts via signed links"]),
            ("Replicate the ledger to Frankfurt", &["Replicated the ledger to Dublin"]),
            (
                "Semantic similarity search \u{2014} find like reports by their words",
                &["Spec for semantic similarity search is complete"],
            ),
            (
                "Webhook retries: back off and give up",
                &["Review of webhook retries done", "Benchmark for webhook retries"],
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
            ("Webhook retries: back off and give up", "Fix for webhook retries: backs off and gives up"),
            ("Upload receipts via signed links", "Finished uploading receipts via signed links"),
            ("Parser: handle commas in quotes", "Parser handles commas in quotes now"),
            (
                "Importer crashes on empty archives",
                "Rewrote the importer in Rust so that it reads archives without a header",
            ),
        ] {
            assert!(!is_other_work(said, title), "{title} | {said}");
        }
    }
}
