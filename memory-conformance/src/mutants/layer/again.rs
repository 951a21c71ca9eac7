//! Messages that are stored twice, mistaken for others, or that come back unasked; corrections that do not correct.

use memory_core::layer::{AddOptions, AddOutcome, AddStatus, Fact, FactId, Forget, Message, Role};
use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, Scope, Ttl};

use super::requests::{facts_in, facts_of, forget_in, layer};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "layer.again-is-new": ["LAY-90"] needs [Layer, LayerIdempotent], "a message added again is a second fact" => around(is_new);
    "layer.again-is-named": ["LAY-90"] needs [Layer, LayerIdempotent], "a message added again is not counted as known"
        => answer(Reply::Add(outcome) => outcome.known = 0);
    "layer.again-by-words": ["LAY-91"] needs [Layer, LayerIdempotent], "messages of the same words are taken for one"
        => ask(|request| each(request, |message| {
            (message.id, message.name, message.at) = (None, None, None);
        }));
    "layer.again-ids-fold": ["LAY-91"] needs [Layer, LayerIdempotent], "ids of messages are compared without their case"
        => ask(|request| each(request, |message| message.id = message.id.as_ref().map(|id| id.to_lowercase())));
    "layer.again-roles-fold": ["LAY-91"] needs [Layer, LayerIdempotent], "what the assistant repeats is taken for the user's"
        => ask(|request| each(request, |message| if message.role == Role::Assistant {
            message.role = Role::User;
        }));
    "layer.again-overwrites": ["LAY-92"] needs [Layer, LayerIdempotent], "an id that comes with other words takes the words over" => around(overwrites);
    "layer.again-hides-difference": ["LAY-92"] needs [Layer, LayerIdempotent], "an id that comes with other words is not reported"
        => answer(Reply::Add(outcome) => outcome.different.clear());
    "layer.replace-refused": ["LAY-103"] needs [Layer, LayerSupersede, LayerIdempotent], "other words of an id never take the place of the first"
        => ask(Request::Add { options, .. } => if !options.supersedes.is_empty() {
            options.again = false;
        });
    "layer.replace-unasked": ["LAY-103"] needs [Layer, LayerSupersede, LayerIdempotent], "a correction replaces what its own id has, unasked"
        => ask(Request::Add { options, .. } => if !options.supersedes.is_empty() {
            options.again = true;
        });
    "layer.replaced-barred": ["LAY-103"] needs [Layer, LayerSupersede, LayerIdempotent], "words that were replaced count as forgotten"
        => around(replaced_barred);
    "layer.forgotten-comes-back": ["LAY-93"] needs [Layer, LayerForget, LayerIdempotent], "what was forgotten is stored again unasked"
        => ask(Request::Add { options, .. } => options.again = true);
    "layer.forgotten-all-comes-back": ["LAY-93"] needs [Layer, LayerForget, LayerIdempotent], "what was forgotten with all is stored again" => around(all_comes_back);
    "layer.forgotten-despite-again": ["LAY-93", "LAY-35"] needs [Layer, LayerForget, LayerIdempotent], "what was forgotten is never stored again"
        => ask(Request::Add { options, .. } => options.again = false);
    "layer.forgotten-untold": ["LAY-93"] needs [Layer, LayerForget, LayerIdempotent], "what is left out is not reported"
        => answer(Reply::Add(outcome) => outcome.forgotten = 0);
    "layer.forgotten-blocks": ["LAY-93"] needs [Layer, LayerForget, LayerIdempotent], "one forgotten message keeps the others of an add out" => around(blocks);
    "layer.order-of-ids": ["LAY-43"] needs [Layer], "facts are listed in no order"
        => answer(Reply::Facts(page) => page.facts.reverse());
    "layer.correct-competes": ["LAY-85"] needs [Layer, LayerSupersede], "a correction is one more fact"
        => ask(Request::Add { options, .. } => options.supersedes.clear());
    "layer.correct-deletes": ["LAY-85"] needs [Layer, LayerForget, LayerSupersede], "what is corrected loses its place in history" => around(deletes);
    "layer.correct-unnamed": ["LAY-85"] needs [Layer, LayerSupersede], "what was corrected does not say by what"
        => answer(|reply| for fact in facts_in(reply).into_iter().flatten() { fact.superseded_by = None; });
    "layer.correct-nothing-succeeds": ["LAY-86"] needs [Layer, LayerSupersede], "a correction of nothing succeeds" => around(nothing_succeeds);
    "layer.correct-half": ["LAY-86"] needs [Layer, LayerSupersede], "a refused correction is stored as a fact" => around(stored_all_the_same);
    "layer.as-of-now": ["LAY-87"] needs [Layer, LayerSupersede], "the time that is asked about is ignored"
        => ask(Request::Recall { query, .. } => query.as_of = None);
    "layer.as-of-shows-all": ["LAY-87"] needs [Layer, LayerSupersede], "a question about the past is answered with everything" => around(shows_all);
    "layer.as-of-late": ["LAY-87"] needs [Layer, LayerSupersede], "a correction holds a millisecond late"
        => ask(Request::Recall { query, .. } => query.as_of = query.as_of.map(|at| {
            memory_core::Timestamp::from_millis_clamped(at.as_millis() - 1)
        }));
    "layer.correct-twice": ["LAY-88"] needs [Layer, LayerSupersede], "a second correction of the same fact is stored" => around(twice);
    "layer.correct-gone-conflicts": ["LAY-100"] needs [Layer, LayerForget, LayerSupersede], "what was superseded by a forgotten fact can never be corrected"
        => around(gone_conflicts);
    "layer.confirm-gone-ended": ["LAY-100"] needs [Layer, LayerConfirm, LayerForget, LayerSupersede], "what was superseded by a forgotten fact does not hold when it is confirmed"
        => around(gone_stays_ended);
    "layer.correct-for-good": ["LAY-98"] needs [Layer, LayerSupersede, LayerIdempotent], "words that were corrected are known for good"
        => around(corrected_for_good);
    "layer.delivered-anew": ["LAY-98"] needs [Layer, LayerSupersede, LayerIdempotent], "a message that was corrected is stored anew when it is delivered again"
        => around(delivered_anew);
    "layer.correct-dropped": ["LAY-99"] needs [Layer, LayerSupersede, LayerIdempotent], "a correction is dropped with a message that is left out"
        => around(dropped);
    "layer.confirm-ignored": ["LAY-94"] needs [Layer, LayerConfirm], "a confirmation is one more fact"
        => ask(Request::Add { options, .. } => options.confirms.clear());
    "layer.confirm-unkept": ["LAY-94"] needs [Layer, LayerConfirm], "what a tool says confirms nothing"
        => ask(Request::Add { messages, options, .. } => if messages.iter().all(|message| is_of_the_runtime(message.role)) {
            options.confirms.clear();
        });
    "layer.confirm-nothing-succeeds": ["LAY-94"] needs [Layer, LayerConfirm], "a confirmation of nothing succeeds" => around(nothing_succeeds);
    "layer.confirm-half": ["LAY-94"] needs [Layer, LayerConfirm], "a refused confirmation is stored as a fact" => around(stored_all_the_same);
    "layer.confirm-corrected": ["LAY-94"] needs [Layer, LayerConfirm, LayerSupersede], "what was corrected can be confirmed" => around(twice);
    "layer.confirm-goes-back": ["LAY-94"] needs [Layer, LayerConfirm], "a fact is confirmed when it was said, whatever came later"
        => answer(|reply| for fact in facts_in(reply).into_iter().flatten() { fact.confirmed_at = fact.at.or(fact.created_at); });
    "layer.said-again-untold": ["LAY-95"] needs [Layer, LayerConfirm, LayerIdempotent], "what is said again is not confirmed"
        => ask(|request| each(request, |message| if message.id.is_none() && message.at.is_none() {
            message.id = Some(message.content.clone());
        }));
    "layer.imported-again-confirms": ["LAY-95"] needs [Layer, LayerConfirm, LayerIdempotent], "a message that is delivered twice is confirmed"
        => around(delivered_is_confirmed);
    "layer.unconfirmed-ignored": ["LAY-96"] needs [Layer, LayerConfirm], "facts are recalled whether they were confirmed or not"
        => ask(Request::Recall { query, .. } => query.unconfirmed_since = None);
    "layer.unconfirmed-late": ["LAY-96"] needs [Layer, LayerConfirm], "a fact that was confirmed at the very time counts as not confirmed"
        => ask(Request::Recall { query, .. } => query.unconfirmed_since = query.unconfirmed_since.map(|at| {
            memory_core::Timestamp::from_millis_clamped(at.as_millis() + 1)
        }));
    "layer.expiry-ignored": ["LAY-89"] needs [Layer, LayerExpiry], "facts do not expire"
        => ask(Request::Add { options, .. } => options.ttl = Ttl::Keep);
    "layer.expiry-early": ["LAY-89"] needs [Layer, LayerExpiry], "facts expire a millisecond early"
        => ask(Request::Add { options, .. } => if let Ttl::After(after) = options.ttl {
            options.ttl = Ttl::After(after.saturating_sub(std::time::Duration::from_millis(1)));
        });
    "layer.expiry-stays": ["LAY-104"] needs [Layer, LayerExpiry, LayerIdempotent], "what is said again keeps its expiry" => around(expiry_stays);
    "layer.expiry-follows": ["LAY-104"] needs [Layer, LayerExpiry, LayerIdempotent], "what is said again gets the last expiry" => around(expiry_follows);
    "layer.expired-first-doubles": ["LAY-90"] needs [Layer, LayerExpiry, LayerSupersede, LayerIdempotent], "words whose first fact has expired are stored beside those that hold"
        => around(doubles);
    "layer.expired-is-known": ["LAY-89"] needs [Layer, LayerExpiry], "what has expired is not stored again" => around(expired_is_known);
}

fn is_of_the_runtime(role: Role) -> bool {
    matches!(role, Role::System | Role::Tool)
}

fn each(request: &mut Request, change: fn(&mut Message)) {
    if let Request::Add { messages, .. } = request {
        messages.iter_mut().for_each(change);
    }
}

/// Gives every message a new id.
async fn is_new(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Add { scope, messages, .. } = &mut request {
        for message in messages.iter_mut().filter(|message| message.id.is_none()) {
            let mut remembered = memory.lock();
            let count = remembered.texts.len();
            remembered.texts.insert((scope.clone(), format!("{count}")));
            message.id = Some(format!("mutant-{count}"));
        }
    }
    next.run(request).await
}

async fn overwrites(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Add { run, scope, messages, options } = &request else { return next.run(request).await };
    let layer = layer(&next)?;
    let outcome = layer.add(run, scope, messages, options.clone()).await?;
    if !outcome.different.is_empty() {
        layer.forget(run, scope, Forget::Ids(outcome.different.clone())).await?;
        layer.add(run, scope, messages, options.clone().with_again(true)).await?;
    }
    Ok(Reply::Add(outcome))
}

async fn all_comes_back(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    match &mut request {
        Request::Forget { scope, what: Forget::All, .. } => {
            memory.lock().scopes.insert(scope.clone());
        }
        Request::Add { scope, options, .. } if memory.lock().scopes.contains(scope) => options.again = true,
        _ => {}
    }
    next.run(request).await
}

async fn blocks(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Add { run, scope, messages, options } = &request else { return next.run(request).await };
    let outcome = layer(&next)?.add(run, scope, messages, options.clone()).await?;
    if outcome.forgotten > 0
        && let memory_core::layer::AddStatus::Done(ids) = &outcome.status
        && !ids.is_empty()
    {
        forget_in(&next, scope, Forget::Ids(ids.clone())).await?;
    }
    Ok(Reply::Add(outcome))
}

async fn deletes(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let corrected = match &request {
        Request::Add { scope, options, .. } if !options.supersedes.is_empty() => {
            Some((scope.clone(), options.supersedes.clone()))
        }
        _ => None,
    };
    let layer = layer(&next)?;
    let Some((scope, ids)) = corrected else { return next.run(request).await };
    let Request::Add { run, messages, options, .. } = request else {
        return Err(Error::internal("only an add corrects"));
    };
    let outcome = layer.add(&run, &scope, &messages, options).await?;
    layer.forget(&run, &scope, Forget::Ids(ids)).await?;
    Ok(Reply::Add(outcome))
}

/// Repeats an add without its correction if the correction is refused like that. Returns the reply and the refusal.
async fn without_the_correction(
    request: Request,
    next: Next<'_>,
    refused: ErrorKind,
) -> Result<(Reply, Option<Error>)> {
    let Request::Add { run, scope, messages, options } = request else {
        return Ok((next.run(request).await?, None));
    };
    match layer(&next)?.add(&run, &scope, &messages, options.clone()).await {
        Err(error)
            if error.kind() == refused && !(options.supersedes.is_empty() && options.confirms.is_empty()) =>
        {
            let outcome = layer(&next)?.add(&run, &scope, &messages, AddOptions::default()).await?;
            Ok((Reply::Add(outcome), Some(error)))
        }
        outcome => Ok((Reply::Add(outcome?), None)),
    }
}

async fn nothing_succeeds(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    Ok(without_the_correction(request, next, ErrorKind::NotFound).await?.0)
}

async fn stored_all_the_same(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match without_the_correction(request, next, ErrorKind::NotFound).await? {
        (_, Some(error)) => Err(error),
        (reply, None) => Ok(reply),
    }
}

async fn twice(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    Ok(without_the_correction(request, next, ErrorKind::Conflict).await?.0)
}

/// Facts whose successor is gone.
async fn without_successor(next: &Next<'_>, scope: &Scope) -> Result<Vec<FactId>> {
    let facts = facts_of(next, scope).await?;
    let is_gone = |by: &FactId| facts.iter().all(|fact| fact.id != *by);
    let ended = facts.iter().filter(|fact| fact.superseded_by.as_ref().is_some_and(is_gone));
    Ok(ended.map(|fact| fact.id.clone()).collect())
}

async fn gone_conflicts(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Add { scope, options, .. } = &request {
        let ended = without_successor(&next, scope).await?;
        if options.supersedes.iter().any(|id| ended.contains(id)) {
            return Err(Error::new(ErrorKind::Conflict, "the fact was superseded before by another"));
        }
    }
    next.run(request).await
}

async fn gone_stays_ended(_memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Add { scope, options, .. } = &mut request {
        let ended = without_successor(&next, scope).await?;
        options.confirms.retain(|id| !ended.contains(id));
    }
    next.run(request).await
}

/// Whether one of these messages has the words of a fact that was corrected.
async fn says_what_was_corrected(next: &Next<'_>, scope: &Scope, messages: &[Message]) -> Result<bool> {
    let facts = facts_of(next, scope).await?;
    Ok(facts.iter().any(|fact| {
        fact.superseded_by.is_some() && messages.iter().any(|message| message.content == fact.memory)
    }))
}

async fn corrected_for_good(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Add { scope, messages, .. } = &request
        && says_what_was_corrected(&next, scope, messages).await?
    {
        let mut outcome = AddOutcome::new(AddStatus::Done(Vec::new()));
        outcome.known = 1;
        return Ok(Reply::Add(outcome));
    }
    next.run(request).await
}

async fn delivered_anew(_memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Add { scope, messages, .. } = &mut request
        && says_what_was_corrected(&next, scope, messages).await?
    {
        messages.iter_mut().for_each(|message| (message.id, message.at) = (None, None));
    }
    next.run(request).await
}

/// A skipped message is skipped silently, although it should have corrected something.
async fn dropped(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Add { run, scope, messages, options } = &request else { return next.run(request).await };
    let layer = layer(&next)?;
    let refused = match layer.add(run, scope, messages, options.clone()).await {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Conflict) => error,
        outcome => return Ok(Reply::Add(outcome?)),
    };
    let by_id = !messages.is_empty() && messages.iter().all(|message| message.id.is_some());
    let outcome =
        if by_id { layer.add(run, scope, messages, AddOptions::default()).await } else { Err(refused) };
    Ok(Reply::Add(outcome?))
}

/// Confirms everything that already existed.
async fn delivered_is_confirmed(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Add { run, scope, messages, options } = &request else { return next.run(request).await };
    let outcome = layer(&next)?.add(run, scope, messages, options.clone()).await?;
    if outcome.known > 0 {
        let mut known = facts_of(&next, scope).await?;
        known.retain(|fact| messages.iter().any(|message| message.content.contains(&fact.memory)));
        let confirms = known.into_iter().map(|fact| fact.id).collect();
        let nothing = [Message::new(memory_core::layer::Role::Tool, "x")];
        layer(&next)?.add(run, scope, &nothing, AddOptions::default().with_confirms(confirms)).await?;
    }
    Ok(Reply::Add(outcome))
}

async fn shows_all(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    match &request {
        Request::Recall { scope, query, .. } if query.as_of.is_some() => {
            Ok(Reply::Recall(facts_of(&next, scope).await?))
        }
        _ => next.run(request).await,
    }
}

/// Treats what was added with a lifetime as known forever.
async fn expired_is_known(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Add { scope, messages, options, .. } = &request else { return next.run(request).await };
    let said: String = messages.iter().map(|message| message.content.as_str()).collect();
    let known = !memory.lock().texts.insert((scope.clone(), said));
    if known && options.ttl == Ttl::Keep && facts_of(&next, scope).await? == Vec::<Fact>::new() {
        let done = memory_core::layer::AddStatus::Done(Vec::new());
        return Ok(Reply::Add(memory_core::layer::AddOutcome::new(done)));
    }
    next.run(request).await
}

/// The scope's current facts that say the same as one of the messages.
async fn said_before(next: &Next<'_>, scope: &Scope, messages: &[Message]) -> Result<Vec<Fact>> {
    let said = |fact: &Fact| messages.iter().any(|message| message.content.contains(&fact.memory));
    let holds = |fact: &Fact| fact.superseded_by.is_none() && said(fact);
    Ok(facts_of(next, scope).await?.into_iter().filter(holds).collect())
}

async fn expiry_stays(_memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Add { scope, messages, options, .. } = &request else { return next.run(request).await };
    let is_known = !said_before(&next, scope, messages).await?.is_empty();
    let is_plain = options.supersedes.is_empty() && options.confirms.is_empty();
    if is_known && is_plain && messages.iter().all(|message| message.id.is_none() && message.at.is_none()) {
        let mut outcome = AddOutcome::new(AddStatus::Done(Vec::new()));
        outcome.known = messages.len() as u64;
        return Ok(Reply::Add(outcome));
    }
    next.run(request).await
}

async fn expiry_follows(_memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Add { scope, messages, options, .. } = &mut request else { return next.run(request).await };
    let before = said_before(&next, scope, messages).await?;
    let known = before.len() as u64;
    if !before.is_empty() && options.ttl != Ttl::Keep {
        forget_in(&next, scope, Forget::Ids(before.into_iter().map(|fact| fact.id).collect())).await?;
        options.again = true;
    }
    let mut reply = next.run(request).await?;
    if let Reply::Add(outcome) = &mut reply {
        outcome.known = known;
    }
    Ok(reply)
}

async fn doubles(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Add { scope, messages, options, .. } = &mut request else { return next.run(request).await };
    let before = said_before(&next, scope, messages).await?;
    if let [message] = &mut messages[..]
        && message.id.is_none()
        && message.at.is_none()
    {
        let place = (scope.clone(), message.content.clone());
        if options.ttl != Ttl::Keep {
            memory.lock().texts.insert(place);
        } else if !before.is_empty() && memory.lock().texts.contains(&place) {
            message.id = Some("mutant".to_owned());
        }
    }
    next.run(request).await
}

async fn replaced_barred(memory: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Add { scope, messages, options, .. } = &mut request else { return next.run(request).await };
    if options.again && !options.supersedes.is_empty() {
        for fact in facts_of(&next, scope).await? {
            if options.supersedes.contains(&fact.id) {
                memory.lock().texts.insert((scope.clone(), fact.memory));
            }
        }
        return next.run(request).await;
    }
    let all = messages.len();
    let is_barred = |message: &Message| {
        let said = |(of, text): &(Scope, String)| of == scope && message.content.contains(text);
        memory.lock().texts.iter().any(said)
    };
    messages.retain(|message| !is_barred(message));
    let barred = (all - messages.len()) as u64;
    let mut reply = next.run(request).await?;
    if let Reply::Add(outcome) = &mut reply {
        outcome.forgotten += barred;
    }
    Ok(reply)
}
