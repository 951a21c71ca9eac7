//! Adding: which messages are new, and writing them all at once.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::backend::NewEntry;
use memory_core::embed::embed_documents;
use memory_core::layer::{AddOptions, AddOutcome, AddStatus, FactId, Message, Role};
use memory_core::{Embedder, Error, ErrorKind, Expect, Provider, Quota, Result, Retry};

use crate::changes::{self, Correction};
use crate::known::{Said, Sorted, sort};
use crate::rank::Turn;
use crate::recall::Recall;
use crate::store::digest;
use crate::store::forgotten::Forgotten;
use crate::store::keys;
use crate::store::log::{ATTEMPTS, Log, SeenHead, contended, item, turn_item};
use crate::store::record::{self, Answered, Known, StoredTurn};
use crate::store::vector::StoredVector;

impl<P: Provider> Recall<P> {
    pub(crate) async fn add_messages(
        &self,
        log: &Log<'_>,
        messages: &[Message],
        options: &AddOptions,
    ) -> Result<AddOutcome> {
        let (places, kept): (Vec<usize>, Vec<&Message>) =
            messages.iter().enumerate().filter(|(_, message)| is_kept(message)).unzip();
        if !options.supersedes.is_empty() && kept.len() != 1 {
            return Err(Error::invalid(
                "a correction is one message, of the user or the assistant; add the others by themselves",
            ));
        }
        let first_digests: Vec<String> =
            kept.iter().map(|message| digest::of_message(log.scope, message)).collect();
        let contents: Vec<String> =
            kept.iter().map(|message| digest::of_content(log.scope, message)).collect();
        let said = kept.into_iter().zip(places).enumerate();
        let said: Vec<Said<'_>> = said.map(|(at, (message, index))| Said { message, at, index }).collect();
        let mut vectors: BTreeMap<usize, Option<StoredVector>> = BTreeMap::new();
        for _ in 0..ATTEMPTS {
            let seen = log.head().await?;
            let Sorted { new, said_again, replaced, digests, ended_by, mut outcome } =
                sort(log, &said, &first_digests, &contents, options).await?;
            self.embed(&new, &mut vectors).await;
            let without = |(said, _): &&(Said<'_>, Expect)| {
                let vector = vectors.get(&said.at).and_then(Option::as_ref);
                !vector.is_some_and(StoredVector::has_direction)
            };
            if self.options.embedder.is_some() {
                outcome.without_vector =
                    u64::try_from(new.iter().filter(without).count()).unwrap_or(u64::MAX);
            }
            self.refuse_left_out(log, options, &outcome).await?;
            let is_replacing = replaced.is_some();
            let mut head = seen.then(seen.next(), || self.epoch());
            let mut items = turns(log, &new, &digests, &contents, &vectors, options, &mut head.next).await?;
            let now = self.clock.now();
            let mut ended = Vec::new();
            if let Some(replaced) = replaced {
                let number = replaced.number;
                let (writes, numbers) =
                    self.burial(log, vec![replaced.entry], &|gone| gone == number, digests.first()).await?;
                items.extend(writes);
                items.extend(log.forgot(numbers, &mut head, || self.epoch()).await?);
            } else if let Some(id) = digests.first() {
                let until = said.first().and_then(|said| said.message.at).unwrap_or(now);
                let standing = self.standing_on_nothing_else(log, &options.supersedes).await?;
                ended.extend(standing.iter().map(|found| found.number));
                let until = until.as_millis();
                let correction = Correction { id, ended_by: ended_by.as_deref() };
                items.extend(
                    changes::supersede(log, &options.supersedes, correction, until, standing, &mut head)
                        .await?,
                );
            }
            let at = messages.iter().filter_map(|message| message.at).max().unwrap_or(now).as_millis();
            let confirmation = changes::Confirmation {
                ids: &options.confirms,
                at,
                said_again: &said_again,
                ttl: options.ttl,
                now,
            };
            let confirmed = changes::confirm(log, confirmation, &ended).await?;
            items.extend(confirmed.items);
            if confirmed.prolongs {
                // Readers drop expired turns by the times they have read, so a new epoch makes them reread.
                head.epoch = self.epoch();
            }
            if options.again && !is_replacing {
                let of = |digests: &'_ [String], said: &Said<'_>| digests.get(said.at).cloned();
                let again = new.iter().flat_map(|(said, _)| [of(&digests, said), of(&contents, said)]);
                let again: Vec<String> = again.flatten().collect();
                let again: Vec<&str> = again.iter().map(String::as_str).collect();
                let mut forgotten = Forgotten::of(log, &again).await?;
                again.iter().for_each(|digest| forgotten.remove(digest));
                items.extend(forgotten.writes()?);
            }
            items.extend(log.confirmed(confirmed.at, &mut head).await?);
            let stored = new.iter().filter_map(|(said, _)| digests.get(said.at));
            outcome.status = AddStatus::Done(stored.map(FactId::new).collect::<Result<_>>()?);
            if items.is_empty() {
                return Ok(outcome);
            }
            items.push(seen.moved_to(&head)?);
            match log.write(items, options.quota).await {
                Ok(Some(())) => return Ok(outcome),
                Ok(None) => self.after_conflict(log, &seen).await?,
                Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                    return Ok(AddOutcome::new(AddStatus::Unknown));
                }
                Err(error) => return Err(error),
            }
        }
        Err(contended())
    }

    /// A correction or a confirmation is done with its messages, or neither is.
    async fn refuse_left_out(&self, log: &Log<'_>, options: &AddOptions, outcome: &AddOutcome) -> Result<()> {
        if options.supersedes.is_empty() && options.confirms.is_empty() {
            return Ok(());
        }
        let why = match outcome.different.first() {
            Some(fact) => format!(
                "the id of a message is that of the fact `{fact}`, which has other words; give the message an id of its own"
            ),
            None if outcome.forgotten > 0 => {
                "a message was forgotten before; add it with `again`, if it is to be stored".to_owned()
            }
            None => return Ok(()),
        };
        changes::turns(log, &options.supersedes, "supersede").await?;
        changes::turns(log, &options.confirms, "confirm").await?;
        let why = format!("{why}; nothing was stored, corrected or confirmed");
        Err(Error::new(ErrorKind::Conflict, why).with_retry(Retry::Never))
    }

    /// Handles a conflict: another writer was first, or the log holds records beyond its head.
    pub(crate) async fn after_conflict(&self, log: &Log<'_>, seen: &SeenHead) -> Result<()> {
        if log.head().await?.version == seen.version {
            log.repair(seen, self.epoch()).await?;
        }
        Ok(())
    }

    /// Embeds what has no vector yet. A text that cannot be embedded is found by its words only.
    async fn embed(&self, new: &[(Said<'_>, Expect)], vectors: &mut BTreeMap<usize, Option<StoredVector>>) {
        let Some(embedder) = &self.options.embedder else { return };
        let missing: Vec<Said<'_>> =
            new.iter().map(|(said, _)| *said).filter(|said| !vectors.contains_key(&said.at)).collect();
        if missing.is_empty() {
            return;
        }
        let texts: Vec<String> = missing
            .iter()
            .map(|said| Turn::embedded_text(&said.message.content, said.message.caption.as_deref()))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let embedded = embed_documents(embedder.as_ref(), &texts).await;
        for (said, vector) in missing.iter().zip(stored(embedder.as_ref(), embedded)) {
            vectors.insert(said.at, vector);
        }
    }
}

/// An embedder's answers in stored form; `None` if it failed, so that the text is found by its words only.
pub(crate) fn stored(embedder: &dyn Embedder, answers: Vec<Result<Vec<f32>>>) -> Vec<Option<StoredVector>> {
    let stored: Vec<Result<StoredVector>> =
        answers.into_iter().map(|answer| StoredVector::answered(embedder.model(), answer)).collect();
    let failed = stored.iter().filter(|vector| vector.is_err()).count();
    if let Some(error) = stored.iter().find_map(|vector| vector.as_ref().err()) {
        tracing::warn!(%error, turns = failed, "turns are stored without a vector; `memory reembed` adds it");
    }
    stored.into_iter().map(Result::ok).collect()
}

/// Whether a message is kept: what people said, including a picture with only a caption. What the runtime and its tools
/// said is not memory.
pub(crate) fn is_kept(message: &Message) -> bool {
    matches!(message.role, Role::User | Role::Assistant) && !message.is_blank()
}

/// The writes for the new turns, each with what is known about its digest.
pub(crate) async fn turns(
    log: &Log<'_>,
    new: &[(Said<'_>, Expect)],
    digests: &[String],
    contents: &[String],
    vectors: &BTreeMap<usize, Option<StoredVector>>,
    options: &AddOptions,
    next: &mut u64,
) -> Result<Vec<NewEntry>> {
    let first = *next;
    let mut numbers: BTreeMap<&str, u64> = BTreeMap::new();
    for (place, (said, _)) in (first..).zip(new) {
        numbers.extend(digests.get(said.at).map(|digest| (digest.as_str(), place)));
    }
    let answered = answered(log, new, &numbers).await?;
    let mut items = Vec::with_capacity(new.len() * 2 + 1);
    for (number, (said, expect)) in (first..).zip(new) {
        let (Some(digest), Some(content)) = (digests.get(said.at), contents.get(said.at)) else { continue };
        let message = said.message;
        let turn = StoredTurn {
            id: digest.clone(),
            text: message.content.clone(),
            role: message.role,
            speaker: message.name.clone(),
            session: message.session.clone(),
            at: message.at.map(memory_core::Timestamp::as_millis),
            answers: message.answers.as_ref().map(|id| {
                let id = digest::of_id(log.scope, id);
                Answered { n: answered.get(&id).copied(), id }
            }),
            caption: message.caption.clone(),
            message: message.id.clone(),
            vector: vectors.get(&said.at).cloned().flatten(),
            confirmed_at: None,
            valid_to: None,
            superseded_by: None,
            derived: None,
        };
        let mut metadata = options.metadata.clone();
        message.metadata.iter().for_each(|(name, value)| metadata.insert(name, value.clone()));
        metadata.check()?;
        let item_of_turn = turn_item(number, turn, metadata, Expect::Absent, options.ttl)?;
        log.check_size(&item_of_turn).map_err(|error| error.with_detail("index", said.index))?;
        items.push(item_of_turn);
        let known =
            Known { n: Some(number), content: (digest != content).then(|| content.clone()), dropped: false };
        items.push(item(keys::id(digest)?, record::written(&known)?, *expect, changes::until(options.ttl))?);
        *next = number.saturating_add(1);
    }
    Ok(items)
}

/// The numbers of the turns that new turns answer, by digest.
async fn answered(
    log: &Log<'_>,
    new: &[(Said<'_>, Expect)],
    numbers: &BTreeMap<&str, u64>,
) -> Result<BTreeMap<String, u64>> {
    let named = new.iter().filter_map(|(said, _)| said.message.answers.as_deref());
    let wanted: BTreeSet<String> = named.map(|id| digest::of_id(log.scope, id)).collect();
    let mut found: BTreeMap<String, u64> =
        wanted.iter().filter_map(|id| Some((id.clone(), *numbers.get(id.as_str())?))).collect();
    let missing: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|id| !found.contains_key(*id)).collect();
    for (id, known) in missing.iter().zip(log.known(&missing).await?) {
        found.extend(known.and_then(|(_, known)| Some(((*id).to_owned(), known.n?))));
    }
    Ok(found)
}

/// No limit: making room is always allowed.
pub(crate) const NO_QUOTA: Quota = Quota { max_entries: None, max_bytes: None };
