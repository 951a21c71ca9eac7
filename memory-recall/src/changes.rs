//! What an `add` changes about existing turns: corrections and confirmations.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::backend::NewEntry;
use memory_core::layer::FactId;
use memory_core::{Entry, Error, ErrorKind, Expect, Result, Retry, Timestamp, Ttl};

use crate::store::digest;
use crate::store::keys;
use crate::store::log::{Log, item, turn_item};
use crate::store::record::{self, Head, Known, Record, StoredTurn};

/// An existing turn or derived fact.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) turn: StoredTurn,
    pub(crate) entry: Entry,
}

impl Found {
    /// The write of the changed turn, provided that nobody has changed it since.
    pub(crate) fn rewritten(self) -> Result<NewEntry> {
        self.lasting(Ttl::Keep)
    }

    fn lasting(self, ttl: Ttl) -> Result<NewEntry> {
        turn_item(self.number, self.turn, self.entry.metadata, Expect::Version(self.entry.version), ttl)
    }

    /// The lifetime of a turn that is added again: the longer of the two.
    fn lifetime(&self, ttl: Ttl, now: Timestamp) -> Ttl {
        match (self.entry.expires_at, ttl) {
            (None, _) => Ttl::Keep,
            (Some(at), Ttl::After(after)) if after <= at.saturating_since(now) => Ttl::Keep,
            (Some(_), Ttl::After(after)) => Ttl::After(after),
            (Some(_), _) => Ttl::Never,
        }
    }
}

/// The turn that corrects others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction<'a> {
    pub(crate) id: &'a str,
    /// The turn that superseded it before this correction, if any.
    pub(crate) ended_by: Option<&'a str>,
}

/// The writes that correct turns, and derived facts supported by nothing else: they stay in the log, but no longer
/// hold.
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
            // A turn that no longer holds must correct nothing: two turns could end each other, and neither would be
            // recalled.
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

/// What an `add` confirms: facts that it names, and turns whose words it repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirmation<'a> {
    pub(crate) ids: &'a [FactId],
    /// When those are confirmed, in milliseconds.
    pub(crate) at: i64,
    pub(crate) said_again: &'a [u64],
    /// How long they must last from now on, at least.
    pub(crate) ttl: Ttl,
    pub(crate) now: Timestamp,
}

/// The writes that confirm turns, and what readers need to know about them.
#[derive(Debug, Default)]
pub(crate) struct Confirmed {
    pub(crate) items: Vec<NewEntry>,
    /// When each turn was confirmed.
    pub(crate) at: Vec<(u64, i64)>,
    /// Whether one now lasts longer than readers know.
    pub(crate) prolongs: bool,
}

/// Confirms turns. A repeated turn that has been corrected or is gone stays as it is.
pub(crate) async fn confirm(
    log: &Log<'_>,
    Confirmation { ids, at, said_again, ttl, now: moment }: Confirmation<'_>,
    ended: &[u64],
) -> Result<Confirmed> {
    let now = moment.as_millis();
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
    let mut outcome = Confirmed::default();
    let mut prolonged = Vec::new();
    for (mut found, at) in confirmed {
        let last = found.turn.confirmed_at.unwrap_or_else(|| found.turn.said(&found.entry));
        // What superseded it is gone.
        let holds_again = found.turn.superseded_by.take().is_some();
        let lifetime =
            if said_again.contains(&found.number) { found.lifetime(ttl, moment) } else { Ttl::Keep };
        if holds_again || at > last || lifetime != Ttl::Keep {
            found.turn.valid_to = None;
            found.turn.confirmed_at = Some(at.max(last));
            outcome.at.push((found.number, at.max(last)));
            if lifetime != Ttl::Keep {
                prolonged.push(found.turn.id.clone());
            }
            outcome.items.push(found.lasting(lifetime)?);
        }
    }
    let digests: Vec<&str> = prolonged.iter().map(String::as_str).collect();
    for (digest, known) in digests.iter().zip(log.known(&digests).await?) {
        let Some((expect, known)) = known else { continue };
        outcome.items.push(item(keys::id(digest)?, record::written(&known)?, expect, until(ttl))?);
    }
    outcome.prolongs = !prolonged.is_empty();
    Ok(outcome)
}

/// The lifetime when overwriting something that had one.
pub(crate) fn until(ttl: Ttl) -> Ttl {
    if ttl == Ttl::Keep { Ttl::Never } else { ttl }
}

/// What exists under these numbers, in their order.
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

/// The existing turns among these, by number.
pub(crate) async fn turns_of(
    log: &Log<'_>,
    known: &[Option<(Expect, Known)>],
) -> Result<BTreeMap<u64, Found>> {
    let numbers: BTreeSet<u64> = known.iter().flatten().filter_map(|(_, known)| known.n).collect();
    let numbers: Vec<u64> = numbers.into_iter().collect();
    Ok(at_numbers(log, &numbers).await?.into_iter().map(|found| (found.number, found)).collect())
}

/// The turns with these digests, in their order. If logs were mixed, as by an import, the record that a digest points
/// to may be a different turn.
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

/// The turns with these ids, in their order.
pub(crate) async fn turns(log: &Log<'_>, ids: &[FactId], doing: &str) -> Result<Vec<Found>> {
    let unknown = |id: &FactId| {
        Error::not_found(format!("there is no fact `{id}` to {doing}; nothing was changed"))
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
