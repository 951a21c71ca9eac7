//! The provider before servers that misbehave.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests panic on anything unexpected")]

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{
    Capabilities, Error, ErrorKind, ImportOptions, Json, Key, ListQuery, Provider as _, Scope, SetOptions,
    record_stream,
};
use memory_fakes::http::{CountingIds, FixedClock, Server, Step, head, json, reply};
use memory_remote::{RemoteOptions, RemoteProvider};
use serde_json::json;

/// A server that answers each operation with these steps, and a provider whose deadlines are short.
async fn answering(steps: Vec<Step>) -> (Server, RemoteProvider) {
    let mut capabilities = Capabilities::none();
    capabilities.kv = true;
    let served = json!({ "provider": "fake", "capabilities": capabilities });
    let server = Server::start(
        move |_, request| {
            if request.head.starts_with("GET ") { json(&served) } else { steps.clone() }
        },
    )
    .await;
    let mut options = RemoteOptions::new(server.url(""));
    (options.timeout_ms, options.write_timeout_ms, options.stream_timeout_ms) = (5_000, 60_000, 500);
    let ids = Arc::new(CountingIds::default());
    let remote = memory_remote::open(options, server.policy(), Arc::new(FixedClock), ids).await.unwrap();
    (server, remote)
}

fn scope() -> Scope {
    Scope::agent("acme", "planner").unwrap()
}

async fn set(remote: &RemoteProvider) -> Error {
    let value = Json::parse("1").unwrap();
    let backend = remote.backend().unwrap();
    backend.set(&scope(), &Key::new("k").unwrap(), value, SetOptions::default()).await.unwrap_err()
}

async fn list(remote: &RemoteProvider) -> Error {
    remote.backend().unwrap().list(&scope(), ListQuery::default()).await.unwrap_err()
}

async fn import(remote: &RemoteProvider) -> Error {
    let records = record_stream(std::iter::empty());
    remote.backend().unwrap().import_scope(&scope(), records, ImportOptions::default()).await.unwrap_err()
}

/// The error that ends an export.
async fn export(remote: &RemoteProvider) -> Error {
    let mut records = match remote.backend().unwrap().export_scope(&scope()).await {
        Ok(records) => records,
        Err(error) => return error,
    };
    loop {
        match poll_fn(|context| records.as_mut().poll_next(context)).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return error,
            None => panic!("an export ended in good order"),
        }
    }
}

#[tokio::test]
async fn a_url_without_a_token_is_told_where_to_name_it() {
    let refused = r#"{"error":{"code":"unauthenticated","message":"a token is needed: send `Authorization: …`","retryable":false}}"#;
    let server =
        Server::start(move |_, _| reply(401, &[("Content-Type", "application/json")], refused.as_bytes()))
            .await;
    let (options, ids) = (RemoteOptions::new(server.url("")), Arc::new(CountingIds::default()));
    let opened = memory_remote::open(options, server.policy(), Arc::new(FixedClock), ids).await;
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(error.message().contains("?api_key=env:MEMORY_TOKEN"), "{error}");
}

#[tokio::test]
async fn a_write_whose_reply_cannot_be_read_is_unknown() {
    for (what, body) in [("{}", "{}"), ("null", "null"), ("a list", "[]"), ("half", r#"{"entry":{"ke"#)] {
        let (server, remote) = answering(reply(200, &[], body.as_bytes())).await;
        for error in [set(&remote).await, import(&remote).await] {
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{what}: {error:?}");
            assert!(!error.retry().is_retryable(), "{what}");
        }
        let requests = server.count();
        let error = list(&remote).await;
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error:?}");
        assert!(server.count() > requests);
    }
    let (_server, remote) = answering(reply(200, &[("Content-Type", "text/html")], b"<html>")).await;
    for (error, kind) in [
        (set(&remote).await, ErrorKind::OutcomeUnknown),
        (import(&remote).await, ErrorKind::OutcomeUnknown),
        (list(&remote).await, ErrorKind::Unavailable),
    ] {
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.message().contains("HTML page"), "{error}");
    }
}

#[tokio::test]
async fn a_stream_ends_though_its_server_drips_or_is_silent() {
    let slow = Duration::from_millis(100);
    for (what, status, body) in [
        ("a reply", 200, Step::Drip(vec![b' '; 1_000], slow)),
        ("a refusal", 503, Step::Drip(vec![b' '; 1_000], slow)),
        ("silence", 200, Step::Stall),
    ] {
        let begin = head(&format!("HTTP/1.1 {status} Whatever\nContent-Length: 1000\n\n"));
        let (_server, remote) = answering(vec![begin, body]).await;
        for (op, error) in [("import", import(&remote).await), ("export", export(&remote).await)] {
            let kind = if op == "import" { ErrorKind::OutcomeUnknown } else { ErrorKind::Timeout };
            assert_eq!(error.kind(), kind, "{what} to {op}: {error:?}");
        }
    }
    let begin = Instant::now();
    let (_server, remote) = answering(vec![Step::Stall]).await;
    assert_eq!(export(&remote).await.kind(), ErrorKind::Timeout);
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}
