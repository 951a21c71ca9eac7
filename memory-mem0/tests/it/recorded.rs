//! Recordings of real servers: the fake answers the same, and the client sends and reads the same.

use std::sync::{Arc, Mutex};

use memory_core::layer::{
    AddOptions, AddStatus, FactId, FactsQuery, Forget, Message, RecallQuery, Role, ScoreKind,
};
use memory_core::{ErrorKind, HealthStatus, MemoryLayer as _, Metadata, Provider as _, Scope};
use memory_mem0::{Mem0Options, Mem0Provider, remote_id};
use serde_json::{Value, json};

use crate::support;
use crate::support::http::Server;
use crate::support::recorded::{self, Comparison, by_name};
use crate::support::self_hosted::SelfHosted;
use crate::support::{KEY, ParsedRequest, checked, provider, run_of, sent, serve};

/// Members that differ in every run, or that come from the stub embedder.
const PASSING: [&str; 9] =
    ["hash", "created_at", "updated_at", "score", "score_details", "request_id", "loc", "msg", "input"];
/// Pairs whose body was not recorded, or that depend on such a pair.
const WITHOUT_BODY: [&str; 7] = [
    "add_100KB",
    "add_5MB",
    "search_query_1MB",
    "list_star_after",
    "search_AND_wildcard",
    "list_after_client_timeout",
    "add_wrong_content_type",
];

/// Pairs that are not compared.
fn is_left_out(pair: &Value) -> bool {
    let (name, path) = (pair["name"].as_str().unwrap(), pair["request"]["path"].as_str().unwrap());
    let of_the_client =
        ["/memories", "/search", "/auth/setup-status", "/v1/", "/v2/", "/v3/", "/health", "/api/", "/nope"];
    // The fake does not know keys that were created during the recording, and serde_json refuses a lone surrogate.
    let unknown = matches!(name, "use_api_key" | "use_bearer" | "use_revoked_key" | "lone_surrogate");
    path.ends_with("/history")
        || !of_the_client.iter().any(|route| path.starts_with(route))
        || unknown
        || WITHOUT_BODY.contains(&name)
}

#[test]
fn the_fake_answers_as_the_recorded_server() {
    let Some(pairs) = recorded::pairs("mem0") else { return };
    let (mut fake, mut comparison) = (SelfHosted::default(), Comparison::ignoring(&PASSING));
    for pair in pairs.iter().filter(|pair| !is_left_out(pair)) {
        comparison.compare(
            pair,
            |asked| fake.handle(asked),
            |asked, answer| {
                // The order of two facts depends on the stub embedder.
                if asked.path == ["search"]
                    && let Some(rows) = answer.get_mut("results").and_then(Value::as_array_mut)
                {
                    rows.sort_by_key(|row| row["memory"].to_string());
                }
            },
        );
    }
    comparison.finish(95);
}

fn scope() -> Scope {
    Scope::user("t1", "alice").unwrap()
}

/// A server that gives the recorded answers one after the other, and its client.
async fn replaying(pairs: &[&Value], flavour: Mem0Options) -> (Server, Mem0Provider) {
    let server = recorded::replaying(pairs, &["t1~user~alice", "t1~alice"], &remote_id(&scope())).await;
    let client = provider(&server, flavour);
    (server, client)
}

/// Compares a request with the recorded one: method, path, names of parameters, names of members of the body, and the
/// header with the key.
fn assert_sent_as(server: &Server, n: usize, request: &Value) {
    let (ours, theirs) = recorded::sent_as(server, n, request);
    let names =
        |asked: &ParsedRequest| asked.parameters.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&ours), names(&theirs), "{request}");
    let shape = |body: &Value| match body {
        Value::Object(members) => members.keys().cloned().collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    assert_eq!(shape(ours.body.as_ref().unwrap_or(&Value::Null)), shape(&request["body"]), "{request}");
    for (name, value) in request["headers"].as_object().unwrap() {
        if matches!(name.as_str(), "X-API-Key" | "Authorization") {
            let expected = value.as_str().unwrap().replace("m0-test-key", KEY);
            assert_eq!(ours.header(&name.to_ascii_lowercase()), Some(expected.as_str()));
        }
    }
    assert!(!String::from_utf8_lossy(&ours.raw).contains("\"*\""));
}

fn hosted() -> Mem0Options {
    Mem0Options::self_hosted("")
}

fn user(text: &str) -> Vec<Message> {
    vec![Message::new(Role::User, text)]
}

#[tokio::test]
async fn an_add_is_sent_and_read() {
    let Some(pairs) = recorded::pairs("mem0") else { return };
    let run = run_of("t1");
    let labelled = AddOptions::default().with_metadata(Metadata::new().with("src", "cap"));
    for (name, options, stored) in [
        ("add_ok", labelled, 3),
        ("add_same_again_dedup", AddOptions::default(), 0),
        ("add_empty_extraction", AddOptions::default(), 0),
        ("add_badjson_from_llm", AddOptions::default(), 0),
        ("add_infer_false", AddOptions::default().verbatim(), 2),
        ("unicode", AddOptions::default(), 1),
    ] {
        let pair = by_name(&pairs, name);
        let (server, memory) = replaying(&[&pair], hosted()).await;
        let status = memory.add(&run, &scope(), &user("I live in Lisbon."), options).await.unwrap().status;
        assert!(matches!(&status, AddStatus::Done(ids) if ids.len() == stored), "{name}: {status:?}");
        assert_sent_as(&server, 0, &pair["request"]);
    }
}

#[tokio::test]
async fn a_failed_add_is_mapped_to_its_error_and_retried_only_if_safe() {
    let Some(pairs) = recorded::pairs("mem0") else { return };
    for (name, kind, times) in [
        ("add_upstream_s401", Some(ErrorKind::Unavailable), 1),
        ("add_upstream_s400", Some(ErrorKind::Unavailable), 1),
        ("add_upstream_s429", Some(ErrorKind::RateLimited), 1),
        ("add_upstream_s500", Some(ErrorKind::Unavailable), 3),
        ("add_no_ids", Some(ErrorKind::InvalidArgument), 1),
        ("add_messages_string", Some(ErrorKind::InvalidArgument), 1),
        ("auth_bad_xapikey", Some(ErrorKind::Unauthenticated), 1),
        ("add_platform_path_v3", Some(ErrorKind::NotFound), 1),
        ("nul_byte", None, 1),
    ] {
        let (server, memory) = replaying(&[&by_name(&pairs, name)], hosted()).await;
        let added = memory.add(&run_of("t1"), &scope(), &user("x"), AddOptions::default()).await;
        match kind {
            Some(kind) => assert_eq!(added.unwrap_err().kind(), kind, "{name}"),
            None => assert_eq!(added.unwrap().status, AddStatus::Unknown, "{name}"),
        }
        assert_eq!(server.count(), times, "{name}");
    }
}

#[tokio::test]
async fn a_recall_is_sent_and_read() {
    let Some(pairs) = recorded::pairs("mem0") else { return };
    let pair = by_name(&pairs, "search_filters");
    let (server, memory) = replaying(&[&pair], hosted()).await;
    let query = RecallQuery::new("where do I live").with_top_k(3);
    let found = memory.recall(&run_of("t1"), &scope(), query).await.unwrap();
    assert_sent_as(&server, 0, &pair["request"]);
    let texts: Vec<&str> = found.iter().map(|fact| fact.memory.as_str()).collect();
    assert_eq!(texts, ["User said: I live in Lisbon", "User said: I love green tea"]);
    assert!(found.iter().all(|fact| fact.score_kind == ScoreKind::Rank && fact.score.is_some()));
    assert_eq!(found[0].metadata.get("src"), Some(&"cap".into()));
    assert_eq!(found[0].metadata.get("n"), Some(&3.into()));
    assert_eq!(found[0].created_at.unwrap().to_string(), "2026-11-21T20:03:25.825Z");
    assert_eq!(found[0].provenance.as_deref(), Some("user"));

    // The score may be below the threshold, which applies to the cosine.
    let pair = by_name(&pairs, "search_threshold_05_score_below");
    let (_server, memory) = replaying(&[&pair], hosted()).await;
    let found =
        memory.recall(&run_of("t1"), &scope(), RecallQuery::new("green tea").with_threshold(0.5)).await;
    assert!(found.unwrap()[0].score.unwrap() < 0.5);

    for leak in ["search_wildcard_user2", "search_AND_overrides2", "search_AND_wildcard2"] {
        let (_server, memory) = replaying(&[&by_name(&pairs, leak)], hosted()).await;
        let found = memory.recall(&run_of("t1"), &scope(), RecallQuery::new("green tea")).await;
        assert_eq!(found.unwrap_err().kind(), ErrorKind::Corrupt, "{leak}");
    }
    let (_server, memory) = replaying(&[&by_name(&pairs, "search_unknown_user")], hosted()).await;
    assert_eq!(memory.recall(&run_of("t1"), &scope(), RecallQuery::new("x")).await.unwrap(), []);
}

#[tokio::test]
async fn a_listing_is_sent_and_read() {
    let Some(pairs) = recorded::pairs("mem0") else { return };
    let pair = by_name(&pairs, "get_all_topk");
    let (server, memory) = replaying(&[&pair], hosted()).await;
    let page = memory.facts(&run_of("t1"), &scope(), FactsQuery::default()).await.unwrap();
    assert_sent_as(&server, 0, &pair["request"]);
    assert_eq!((page.facts.len(), page.next), (2, None));
    for leak in ["get_all_blank_user_is_everything", "get_all_star"] {
        let (_server, memory) = replaying(&[&by_name(&pairs, leak)], hosted()).await;
        let page = memory.facts(&run_of("t1"), &scope(), FactsQuery::default()).await;
        assert_eq!(page.unwrap_err().kind(), ErrorKind::Corrupt, "{leak}");
    }
}

#[tokio::test]
async fn a_forget_is_sent_and_read() {
    let Some(pairs) = recorded::pairs("mem0") else { return };
    let pair = |name| by_name(&pairs, name);
    let own = FactId::new("ba1b5316-afa4-4bfd-9a2b-c5343f5f75d5").unwrap();
    let ids = || Forget::Ids(vec![own.clone()]);

    let (get, delete) = (pair("get_one"), pair("delete_one"));
    let (server, memory) = replaying(&[&get, &delete], hosted()).await;
    let outcome = memory.forget(&run_of("t1"), &scope(), ids()).await.unwrap();
    assert_eq!((outcome.forgotten, outcome.not_found.len()), (Some(1), 0));
    assert_sent_as(&server, 0, &get["request"]);
    assert_sent_as(&server, 1, &delete["request"]);

    // Deleted between the two requests.
    let (_server, memory) = replaying(&[&get, &pair("delete_again")], hosted()).await;
    assert_eq!(memory.forget(&run_of("t1"), &scope(), ids()).await.unwrap().forgotten, Some(1));

    let (server, memory) = replaying(&[&pair("get_unknown_uuid")], hosted()).await;
    assert_eq!(
        memory.forget(&run_of("t1"), &scope(), ids()).await.unwrap().not_found,
        std::slice::from_ref(&own)
    );
    assert_eq!(server.count(), 1);

    // The server returns any user's memory by its id.
    let mut foreign = pair("get_one_other_tenant");
    foreign["response"]["body"]["id"] = json!(own.as_str());
    let (server, memory) = replaying(&[&foreign], hosted()).await;
    assert_eq!(
        memory.forget(&run_of("t1"), &scope(), ids()).await.unwrap().not_found,
        std::slice::from_ref(&own)
    );
    assert_eq!(server.count(), 1);

    let (listed, all, none) =
        (pair("get_all_topk"), pair("delete_all_unknown"), pair("list_after_delete_star"));
    let (server, memory) = replaying(&[&listed, &all, &none], hosted()).await;
    assert_eq!(memory.forget(&run_of("t1"), &scope(), Forget::All).await.unwrap().forgotten, Some(2));
    assert_sent_as(&server, 1, &all["request"]);
    assert_eq!(
        ParsedRequest::of(&server.requests()[1]).parameter("user_id"),
        Some(remote_id(&scope()).as_str())
    );
}

#[tokio::test]
async fn health_checks_the_server_and_the_key() {
    let Some(pairs) = recorded::pairs("mem0") else { return };
    let alive = by_name(&pairs, "setup_status_no_auth");
    let (server, memory) = replaying(&[&alive, &by_name(&pairs, "search_unknown_user")], hosted()).await;
    assert_eq!(memory.health().await.unwrap().status, HealthStatus::Ok);
    assert_sent_as(&server, 0, &alive["request"]);
    for refused in ["auth_bad_xapikey", "health_absent"] {
        let (_server, memory) = replaying(&[&alive, &by_name(&pairs, refused)], hosted()).await;
        assert_eq!(memory.health().await.unwrap().status, HealthStatus::Down, "{refused}");
    }
}

#[tokio::test]
async fn requests_to_the_platform_equal_those_of_its_sdk() {
    let Some(pairs) = recorded::pairs("mem0/platform-sdk") else { return };
    let call = |name: &str| {
        pairs.iter().find(|pair| pair["call"] == name).unwrap_or_else(|| panic!("no call {name}")).clone()
    };
    let request = |name: &str| call(name)["requests"][0].clone();
    let run = run_of("t1");
    let queued = call("add")["result"].clone();
    let labelled = AddOptions::default().with_metadata(Metadata::new().with("a", 1));
    for (name, options) in [("add", labelled), ("add_infer_false", AddOptions::default().verbatim())] {
        let server = Server::always(sent(200, &queued)).await;
        let memory = provider(&server, Mem0Options::platform());
        let status = memory.add(&run, &scope(), &user("I live in Lisbon."), options).await.unwrap().status;
        assert!(matches!(status, AddStatus::Pending(Some(_))), "{status:?}");
        assert_sent_as(&server, 0, &request(name));
    }
    let server = Server::always(sent(200, &json!({ "results": [] }))).await;
    let memory = provider(&server, Mem0Options::platform());
    let query = RecallQuery::new("where").with_top_k(5).with_threshold(0.2);
    assert_eq!(memory.recall(&run, &scope(), query).await.unwrap(), []);
    assert_sent_as(&server, 0, &request("search"));
    assert_eq!(
        ParsedRequest::of(&server.requests()[0]).body.unwrap()["filters"],
        json!({ "user_id": remote_id(&scope()) })
    );
    memory.facts(&run, &scope(), FactsQuery::default()).await.unwrap();
    assert_sent_as(&server, 1, &request("get_all"));
    let ping = pairs.iter().find(|pair| pair["path"] == "/v1/ping/").unwrap();
    memory.health().await.unwrap();
    assert_sent_as(&server, 2, ping);

    let row = json!({ "id": "ba1b5316-afa4-4bfd-9a2b-c5343f5f75d5", "memory": "m", "user_id": remote_id(&scope()) });
    let listed = json!({ "count": 1, "next": null, "previous": null, "results": [row] });
    let none = json!({ "count": 0, "next": null, "previous": null, "results": [] });
    let server =
        Server::script(vec![sent(200, &listed), sent(200, &call("delete_all")["result"]), sent(200, &none)])
            .await;
    let memory = provider(&server, Mem0Options::platform());
    assert_eq!(memory.forget(&run, &scope(), Forget::All).await.unwrap().forgotten, Some(1));
    assert_sent_as(&server, 1, &request("delete_all"));
    for (name, status, kind) in [
        ("error_401", 401, ErrorKind::Unauthenticated),
        ("error_403", 403, ErrorKind::Forbidden),
        ("error_404", 404, ErrorKind::NotFound),
        ("error_413", 413, ErrorKind::QuotaExceeded),
        ("error_429", 429, ErrorKind::RateLimited),
        ("error_500", 500, ErrorKind::Unavailable),
        ("error_400", 400, ErrorKind::InvalidArgument),
    ] {
        let said = call(name)["error"]["message"].clone();
        let server = Server::always(sent(status, &json!({ "detail": said }))).await;
        let memory = provider(&server, Mem0Options::platform());
        let error = memory.recall(&run, &scope(), RecallQuery::new("q")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{name}");
        assert_sent_as(&server, 0, &with_top_k(request(name)));
    }
}

/// Adds `top_k`, which the SDK leaves to the service's default.
fn with_top_k(mut request: Value) -> Value {
    request["body"]["top_k"] = json!(10);
    request
}

#[tokio::test]
async fn an_event_is_visible_only_to_its_own_scope() {
    let mut fake = support::platform::Platform::default();
    let server = serve(Arc::new(Mutex::new(move |asked: &ParsedRequest| fake.handle(asked)))).await;
    let memory = checked(&server, Mem0Options::platform());
    let run = run_of("t1");
    let added =
        memory.add(&run, &scope(), &user("[[fail]] I live in Lisbon."), AddOptions::default()).await.unwrap();
    let AddStatus::Pending(Some(event)) = added.status else { panic!("{added:?}") };
    let other = Scope::agent("t1", "alice").unwrap();
    assert_eq!(memory.event(&run, &other, &event).await.unwrap_err().kind(), ErrorKind::NotFound);
    memory.event(&run, &scope(), &event).await.unwrap();
    let told = memory.event(&run, &scope(), &event).await.unwrap();
    let memory_core::layer::EventStatus::Failed(why) = told else { panic!("{told:?}") };
    assert!(!why.contains("secret"), "{why}");
}
