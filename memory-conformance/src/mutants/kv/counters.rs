//! INC, UPD: counters and reducers.

use memory_core::json::{JsonKind, semantic_eq};
use memory_core::reduce::reduce;
use memory_core::{
    Entry, Error, ErrorKind, IncrementOutcome, Json, Next, Reducer, Reply, Request, Result, Scope,
    SetOptions, Ttl, UpdateOutcome,
};
use serde_json::value::RawValue;

use super::versions::overwrite;
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{as_stored, kv, let_others_in, peek};

mutants! {
    |memory, request, next|
    "increment.wraps": ["INC-4"], "a sum beyond 64 bits wraps"
        => around(increment_instead(request, next, ErrorKind::InvalidArgument, |entry, delta| {
            entry.value.as_i64_exact().map(|value| value.wrapping_add(delta))
        }).await);
    "increment.saturates": ["INC-4"], "a sum beyond 64 bits saturates"
        => around(increment_instead(request, next, ErrorKind::InvalidArgument, |entry, delta| {
            entry.value.as_i64_exact().map(|value| value.saturating_add(delta))
        }).await);
    "increment.wrong-type-restarts": ["INC-3"], "a value that is not an integer counts as 0"
        => around(increment_instead(request, next, ErrorKind::WrongType, |_, delta| Some(delta)).await);
    "increment.takes-floats": ["INC-3"], "1.0 is accepted as an integer" => around(takes_floats);
    "increment.takes-text": ["INC-3"], "\"1\" is accepted as an integer"
        => around(increment_instead(request, next, ErrorKind::WrongType, |entry, delta| {
            Some(entry.value.as_str().trim_matches('"').parse::<i64>().ok()? + delta)
        }).await);
    "increment.drops-metadata": ["INC-5"], "an increment drops metadata and source"
        => over(Request::Increment { scope, key, delta, options } => {
            let mut outcome = kv(&next)?.increment(&scope, &key, delta, options).await?;
            outcome.version =
                kv(&next)?.set(&scope, &key, Json::from(outcome.value), SetOptions::default()).await?.version;
            Ok(Reply::Increment(outcome))
        });
    "increment.races": ["INC-6", "CON-1"], "reads, adds and writes in three steps" => around(increment_races);
    "increment.absent-ignores-delta": ["INC-1"], "an absent key starts at 1"
        => ask(Request::Increment { scope, key, delta, .. } if peek(&next, scope, key).await?.is_none() => *delta = 1);
    "merge.null-deletes": ["UPD-1"], "null in a patch removes the member"
        => around(rewritten(request, next, is_merge, |_, _, outcome| {
            let mut members = members(&outcome.value)?;
            let all = members.len();
            members.retain(|(_, value)| value != "null");
            if members.len() < all { object(&members) } else { None }
        }).await);
    "merge.shallow": ["UPD-1"], "only the outermost members are merged" => around(shallow);
    "merge.reformats": ["UPD-2"], "untouched members are reformatted"
        => around(rewritten(request, next, is_merge, |_, _, outcome| {
            Json::parse(String::from_utf8(outcome.value.canonical_bytes()).ok()?).ok()
        }).await);
    "append.equal-as-floats": ["UPD-3"], "neighbouring integers beyond 2^53 count as equal" => around(equal_as_floats);
    "append.equal-as-text": ["UPD-3"], "1 and 1.0 count as different" => around(equal_as_text);
    "append.always-appended": ["UPD-3"], "every append reports that it appended"
        => answer(Reply::Update(outcome) if outcome.appended.is_some() => outcome.appended = Some(true));
    "bounded.trims-tail": ["UPD-4"], "the newest items are dropped" => around(trims_tail);
    "bounded.one-too-many": ["UPD-4"], "one item more than the limit is kept"
        => ask(Request::Update { reducer: Reducer::BoundedList { limit, .. }, .. } => *limit += 1);
    "bounded.dropped-untold": ["UPD-4"], "the number of dropped items is missing"
        => answer(Reply::Update(outcome) => outcome.dropped = 0);
    "update.drops-metadata": ["UPD-9"], "an update drops metadata and source"
        => around(stored_again(request, next, |entry| {
            let mut options = SetOptions::default();
            options.text = entry.text.clone();
            options
        }).await);
    "update.drops-text": ["UPD-9"], "an update drops the explicit text"
        => around(stored_again(request, next, |entry| {
            let mut options = as_stored(entry);
            options.text = None;
            options
        }).await);
    "update.unchanged-keeps-version": ["UPD-9"], "an update that changes nothing does not write"
        => over(Request::Update { scope, key, reducer, options } => {
            if let Some(old) = peek(&next, &scope, &key).await?
                && let Ok(reduced) = reduce(Some(&old.value), &reducer)
                && !reduced.changed
            {
                let mut outcome = UpdateOutcome::new(old.value, old.version, old.expires_at);
                (outcome.appended, outcome.dropped) = (reduced.appended, reduced.dropped);
                return Ok(Reply::Update(outcome));
            }
            Ok(Reply::Update(kv(&next)?.update(&scope, &key, reducer, options).await?))
        });
    "update.wrong-type-replaces": ["UPD-6"], "a value of the wrong type is replaced"
        => over(Request::Update { scope, key, reducer, options } => {
            match kv(&next)?.update(&scope, &key, reducer.clone(), options).await {
                Err(error) if error.kind() == ErrorKind::WrongType => {
                    let value = reduce(None, &reducer)?.value;
                    let version = overwrite(&next, &scope, &key, value.clone()).await?;
                    Ok(Reply::Update(UpdateOutcome::new(value, version, None)))
                }
                result => result.map(Reply::Update),
            }
        });
    "update.one-byte-less": ["UPD-8"], "a result of exactly the limit is refused" => around({
        let max = next.provider().capabilities().max_value_bytes;
        match next.run(request).await? {
            Reply::Update(outcome) if outcome.value.len_bytes() == max => {
                Err(Error::too_large("value", max, max - 1, "bytes"))
            }
            reply => Ok(reply),
        }
    });
    "update.too-large-stored": ["UPD-8"], "a result over the limit is stored as null"
        => over(Request::Update { scope, key, reducer, options } => {
            match kv(&next)?.update(&scope, &key, reducer, options).await {
                Err(error) if error.kind() == ErrorKind::TooLarge => {
                    let version = overwrite(&next, &scope, &key, Json::null()).await?;
                    Ok(Reply::Update(UpdateOutcome::new(Json::null(), version, None)))
                }
                result => result.map(Reply::Update),
            }
        });
    "update.races": ["UPD-7"], "reads, reduces and writes in three steps" => around(update_races);
    "update.absent-refused": ["UPD-5"], "an absent key cannot be updated"
        => instead(Request::Update { scope, key, .. } if peek(&next, scope, key).await?.is_none()
            => Err(Error::new(ErrorKind::NotFound, "there is nothing to update; set the key first")));
}

async fn stored_as(next: &Next<'_>, scope: &Scope, key: &memory_core::Key, value: i64) -> Result<Reply> {
    let version = overwrite(next, scope, key, Json::from(value)).await?;
    Ok(Reply::Increment(IncrementOutcome::new(value, version, None)))
}

/// Replaces an increment that failed with this kind of error: stores the result of `instead` for the entry.
async fn increment_instead(
    request: Request,
    next: Next<'_>,
    kind: ErrorKind,
    instead: fn(&Entry, i64) -> Option<i64>,
) -> Result<Reply> {
    let Request::Increment { scope, key, delta, options } = request else { return next.run(request).await };
    match kv(&next)?.increment(&scope, &key, delta, options).await {
        Err(error) if error.kind() == kind => {
            let entry = peek(&next, &scope, &key).await?;
            match entry.and_then(|entry| instead(&entry, delta)) {
                Some(value) => stored_as(&next, &scope, &key, value).await,
                None => Err(error),
            }
        }
        result => result.map(Reply::Increment),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the looseness is the mutant")]
async fn takes_floats(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    increment_instead(request, next, ErrorKind::WrongType, |entry, delta| {
        let value: f64 = entry.value.as_str().parse().ok()?;
        (value.fract() == 0.0).then_some(value as i64 + delta)
    })
    .await
}

async fn increment_races(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Increment { scope, key, delta, options } = request else { return next.run(request).await };
    let old = peek(&next, &scope, &key).await?;
    let Some(value) = old
        .as_ref()
        .map_or(Some(0), |old| old.value.as_i64_exact())
        .and_then(|value| value.checked_add(delta))
    else {
        return Ok(Reply::Increment(kv(&next)?.increment(&scope, &key, delta, options).await?));
    };
    let_others_in();
    let mut set = old.as_ref().map(as_stored).unwrap_or_default().with_ttl(options.ttl);
    set.quota = options.quota;
    let outcome = kv(&next)?.set(&scope, &key, Json::from(value), set).await?;
    Ok(Reply::Increment(IncrementOutcome::new(value, outcome.version, outcome.expires_at)))
}

/// Rewrites what an update of one kind stored.
async fn rewritten(
    request: Request,
    next: Next<'_>,
    is_meant: fn(&Reducer) -> bool,
    rewrite: impl Fn(Option<&Json>, &Reducer, &UpdateOutcome) -> Option<Json> + Send + Sync,
) -> Result<Reply> {
    let Request::Update { scope, key, reducer, options } = request else { return next.run(request).await };
    let old = peek(&next, &scope, &key).await?;
    let mut outcome = kv(&next)?.update(&scope, &key, reducer.clone(), options).await?;
    if is_meant(&reducer)
        && let Some(value) = rewrite(old.as_ref().map(|old| &old.value), &reducer, &outcome)
        && value != outcome.value
    {
        outcome.version = overwrite(&next, &scope, &key, value.clone()).await?;
        outcome.value = value;
    }
    Ok(Reply::Update(outcome))
}

fn is_merge(reducer: &Reducer) -> bool {
    matches!(reducer, Reducer::Merge(_))
}

/// The members of an object in order, values as text; `None` if it is not an object.
fn members(value: &Json) -> Option<Vec<(String, String)>> {
    struct Members(Vec<(String, String)>);
    impl<'de> serde::Deserialize<'de> for Members {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Members;
                fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(
                    self,
                    mut map: A,
                ) -> std::result::Result<Members, A::Error> {
                    let mut members = Vec::new();
                    while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                        members.push((name, value.get().to_owned()));
                    }
                    Ok(Members(members))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    (value.kind() == JsonKind::Object)
        .then(|| serde_json::from_str::<Members>(value.as_str()).ok())?
        .map(|all| all.0)
}

fn object(members: &[(String, String)]) -> Option<Json> {
    let inside: Vec<String> =
        members.iter().map(|(name, value)| format!("{}:{value}", Json::string(name).as_str())).collect();
    Json::parse(format!("{{{}}}", inside.join(","))).ok()
}

fn elements(value: &Json) -> Option<Vec<Json>> {
    let raw: Vec<Box<RawValue>> = serde_json::from_str(value.as_str()).ok()?;
    raw.into_iter().map(|raw| Json::parse(raw.get()).ok()).collect()
}

fn array(elements: &[Json]) -> Option<Json> {
    let inside: Vec<&str> = elements.iter().map(Json::as_str).collect();
    Json::parse(format!("[{}]", inside.join(","))).ok()
}

async fn shallow(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    rewritten(request, next, is_merge, |old, reducer, _| {
        let Reducer::Merge(patch) = reducer else { return None };
        let (mut members, patch) = (members(old?)?, members(patch)?);
        for (name, value) in patch {
            match members.iter_mut().find(|(other, _)| *other == name) {
                Some(member) => member.1 = value,
                None => members.push((name, value)),
            }
        }
        let merged = object(&members)?;
        // Only if the result differs in meaning.
        let deep = reduce(old, reducer).ok()?;
        (!semantic_eq(&merged, &deep.value)).then_some(merged)
    })
    .await
}

async fn equal_as_floats(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Update { scope, key, reducer, options } = request else { return next.run(request).await };
    if let Reducer::AppendDedupe(item) = &reducer
        && let Some(old) = peek(&next, &scope, &key).await?
        && let (Some(elements), Ok(number)) = (elements(&old.value), item.as_str().parse::<f64>())
        && elements.iter().any(|element| element.as_str().parse::<f64>() == Ok(number))
    {
        let mut outcome = UpdateOutcome::new(old.value, old.version, old.expires_at);
        outcome.appended = Some(false);
        return Ok(Reply::Update(outcome));
    }
    Ok(Reply::Update(kv(&next)?.update(&scope, &key, reducer, options).await?))
}

async fn equal_as_text(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Update { scope, key, reducer, options } = request else { return next.run(request).await };
    let mut outcome = kv(&next)?.update(&scope, &key, reducer.clone(), options).await?;
    if let Reducer::AppendDedupe(item) = reducer
        && outcome.appended == Some(false)
        && let Some(mut elements) = elements(&outcome.value)
        && !elements.contains(&item)
    {
        elements.push(item);
        if let Some(value) = array(&elements) {
            outcome.version = overwrite(&next, &scope, &key, value.clone()).await?;
            (outcome.value, outcome.appended) = (value, Some(true));
        }
    }
    Ok(Reply::Update(outcome))
}

async fn trims_tail(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    rewritten(
        request,
        next,
        |reducer| matches!(reducer, Reducer::BoundedList { .. }),
        |old, reducer, outcome| {
            let Reducer::BoundedList { item, limit } = reducer else { return None };
            let mut all = old.map_or(Some(Vec::new()), elements)?;
            all.push(item.clone());
            all.truncate(*limit);
            (outcome.dropped > 0).then(|| array(&all))?
        },
    )
    .await
}

/// Stores the result of an update once more, with other options.
async fn stored_again(
    request: Request,
    next: Next<'_>,
    options_of: fn(&Entry) -> SetOptions,
) -> Result<Reply> {
    let Request::Update { scope, key, reducer, options } = request else { return next.run(request).await };
    let mut outcome = kv(&next)?.update(&scope, &key, reducer, options).await?;
    if let Some(entry) = peek(&next, &scope, &key).await? {
        let options = options_of(&entry).with_ttl(Ttl::Keep);
        outcome.version = kv(&next)?.set(&scope, &key, entry.value, options).await?.version;
    }
    Ok(Reply::Update(outcome))
}

async fn update_races(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Update { scope, key, reducer, options } = request else { return next.run(request).await };
    let old = peek(&next, &scope, &key).await?;
    let reduced = match reduce(old.as_ref().map(|old| &old.value), &reducer) {
        Ok(reduced) if reduced.value.len_bytes() <= next.provider().capabilities().max_value_bytes => reduced,
        _ => return Ok(Reply::Update(kv(&next)?.update(&scope, &key, reducer, options).await?)),
    };
    let_others_in();
    let mut set = old.as_ref().map(as_stored).unwrap_or_default().with_ttl(options.ttl);
    set.quota = options.quota;
    let written = kv(&next)?.set(&scope, &key, reduced.value.clone(), set).await?;
    let mut outcome = UpdateOutcome::new(reduced.value, written.version, written.expires_at);
    (outcome.appended, outcome.dropped, outcome.embedding) =
        (reduced.appended, reduced.dropped, written.embedding);
    Ok(Reply::Update(outcome))
}
