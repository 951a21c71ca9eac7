//! What an `add` changes about turns that are there: corrections and confirmations.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::backend::NewEntry;
use memory_core::layer::FactId;
use memory_core::{Entry, Error, ErrorKind, Expect, Result, Retry, Ttl};

use crate::store::digest;
use crate::store::keys;
use crate::store::log::{Log, turn_item};
use crate::store::record::{self, Head, Known, Record, StoredTurn};

/// A turn, or a derived fact, that is there.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) turn: StoredTurn,
    pub(crate) entry: Entry,
}

impl Found {
    /// The write of the changed turn, if nobody changed it meanwhile.
    pub(crate) fn rewritten(self) -> Result<NewEntry> {
        turn_item(self.number, self.turn, self.entry.metadata, Expect::Version(self.entry.version), Ttl::Keep)
    }
}

/// The turn that corrects others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction<'a> {
    pub(crate) id: &'a str,
    /// The turn that superseded it before this correction, if one did.
    pub(crate) ended_by: Option<&'a str>,
}

/// The writes that correct turns, and derived facts that stand on nothing else: they stay in the log, and no longer hold.
pub(crate) async fn supersede(
    log: &Log<'_>,
    ids: &[FactId],
    correction: Correction<'_>,
    until: i64,
    standing: Vec<Found>,
    head: &mut Head,
) -> Result<Vec<NewEntry>> {
    let corrected_by = correction.id;
    let (mut items, mut pairs) = (Vec::new(), Vec::new());
    // A derived fact may be named itself, too.
    let standing = standing.into_iter().filter(|found| ids.iter().all(|id| id.as_str() != found.turn.id));
    for mut found in standing.filter(|found| found.turn.superseded_by.is_none()) {
        (found.turn.valid_to, found.turn.superseded_by) = (Some(until), Some(corrected_by.to_owned()));
        pairs.push((found.number, until));
        items.push(found.rewritten()?);
    }
    for (id, mut found) in ids.iter().zip(turns(log, ids, "supersede").await?) {
        if id.as_str() == corrected_by {
            return Err(Error::invalid("a fact cannot supersede itself; name the one that it corrects"));
        }
        match successor(log, &found.turn).await? {
            // What no longer holds corrects nothing: two turns could end each other, and neither would be recalled.
            None => {
                if let Some(by) = correction.ended_by {
                    return Err(ended(corrected_by, by));
                }
            }
            // The same correction, added again.
            Some(by) if by == corrected_by => continue,
            Some(by) => return Err(superseded(id, by, "supersede")),
        }
        (found.turn.valid_to, found.turn.superseded_by) = (Some(until), Some(corrected_by.to_owned()));
        pairs.push((found.number, until));
        items.push(found.rewritten()?);
    }
    if !pairs.is_empty() {
        items.push(head.append(&Record::Superseded(pairs))?);
        head.confirmed = None;
    }
    Ok(items)
}

/// What superseded a turn, unless that was forgotten or has expired.
async fn successor<'a>(log: &Log<'_>, turn: &'a StoredTurn) -> Result<Option<&'a str>> {
    let Some(by) = turn.superseded_by.as_deref() else { return Ok(None) };
    let found = named(log, &[by]).await?;
    Ok(found.iter().flatten().next().map(|_| by))
}

/// What an `add` confirms: facts that it names, and turns whose words it says again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirmation<'a> {
    pub(crate) ids: &'a [FactId],
    /// When those are confirmed, in milliseconds.
    pub(crate) at: i64,
    pub(crate) said_again: &'a [u64],
    pub(crate) now: i64,
}

/// The writes that confirm turns, and when each was confirmed. What was said again and is corrected or gone stays as it is.
pub(crate) async fn confirm(
    log: &Log<'_>,
    Confirmation { ids, at, said_again, now }: Confirmation<'_>,
    ended: &[u64],
) -> Result<(Vec<NewEntry>, Vec<(u64, i64)>)> {
    let mut confirmed = Vec::new();
    for (id, found) in ids.iter().zip(turns(log, ids, "confirm").await?) {
        if let Some(by) = successor(log, &found.turn).await? {
            return Err(superseded(id, by, "confirm"));
        }
        if ended.contains(&found.number) {
            return Err(ends_with_its_turns(id));
        }
        let is_said_again = said_again.contains(&found.number);
        confirmed.push((found, if is_said_again { at.max(now) } else { at }));
    }
    for found in at_numbers(log, said_again).await? {
        let is_named = confirmed.iter().any(|(named, _)| named.number == found.number);
        if found.turn.superseded_by.is_none() && !is_named {
            confirmed.push((found, now));
        }
    }
    let (mut items, mut pairs) = (Vec::new(), Vec::new());
    for (mut found, at) in confirmed {
        let last = found.turn.confirmed_at.unwrap_or_else(|| found.turn.said(&found.entry));
        // What superseded it is gone.
        let holds_again = found.turn.superseded_by.take().is_some();
        if holds_again || at > last {
            found.turn.valid_to = None;
            found.turn.confirmed_at = Some(at.max(last));
            pairs.push((found.number, at.max(last)));
            items.push(found.rewritten()?);
        }
    }
    Ok((items, pairs))
}

/// What is there of these numbers, in their order.
pub(crate) async fn at_numbers(log: &Log<'_>, numbers: &[u64]) -> Result<Vec<Found>> {
    let keys = numbers.iter().map(|number| keys::log(*number)).collect::<Result<Vec<_>>>()?;
    let mut found = Vec::new();
    for (number, entry) in numbers.iter().zip(log.entries(&keys).await?) {
        if let Some(entry) = entry
            && let Record::Turn(turn) = record::read(&entry)?
        {
            found.push(Found { number: *number, turn: *turn, entry });
        }
    }
    Ok(found)
}

/// The turns of what is known, by number, as far as they are there.
pub(crate) async fn turns_of(
    log: &Log<'_>,
    known: &[Option<(Expect, Known)>],
) -> Result<BTreeMap<u64, Found>> {
    let numbers: BTreeSet<u64> = known.iter().flatten().filter_map(|(_, known)| known.n).collect();
    let numbers: Vec<u64> = numbers.into_iter().collect();
    Ok(at_numbers(log, &numbers).await?.into_iter().map(|found| (found.number, found)).collect())
}

/// The turns with these digests, in their order. Where logs were mixed, as by an import, the record that a digest names may be
/// another turn.
pub(crate) async fn named(log: &Log<'_>, digests: &[&str]) -> Result<Vec<Option<Found>>> {
    let known = log.known(digests).await?;
    let mut turns = turns_of(log, &known).await?;
    let of = |(digest, known): (&&str, Option<(Expect, Known)>)| {
        let number = known?.1.n?;
        turns.get(&number).filter(|found| found.turn.id == **digest)?;
        turns.remove(&number)
    };
    Ok(digests.iter().zip(known).map(of).collect())
}

/// The turns of ids, in their order.
pub(crate) async fn turns(log: &Log<'_>, ids: &[FactId], doing: &str) -> Result<Vec<Found>> {
    let unknown = |id: &FactId| {
        Error::new(ErrorKind::NotFound, format!("there is no fact `{id}` to {doing}; nothing was changed"))
            .with_retry(Retry::Never)
            .with_detail("id", id.as_str())
    };
    if let Some(strange) = ids.iter().find(|id| !digest::is_digest(id)) {
        return Err(unknown(strange));
    }
    let digests: Vec<&str> = ids.iter().map(FactId::as_str).collect();
    let found = named(log, &digests).await?;
    ids.iter().zip(found).map(|(id, found)| found.ok_or_else(|| unknown(id))).collect()
}

fn ends_with_its_turns(id: &FactId) -> Error {
    let why = format!(
        "the fact `{id}` stands on nothing but what this message supersedes, and ends with it; nothing was changed: leave it \
         out of `confirms`"
    );
    Error::new(ErrorKind::Conflict, why).with_retry(Retry::Never).with_detail("id", id.as_str())
}

fn ended(id: &str, by: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "this message is the fact `{id}`, which was superseded by `{by}`; nothing was changed: if it holds again, say it \
             with an id or a time of its own, or without either"
        ),
    )
    .with_retry(Retry::Never)
    .with_detail("superseded_by", by)
}

fn superseded(id: &FactId, by: &str, doing: &str) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("the fact `{id}` was superseded by `{by}` before; {doing} that one"),
    )
    .with_retry(Retry::Never)
    .with_detail("superseded_by", by)
}
