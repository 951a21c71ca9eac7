//! An unusable reply becomes a typed error in bounded time, and no add is sent twice.

use std::time::{Duration, Instant};

use memory_core::layer::{AddOptions, AddStatus, FactId, FactsQuery, Forget, Message, RecallQuery, Role};
use memory_core::{ErrorKind, MemoryLayer as _, Provider as _, Result, Scope};
use memory_http::{KeyRef, Tenancy};
use memory_mem9::{Mem9Options, Mem9Provider, Ranking, agent_id};
use serde_json::{Value, json};

use crate::support;
use crate::support::http::{self, Server, Step, builder};
use crate::support::{key_file, options, run_of};

const ID: &str = "13b475d7-f65e-4ed2-be2a-378592e9f708";

fn scope() -> Scope {
    Scope::agent("acme", "planner").unwrap()
}

fn row() -> Value {
    json!({
        "id": ID, "content": "I live in Lisbon", "memory_type": "insight", "agent_id": agent_id(&scope()),
        "state": "active", "score": 0.06, "confidence": 93,
    })
}

/// A provider with short timeouts.
fn provider(server: &Server) -> Mem9Provider {
    let mut options = options(&server.url(""));
    (options.timeout_ms, options.add_timeout_ms, options.forget_timeout_ms) = (500, 500, 1_500);
    Mem9Provider::with_client(options, builder(server.policy()).build().unwrap()).unwrap()
}

fn assert_typed<T: std::fmt::Debug>(what: &str, result: Result<T>) {
    let error = result.expect_err(what);
    assert!(!matches!(error.kind(), ErrorKind::Internal | ErrorKind::NotFound), "{what}: {error:?}");
    let shown = format!("{error:?} {error}");
    assert!(
        !shown.contains("Lisbon") && !shown.contains(support::KEY) && !shown.contains("bob"),
        "{what}: {shown}"
    );
}

#[tokio::test]
async fn a_recall_ends_with_a_typed_error() {
    for (what, steps) in support::bad_replies::answers("memories", &row()) {
        let server = Server::always(steps).await;
        let memory = provider(&server);
        let begun = Instant::now();
        assert_typed(what, memory.recall(&run_of("acme"), &scope(), RecallQuery::new("Lisbon")).await);
        // A listing does not read scores.
        if !matches!(what, "a score of words") {
            assert_typed(what, memory.facts(&run_of("acme"), &scope(), FactsQuery::default()).await);
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{what} took {:?}", begun.elapsed());
        assert!(server.sent() < 80_000_000, "{what}: {} bytes were read", server.sent());
    }
}

#[tokio::test]
async fn a_list_that_is_null_is_empty() {
    let server = Server::always(http::json(&json!({"memories": null, "total": 0}))).await;
    let memory = provider(&server);
    assert!(memory.recall(&run_of("acme"), &scope(), RecallQuery::new("Lisbon")).await.unwrap().is_empty());
    let listed = memory.facts(&run_of("acme"), &scope(), FactsQuery::default()).await.unwrap();
    assert!(listed.facts.is_empty() && listed.next.is_none());
}

#[tokio::test]
async fn an_add_is_sent_once_and_never_reported_as_done() {
    for (what, steps) in support::bad_replies::answers("memories", &row()) {
        let server = Server::always(steps).await;
        let said = [Message::new(Role::User, "I live in Lisbon.")];
        match provider(&server).add(&run_of("acme"), &scope(), &said, AddOptions::default()).await {
            Ok(outcome) => assert_eq!(outcome.status, AddStatus::Unknown, "{what}"),
            Err(error) => assert_typed::<()>(what, Err(error)),
        }
        if what != "429" {
            assert_eq!(server.count(), 1, "{what}: an add that may have arrived was sent again");
        }
    }
}

#[tokio::test]
async fn a_forget_ends_with_a_typed_error_and_deletes_nothing_by_mistake() {
    for (what, steps) in support::bad_replies::answers("memories", &row()) {
        let server = Server::always(steps).await;
        let memory = provider(&server);
        let ids = Forget::Ids(vec![FactId::new(ID).unwrap()]);
        assert_typed(what, memory.forget(&run_of("acme"), &scope(), ids).await);
        assert_typed(what, memory.forget(&run_of("acme"), &scope(), Forget::All).await);
        let deletes = server.requests().iter().any(|request| request.head.starts_with("DELETE"));
        assert!(!deletes, "{what}: a memory was deleted without checking its owner");
    }
}

#[tokio::test]
async fn the_threshold_applies_to_the_confidence() {
    let weak = json!({
        "id": "0205253c-4ed2-4ba5-9774-ed2e3f5f37c9", "content": "weak", "memory_type": "insight",
        "agent_id": agent_id(&scope()), "state": "active", "score": 0.9, "confidence": 66,
    });
    let server = Server::always(support::http::json(&json!({ "memories": [weak, row()], "total": 2 }))).await;
    let recall = |threshold| {
        let memory = provider(&server);
        async move {
            let query = RecallQuery::new("Lisbon").with_threshold(threshold);
            let found = memory.recall(&run_of("acme"), &scope(), query).await.unwrap();
            found.into_iter().map(|fact| fact.memory).collect::<Vec<_>>()
        }
    };
    assert_eq!(recall(0.5).await, ["I live in Lisbon", "weak"], "by confidence");
    assert_eq!(recall(0.9).await, ["I live in Lisbon"]);
    assert_eq!(recall(0.95).await, [""; 0]);
}

#[tokio::test]
async fn plain_ranking_has_no_threshold() {
    let server = Server::always(support::http::json(&json!({ "memories": [row()], "total": 1 }))).await;
    let mut named = options(&server.url(""));
    named.ranking = Ranking::Plain;
    let memory = support::provider(&server, named);
    let refused = memory.recall(&run_of("acme"), &scope(), RecallQuery::new("x").with_threshold(0.5)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(memory.recall(&run_of("acme"), &scope(), RecallQuery::new("x")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn each_tenant_has_its_own_key_and_space() {
    let server = Server::always(support::http::json(&json!({ "memories": [], "total": 0 }))).await;
    let mut named = options(&server.url(""));
    named.tenancy = Tenancy::KeyPerTenant;
    named.api_key_file = None;
    named.tenant_keys.insert("acme".into(), KeyRef::file(key_file("space-of-acme")));
    named.tenant_keys.insert("umbrella".into(), KeyRef::file(key_file("space-of-umbrella")));
    let memory = support::provider(&server, named);
    for tenant in ["acme", "umbrella"] {
        let scope = Scope::agent(tenant, "planner").unwrap();
        memory.facts(&run_of(tenant), &scope, FactsQuery::default()).await.unwrap();
        let sent = server.requests().pop().unwrap();
        assert_eq!(sent.header("x-api-key"), Some(format!("space-of-{tenant}").as_str()));
    }
    let scope = Scope::agent("initech", "planner").unwrap();
    let refused = memory.facts(&run_of("initech"), &scope, FactsQuery::default()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unauthenticated);
    assert_eq!(server.count(), 2);
}

#[tokio::test]
async fn options_that_would_mix_spaces_are_refused() {
    let server = Server::always(vec![Step::Close]).await;
    let opened = |change: fn(&mut Mem9Options)| {
        let mut named = options(&server.url(""));
        change(&mut named);
        Mem9Provider::with_client(named, builder(server.policy()).build().unwrap())
    };
    let preview = opened(|options| options.preview = false).unwrap_err();
    assert!(preview.message().contains("preview = true"), "{preview}");
    let chain =
        opened(|options| options.api_key_file = Some(key_file("chain_zQFCsjQ17TRCKo7WHJW5KNO9NpYo5OOs")));
    assert_eq!(chain.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let both = opened(|options| options.tenancy = Tenancy::KeyPerTenant);
    assert_eq!(
        both.unwrap_err().kind(),
        ErrorKind::InvalidArgument,
        "a shared key although each tenant must have its own"
    );

    let memory = provider(&server);
    let said = [Message::new(Role::User, "x")];
    for options in [
        AddOptions::default().verbatim(),
        AddOptions::default().with_metadata(memory_core::Metadata::new().with("a", "b")),
    ] {
        let refused = memory.add(&run_of("acme"), &scope(), &said, options).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let long = memory.recall(&run_of("acme"), &scope(), RecallQuery::new("x".repeat(3_000))).await;
    assert_eq!(long.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(server.count(), 0, "a request was sent");
}

#[tokio::test]
async fn health_reports_the_status_of_the_space() {
    for (status, body, expected) in [
        (200, json!({ "status": "active" }), "Ok"),
        (200, json!({ "status": "inactive" }), "Down"),
        (404, json!({ "error": "key not found" }), "Down"),
        (401, json!({ "error": "missing or malformed X-API-Key" }), "Down"),
        (500, json!({}), "Down"),
    ] {
        let alive = support::sent(200, &json!({ "status": "ok" }));
        let server = Server::script(vec![alive, support::sent(status, &body)]).await;
        let health = provider(&server).health().await.unwrap();
        assert_eq!(format!("{:?}", health.status), expected, "{status} {body}: {}", health.message);
    }
}
