//! `POST /v1/batch`: several operations in one request, each answered separately, in order.

use std::sync::Arc;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use memory_core::{Error, ErrorKind, Op, Request, Result, json};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::api::Api;
use super::body;
use super::idempotency::{Answer, Write, key_of};
use crate::caller::Caller;
use crate::recording::Reads;
use crate::refusal::{self, refused};

/// Most operations of one batch.
const MOST: usize = 100;
/// Once the replies reach this many bytes, the remaining operations are not run.
const MAX_REPLY_BYTES: usize = 64 << 20;

/// One operation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `op` and `arguments`")]
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
        let calls = read(&text)?;
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

/// The operations of a body.
fn read(text: &str) -> Result<Vec<Call>> {
    let refused =
        |why: String| Error::invalid(format!("a batch is an array of {{\"op\", \"arguments\"}}: {why:.200}"));
    let unread = |error: serde_json::Error| refused(error.to_string()).with_source(error);
    let calls = serde_json::from_str::<Vec<&RawValue>>(text).map_err(unread)?;
    let call = |(index, call): (usize, &&RawValue)| {
        json::from_str(call.get()).map_err(|error| unread(error).with_detail("index", index))
    };
    calls.iter().enumerate().map(call).collect()
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
    use memory::system::SystemClock;
    use memory::{Memory, Policy};
    use memory_conformance::reference::Reference;
    use memory_core::{Provider as _, ScopeKind};

    use super::*;
    use crate::caller::Grant;
    use crate::v1::tools::Tools;

    #[test]
    fn an_operation_is_an_object_and_the_wrong_one_is_named() {
        let fine = r#"{"op":"get","arguments":{}}"#;
        assert_eq!(read(&format!("[{fine},{fine}]")).unwrap().len(), 2);
        for wrong in [r#"["get",{}]"#, r#"{"op":"get"}"#, r#"{"op":"get","arguments":{},"x":1}"#, "1"] {
            let error = read(&format!("[{fine},{wrong}]")).err().unwrap();
            assert_eq!(
                (error.kind(), &error.details()["index"]),
                (ErrorKind::InvalidArgument, &1.into()),
                "{wrong}"
            );
        }
    }

    #[tokio::test]
    async fn what_the_store_does_not_serve_is_refused_alone() {
        let memory = Memory::new(Arc::new(Reference::new(Arc::new(SystemClock)))).unwrap();
        assert!(!memory.capabilities().sql && memory.capabilities().kv);
        let api = Api::new(memory, None, Tools::default());
        let policy = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
        let caller = Caller::new("t-1".into(), Grant::default(), &policy, Arc::default());
        let calls = r#"[
            {"op":"set","arguments":{"scope":{"tenant":"t","kind":"agent","id":"a"},"key":"k","value":1}},
            {"op":"begin","arguments":{"run":{"tenant":"t","agent":"a","run":"r"},"scope":{"tenant":"t","kind":"agent","id":"a"}}},
            {"op":"get","arguments":{"scope":{"tenant":"t","kind":"agent","id":"a"},"key":"k"}}
        ]"#;
        let answers = all(&api, &caller, &read(calls).unwrap()).await;
        let answers: serde_json::Value = serde_json::from_str(&answers).unwrap();
        assert_eq!(answers[0]["reply"]["written"], true, "{answers}");
        assert_eq!(answers[1]["error"]["code"], "capability_unsupported", "{answers}");
        assert_eq!(answers[2]["reply"]["value"], 1, "{answers}");
    }

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
