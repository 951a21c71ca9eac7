//! An unusable reply becomes a typed error in bounded time, and no add is sent twice.

use std::time::{Duration, Instant};

use memory_core::layer::{
    AddOptions, AddStatus, Fact, FactId, FactsQuery, Forget, Message, RecallQuery, Role,
};
use memory_core::{ErrorKind, MemoryLayer as _, Result, Scope};
use memory_mem0::{Mem0Options, Mem0Provider, remote_id};
use serde_json::{Value, json};

use crate::support;
use crate::support::http::{Server, Step, builder};
use crate::support::{options, run_of};

const ID: &str = "ba1b5316-afa4-4bfd-9a2b-c5343f5f75d5";

fn scope() -> Scope {
    Scope::agent("acme", "planner").unwrap()
}

fn row() -> Value {
    json!({ "id": ID, "memory": "User said: I live in Lisbon", "user_id": remote_id(&scope()), "score": 0.4 })
}

/// A provider with short timeouts.
fn provider(server: &Server, flavour: Mem0Options) -> Mem0Provider {
    let mut flavour = options(flavour, &server.url(""));
    (flavour.timeout_ms, flavour.add_timeout_ms, flavour.forget_timeout_ms) = (500, 500, 1_500);
    Mem0Provider::with_client(flavour, builder(server.policy()).build().unwrap()).unwrap()
}

fn flavours() -> [Mem0Options; 2] {
    [Mem0Options::self_hosted("http://localhost"), Mem0Options::platform()]
}

fn assert_typed<T: std::fmt::Debug>(what: &str, result: Result<T>) {
    let error = result.expect_err(what);
    let kinds = [
        ErrorKind::Corrupt,
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::TooLarge,
        ErrorKind::EgressDenied,
        ErrorKind::Unauthenticated,
        ErrorKind::Forbidden,
        ErrorKind::RateLimited,
        ErrorKind::InvalidArgument,
        ErrorKind::OutcomeUnknown,
    ];
    assert!(kinds.contains(&error.kind()), "{what}: {error:?}");
    let shown = format!("{error:?} {error}");
    assert!(
        !shown.contains("Lisbon") && !shown.contains(support::KEY) && !shown.contains("bob"),
        "{what}: {shown}"
    );
}

#[tokio::test]
async fn a_recall_ends_with_a_typed_error() {
    for flavour in flavours() {
        for (what, steps) in support::bad_replies::answers("results", &row()) {
            let server = Server::always(steps).await;
            let memory = provider(&server, flavour.clone());
            let begun = Instant::now();
            assert_typed(what, memory.recall(&run_of("acme"), &scope(), RecallQuery::new("Lisbon")).await);
            assert_typed(what, memory.facts(&run_of("acme"), &scope(), FactsQuery::default()).await);
            assert!(begun.elapsed() < Duration::from_secs(10), "{what} took {:?}", begun.elapsed());
            assert!(server.sent() < 80_000_000, "{what}: {} bytes were read", server.sent());
        }
    }
}

#[tokio::test]
async fn a_valid_row_is_read() {
    for flavour in flavours() {
        let server = Server::always(support::http::json(&json!({ "results": [row()] }))).await;
        let found: Vec<Fact> = provider(&server, flavour)
            .recall(&run_of("acme"), &scope(), RecallQuery::new("Lisbon").with_threshold(0.9))
            .await
            .unwrap();
        assert_eq!(found.len(), 1, "a rank is not compared with the threshold");
    }
}

#[tokio::test]
async fn an_add_is_sent_once_and_never_reported_as_done() {
    for flavour in flavours() {
        for (what, steps) in support::bad_replies::answers("results", &row()) {
            let server = Server::always(steps).await;
            let memory = provider(&server, flavour.clone());
            let said = [Message::new(Role::User, "I live in Lisbon.")];
            match memory.add(&run_of("acme"), &scope(), &said, AddOptions::default()).await {
                Ok(outcome) => {
                    // Rows of an add have no owner and no text that could be wrong.
                    let plain = matches!(&outcome.status, AddStatus::Done(ids) if ids.len() == 1);
                    assert!(outcome.status == AddStatus::Unknown || plain, "{what}: {outcome:?}");
                }
                Err(error) => assert_typed::<()>(what, Err(error)),
            }
            if what != "429" {
                assert_eq!(server.count(), 1, "{what}: an add that may have arrived was sent again");
            }
        }
    }
}

#[tokio::test]
async fn a_forget_ends_with_a_typed_error_and_deletes_nothing_by_mistake() {
    for flavour in flavours() {
        for (what, steps) in support::bad_replies::answers("results", &row()) {
            if matches!(what, "418" | "null" | "an endless refusal") {
                continue;
            }
            let server = Server::always(steps).await;
            let memory = provider(&server, flavour.clone());
            let ids = Forget::Ids(vec![FactId::new(ID).unwrap()]);
            assert_typed(what, memory.forget(&run_of("acme"), &scope(), ids).await);
            assert_typed(what, memory.forget(&run_of("acme"), &scope(), Forget::All).await);
            let deletes =
                server.requests().iter().filter(|request| request.head.starts_with("DELETE")).count();
            assert_eq!(deletes, 0, "{what}: a memory was deleted without checking its owner");
        }
    }
}

#[tokio::test]
async fn a_fact_of_another_user_is_not_deleted_by_its_id() {
    for flavour in flavours() {
        let mut foreign = row();
        foreign["user_id"] = json!("m1.agent.0000");
        let server = Server::always(support::http::json(&foreign)).await;
        let ids = Forget::Ids(vec![FactId::new(ID).unwrap()]);
        let outcome = provider(&server, flavour).forget(&run_of("acme"), &scope(), ids).await.unwrap();
        assert_eq!((outcome.forgotten, outcome.not_found.len()), (Some(0), 1));
        assert!(server.requests().iter().all(|request| request.head.starts_with("GET")));
    }
}

#[tokio::test]
async fn refused_calls_send_nothing() {
    for flavour in flavours() {
        let server = Server::always(vec![Step::Close]).await;
        let memory = provider(&server, flavour);
        let foreign = memory.recall(&run_of("umbrella"), &scope(), RecallQuery::new("x")).await;
        assert_eq!(foreign.unwrap_err().kind(), ErrorKind::ScopeDenied);
        for id in ["*", "../v1/memories", "not-a-uuid", "?user_id=*", "batch"] {
            let Ok(id) = FactId::new(id) else { continue };
            let outcome =
                memory.forget(&run_of("acme"), &scope(), Forget::Ids(vec![id.clone()])).await.unwrap();
            assert_eq!(outcome.not_found, [id]);
        }
        for name in ["user_id", "AND", "$or", "created_at", "Agent_ID"] {
            let options = AddOptions::default().with_metadata(memory_core::Metadata::new().with(name, "x"));
            let said = [Message::new(Role::User, "x")];
            let refused = memory.add(&run_of("acme"), &scope(), &said, options).await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument, "{name}");
        }
        assert_eq!(server.count(), 0, "a request was sent");
    }
}

#[tokio::test]
async fn the_platform_s_error_statuses_are_mapped() {
    for (status, kind) in
        [(413, ErrorKind::QuotaExceeded), (403, ErrorKind::Forbidden), (401, ErrorKind::Unauthenticated)]
    {
        let server = Server::always(support::http::reply(status, &[], b"{\"detail\":\"Lisbon\"}")).await;
        let said = [Message::new(Role::User, "I live in Lisbon")];
        let memory = provider(&server, Mem0Options::platform());
        let error = memory.add(&run_of("acme"), &scope(), &said, AddOptions::default()).await.unwrap_err();
        assert_eq!((error.kind(), &error.details()["status"]), (kind, &json!(status)), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("Lisbon"), "{error:?}");
        assert_eq!(server.count(), 1, "{status}: it was retried");
    }
}
