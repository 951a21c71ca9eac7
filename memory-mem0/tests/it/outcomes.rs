//! An add or a forget with an uncertain outcome: what is reported, and how often it is sent.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_core::layer::{AddOptions, AddStatus, FactId, FactsQuery, Forget, Message, RecallQuery, Role};
use memory_core::{ErrorKind, MemoryLayer as _, Retry, Scope};
use memory_mem0::{Mem0Options, Mem0Provider, remote_id};
use serde_json::{Value, json};

use crate::support::http::{Server, Step, builder, head, reply};
use crate::support::platform::Platform;
use crate::support::self_hosted::SelfHosted;
use crate::support::{ParsedRequest, options, provider, run_of, sent, serve};

const ID: &str = "ba1b5316-afa4-4bfd-9a2b-c5343f5f75d5";

fn scope() -> Scope {
    Scope::agent("acme", "planner").unwrap()
}

fn hosted() -> Mem0Options {
    Mem0Options::self_hosted("")
}

fn said(texts: &[&str]) -> Vec<Message> {
    texts.iter().map(|text| Message::new(Role::User, *text)).collect()
}

/// The number of requests with this method.
fn count(server: &Server, method: &str) -> usize {
    server.requests().iter().filter(|request| request.head.starts_with(method)).count()
}

/// A server that answers as the fake does, except where `changed` replaces the answer.
async fn answering(
    mut fake: SelfHosted,
    changed: impl Fn(&ParsedRequest) -> Option<(u16, Value)> + Send + 'static,
) -> Server {
    serve(Arc::new(Mutex::new(move |asked: &ParsedRequest| {
        let answer = fake.handle(asked);
        changed(asked).unwrap_or(answer)
    })))
    .await
}

async fn facts(memory: &Mem0Provider) -> usize {
    memory.facts(&run_of("acme"), &scope(), FactsQuery::default()).await.unwrap().facts.len()
}

#[tokio::test]
async fn a_partly_stored_verbatim_add_is_unknown_and_not_retried() {
    for mark in ["[[s429]]", "[[s500]]", "[[s401]]"] {
        let server = answering(SelfHosted::default(), |_| None).await;
        let memory = provider(&server, hosted());
        let texts = said(&["I live in Lisbon", mark, "I own a boat"]);
        let added = memory.add(&run_of("acme"), &scope(), &texts, AddOptions::default().verbatim()).await;
        assert_eq!((added.unwrap().status, count(&server, "POST")), (AddStatus::Unknown, 1), "{mark}");
        assert_eq!(facts(&memory).await, 1, "{mark}: the message before the failure is stored once");
    }
    // A single message is stored or not.
    let server = answering(SelfHosted::default(), |_| None).await;
    let memory = provider(&server, hosted());
    let added =
        memory.add(&run_of("acme"), &scope(), &said(&["[[s500]]"]), AddOptions::default().verbatim()).await;
    assert_eq!((added.unwrap_err().kind(), count(&server, "POST")), (ErrorKind::Unavailable, 3));
}

#[tokio::test]
async fn a_503_after_storing_is_an_unknown_outcome() {
    for status in [500, 502, 503, 504, 520] {
        let server = answering(SelfHosted::default(), move |asked| {
            (asked.path == ["memories"] && asked.method == "POST")
                .then(|| (status, json!({"detail": "proxy"})))
        })
        .await;
        let memory = provider(&server, hosted());
        let added =
            memory.add(&run_of("acme"), &scope(), &said(&["I live in Lisbon"]), AddOptions::default()).await;
        assert_eq!((added.unwrap().status, count(&server, "POST")), (AddStatus::Unknown, 1), "{status}");
        assert_eq!(facts(&memory).await, 1);
    }
}

#[tokio::test]
async fn a_rate_limited_call_is_retried_only_if_the_reply_says_when() {
    let limited = |headers: &[(&str, &str)]| {
        reply(502, headers, br#"{"detail": "limit", "code": "provider_rate_limited", "request_id": "0"}"#)
    };
    let run = run_of("acme");
    let server = Server::always(limited(&[])).await;
    let memory = provider(&server, hosted());
    let refused = memory.add(&run, &scope(), &said(&["x"]), AddOptions::default()).await.unwrap_err();
    assert_eq!((refused.kind(), server.count()), (ErrorKind::RateLimited, 1));
    let refused = memory.recall(&run, &scope(), RecallQuery::new("x")).await.unwrap_err();
    assert_eq!((refused.kind(), server.count()), (ErrorKind::RateLimited, 2));

    let server = Server::always(limited(&[("Retry-After", "7")])).await;
    let refused = provider(&server, hosted())
        .add(&run, &scope(), &said(&["x"]), AddOptions::default())
        .await
        .unwrap_err();
    assert_eq!((refused.kind(), server.count()), (ErrorKind::RateLimited, 3));
    assert_eq!(refused.retry(), Retry::After(Duration::from_secs(7)));
}

#[tokio::test]
async fn a_rejected_add_does_not_affect_later_adds() {
    let server = answering(SelfHosted::default(), |_| None).await;
    let memory = provider(&server, hosted());
    let run = run_of("acme");
    for _ in 0..6 {
        let added = memory.add(&run, &scope(), &said(&["[[s400]]"]), AddOptions::default()).await;
        assert!(added.unwrap_err().message().contains("rejects the request"));
    }
    memory.add(&run, &scope(), &said(&["I live in Lisbon"]), AddOptions::default()).await.unwrap();
    assert_eq!(facts(&memory).await, 1);
}

/// A server with one memory of the scope. It answers a delete with these steps and then has none.
async fn deleting(steps: Vec<Step>) -> Server {
    let row = json!({ "id": ID, "memory": "I live in Lisbon", "user_id": remote_id(&scope()) });
    let gone = Mutex::new(false);
    Server::start(move |_, request| {
        let mut gone = gone.lock().unwrap();
        if request.head.starts_with("DELETE") {
            *gone = true;
            return steps.clone();
        }
        let one = ParsedRequest::of(request).path.len() == 2;
        match (one, *gone) {
            (true, true) => sent(200, &Value::Null),
            (true, false) => sent(200, &row),
            (false, true) => sent(200, &json!({ "results": [] })),
            (false, false) => sent(200, &json!({ "results": [row] })),
        }
    })
    .await
}

/// A provider with these timeouts for a call and for a forget.
fn waiting(server: &Server, timeout_ms: u64, forget_timeout_ms: u64) -> Mem0Provider {
    let mut hosted = options(hosted(), &server.url(""));
    (hosted.timeout_ms, hosted.forget_timeout_ms) = (timeout_ms, forget_timeout_ms);
    Mem0Provider::with_client(hosted, builder(server.policy()).build().unwrap()).unwrap()
}

#[tokio::test]
async fn forgetting_everything_has_the_timeout_of_a_forget() {
    let done = reply(200, &[], br#"{"message": "deleted"}"#);
    let Step::Send(bytes) = done[0].clone() else { panic!("one step") };
    let server = deleting(vec![Step::Drip(bytes, Duration::from_millis(15))]).await;
    let memory = waiting(&server, 300, 60_000);
    let forgotten = memory.forget(&run_of("acme"), &scope(), Forget::All).await.unwrap();
    assert_eq!((forgotten.forgotten, count(&server, "DELETE")), (Some(1), 1));
    assert!(forgotten.remains[0].contains("last 10 messages"), "{forgotten:?}");
}

#[tokio::test]
async fn a_forget_without_a_reply_is_unknown_and_never_a_plain_timeout() {
    for (what, steps) in [
        ("silence", vec![Step::Stall]),
        ("a reset", vec![Step::Reset]),
        ("503", reply(503, &[], b"")),
        ("504", reply(504, &[], b"")),
        ("a reply of 200 MB", vec![head("HTTP/1.1 200 OK\nContent-Length: 200000000\n\n"), Step::Stall]),
    ] {
        for forget in [Forget::All, Forget::Ids(vec![FactId::new(ID).unwrap()])] {
            let server = deleting(steps.clone()).await;
            let memory = waiting(&server, 500, 900);
            let refused = memory.forget(&run_of("acme"), &scope(), forget.clone()).await;
            // If the call is retried, the retry finds that the memory is gone.
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{what} {forget:?}: {error:?}");
            assert!(!error.retry().is_retryable(), "{what}");
        }
    }
}

#[tokio::test]
async fn a_forget_that_the_platform_does_not_confirm_is_unknown() {
    for (what, steps) in [
        ("silence", vec![Step::Stall]),
        ("a reset", vec![Step::Reset]),
        ("401", reply(401, &[], b"")),
        ("503", reply(503, &[], b"")),
        ("a page for people", reply(200, &[("Content-Type", "text/html")], b"<html>")),
    ] {
        let fake = Mutex::new((Platform::default(), false));
        let server = Server::start(move |_, request| {
            let (fake, deleted) = &mut *fake.lock().unwrap();
            let asked = ParsedRequest::of(request);
            if *deleted {
                return steps.clone();
            }
            *deleted = asked.method == "DELETE";
            let (status, body) = fake.handle(&asked);
            sent(status, &body)
        })
        .await;
        let mut cloud = options(Mem0Options::platform(), &server.url(""));
        (cloud.timeout_ms, cloud.forget_timeout_ms) = (500, 5_000);
        let memory = Mem0Provider::with_client(cloud, builder(server.policy()).build().unwrap()).unwrap();
        let added = memory
            .add(&run_of("acme"), &scope(), &said(&["I live in Lisbon"]), AddOptions::default().verbatim())
            .await
            .unwrap();
        let AddStatus::Done(ids) = added.status else { panic!("{added:?}") };
        let error = memory.forget(&run_of("acme"), &scope(), Forget::Ids(ids)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{what}: {error:?}");
        assert!(!error.retry().is_retryable(), "{what}");
    }
}

#[tokio::test]
async fn a_list_that_ends_before_its_end_is_refused() {
    let server = Server::always(sent(200, &json!({ "results": [], "next": "http://x/?page=2" }))).await;
    let memory = provider(&server, Mem0Options::platform());
    let refused = memory.facts(&run_of("acme"), &scope(), FactsQuery::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused:?}");
}
