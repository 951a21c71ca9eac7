//! An embedder over HTTP against a server that answers as real services do, and as broken ones do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::{EmbedRole, Embedder as _, Error, ErrorKind, Retry};
use memory_embed::memory_http::{EgressPolicy, HttpClient, RetryPolicy};
use memory_embed::{Encoding, OpenAiEmbedder, OpenAiOptions};
use memory_fakes::http::{Server, Step, builder, head, reply};
use serde_json::{Value, json};

const MIB: usize = 1024 * 1024;

/// A server that embeds every text as `[its length, 1, 0]`, in reverse order.
async fn honest() -> Server {
    Server::start(|_, request| {
        let asked = request.json();
        let texts = asked["input"].as_array().unwrap();
        let data: Vec<Value> = texts
            .iter()
            .enumerate()
            .rev()
            .map(|(index, text)| {
                let length = text.as_str().unwrap().len();
                json!({"object": "embedding", "embedding": [length, 1, 0], "index": index})
            })
            .collect();
        memory_fakes::http::json(&json!({"object": "list", "data": data, "model": asked["model"]}))
    })
    .await
}

fn options(server: &Server) -> OpenAiOptions {
    let mut options = OpenAiOptions::new("all-minilm", 3);
    options.base_url = server.url("/v1");
    options.timeout_ms = 1_000;
    options
}

fn once(server: &Server) -> HttpClient {
    builder(server.policy()).retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() }).build().unwrap()
}

fn embedder(server: &Server) -> OpenAiEmbedder {
    OpenAiEmbedder::new(options(server), once(server)).unwrap()
}

async fn failure(steps: Vec<Step>, texts: &[&str]) -> Error {
    let server = Server::always(steps).await;
    embedder(&server).embed(texts, EmbedRole::Document).await.unwrap_err()
}

#[tokio::test]
async fn texts_become_vectors_in_their_order() {
    let server = honest().await;
    let embedder = embedder(&server);
    let vectors = embedder.embed(&["a", "bb", "ccc"], EmbedRole::Document).await.unwrap();
    assert_eq!(vectors, [[1.0, 1.0, 0.0], [2.0, 1.0, 0.0], [3.0, 1.0, 0.0]]);
    let model = embedder.model();
    assert_eq!(
        (model.provider.as_str(), model.model.as_str(), model.dimensions),
        ("openai", "all-minilm", 3)
    );

    let request = &server.requests()[0];
    assert!(request.head.starts_with("POST /v1/embeddings HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.header("authorization"), None, "no key was configured");
    let expected = json!({"model": "all-minilm", "input": ["a", "bb", "ccc"], "encoding_format": "float"});
    assert_eq!(request.json(), expected);
}

#[tokio::test]
async fn no_texts_ask_nothing() {
    let server = honest().await;
    assert!(embedder(&server).embed(&[], EmbedRole::Query).await.unwrap().is_empty());
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn what_the_operator_configured_is_sent() {
    let server = honest().await;
    let mut options = options(&server);
    options.base_url = server.url("/deployments/x/?api-version=2024-10-21");
    options.send_dimensions = true;
    options.encoding = Encoding::Base64;
    options.query_prefix = "search_query: ".into();
    options.document_prefix = "search_document: ".into();
    options.provider = "azure".into();
    // Cargo sets this one for every test.
    options.api_key_env = Some("CARGO_PKG_NAME".into());
    options.api_key_header = Some("api-key".into());
    let embedder = OpenAiEmbedder::new(options, once(&server)).unwrap();
    embedder.embed(&["x"], EmbedRole::Query).await.unwrap();
    embedder.embed(&["x"], EmbedRole::Document).await.unwrap();
    let requests = server.requests();
    assert!(requests[0].head.starts_with("POST /deployments/x/embeddings?api-version=2024-10-21 "));
    assert_eq!(requests[0].header("api-key"), Some("memory-embed"));
    assert_eq!(requests[0].json()["input"], json!(["search_query: x"]));
    assert_eq!(requests[1].json()["input"], json!(["search_document: x"]));
    assert_eq!(requests[0].json()["dimensions"], 3);
    assert_eq!(requests[0].json()["encoding_format"], "base64");
    assert_eq!(embedder.model().provider, "azure");
    assert!(!format!("{embedder:?}").contains("memory-embed"), "{embedder:?}");
}

#[tokio::test]
async fn a_key_travels_as_a_bearer_token() {
    let server = honest().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "sk-s3cret\n").unwrap();
    let mut options = options(&server);
    options.api_key_file = Some(folder.path().join("key"));
    let embedder = OpenAiEmbedder::new(options, once(&server)).unwrap();
    embedder.embed(&["x"], EmbedRole::Query).await.unwrap();
    assert_eq!(server.requests()[0].header("authorization"), Some("Bearer sk-s3cret"));
    assert!(!format!("{embedder:?}").contains("s3cret"), "{embedder:?}");
}

#[tokio::test]
async fn many_texts_go_in_batches_by_count_and_by_bytes() {
    let server = honest().await;
    let mut by_count = options(&server);
    by_count.batch_texts = 2;
    let texts = ["a", "bb", "ccc", "dddd", "eeeee"];
    let embedder = OpenAiEmbedder::new(by_count, once(&server)).unwrap();
    let vectors = embedder.embed(&texts, EmbedRole::Document).await.unwrap();
    assert_eq!(vectors.iter().map(|vector| vector[0]).collect::<Vec<_>>(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(server.count(), 3);

    let server = honest().await;
    let mut by_bytes = options(&server);
    by_bytes.batch_bytes = 6;
    let embedder = OpenAiEmbedder::new(by_bytes, once(&server)).unwrap();
    embedder.embed(&texts, EmbedRole::Document).await.unwrap();
    let sizes: Vec<usize> =
        server.requests().iter().map(|request| request.json()["input"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [3, 1, 1]);
}

#[tokio::test]
async fn a_batch_that_fails_fails_the_call() {
    let server = Server::start(|n, _| {
        if n == 0 {
            memory_fakes::http::json(
                &json!({"data": [{"embedding": [1, 0, 0], "index": 0}], "model": "all-minilm"}),
            )
        } else {
            reply(503, &[], b"")
        }
    })
    .await;
    let mut options = options(&server);
    options.batch_texts = 1;
    let embedder = OpenAiEmbedder::new(options, once(&server)).unwrap();
    let error = embedder.embed(&["a", "b"], EmbedRole::Document).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_long_text_is_refused_before_anything_is_sent_or_cut_where_chosen() {
    let server = honest().await;
    let mut limited = options(&server);
    limited.max_text_bytes = 10;
    let embedder = OpenAiEmbedder::new(limited.clone(), once(&server)).unwrap();
    let error = embedder.embed(&["short", &"é".repeat(6)], EmbedRole::Document).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!((&error.details()["limit"], &error.details()["actual"]), (&json!(10), &json!(12)));
    assert_eq!(server.count(), 0);

    limited.max_text_bytes = 11;
    limited.truncate = true;
    let embedder = OpenAiEmbedder::new(limited, once(&server)).unwrap();
    embedder.embed(&["short", &"é".repeat(6)], EmbedRole::Document).await.unwrap();
    assert_eq!(server.requests()[0].json()["input"], json!(["short", "ééééé"]));
}

#[tokio::test]
async fn an_empty_text_is_refused_before_anything_is_sent() {
    let server = honest().await;
    let error = embedder(&server).embed(&["a", ""], EmbedRole::Document).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn texts_that_are_too_long_for_the_model_are_told_from_other_refusals() {
    // As OpenAI, vLLM, Ollama, TEI (two versions) and llama.cpp say it.
    for (status, body) in [
        (
            400,
            r#"{"error": {"message": "This model's maximum context length is 8192 tokens, however you requested 10001 tokens (10001 in your prompt; 0 for the completion). Please reduce your prompt; or completion length.", "type": "invalid_request_error", "param": null, "code": null}}"#,
        ),
        (
            400,
            r#"{"error": {"message": "Invalid 'input[0]': maximum input length is 8192 tokens.", "type": "invalid_request_error", "param": null, "code": null}}"#,
        ),
        (
            400,
            r#"{"object": "error", "message": "This model's maximum context length is 512 tokens. However, you requested 900 tokens in the input for embedding generation.", "type": "BadRequestError", "param": null, "code": 400}"#,
        ),
        (
            400,
            r#"{"error": {"message": "the input length exceeds the context length", "type": "api_error", "param": null, "code": null}}"#,
        ),
        (
            413,
            r#"{"error": "Input validation error: `inputs` must have less than 512 tokens. Given: 534", "error_type": "Validation"}"#,
        ),
        (
            413,
            r#"{"message": "Input validation error: `inputs` must have less than 512 tokens. Given: 534", "code": 413, "type": "Validation"}"#,
        ),
        (
            500,
            r#"{"error": {"code": 500, "message": "input (812 tokens) is too large to process. increase the physical batch size (current batch size: 512)", "type": "server_error"}}"#,
        ),
    ] {
        let error =
            failure(reply(status, &[("Content-Type", "application/json")], body.as_bytes()), &["x"]).await;
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{body}");
        assert!(error.message().contains("max_text_bytes"), "{error}");
        assert!(!error.retry().is_retryable());
    }
}

#[tokio::test]
async fn refusals_say_what_to_change_and_repeat_nothing() {
    for (status, body, kind, advice) in [
        (
            400,
            r#"{"error": {"message": "s3cret dimensions"}}"#,
            ErrorKind::InvalidArgument,
            "send_dimensions",
        ),
        (
            401,
            r#"{"error": {"message": "Incorrect API key provided: s3cret"}}"#,
            ErrorKind::Unauthenticated,
            "credential",
        ),
        (403, r#"{"error": {"message": "s3cret"}}"#, ErrorKind::Forbidden, "credential"),
        (
            404,
            r#"{"error": {"message": "model \"s3cret\" not found, try pulling it first"}}"#,
            ErrorKind::NotFound,
            "all-minilm",
        ),
        (413, "s3cret", ErrorKind::TooLarge, "batch_bytes"),
        (
            422,
            r#"{"error": "batch size 64 > maximum allowed batch size 32 s3cret", "error_type": "Validation"}"#,
            ErrorKind::Unavailable,
            "batch_texts",
        ),
        (424, r#"{"message": "s3cret", "type": "Backend"}"#, ErrorKind::Unavailable, "try again"),
        (405, "s3cret", ErrorKind::Unavailable, "base URL"),
        (
            429,
            r#"{"error": {"message": "s3cret", "code": "insufficient_quota"}}"#,
            ErrorKind::QuotaExceeded,
            "quota",
        ),
        (
            429,
            r#"{"message": "Model is overloaded s3cret", "type": "Overloaded"}"#,
            ErrorKind::RateLimited,
            "less often",
        ),
        (500, "<html>s3cret</html>", ErrorKind::Unavailable, ""),
        (502, "<html>s3cret</html>", ErrorKind::Unavailable, ""),
        (503, "", ErrorKind::Unavailable, ""),
        (504, "s3cret", ErrorKind::Timeout, ""),
        (307, "s3cret", ErrorKind::EgressDenied, "redirect"),
    ] {
        let error =
            failure(reply(status, &[("Location", "http://169.254.169.254/")], body.as_bytes()), &["text"])
                .await;
        assert_eq!(error.kind(), kind, "{status} {body}: {error}");
        assert!(error.message().contains(advice), "{status}: {error}");
        assert_eq!(error.details()["status"], status);
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}

#[tokio::test]
async fn a_service_that_is_busy_is_asked_again() {
    let busy = || reply(429, &[("Retry-After", "2")], b"");
    let answer = memory_fakes::http::json(&json!({"data": [{"embedding": [1, 0, 0]}]}));
    let server = Server::script(vec![busy(), reply(503, &[], b""), answer]).await;
    let embedder = OpenAiEmbedder::new(
        {
            let mut options = options(&server);
            options.timeout_ms = 30_000;
            options
        },
        server.client(),
    )
    .unwrap();
    assert_eq!(embedder.embed(&["x"], EmbedRole::Query).await.unwrap(), [[1.0, 0.0, 0.0]]);
    assert_eq!(server.count(), 3);

    let server = Server::always(busy()).await;
    let error = OpenAiEmbedder::new(options(&server), server.client())
        .unwrap()
        .embed(&["x"], EmbedRole::Query)
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::RateLimited, Retry::After(Duration::from_secs(2))));
}

#[tokio::test]
async fn texts_that_a_service_refuses_do_not_keep_it_from_the_others() {
    let server = Server::start(|_, request| match request.json()["input"][0] == "short" {
        true => memory_fakes::http::json(&json!({"data": [{"embedding": [1, 0, 0]}]})),
        // As llama.cpp says it.
        false => reply(500, &[], br#"{"error": {"message": "input is too large to process"}}"#),
    })
    .await;
    let embedder = OpenAiEmbedder::new(options(&server), server.client()).unwrap();
    for _ in 0..6 {
        let refused = embedder.embed(&["long"], EmbedRole::Document).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
    }
    assert_eq!(embedder.embed(&["short"], EmbedRole::Document).await.unwrap(), [[1.0, 0.0, 0.0]]);
    assert_eq!(server.count(), 7, "none is sent twice");
}

#[tokio::test]
async fn a_service_that_hangs_or_drips_ends_by_the_deadline() {
    for steps in [
        vec![Step::Stall],
        vec![
            head("HTTP/1.1 200 OK\nContent-Length: 900\n\n"),
            Step::Drip(vec![b' '; 900], Duration::from_millis(20)),
        ],
    ] {
        let start = Instant::now();
        let error = failure(steps, &["x"]).await;
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.retry().is_retryable());
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_reply_of_two_hundred_megabytes_is_not_read() {
    let server = Server::always(vec![
        head("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"),
        Step::Flood([format!("{MIB:x}\r\n").into_bytes(), vec![b' '; MIB], b"\r\n".to_vec()].concat()),
    ])
    .await;
    let error = embedder(&server).embed(&["x"], EmbedRole::Document).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "not the caller's text is too large: {error}");
    assert!(server.sent() < 32 * MIB as u64, "{} bytes taken", server.sent());

    let announced = vec![head("HTTP/1.1 200 OK\nContent-Length: 209715200\n\n"), Step::Stall];
    assert_eq!(failure(announced, &["x"]).await.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_page_or_garbage_instead_of_vectors_is_a_typed_error() {
    let page = reply(200, &[("Content-Type", "text/html")], b"<html>Sign in</html>");
    let error = failure(page, &["x"]).await;
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Never));
    assert!(error.message().contains("HTML"), "{error}");
    let garbage = vec![Step::Send(b"\0\xff\xfe\r\n\r\n".to_vec()), Step::Close];
    assert_eq!(failure(garbage, &["x"]).await.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn another_model_is_refused_unless_its_name_is_accepted() {
    let answer =
        json!({"data": [{"embedding": [1, 0, 0], "index": 0}], "model": "text-embedding-ada-002-v2"});
    let server = Server::always(memory_fakes::http::json(&answer)).await;
    let mut options = options(&server);
    options.model = "text-embedding-ada-002".into();
    let error = OpenAiEmbedder::new(options.clone(), once(&server))
        .unwrap()
        .embed(&["x"], EmbedRole::Query)
        .await
        .unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Never));
    assert_eq!(error.details()["answered"], "text-embedding-ada-002-v2");
    assert!(error.message().contains("accept_model"), "{error}");

    options.accept_model = vec!["text-embedding-ada-002-v2".into()];
    let embedder = OpenAiEmbedder::new(options, once(&server)).unwrap();
    assert!(embedder.embed(&["x"], EmbedRole::Query).await.is_ok());
}

#[tokio::test]
async fn it_opens_with_a_client_of_its_own() {
    let server = honest().await;
    let (clock, ids) =
        (Arc::new(memory_fakes::http::FixedClock), Arc::new(memory_fakes::http::CountingIds::default()));
    let mut options = options(&server);
    let embedder =
        OpenAiEmbedder::open(options.clone(), server.policy(), clock.clone(), ids.clone()).unwrap();
    assert_eq!(embedder.embed(&["ab"], EmbedRole::Query).await.unwrap(), [[2.0, 1.0, 0.0]]);

    let error =
        OpenAiEmbedder::open(options.clone(), EgressPolicy::new(), clock.clone(), ids.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EgressDenied);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roots.pem");
    std::fs::write(&file, "no certificate").unwrap();
    for wrong in [file, folder.path().to_owned(), folder.path().join("missing")] {
        options.ca_file = Some(wrong);
        let error =
            OpenAiEmbedder::open(options.clone(), server.policy(), clock.clone(), ids.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

#[test]
fn only_what_the_policy_allows_is_opened() {
    let client = builder(EgressPolicy::new()).build().unwrap();
    for url in [
        "http://localhost:11434/v1",
        "https://169.254.169.254/v1",
        "http://api.example/v1",
        "https://[::1]/v1",
    ] {
        let mut options = OpenAiOptions::new("m", 3);
        options.base_url = url.into();
        let error = OpenAiEmbedder::new(options, client.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EgressDenied, "{url}");
    }
    for url in ["", "not a url", "ftp://h/", "https://user:hunter2@h/v1"] {
        let mut options = OpenAiOptions::new("m", 3);
        options.base_url = url.into();
        let error = OpenAiEmbedder::new(options, client.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
    let mut options = OpenAiOptions::new("m", 3);
    options.base_url = "https://user:hunter2@h/v1?key=hunter2".into();
    options.api_key_env = Some("hunter2".into());
    assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
    let mut options = OpenAiOptions::new("m", 3);
    options.api_key_env = Some("MEMORY_EMBED_TEST_IS_NEVER_SET".into());
    let error = OpenAiEmbedder::new(options, client).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(error.message().contains("MEMORY_EMBED_TEST_IS_NEVER_SET"), "{error}");
}

#[test]
fn options_out_of_range_name_their_field() {
    let good = || {
        let mut options = OpenAiOptions::new("m", 3);
        options.base_url = "https://api.example/v1".into();
        options
    };
    assert!(good().check().is_ok());
    type Spoil = fn(&mut OpenAiOptions);
    let cases: &[(&str, Spoil)] = &[
        ("model", |options| options.model.clear()),
        ("provider", |options| options.provider = "a\nb".into()),
        ("accept_model", |options| options.accept_model = vec![String::new()]),
        ("dimensions", |options| options.dimensions = 0),
        ("dimensions", |options| options.dimensions = 16_385),
        ("batch_texts", |options| options.batch_texts = 0),
        ("batch_texts", |options| options.batch_texts = 2_049),
        ("batch_texts", |options| (options.batch_texts, options.dimensions) = (2_048, 3_072)),
        ("batch_bytes", |options| options.batch_bytes = 0),
        ("max_text_bytes", |options| options.max_text_bytes = usize::MAX),
        ("timeout_ms", |options| options.timeout_ms = 0),
        ("timeout_ms", |options| options.timeout_ms = 600_001),
        ("query_prefix", |options| options.query_prefix = "x".repeat(4_097)),
        ("document_prefix", |options| options.document_prefix = "x".repeat(4_097)),
        ("api_key_header", |options| options.api_key_header = Some("api-key".into())),
        ("api_key_file", |options| {
            options.api_key_env = Some("A".into());
            options.api_key_file = Some("b".into());
        }),
        ("api_key_env", |options| options.base_url = memory_embed::OPENAI_BASE_URL.into()),
    ];
    for (field, spoil) in cases {
        let mut options = good();
        spoil(&mut options);
        let error = options.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{field}");
        assert!(error.message().contains(field), "{field}: {error}");
    }
}

#[test]
fn options_are_read_from_a_file_and_unknown_fields_are_refused() {
    let options: OpenAiOptions =
        serde_json::from_value(json!({"model": "m", "dimensions": 3, "encoding": "base64"})).unwrap();
    let mut expected = OpenAiOptions::new("m", 3);
    expected.encoding = Encoding::Base64;
    assert_eq!(options, expected);
    for wrong in [
        json!({"model": "m"}),
        json!({"dimensions": 3}),
        json!({"model": "m", "dimensions": 3, "api_key": "sk-1"}),
        json!({"model": "m", "dimensions": -3}),
        json!({"model": "m", "dimensions": 3, "encoding": "int8"}),
    ] {
        assert!(serde_json::from_value::<OpenAiOptions>(wrong.clone()).is_err(), "{wrong}");
    }
}
