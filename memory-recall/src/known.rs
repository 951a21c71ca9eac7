//! Which messages of an `add` are new, and which are known, forgotten, or have another message's id.

use std::collections::BTreeMap;

use memory_core::layer::{AddOptions, AddOutcome, AddStatus, FactId, Message};
use memory_core::{Expect, Result};

use crate::changes::{Found, turns_of};
use crate::store::digest;
use crate::store::log::Log;
use crate::store::record::{Known, StoredTurn};

/// Most digests of one row to look up together.
const MOST_AT_ONCE: usize = 256;

/// A message to be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) message: &'a Message,
    /// Its place in `digests` and `contents`.
    pub(crate) at: usize,
    /// Its place in the `add`.
    pub(crate) index: usize,
}

/// What is known of the messages of one `add`.
pub(crate) struct Sorted<'a> {
    /// Those to store, and what to expect of their digests.
    pub(crate) new: Vec<(Said<'a>, Expect)>,
    /// The numbers of turns whose words were repeated, which confirms them.
    pub(crate) said_again: Vec<u64>,
    /// The digest of each message, new or known.
    pub(crate) digests: Vec<String>,
    /// The turn that is replaced by a message with its id and different words.
    pub(crate) replaced: Option<Found>,
    /// What superseded the known turn of a correction; `None` if the turn holds or is new.
    pub(crate) ended_by: Option<String>,
    pub(crate) outcome: AddOutcome,
}

/// Tells new messages from those that are known, forgotten, or have another message's id.
pub(crate) async fn sort<'a>(
    log: &Log<'_>,
    said: &[Said<'a>],
    digests: &[String],
    contents: &[String],
    options: &AddOptions,
) -> Result<Sorted<'a>> {
    // If the first of a row has expired, the row may still go on.
    let statements = said.iter().filter(|said| is_statement(said.message));
    let statements = statements.filter_map(|said| digests.get(said.at)).collect::<Vec<_>>();
    let next: Vec<String> = statements.iter().map(|first| digest::said_anew(log.scope, first)).collect();
    let asked: Vec<&str> = digests.iter().chain(contents).chain(&next).map(String::as_str).collect();
    let mut known = log.known(&asked).await?;
    let mut of_contents = known.split_off(digests.len());
    let of_next = of_contents.split_off(contents.len());
    let corrects = !options.supersedes.is_empty();
    let mut turns = turns_of(log, &known).await?;
    turns.append(&mut turns_of(log, &of_next).await?);
    let mut after_first: BTreeMap<&str, Place> = statements
        .into_iter()
        .zip(next.into_iter().zip(of_next))
        .filter(|(_, (_, known))| known.is_some())
        .map(|(first, (digest, known))| (first.as_str(), Place { digest, known }))
        .collect();
    let mut sorted = Sorted {
        new: Vec::new(),
        said_again: Vec::new(),
        replaced: None,
        digests: digests.to_vec(),
        ended_by: None,
        outcome: AddOutcome::new(AddStatus::Unknown),
    };
    let mut in_this_add = BTreeMap::<&str, &str>::new();
    for (said, (known, of_content)) in said.iter().zip(known.into_iter().zip(of_contents)) {
        let (Some(digest), Some(content)) = (digests.get(said.at), contents.get(said.at)) else { continue };
        let outcome = &mut sorted.outcome;
        if let Some(first) = in_this_add.insert(digest, content) {
            if first == content {
                outcome.known += 1;
            } else {
                in_this_add.insert(digest, first);
                outcome.different.push(FactId::new(digest)?);
            }
            continue;
        }
        // The same message under another id.
        let forgotten_elsewhere = of_content.is_some_and(|(_, known)| known.n.is_none());
        let mut place = Place { digest: digest.clone(), known };
        if place.known.is_none()
            && let Some(next) = after_first.remove(digest.as_str())
        {
            place = next;
        }
        if is_statement(said.message) && !place.holds(&turns) {
            place = place.last_of_row(log, &mut turns).await?;
        } else if corrects && let Some(found) = place.turn(&turns) {
            sorted.ended_by.clone_from(&found.turn.superseded_by);
        }
        let expect = match &place.known {
            Some((expect, Known { n: Some(number), content: stored, .. }))
                if place.turn(&turns).is_some() =>
            {
                if place.digest != *content
                    && stored.as_ref().is_some_and(|stored| stored != content)
                    && !place.turn(&turns).is_some_and(|found| says_the_same(said.message, &found.turn))
                {
                    let named = options.supersedes.iter().map(FactId::as_str);
                    let replaces = options.again && options.confirms.is_empty() && named.eq([&*place.digest]);
                    let holds = |found: &Found| found.turn.superseded_by.is_none();
                    if replaces && let Some(found) = turns.remove(number).filter(holds) {
                        sorted.replaced = Some(found);
                        sorted.new.push((*said, *expect));
                    } else {
                        outcome.different.push(FactId::new(place.digest)?);
                    }
                } else {
                    outcome.known += 1;
                    // With an id or a time it is the same message delivered again, not said again.
                    if is_statement(said.message) {
                        sorted.said_again.push(*number);
                    }
                    if let Some(of_message) = sorted.digests.get_mut(said.at) {
                        *of_message = place.digest;
                    }
                }
                continue;
            }
            Some((expect, Known { n: None, .. })) if options.again => *expect,
            Some((_, Known { n: None, .. })) => {
                outcome.forgotten += 1;
                continue;
            }
            _ if forgotten_elsewhere && !options.again && place.digest == *digest => {
                outcome.forgotten += 1;
                continue;
            }
            // Its turn does not exist: an import that wrote the digest was interrupted before it reached the turn.
            Some((expect, _)) => *expect,
            None => Expect::Absent,
        };
        if let Some(of_message) = sorted.digests.get_mut(said.at) {
            *of_message = place.digest;
        }
        sorted.new.push((*said, expect));
    }
    Ok(sorted)
}

/// Whether nobody can tell if the words were said once or twice: they have neither an id nor a time.
fn is_statement(message: &Message) -> bool {
    message.id.is_none() && message.at.is_none()
}

/// Whether a message and a turn say the same, and one of them has no time: an export gives turns without a time the
/// time at which they were stored.
fn says_the_same(message: &Message, turn: &StoredTurn) -> bool {
    (message.at.is_none() || turn.at.is_none())
        && (message.role, &message.name, &message.content) == (turn.role, &turn.speaker, &turn.text)
}

/// A digest, and what is known about it.
#[derive(Debug)]
struct Place {
    digest: String,
    known: Option<(Expect, Known)>,
}

impl Place {
    fn turn<'a>(&self, turns: &'a BTreeMap<u64, Found>) -> Option<&'a Found> {
        turns.get(&self.known.as_ref()?.1.n?).filter(|found| found.turn.id == self.digest)
    }

    /// Whether nothing is known about it, or a turn that was not corrected.
    fn holds(&self, turns: &BTreeMap<u64, Found>) -> bool {
        self.known.is_none() || self.turn(turns).is_some_and(|found| found.turn.superseded_by.is_none())
    }

    /// The current place of these words. Each time they are said after their turn was corrected, they become a new
    /// turn, whose digest follows from the previous one: a chain, of which the last link counts.
    async fn last_of_row(self, log: &Log<'_>, turns: &mut BTreeMap<u64, Found>) -> Result<Self> {
        let (mut last, mut at_once) = (self, 1);
        loop {
            let mut row = vec![digest::said_anew(log.scope, &last.digest)];
            while let (true, Some(before)) = (row.len() < at_once, row.last()) {
                row.push(digest::said_anew(log.scope, before));
            }
            let known = log.known(&row.iter().map(String::as_str).collect::<Vec<_>>()).await?;
            for (digest, known) in row.into_iter().zip(known) {
                if known.is_none() {
                    return last.or_next(log, digest, turns).await;
                }
                last = Self { digest, known };
            }
            at_once = (at_once * 2).min(MOST_AT_ONCE);
        }
    }

    /// The last link of a chain, or the next one if its turn was corrected.
    async fn or_next(self, log: &Log<'_>, next: String, turns: &mut BTreeMap<u64, Found>) -> Result<Self> {
        turns.append(&mut turns_of(log, std::slice::from_ref(&self.known)).await?);
        let corrected = self.turn(turns).is_some_and(|found| found.turn.superseded_by.is_some());
        Ok(if corrected { Self { digest: next, known: None } } else { self })
    }
}
