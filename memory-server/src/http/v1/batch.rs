//! `POST /v1/batch`: several operations in one request, each answered by itself, in order.

use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use memory_core::{Error, ErrorKind, Op, Request, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::api::Api;
use super::body;
use super::idempotency::{Answer, Write, key_of};
use crate::http::caller::Caller;
use crate::http::recording::Reads;
use crate::http::refusal::{self, refused};

/// Most operations of one batch.
const MOST: usize = 100;
/// Once the replies have this many bytes, further operations are not done.
const MAX_REPLY_BYTES: usize = 64 << 20;

/// One operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    op: String,
    arguments: Box<RawValue>,
}

/// The handler.
pub(super) async fn run(
    api: &Arc<Api>,
    caller: Arc<Caller>,
    reads: &Reads,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let answer = async {
        let text = body::text(body).await?;
        let calls = serde_json::from_str::<Vec<Call>>(&text).map_err(|error| {
            Error::invalid(format!(
                "a batch is an array of {{\"op\", \"arguments\"}}: {:.200}",
                error.to_string()
            ))
            .with_source(error)
        })?;
        if calls.len() > MOST {
            return Err(Error::too_large("batch", calls.len(), MOST, "operations"));
        }
        let ops = || calls.iter().filter_map(|call| api.op(&call.op).ok());
        reads.tell(ops().all(Op::is_read));
        let key = ops().filter_map(|op| key_of(headers, &caller, op)).next();
        let write = Write::new(key, &caller, None, &["batch", &text])?;
        drop(text);
        let run = {
            let api = Arc::clone(api);
            async move { Ok(Answer::ok(all(&api, &caller, &calls).await)) }
        };
        api.replies.once(write, run).await
    };
    answer.await.unwrap_or_else(|error| refused(&error))
}

async fn all(api: &Api, caller: &Caller, calls: &[Call]) -> String {
    let mut answers = String::from("[");
    for (index, call) in calls.iter().enumerate() {
        if index > 0 {
            answers.push(',');
        }
        match one(api, caller, call, answers.len()).await {
            Ok(reply) => answers.push_str(&format!("{{\"reply\":{reply}}}")),
            Err(error) => answers.push_str(&refusal::text(&error)),
        }
    }
    answers.push(']');
    answers
}

async fn one(api: &Api, caller: &Caller, call: &Call, answered: usize) -> Result<String> {
    if answered > MAX_REPLY_BYTES {
        return Err(Error::new(
            ErrorKind::ResultTooLarge,
            "the replies before this one fill the batch; it was not done, so send it in another batch",
        ));
    }
    let op = api.op(&call.op)?;
    if matches!(op, Op::ExportScope | Op::ImportScope | Op::Dump | Op::Restore) {
        return Err(Error::invalid(format!(
            "`{op}` is a stream and does not fit into a batch; send it by itself"
        )));
    }
    api.call(caller, Request::from_json(op, call.arguments.get())?).await
}

#[cfg(test)]
mod tests {
    use memory::Policy;

    use super::*;
    use crate::http::caller::Grant;
    use crate::http::v1::tools::Tools;

    #[tokio::test]
    async fn a_batch_tells_whether_it_only_reads() {
        let memory = memory::open("sqlite::memory:").await.unwrap();
        let api = Arc::new(Api::new(memory, None, Tools::default()));
        let caller = Caller::new("t-1".into(), Grant::default(), &Policy::default(), Arc::default());
        let caller = Arc::new(caller);
        for (ops, expected) in
            [(&["get", "list"][..], true), (&["get", "set"], false), (&["get", "no-op"], true)]
        {
            let calls: Vec<_> = ops.iter().map(|op| serde_json::json!({"op": op, "arguments": {}})).collect();
            let body = Body::from(serde_json::to_string(&calls).unwrap());
            let reads = Reads::new(false);
            run(&api, Arc::clone(&caller), &reads, &HeaderMap::new(), body).await;
            assert_eq!(reads.told(), expected, "{ops:?}");
        }
    }
}
