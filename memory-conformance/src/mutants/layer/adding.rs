//! Adds that lose, invent, misplace or spread facts.

use memory_core::layer::{AddOutcome, AddStatus, FactId, Message, Role};
use memory_core::{Error, ErrorKind, Metadata, Next, Reply, Request, Result, Scalar, ScopeKind};

use super::requests::{change_id, facts_in, facts_of, named};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "layer.add-loses": ["LAY-1"] needs [Layer], "an add is acknowledged and stores nothing"
        => instead(Request::Add { .. } => Ok(done(Vec::new())));
    "layer.first-message-alone": ["LAY-1"] needs [Layer], "only the first of several messages is learned"
        => ask(Request::Add { messages, .. } => {
            let heard = messages.iter().position(|message| message.role == Role::User).unwrap_or(0);
            *messages = messages.drain(..).skip(heard).take(1).collect();
        });
    "layer.add-replaces": ["LAY-1", "LAY-9"] needs [Layer, LayerForget], "an add replaces earlier facts"
        => ask(Request::Add { scope, .. }
            => super::requests::forget_in(&next, scope, memory_core::layer::Forget::All).await?);
    "layer.sync-is-pending": ["LAY-2"] needs [Layer], "finished work is reported as pending"
        => answer(Reply::Add(outcome) => outcome.status = AddStatus::Pending(None));
    "layer.sync-is-unknown": ["LAY-2"] needs [Layer], "finished work is reported as unknown"
        => answer(Reply::Add(outcome) => outcome.status = AddStatus::Unknown);
    "layer.names-none": ["LAY-4"] needs [Layer], "stored facts are not named"
        => answer(|reply| if let Some(ids) = named(reply) { ids.clear(); });
    "layer.names-twice": ["LAY-4"] needs [Layer], "a stored fact is named twice" => answer(|reply| {
        if let Some(ids) = named(reply) {
            let again = ids.clone();
            ids.extend(again);
        }
    });
    "layer.names-all": ["LAY-4"] needs [Layer], "an add names every fact of the scope"
        => over(Request::Add { run, scope, messages, options } => {
            super::requests::layer(&next)?.add(&run, &scope, &messages, options).await?;
            Ok(done(facts_of(&next, &scope).await?.into_iter().map(|fact| fact.id).collect()))
        });
    "layer.ids-of-the-scope": ["LAY-4", "LAY-50"] needs [Layer], "fact ids repeat across scopes"
        => answer(Reply::Facts(page) => {
            for (n, fact) in page.facts.iter_mut().enumerate() {
                if let Ok(id) = FactId::new(format!("{n}")) {
                    fact.id = id;
                }
            }
        });
    "layer.nothing-is-something": ["LAY-5"] needs [Layer], "an add that stored nothing names a fact" => answer(invents);
    "layer.nothing-is-an-error": ["LAY-5"] needs [Layer], "an add without anything worth keeping fails"
        => around({
            let mut reply = next.run(request).await?;
            if named(&mut reply).is_some_and(|ids| ids.is_empty()) {
                return Err(Error::new(ErrorKind::Unavailable, "nothing was stored"));
            }
            Ok(reply)
        });
    "layer.again-is-an-error": ["LAY-9"] needs [Layer], "saying the same again fails"
        => stop(said_before(memory, &request) => Error::conflict(None));
    "layer.again-names-the-old": ["LAY-9", "LAY-5"] needs [Layer], "saying the same again names a missing fact" => answer(invents);
    "layer.again-is-taken-back": ["LAY-9"] needs [Layer, LayerForget], "saying the same again deletes it"
        => instead(Request::Add { scope, .. } if said_before(memory, &request) => {
            super::requests::forget_in(&next, scope, memory_core::layer::Forget::All).await?;
            Ok(done(Vec::new()))
        });
    "layer.roles-refused": ["LAY-10"] needs [Layer], "messages of system and tool roles are refused"
        => around(refusing(request, next, |message| !matches!(message.role, Role::User | Role::Assistant)).await);
    "layer.blank-refused": ["LAY-10"] needs [Layer], "a blank message among others is refused"
        => around(refusing(request, next, |message| message.content.trim().is_empty()).await);
    "layer.speaker-refused": ["LAY-10"] needs [Layer], "a speaker's name with an apostrophe is refused"
        => around(refusing(request, next, |message| message.name.as_ref().is_some_and(|name| name.contains('\''))).await);
    "layer.verbatim-extracts": ["LAY-6"] needs [Layer], "facts are extracted from verbatim messages"
        => ask(Request::Add { options, .. } => options.infer = true);
    "layer.verbatim-squeezed": ["LAY-6"] needs [Layer], "white space in verbatim messages is collapsed"
        => ask(|request| change_verbatim(request, |text| text.split_whitespace().collect::<Vec<_>>().join(" ")));
    "layer.verbatim-escaped": ["LAY-6", "LAY-8"] needs [Layer], "markup in verbatim messages is escaped"
        => ask(|request| change_verbatim(request, |text| text.replace('&', "&amp;").replace('<', "&lt;")));
    "layer.verbatim-user-only": ["LAY-6"] needs [Layer], "only the user's verbatim messages are stored"
        => ask(Request::Add { messages, options, .. } if !options.infer
            => messages.retain(|message| message.role == Role::User));
    "layer.verbatim-star-dropped": ["LAY-8"] needs [Layer], "a message that is a wildcard is dropped"
        => instead(Request::Add { messages, .. } if messages.iter().all(|message| message.content == "*")
            => Ok(done(Vec::new())));
    "layer.words-choose-the-scope": ["LAY-8", "LAY-50"] needs [Layer], "a message that contains a filter is added to other scopes"
        => around({
            match &request {
                Request::Add { messages, .. } if messages.iter().any(|message| message.content.contains("\"user_id\"")) => {
                    add_everywhere(memory, request, next).await
                }
                _ => next.run(request).await,
            }
        });
    "layer.question-chooses-the-scope": ["LAY-8", "LAY-50"] needs [Layer], "a question with a wildcard searches every scope" => around(question_chooses);
    "layer.metadata-dropped": ["LAY-7"] needs [Layer], "metadata is dropped"
        => ask(Request::Add { options, .. } => options.metadata = Metadata::new());
    "layer.metadata-as-text": ["LAY-7"] needs [Layer], "numbers in metadata become text" => answer(|reply| {
        for fact in facts_in(reply).into_iter().flatten() {
            let text = |value: &Scalar| match value {
                Scalar::Int(number) => Scalar::Text(number.to_string()),
                other => other.clone(),
            };
            fact.metadata = fact.metadata.iter().map(|(name, value)| (name.to_owned(), text(value))).collect();
        }
    });
    "layer.metadata-for-all": ["LAY-7"] needs [Layer], "every fact gets the metadata of the last add" => around(metadata_for_all);
    "layer.metadata-not-recalled": ["LAY-7"] needs [Layer], "recalled facts have no metadata"
        => answer(Reply::Recall(facts) => facts.iter_mut().for_each(|fact| fact.metadata = Metadata::new()));
    "layer.metadata-chooses-the-scope": ["LAY-8", "LAY-50"] needs [Layer], "metadata named `user_id` moves the add to that scope"
        => ask(Request::Add { scope, options, .. } => {
            if let Some(Scalar::Text(id)) = options.metadata.get("user_id") {
                let id = id.clone();
                change_id(scope, &id);
                scope.kind = ScopeKind::Agent;
            }
        });
    "layer.metadata-star-widens": ["LAY-8", "LAY-50"] needs [Layer], "a wildcard in metadata adds to every scope"
        => around({
            match &request {
                Request::Add { options, .. }
                    if options.metadata.iter().any(|(_, value)| *value == Scalar::Text("*".to_owned())) =>
                {
                    add_everywhere(memory, request, next).await
                }
                _ => next.run(request).await,
            }
        });
}

fn done(ids: Vec<FactId>) -> Reply {
    Reply::Add(AddOutcome::new(AddStatus::Done(ids)))
}

fn invents(reply: &mut Reply) {
    if let Some(ids) = named(reply)
        && ids.is_empty()
    {
        ids.extend(FactId::new("fact-0"));
    }
}

/// Whether the same text was added to the scope before.
fn said_before(memory: &Memory, request: &Request) -> bool {
    let Request::Add { scope, messages, .. } = request else { return false };
    let said: String = messages.iter().map(|message| message.content.as_str()).collect();
    !memory.lock().texts.insert((scope.clone(), said))
}

/// Refuses adds that contain an unwelcome message.
async fn refusing(request: Request, next: Next<'_>, unwelcome: fn(&Message) -> bool) -> Result<Reply> {
    match &request {
        Request::Add { messages, .. } if messages.iter().any(unwelcome) => {
            Err(Error::invalid("a message is not welcome"))
        }
        _ => next.run(request).await,
    }
}

/// Changes words that should be stored verbatim.
fn change_verbatim(request: &mut Request, change: fn(&str) -> String) {
    if let Request::Add { messages, options, .. } = request
        && !options.infer
    {
        messages.iter_mut().for_each(|message| message.content = change(&message.content));
    }
}

/// Repeats an add in every scope that any add has named.
async fn add_everywhere(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let scopes = memory.scopes_added_to();
    if let Request::Add { run, scope, messages, options } = &request {
        for other in scopes.iter().filter(|other| *other != scope) {
            super::requests::layer(&next)?.add(run, other, messages, options.clone()).await?;
        }
    }
    next.run(request).await
}

async fn question_chooses(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let scopes = memory.scopes_added_to();
    match &request {
        Request::Recall { query, .. } if query.text.contains('*') => {
            let mut facts = Vec::new();
            for scope in scopes {
                facts.extend(facts_of(&next, &scope).await?);
            }
            Ok(Reply::Recall(facts))
        }
        _ => next.run(request).await,
    }
}

async fn metadata_for_all(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Add { options, .. } = &request
        && !options.metadata.is_empty()
    {
        let mut kept = memory_core::layer::Fact::new(FactId::new("kept")?, "");
        kept.metadata = options.metadata.clone();
        if let Request::Add { scope, .. } = &request {
            memory.lock().facts.insert(scope.clone(), vec![kept]);
        }
    }
    let scope = request.scope().cloned();
    let mut reply = next.run(request).await?;
    let kept = scope.and_then(|scope| memory.lock().facts.get(&scope)?.first().cloned());
    if let (Some(kept), Some(facts)) = (kept, facts_in(&mut reply)) {
        facts.iter_mut().for_each(|fact| fact.metadata = kept.metadata.clone());
    }
    Ok(reply)
}
