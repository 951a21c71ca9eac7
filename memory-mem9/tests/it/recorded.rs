//! Recordings of a real server: the fake answers the same, and the client sends and reads the same.

use memory_core::layer::{
    AddOptions, AddStatus, FactId, FactsQuery, Forget, Message, RecallQuery, Role, ScoreKind,
};
use memory_core::{ErrorKind, HealthStatus, MemoryLayer as _, Provider as _, Scope};
use memory_mem9::{Mem9Provider, agent_id};
use serde_json::{Value, json};

use crate::support::fake::Mem9;
use crate::support::http::Server;
use crate::support::recorded::{self, Comparison, answer_of, by_name};
use crate::support::{KEY, ParsedRequest, options, provider, run_of};

/// Members that differ in every run.
const PASSING: [&str; 8] =
    ["created_at", "updated_at", "score", "confidence", "version", "relative_age", "superseded_by", "total"];

/// Pairs that are not compared: other routes, servers with other settings, bodies that were not recorded, and answers that
/// depend on the server's ranking.
fn is_left_out(pair: &Value) -> bool {
    let (name, path) = (pair["name"].as_str().unwrap(), pair["request"]["path"].as_str().unwrap());
    let other_route =
        ["/versionz", "/v1alpha1", "/v1alpha2/mem9s/imports", "/v1alpha2/mem9s/session", "/v1alpha2/space"]
            .iter()
            .any(|route| path.starts_with(route));
    let other_server = ["nollm_", "rate_limited", "chain_"].iter().any(|prefix| name.starts_with(prefix));
    let unrecorded = pair["request"]["body"].get("_len").is_some();
    let by_ranking = [
        "recall_vector_only_plain",
        "recall_near_plain",
        "recall_limit_1",
        "recall_limit_0",
        "recall_limit_201",
        "recall_tags",
    ]
    .contains(&name);
    other_route || other_server || unrecorded || by_ranking
}

#[test]
fn the_fake_answers_as_the_recorded_server() {
    let Some(pairs) = recorded::pairs("mem9") else { return };
    let (mut fake, mut comparison) = (Mem9::default(), Comparison::ignoring(&PASSING));
    fake.prompt = true;
    for pair in pairs.iter().filter(|pair| !is_left_out(pair)) {
        comparison.compare(
            pair,
            |asked| fake.handle(asked),
            |asked, answer| {
                // Of a search, the contents are compared, in any order.
                if asked.parameter("q").is_some()
                    && let Some(rows) = answer.get_mut("memories").and_then(Value::as_array_mut)
                {
                    *rows = rows.iter().map(|row| row["content"].clone()).collect();
                    rows.sort_by_key(Value::to_string);
                }
            },
        );
    }
    comparison.finish(110);
}

fn scope() -> Scope {
    Scope::user("t1", "alice").unwrap()
}

async fn replaying(pairs: &[&Value], sync: bool) -> (Server, Mem9Provider) {
    let server = recorded::replaying(pairs, &["t1~user~alice"], &agent_id(&scope())).await;
    let mut named = options(&server.url(""));
    named.sync = sync;
    let client = provider(&server, named);
    (server, client)
}

fn asked(server: &Server, n: usize) -> ParsedRequest {
    ParsedRequest::of(&server.requests()[n])
}

/// Compares method, path and key of a request with the recorded one.
fn assert_sent_as(server: &Server, n: usize, pair: &Value) {
    let request = &pair["request"];
    let (ours, _) = recorded::sent_as(server, n, request);
    if request["headers"].get("X-API-Key").is_some() {
        assert_eq!(ours.header("x-api-key"), Some(KEY));
    }
}

fn user(text: &str) -> Vec<Message> {
    vec![Message::new(Role::User, text)]
}

#[tokio::test]
async fn an_add_is_sent_and_its_outcome_is_mapped() {
    let Some(mut pairs) = recorded::pairs("mem9") else { return };
    pairs.extend(recorded::pairs("mem9/derived").unwrap());
    let unknown = |name| (name, true, Ok(AddStatus::Unknown));
    for (name, sync, expected) in [
        ("add_messages_async", false, Ok(AddStatus::Pending(None))),
        ("add_messages_sync", true, Ok(AddStatus::Done(Vec::new()))),
        ("add_llm_empty_sync", true, Ok(AddStatus::Done(Vec::new()))),
        unknown("add_llm_s500_sync"),
        unknown("reconcile_failed_500"),
        unknown("sync_timeout_504"),
        unknown("runtime_usage_conflict_502"),
        unknown("write_conflict_503"),
        ("quota_denied_402", true, Err(ErrorKind::QuotaExceeded)),
        ("list_bad_key", true, Err(ErrorKind::Unauthenticated)),
        ("list_missing_key", true, Err(ErrorKind::Unauthenticated)),
        ("list_suspended_key", true, Err(ErrorKind::Unauthenticated)),
        ("chain_add_pinned", true, Err(ErrorKind::InvalidArgument)),
        ("add_empty_messages", true, Err(ErrorKind::InvalidArgument)),
        ("tenant_db_down_503", true, Err(ErrorKind::Unavailable)),
        ("schema_incompatible_409", true, Err(ErrorKind::Unavailable)),
        ("cluster_quota_429", true, Err(ErrorKind::QuotaExceeded)),
        ("rate_limited", true, Err(ErrorKind::RateLimited)),
    ] {
        let pair = by_name(&pairs, name);
        let (server, memory) = replaying(&[&pair], sync).await;
        let added =
            memory.add(&run_of("t1"), &scope(), &user("I live in Lisbon."), AddOptions::default()).await;
        match (added, expected) {
            (Ok(outcome), Ok(status)) => assert_eq!(outcome.status, status, "{name}"),
            (Err(error), Err(kind)) => assert_eq!(error.kind(), kind, "{name}"),
            (added, expected) => panic!("{name}: {added:?} instead of {expected:?}"),
        }
        let (sent, answered_429) = (asked(&server, 0), answer_of(&pair).0 == 429);
        assert!(answered_429 || server.count() == 1, "{name}");
        let body = sent.body.unwrap();
        assert_eq!(body["agent_id"], agent_id(&scope()));
        assert_eq!(body["sync"], sync);
        assert_eq!(body["messages"], json!([{ "role": "user", "content": "I live in Lisbon." }]));
        assert!(body["session_id"].as_str().unwrap().len() <= 100);
        if name.starts_with("add_messages") {
            assert_sent_as(&server, 0, &pair);
        }
    }
}

#[tokio::test]
async fn a_recall_is_sent_and_read() {
    let Some(pairs) = recorded::pairs("mem9") else { return };
    let pair = by_name(&pairs, "recall_q_agent_insight");
    let (server, memory) = replaying(&[&pair], true).await;
    let found = memory.recall(&run_of("t1"), &scope(), RecallQuery::new("green tea")).await.unwrap();
    assert_sent_as(&server, 0, &pair);
    let sent = asked(&server, 0);
    for (name, value) in [("q", "green tea"), ("memory_type", "insight"), ("limit", "10")] {
        assert_eq!(sent.parameter(name), Some(value));
    }
    assert_eq!(sent.parameter("agent_id"), Some(agent_id(&scope()).as_str()));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].memory.as_str(), found[0].score_kind), ("I love green tea", ScoreKind::Similarity));
    assert!((found[0].score.unwrap() - 0.97).abs() < 1e-9);
    assert_eq!(found[0].created_at.unwrap().to_string(), "2026-11-21T20:26:24.965Z");

    // Sessions do not isolate tenants, so such an answer is rejected.
    let (_server, memory) = replaying(&[&by_name(&pairs, "recall_q_session_t1")], true).await;
    let leaked = memory.recall(&run_of("t1"), &scope(), RecallQuery::new("green tea")).await;
    assert_eq!(leaked.unwrap_err().kind(), ErrorKind::Corrupt);

    let (_server, memory) = replaying(&[&by_name(&pairs, "recall_q_nomatch")], true).await;
    assert_eq!(memory.recall(&run_of("t1"), &scope(), RecallQuery::new("x")).await.unwrap(), []);
}

#[tokio::test]
async fn a_listing_is_sent_and_read() {
    let Some(pairs) = recorded::pairs("mem9") else { return };
    let pair = by_name(&pairs, "list_offset");
    let (server, memory) = replaying(&[&pair], true).await;
    let mut query = FactsQuery::default();
    query.limit = 2;
    let page = memory.facts(&run_of("t1"), &scope(), query).await.unwrap();
    assert_sent_as(&server, 0, &pair);
    assert_eq!(page.facts.len(), 2);
    assert!(page.next.is_some(), "there are twelve");
    let (_server, memory) = replaying(&[&by_name(&pairs, "list_offset_far")], true).await;
    let refused = memory.facts(&run_of("t1"), &scope(), FactsQuery::default()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt, "there are twelve, and none at the begin: {refused:?}");
    let (_server, memory) = replaying(&[&by_name(&pairs, "list_header_agent_by_header_only")], true).await;
    let leaked = memory.facts(&run_of("t1"), &scope(), FactsQuery::default()).await;
    assert_eq!(leaked.unwrap_err().kind(), ErrorKind::Corrupt, "the header does not filter");
}

#[tokio::test]
async fn a_forget_is_sent_and_read() {
    let Some(pairs) = recorded::pairs("mem9") else { return };
    let pair = |name| by_name(&pairs, name);
    let own = FactId::new("0d39b9d9-1796-4ff6-98a7-5103031b4e13").unwrap();
    let ids = || Forget::Ids(vec![own.clone()]);
    let (get, delete) = (pair("get_one"), pair("delete_one"));
    let (server, memory) = replaying(&[&get, &delete], true).await;
    assert_eq!(memory.forget(&run_of("t1"), &scope(), ids()).await.unwrap().forgotten, Some(1));
    assert_sent_as(&server, 0, &get);
    assert_sent_as(&server, 1, &delete);

    for gone in ["get_deleted", "get_from_other_space"] {
        let (server, memory) = replaying(&[&pair(gone)], true).await;
        assert_eq!(
            memory.forget(&run_of("t1"), &scope(), ids()).await.unwrap().not_found,
            std::slice::from_ref(&own),
            "{gone}"
        );
        assert_eq!(server.count(), 1);
    }
    let mut foreign = pair("get_other_agent_same_space");
    foreign["response"]["body"]["id"] = json!(own.as_str());
    let (server, memory) = replaying(&[&foreign], true).await;
    assert_eq!(
        memory.forget(&run_of("t1"), &scope(), ids()).await.unwrap().not_found,
        std::slice::from_ref(&own)
    );
    assert_eq!(server.count(), 1);

    let (listed, deleted, none) = (pair("list_agent_after_async"), pair("batch_delete"), pair("list_empty"));
    let (server, memory) = replaying(&[&listed, &deleted, &none, &none], true).await;
    assert_eq!(memory.forget(&run_of("t1"), &scope(), Forget::All).await.unwrap().forgotten, Some(1));
    assert_sent_as(&server, 1, &deleted);
    assert_eq!(asked(&server, 1).body.unwrap()["ids"].as_array().unwrap().len(), 2);
    assert_eq!(asked(&server, 3).parameter("state"), Some("archived"));
}

#[tokio::test]
async fn health_checks_the_server_and_the_space() {
    let Some(pairs) = recorded::pairs("mem9") else { return };
    let alive = by_name(&pairs, "healthz");
    for (name, status) in [
        ("status_active", HealthStatus::Ok),
        ("status_suspended", HealthStatus::Down),
        ("status_missing_key", HealthStatus::Down),
        ("status_unknown_key", HealthStatus::Down),
        ("rate_limited_healthz", HealthStatus::Down),
    ] {
        let pair = by_name(&pairs, name);
        let (server, memory) = replaying(&[&alive, &pair], true).await;
        assert_eq!(memory.health().await.unwrap().status, status, "{name}");
        assert_sent_as(&server, 0, &alive);
        if name.starts_with("status_") {
            assert_eq!(asked(&server, 1).path, ["v1alpha2", "status"]);
        }
    }
}
