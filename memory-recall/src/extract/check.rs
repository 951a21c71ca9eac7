//! Which extracted facts are accepted.

use std::collections::BTreeSet;

use memory_core::layer::FactId;

use super::extractor::{DrawnFact, KnownFact, SourceTurn};
use super::model::{MAX_DRAWN_FACTS, MAX_FACT_CHARACTERS};

/// Whether a fact is one sentence of limited size, has at least one source, and names only given turns and facts. So no
/// turn's text can affect anything that is not its own.
fn holds(fact: &DrawnFact, turns: &BTreeSet<&FactId>, known: &BTreeSet<&FactId>) -> bool {
    let text = &fact.text;
    let written = !text.trim().is_empty()
        && text.chars().count() <= MAX_FACT_CHARACTERS
        && !text.chars().any(char::is_control);
    written
        && !fact.sources.is_empty()
        && fact.sources.iter().all(|source| turns.contains(source))
        && fact.supersedes.iter().all(|other| known.contains(other))
}

/// The accepted facts without repetitions, and how many were refused: those without a given turn, those that supersede
/// something not given, and those that are not a single sentence of limited size.
#[must_use]
pub fn checked(drawn: Vec<DrawnFact>, turns: &[SourceTurn], known: &[KnownFact]) -> (Vec<DrawnFact>, u64) {
    let turns: BTreeSet<&FactId> = turns.iter().map(|turn| &turn.id).collect();
    let known: BTreeSet<&FactId> = known.iter().map(|fact| &fact.id).collect();
    let (mut taken, mut refused) = (Vec::<DrawnFact>::new(), 0);
    for mut fact in drawn {
        if taken.len() >= MAX_DRAWN_FACTS || !holds(&fact, &turns, &known) {
            refused += 1;
            continue;
        }
        match taken.iter_mut().find(|other| other.text == fact.text) {
            Some(other) => {
                other.sources.append(&mut fact.sources);
                other.supersedes.append(&mut fact.supersedes);
            }
            None => taken.push(fact),
        }
    }
    for fact in &mut taken {
        for ids in [&mut fact.sources, &mut fact.supersedes] {
            ids.sort();
            ids.dedup();
        }
    }
    (taken, refused)
}
