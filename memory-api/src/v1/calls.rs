//! `POST /v1/ops/{op}`: one operation.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use memory_core::interposed::frames::{self, Item};
use memory_core::{Error, Op, Reply, Request, Result};

use super::access;
use super::api::{Api, decoded, written};
use super::body;
use super::idempotency::{Answer, Write, key_of};
use crate::caller::Caller;
use crate::refusal::{json, refused};

/// The type of a stream's body.
const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// The handler.
pub(super) async fn call(
    api: &Arc<Api>,
    caller: Arc<Caller>,
    name: &str,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let answer = async {
        let op = api.op(&decoded(name)?)?;
        match op {
            Op::ImportScope | Op::Restore => receive(api, &caller, op, body).await,
            Op::ExportScope | Op::Dump => send(api, &caller, op, body).await,
            _ => {
                let arguments = body::text(body).await?;
                let request = Request::from_json(op, &arguments)?;
                let key = key_of(headers, &caller, op);
                let tenant = access::tenant_of(&request);
                let write = Write::new(key, &caller, tenant, &[op.as_str(), &arguments])?;
                drop(arguments);
                let run = {
                    let (api, caller) = (Arc::clone(api), Arc::clone(&caller));
                    async move { api.call(&caller, request).await.map(Answer::ok) }
                };
                api.replies.once(write, run).await
            }
        }
    };
    answer.await.unwrap_or_else(|error: Error| refused(&error))
}

/// An operation that takes a stream; the first line holds its arguments.
async fn receive(api: &Api, caller: &Caller, op: Op, body: Body) -> Result<Response> {
    let (arguments, lines) = body::lines(body).await?;
    let mut request = Request::from_json(op, &arguments)?;
    match &mut request {
        Request::ImportScope { records, .. } => *records = Box::pin(frames::Read::of_request(lines)),
        Request::Restore { dump, .. } => *dump = Box::pin(frames::Read::of_request(lines)),
        _ => {}
    }
    written(&api.run(caller, request).await?).map(|text| json(StatusCode::OK, text))
}

/// An operation that returns a stream.
async fn send(api: &Api, caller: &Caller, op: Op, body: Body) -> Result<Response> {
    let request = Request::from_json(op, &body::text(body).await?)?;
    match api.run(caller, request).await? {
        Reply::ExportScope(records) => Ok(stream(frames::Written::new(None, records))),
        Reply::Dump(dump) => Ok(stream(frames::Written::new(None, dump))),
        reply => written(&reply).map(|text| json(StatusCode::OK, text)),
    }
}

fn stream<T: Item>(lines: frames::Written<T>) -> Response {
    let mut response = Response::new(Body::from_stream(body::Written(lines)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, NDJSON);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
