//! What a service that fails leaves of a write and of a search, through a whole store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memory_core::{
    Embedding, ErrorKind, GetOptions, Json, Key, Provider as _, ReembedOptions, Scope, ScopeId, ScopeKind,
    SearchMode, SearchQuery, SetOptions, TenantId,
};
use memory_embed::memory_http::{BreakerPolicy, RetryPolicy};
use memory_embed::{OpenAiEmbedder, OpenAiOptions};
use memory_fakes::http::{FixedClock, Server, Step, builder, head, reply};
use memory_sqlite::{SqliteConfig, SqliteProvider};
use serde_json::{Value, json};

/// Fails with `steps` while it is told to, and else knows two directions: of cats, and of all else.
async fn service(steps: Vec<Step>) -> (Server, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(true));
    let told = Arc::clone(&broken);
    let server = Server::start(move |_, request| {
        if told.load(Ordering::Relaxed) {
            return steps.clone();
        }
        let asked = request.json();
        let direction = |text: &str| {
            if text.contains("cat") || text.contains("feline") { json!([1, 0, 0]) } else { json!([0, 1, 0]) }
        };
        let data: Vec<Value> = asked["input"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .map(|(index, text)| json!({"index": index, "embedding": direction(text.as_str().unwrap())}))
            .collect();
        memory_fakes::http::json(&json!({"object": "list", "model": "m", "data": data}))
    })
    .await;
    (server, broken)
}

fn store(server: &Server) -> SqliteProvider {
    let mut options = OpenAiOptions::new("m", 3);
    options.base_url = server.url("/v1");
    options.timeout_ms = 500;
    let client = builder(server.policy())
        .retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() })
        .breaker(BreakerPolicy { failures: 0, ..BreakerPolicy::default() })
        .build()
        .unwrap();
    let embedder = OpenAiEmbedder::new(options, client).unwrap();
    SqliteProvider::open_in_memory(SqliteConfig::default(), Arc::new(FixedClock))
        .unwrap()
        .with_embedder(Arc::new(embedder))
}

#[tokio::test]
async fn a_failing_service_costs_the_vector_and_never_the_write() {
    let vector = |numbers: &str| {
        let body = format!(r#"{{"model": "m", "data": [{{"index": 0, "embedding": [{numbers}]}}]}}"#);
        reply(200, &[("Content-Type", "application/json")], body.as_bytes())
    };
    let cases = [
        ("hangs", vec![Step::Stall], ErrorKind::Timeout),
        ("drops the connection", vec![Step::Close], ErrorKind::Unavailable),
        ("too few", memory_fakes::http::json(&json!({"model": "m", "data": []})), ErrorKind::Unavailable),
        (
            "too many",
            memory_fakes::http::json(&json!({"data": [{"embedding": [1, 0, 0]}, {"embedding": [1, 0, 0]}]})),
            ErrorKind::Unavailable,
        ),
        ("NaN", vector("NaN, 0, 0"), ErrorKind::Unavailable),
        ("zero", vector("0, 0, 0"), ErrorKind::Unavailable),
        ("wrong size", vector("1, 0"), ErrorKind::DimensionMismatch),
        (
            "another model",
            memory_fakes::http::json(&json!({"model": "n", "data": [{"embedding": [1, 0, 0]}]})),
            ErrorKind::Unavailable,
        ),
        ("429", reply(429, &[("Retry-After", "1")], b""), ErrorKind::RateLimited),
        ("500", reply(500, &[], b"s3cret"), ErrorKind::Unavailable),
        ("401", reply(401, &[], b"s3cret"), ErrorKind::Unauthenticated),
        ("a page", reply(200, &[("Content-Type", "text/html")], b"<html>s3cret"), ErrorKind::Unavailable),
        (
            "200 MB",
            vec![head("HTTP/1.1 200 OK\nContent-Length: 209715200\n\n"), Step::Flood(vec![b' '; 1 << 20])],
            ErrorKind::Unavailable,
        ),
        ("a redirect", reply(302, &[("Location", "http://169.254.169.254/")], b""), ErrorKind::EgressDenied),
        (
            "too long a text",
            reply(400, &[], br#"{"error": {"message": "the input length exceeds the context length"}}"#),
            ErrorKind::TooLarge,
        ),
    ];
    for (what, steps, kind) in cases {
        let (server, broken) = service(steps).await;
        let store = store(&server);
        let backend = store.backend().unwrap();
        let scope = Scope::new(TenantId::new("t").unwrap(), ScopeKind::Agent, ScopeId::new("a").unwrap());
        let key = Key::new("pet").unwrap();
        let value = Json::parse("\"the cat sleeps\"").unwrap();

        let start = Instant::now();
        let outcome = backend.set(&scope, &key, value.clone(), SetOptions::default()).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: {:?}", start.elapsed());
        let Embedding::Failed(reason) = outcome.embedding else { panic!("{what}: {:?}", outcome.embedding) };
        assert!(!reason.contains("s3cret") && !reason.is_empty(), "{what}: {reason}");

        let entry = backend.get(&scope, &key, GetOptions::default()).await.unwrap().unwrap();
        assert_eq!(entry.value, value, "{what}");
        let by_words = SearchQuery::new("cat").with_mode(SearchMode::Lexical);
        assert_eq!(backend.search(&scope, by_words).await.unwrap().hits.len(), 1, "{what}");
        let by_meaning = || SearchQuery::new("feline").with_mode(SearchMode::Vector);
        assert_eq!(backend.search(&scope, by_meaning()).await.unwrap_err().kind(), kind, "{what}");

        broken.store(false, Ordering::Relaxed);
        let done = backend.reembed(&scope, ReembedOptions::default()).await.unwrap();
        assert_eq!((done.embedded, done.remaining), (1, 0), "{what}");
        assert_eq!(backend.search(&scope, by_meaning()).await.unwrap().hits.len(), 1, "{what}");
    }
}
