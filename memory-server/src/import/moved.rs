//! Turns that record what became of them: facts of a listing, or turns of an export, some of them superseded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use memory::conversations::fact_of_message;
use memory_core::layer::{AddOptions, Fact, FactId, Message};
use memory_core::limits::MAX_TTL_MILLIS;
use memory_core::{ErrorKind, Result, Scope, Timestamp, Ttl};

use super::readers::{Ended, Place};
use super::turns::Turns;

/// The lifetime left for something that has not expired.
pub(crate) fn left(expires_at: Option<Timestamp>, now: Timestamp) -> Ttl {
    let (least, most) = (Duration::from_millis(1), Duration::from_millis(MAX_TTL_MILLIS));
    expires_at.map_or(Ttl::Keep, |at| Ttl::After(at.saturating_since(now).clamp(least, most)))
}

/// A turn, and what became of it at its origin.
pub(crate) struct Moved {
    pub(crate) scope: Scope,
    pub(crate) place: Place,
    /// The id of its fact at its origin, by which others refer to it.
    pub(crate) id: String,
    pub(crate) message: Message,
    pub(crate) ttl: Ttl,
    pub(crate) ended: Option<Ended>,
    /// The scope has, or had, this fact under the same id.
    pub(crate) is_known: bool,
}

impl Moved {
    /// A turn of an export. `None` for a fact that was extracted from turns, since it will be extracted again.
    pub(crate) fn of_fact(scope: Scope, place: Place, fact: Fact, ttl: Ttl) -> Option<Self> {
        let mut message = Message::new(fact.role?, fact.memory);
        // Without a time, a turn counts as said when it was stored; the time of the import would be wrong.
        (message.at, message.id) = (fact.at.or(fact.created_at), fact.provenance);
        (message.name, message.session, message.caption) = (fact.speaker, fact.session, fact.caption);
        message.metadata = fact.metadata;
        message.answers = fact.answers.map(|id| id.as_str().to_owned());
        let by = fact.superseded_by.map(|by| by.as_str().to_owned());
        let ended = fact.valid_to.is_some() || by.is_some();
        let ended = ended.then_some(Ended { valid_to: fact.valid_to, by });
        let id = fact.id.as_str().to_owned();
        Some(Self { scope, place, id, message, ttl, ended, is_known: false })
    }

    /// The id of its fact in its new scope.
    fn fact(&self) -> Result<FactId> {
        if self.is_known {
            FactId::new(self.id.as_str())
        } else {
            fact_of_message(&self.scope, &self.message)
        }
    }
}

/// A file's turns, by scope and id.
type Index<'a> = BTreeMap<(&'a Scope, &'a str), &'a Moved>;

impl Turns<'_> {
    /// Adds those turns of a file that are not known yet, in order, and ends the superseded ones.
    ///
    /// # Errors
    /// As [`Turns::push`].
    pub(crate) async fn move_in(&mut self, file: &str, moved: &[Moved]) -> Result<()> {
        let index: Index<'_> = moved.iter().map(|moved| ((&moved.scope, moved.id.as_str()), moved)).collect();
        let mut corrections: Vec<(usize, &Moved, &Moved)> = Vec::new();
        for turn in moved {
            if is_left_out(&index, turn) {
                let why = "it was superseded by a fact that is not in the file or was left out, and was left out, too";
                self.problems.add(file, turn.place.clone(), why);
                continue;
            }
            if let Some(by) = successor(&index, turn).filter(|by| !is_left_out(&index, by)) {
                corrections.push((followers(&index, turn), turn, by));
            }
            match turn.ttl {
                _ if turn.is_known => {}
                ttl if ttl != Ttl::Keep => self.push_alone(file, turn, ttl).await?,
                _ => {
                    self.push(turn.scope.clone(), file, turn.place.clone(), turn.message.clone()).await?;
                }
            }
        }
        self.finish().await?;
        // A turn must be ended while the turn that ends it still holds.
        corrections.sort_by_key(|(followers, ..)| std::cmp::Reverse(*followers));
        for (_, turn, by) in corrections {
            self.end(file, turn, by).await?;
        }
        Ok(())
    }

    /// Adds a turn that expires.
    async fn push_alone(&mut self, file: &str, turn: &Moved, ttl: Ttl) -> Result<()> {
        self.finish().await?;
        let options = AddOptions::default().with_again(self.again).with_ttl(ttl);
        match self.add_with(&turn.scope, std::slice::from_ref(&turn.message), options).await {
            Ok(outcome) => self.count(&turn.scope, &outcome, 0),
            Err(error) if is_of_the_turn(error.kind()) => {
                self.problems.add(file, turn.place.clone(), error.message());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Ends a turn in favour of another, as at their origin. If the scope already knows both, they stay as they are.
    async fn end(&mut self, file: &str, turn: &Moved, by: &Moved) -> Result<()> {
        if by.is_known && turn.is_known {
            return Ok(());
        }
        let fact = turn.fact()?;
        if by.fact()? != fact_of_message(&by.scope, &by.message)? {
            let why = "it holds here, though it was superseded by a fact that is here: correct it with --supersedes";
            self.problems.add(file, turn.place.clone(), why);
            return Ok(());
        }
        if self.is_dry() {
            return Ok(());
        }
        let options = AddOptions::default().with_again(self.again).with_supersedes(vec![fact]);
        match self.add_with(&turn.scope, std::slice::from_ref(&by.message), options).await {
            Ok(_) => Ok(()),
            // It was forgotten here, or could not be stored, which was reported.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) if is_of_the_turn(error.kind()) => {
                let why = format!("it may hold here, though it was superseded: {}", error.message());
                self.problems.add(file, turn.place.clone(), why);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn is_of_the_turn(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::InvalidArgument | ErrorKind::TooLarge | ErrorKind::Conflict | ErrorKind::Unsupported
    )
}

/// The turn in the file that superseded this one.
fn successor<'a>(index: &Index<'a>, turn: &Moved) -> Option<&'a Moved> {
    let by = turn.ended.as_ref()?.by.as_deref()?;
    index.get(&(&turn.scope, by)).copied()
}

/// Whether a turn must be left out: it, or a turn that superseded it, was superseded by a fact that is not in the file,
/// so storing it would make it hold again.
fn is_left_out(index: &Index<'_>, turn: &Moved) -> bool {
    let (mut seen, mut turn) = (BTreeSet::new(), turn);
    while !turn.is_known && turn.ended.is_some() && seen.insert(&turn.id) {
        let Some(next) = successor(index, turn) else { return true };
        turn = next;
    }
    false
}

/// Length of the chain of turns that superseded this one.
fn followers(index: &Index<'_>, turn: &Moved) -> usize {
    let (mut seen, mut turn) = (BTreeSet::new(), turn);
    while let Some(next) = successor(index, turn)
        && seen.insert(&next.id)
    {
        turn = next;
    }
    seen.len()
}
