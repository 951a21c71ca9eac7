//! `/v1/tenants/{tenant}/{kind}/{id}/entries/{key}`: one entry, with its version as `ETag`.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use memory_core::{
    DeleteOptions, Error, ErrorKind, Expect, GetOptions, Json, Key, Op, Reply, Request, Result, Scope,
    SetOptions,
};
use serde::Serialize;

use super::api::{Api, decoded};
use super::body;
use super::idempotency::{Answer, Write, key_of, tagged};
use crate::body::only;
use crate::caller::Caller;
use crate::refusal::{json, refused, refused_as};

/// How many bytes a reply usually has around an entry's value.
const AROUND_VALUE: usize = 300;

/// Tenant, kind, id and key, as in the path.
type Place<'a> = [&'a str; 4];

/// The entry that a path names.
fn entry([tenant, kind, id, key]: Place<'_>) -> Result<(Scope, Key)> {
    let scope = Scope::new(decoded(tenant)?.parse()?, decoded(kind)?.parse()?, decoded(id)?.parse()?);
    Ok((scope, Key::new(decoded(key)?)?))
}

/// `If-Match: "7"` and `If-None-Match: *` as an expectation.
fn expectation(headers: &HeaderMap) -> Result<Expect> {
    match (only(headers, header::IF_MATCH)?, only(headers, header::IF_NONE_MATCH)?) {
        (None, None) => Ok(Expect::Any),
        (None, Some("*")) => Ok(Expect::Absent),
        (Some(tag), None) => version(tag).map(Expect::Version),
        _ => Err(Error::invalid("send one of `If-Match: \"VERSION\"` and `If-None-Match: *`")),
    }
}

fn version(tag: &str) -> Result<u64> {
    if tag == "*" {
        return Err(Error::invalid(
            "a write is conditional on one version: read the entry, and send the version as `If-Match: \"7\"`",
        ));
    }
    tag.strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .and_then(|number| number.parse().ok())
        // A tag has only one spelling: not "07" or "+7".
        .filter(|version| tag_of(*version) == tag)
        .ok_or_else(|| Error::invalid("an entry's tag is its version in quotes, as \"7\""))
}

fn tag_of(version: u64) -> String {
    format!("\"{version}\"")
}

/// Whether `If-None-Match` names this version, in a list or weakened by a proxy that compresses.
fn names(tags: &str, version: u64) -> bool {
    let own = tag_of(version);
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == own)
}

fn written(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(formless)
}

fn formless(error: serde_json::Error) -> Error {
    Error::internal("a reply has no JSON form").with_source(error)
}

fn unexpected() -> Error {
    Error::internal("the memory answered another operation")
}

/// The conditions of a read: the tags that the client knows, and the version it wants.
type Conditions<'a> = (Option<&'a str>, Option<u64>);

fn conditions(headers: &HeaderMap) -> Result<Conditions<'_>> {
    let known = only(headers, header::IF_NONE_MATCH)?;
    // `*` is any version.
    let wanted = only(headers, header::IF_MATCH)?.filter(|tag| *tag != "*").map(version).transpose()?;
    Ok((known, wanted))
}

/// The handler of GET. Its future is kept small, because every call around it copies it.
pub(super) async fn get(api: &Api, caller: &Caller, place: Place<'_>, headers: &HeaderMap) -> Response {
    let answer = match entry(place).and_then(|entry| Ok((entry, conditions(headers)?))) {
        Ok(((scope, key), conditions)) => {
            let request = Request::Get { scope, key, options: GetOptions::default() };
            api.run(caller, request).await.and_then(|reply| found(reply, conditions))
        }
        Err(error) => Err(error),
    };
    answer.unwrap_or_else(|error| refused_by(headers, &error))
}

fn found(reply: Reply, (known, wanted): Conditions<'_>) -> Result<Response> {
    let Reply::Get(found) = reply else { return Err(unexpected()) };
    let found =
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no live entry under this key"))?;
    if wanted.is_some_and(|wanted| wanted != found.version) {
        let message = format!("the entry has version {}, another than `If-Match` names", found.version);
        return Err(Error::new(ErrorKind::Conflict, message));
    }
    if known.is_some_and(|tags| names(tags, found.version)) {
        return Ok(tagged(json(StatusCode::NOT_MODIFIED, ""), found.version));
    }
    let mut text = Vec::with_capacity(found.value.len_bytes() + AROUND_VALUE);
    serde_json::to_writer(&mut text, &found).map_err(formless)?;
    Ok(tagged(json(StatusCode::OK, text), found.version))
}

/// The handler of PUT: the body is the value. Metadata, source and text are removed, and the expiry is kept.
pub(super) async fn put(
    api: &Arc<Api>,
    caller: Arc<Caller>,
    place: Place<'_>,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let answer = async {
        let (scope, key) = entry(place)?;
        let options = SetOptions::default().with_expect(expectation(headers)?);
        let text = body::text(body).await?;
        let value: Json = text.parse().map_err(Error::from)?;
        let write = once(headers, &caller, Op::Set, (&scope, &key), &text)?;
        let request = Request::Set { scope, key, value, options };
        let run = written_by(api, caller, request);
        api.replies.once(write, run).await
    };
    answer.await.unwrap_or_else(|error| refused_by(headers, &error))
}

/// The handler of DELETE.
pub(super) async fn delete(
    api: &Arc<Api>,
    caller: Arc<Caller>,
    place: Place<'_>,
    headers: &HeaderMap,
) -> Response {
    let answer = async {
        let (scope, key) = entry(place)?;
        let options = DeleteOptions::expecting(expectation(headers)?);
        let write = once(headers, &caller, Op::Delete, (&scope, &key), "")?;
        let request = Request::Delete { scope, key, options };
        let run = written_by(api, caller, request);
        api.replies.once(write, run).await
    };
    answer.await.unwrap_or_else(|error| refused_by(headers, &error))
}

/// The write, if it has an idempotency key. Its conditions are part of what a repeat must match.
fn once(
    headers: &HeaderMap,
    caller: &Caller,
    op: Op,
    (scope, key): (&Scope, &Key),
    value: &str,
) -> Result<Option<Write>> {
    let conditions = [header::IF_MATCH, header::IF_NONE_MATCH].map(|name| headers.get(name));
    let conditions = format!("{conditions:?}");
    let Scope { tenant, kind, id } = scope;
    let place = [tenant.as_str(), kind.as_str(), id.as_str(), key.as_str()];
    let parts = [&place[..], &[op.as_str(), conditions.as_str(), value]].concat();
    Write::new(key_of(headers, caller, op), caller, Some(tenant), &parts)
}

/// Does a write.
fn written_by(
    api: &Arc<Api>,
    caller: Arc<Caller>,
    request: Request,
) -> impl Future<Output = Result<Answer>> + Send + use<> {
    let api = Arc::clone(api);
    async move {
        match api.run(&caller, request).await? {
            Reply::Set(outcome) => {
                let status = if outcome.created { StatusCode::CREATED } else { StatusCode::OK };
                Ok(Answer::new(status, written(&outcome)?).tagged(outcome.version))
            }
            Reply::Delete(outcome) => Ok(Answer::ok(written(&outcome)?)),
            _ => Err(unexpected()),
        }
    }
}

/// A conflict with a condition in the headers is 412. A conflict over an `Idempotency-Key` is not worth retrying.
fn refused_by(headers: &HeaderMap, error: &Error) -> Response {
    let conditional = headers.contains_key(header::IF_MATCH) || headers.contains_key(header::IF_NONE_MATCH);
    if conditional && error.kind() == ErrorKind::Conflict && error.retry().is_retryable() {
        return refused_as(StatusCode::PRECONDITION_FAILED, error);
    }
    refused(error)
}
