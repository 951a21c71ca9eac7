//! An add or a forget with an uncertain outcome: what is reported, and how often it is sent.

use std::sync::{Arc, Mutex};

use memory_core::layer::{AddOptions, AddStatus, FactsQuery, Forget, Message, Role};
use memory_core::{ErrorKind, MemoryLayer as _, Scope};
use memory_mem9::Mem9Provider;
use serde_json::{Value, json};

use crate::support::fake::Mem9;
use crate::support::http::Server;
use crate::support::{ParsedRequest, options, provider, run_of, serve};

fn scope() -> Scope {
    Scope::agent("acme", "planner").unwrap()
}

/// A mem9 that carries out requests like this and then answers 503.
async fn failing_after(method: &'static str, last: &'static str) -> (Server, Mem9Provider) {
    let mut fake = Mem9::default();
    let server = serve(Arc::new(Mutex::new(move |asked: &ParsedRequest| -> (u16, Value) {
        let answer = fake.handle(asked);
        let fails = asked.method == method && asked.path.last().is_some_and(|part| part == last);
        if fails { (503, json!({ "error": "write conflict, retry" })) } else { answer }
    })))
    .await;
    let memory = provider(&server, options(&server.url("")));
    (server, memory)
}

async fn facts(memory: &Mem9Provider) -> usize {
    memory.facts(&run_of("acme"), &scope(), FactsQuery::default()).await.unwrap().facts.len()
}

fn said() -> Vec<Message> {
    vec![Message::new(Role::User, "I live in Lisbon. I love green tea.")]
}

#[tokio::test]
async fn a_503_after_storing_is_an_unknown_outcome() {
    let (server, memory) = failing_after("POST", "memories").await;
    let added = memory.add(&run_of("acme"), &scope(), &said(), AddOptions::default()).await.unwrap();
    assert_eq!((added.status, server.count()), (AddStatus::Unknown, 1));
    assert_eq!(facts(&memory).await, 2);
}

#[tokio::test]
async fn a_forget_that_fails_after_it_is_done_is_unknown() {
    let (_server, memory) = failing_after("POST", "batch-delete").await;
    memory.add(&run_of("acme"), &scope(), &said(), AddOptions::default()).await.unwrap();
    let refused = memory.forget(&run_of("acme"), &scope(), Forget::All).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown, "{refused:?}");
    assert_eq!(facts(&memory).await, 0);
    let again = memory.forget(&run_of("acme"), &scope(), Forget::All).await.unwrap();
    assert_eq!(again.forgotten, Some(0));
    assert!(again.remains[0].contains("50 facts"), "{again:?}");
}

#[tokio::test]
async fn a_list_that_ends_before_its_end_is_refused() {
    let server = serve(Arc::new(Mutex::new(|_: &ParsedRequest| {
        (200, json!({ "memories": [], "total": 500, "limit": 200, "offset": 0 }))
    })))
    .await;
    let memory = provider(&server, options(&server.url("")));
    let refused = memory.facts(&run_of("acme"), &scope(), FactsQuery::default()).await.unwrap_err();
    assert!(refused.kind() == ErrorKind::Corrupt && refused.message().contains("of 500"), "{refused:?}");
    let refused = memory.forget(&run_of("acme"), &scope(), Forget::All).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "nothing is known to be gone: {refused:?}");
}

#[tokio::test]
async fn more_deleted_than_was_asked_for_is_no_count() {
    let mut fake = Mem9::default();
    let server = serve(Arc::new(Mutex::new(move |asked: &ParsedRequest| {
        let answer = fake.handle(asked);
        let deletes = asked.path.last().is_some_and(|part| part == "batch-delete");
        if deletes { (200, json!({ "deleted": u64::MAX })) } else { answer }
    })))
    .await;
    let memory = provider(&server, options(&server.url("")));
    memory.add(&run_of("acme"), &scope(), &said(), AddOptions::default()).await.unwrap();
    let refused = memory.forget(&run_of("acme"), &scope(), Forget::All).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown, "{refused:?}");
}
