//! A language model over HTTP against a server that answers as real services do, and as broken ones do.

use memory_core::{ChatModel as _, ChatPrompt, ErrorKind, Json};
use memory_embed::memory_http::{HttpClient, RetryPolicy};
use memory_embed::{AnswerFormat, MAX_ANSWER_BYTES, OpenAiChat, OpenAiChatOptions};
use memory_fakes::http::{Server, Step, builder, json as answer, reply};
use serde_json::{Value, json};

fn options(server: &Server) -> OpenAiChatOptions {
    let mut options = OpenAiChatOptions::new("small");
    options.base_url = server.url("/v1");
    options.timeout_ms = 1_000;
    options
}

fn client(server: &Server, attempts: u32) -> HttpClient {
    builder(server.policy()).retry(RetryPolicy { attempts, ..RetryPolicy::default() }).build().unwrap()
}

fn model(server: &Server) -> OpenAiChat {
    OpenAiChat::new(options(server), client(server, 1)).unwrap()
}

fn prompt() -> ChatPrompt {
    let schema = Json::parse(r#"{"type":"object","properties":{"a":{"type":"integer"}}}"#).unwrap();
    ChatPrompt { system: "Count.".into(), user: "one".into(), schema: Some(("count".into(), schema)) }
}

fn said(text: &str) -> Value {
    json!({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17},
    })
}

fn refused(message: &str) -> Vec<Step> {
    reply(400, &[], json!({"error": {"message": message}}).to_string().as_bytes())
}

#[tokio::test]
async fn a_schema_is_sent_and_tokens_are_counted() {
    let server = Server::always(answer(&said("{\"a\": 1}"))).await;
    let mut options = options(&server);
    options.temperature = Some(0.0);
    options.api_key_env = Some("CARGO_PKG_NAME".into());
    let model = OpenAiChat::new(options, client(&server, 1)).unwrap();
    let reply = model.complete(&prompt()).await.unwrap();
    assert_eq!(reply.text, "{\"a\": 1}");
    assert_eq!((reply.input_tokens, reply.output_tokens), (Some(12), Some(5)));
    let request = &server.requests()[0];
    assert!(request.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.header("authorization"), Some("Bearer memory-embed"));
    let sent = json!({
        "model": "small", "stream": false, "max_tokens": 4_096, "temperature": 0.0,
        "messages": [{"role": "system", "content": "Count."}, {"role": "user", "content": "one"}],
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "count", "strict": true, "schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
        }},
    });
    assert_eq!(request.json(), sent);
    assert!(!format!("{model:?}").contains("Bearer"));
}

#[tokio::test]
async fn a_service_without_schemas_is_asked_for_an_object_and_then_in_words_and_this_is_remembered() {
    let server = Server::start(|_, request| match request.json()["response_format"]["type"].as_str() {
        Some(kind) => refused(&format!("'response_format.type' {kind} is not supported")),
        None => answer(&said("Of course:\n```json\n{\"a\": 1}\n```")),
    })
    .await;
    let model = model(&server);
    for _ in 0..2 {
        assert_eq!(model.complete(&prompt()).await.unwrap().text, "{\"a\": 1}");
    }
    let kinds: Vec<Value> =
        server.requests().iter().map(|r| r.json()["response_format"]["type"].clone()).collect();
    assert_eq!(kinds, [json!("json_schema"), json!("json_object"), Value::Null, Value::Null]);
    let system = server.requests()[3].json()["messages"][0]["content"].as_str().unwrap().to_owned();
    assert!(system.starts_with("Count.\n") && system.contains(r#""type":"integer""#), "{system}");
}

#[tokio::test]
async fn a_chosen_format_is_the_only_one_that_is_tried() {
    let server = Server::always(refused("no response_format, please")).await;
    let mut options = options(&server);
    options.format = AnswerFormat::JsonObject;
    let model = OpenAiChat::new(options, client(&server, 1)).unwrap();
    assert_eq!(model.complete(&prompt()).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let kinds: Vec<Value> =
        server.requests().iter().map(|r| r.json()["response_format"]["type"].clone()).collect();
    assert_eq!(kinds, [json!("json_object")]);
}

#[tokio::test]
async fn a_request_that_is_wrong_in_every_format_does_not_change_the_format() {
    let server =
        Server::start(|n, _| if n < 3 { refused("unknown model") } else { answer(&said("{\"a\": 1}")) })
            .await;
    let model = model(&server);
    assert_eq!(model.complete(&prompt()).await.unwrap_err().kind(), ErrorKind::InvalidArgument);
    model.complete(&prompt()).await.unwrap();
    assert_eq!(server.requests()[3].json()["response_format"]["type"], "json_schema");
}

#[tokio::test]
async fn the_limit_of_tokens_goes_by_the_name_that_the_service_takes() {
    let server = Server::start(|_, request| match request.json().get("max_tokens") {
        Some(_) => refused("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        None => answer(&said("hello")),
    })
    .await;
    let model = model(&server);
    let plain = ChatPrompt { schema: None, ..prompt() };
    for _ in 0..2 {
        assert_eq!(model.complete(&plain).await.unwrap().text, "hello");
    }
    assert_eq!(server.count(), 3);
    assert_eq!(server.requests()[2].json()["max_completion_tokens"], 4_096);
    assert!(server.requests()[2].json().get("response_format").is_none());
}

#[tokio::test]
async fn a_service_that_is_overloaded_is_asked_again() {
    let server = Server::script(vec![reply(429, &[], b""), reply(503, &[], b""), answer(&said("{}"))]).await;
    let model = OpenAiChat::new(options(&server), client(&server, 3)).unwrap();
    assert_eq!(model.complete(&prompt()).await.unwrap().text, "{}");
    assert_eq!(server.count(), 3);
}

#[tokio::test]
async fn an_answer_counts_whatever_its_usage_looks_like() {
    for usage in ["null", "[]", "\"12\"", r#"{"prompt_tokens": -1, "completion_tokens": {"n": 5}}"#] {
        let body = said("{}").to_string().replace(r#""usage":"#, &format!(r#""usage":{usage},"used":"#));
        let server = Server::always(reply(200, &[], body.as_bytes())).await;
        let answer = model(&server).complete(&prompt()).await.unwrap();
        assert_eq!(
            (answer.text.as_str(), answer.input_tokens, answer.output_tokens),
            ("{}", None, None),
            "{usage}"
        );
    }
}

#[tokio::test]
async fn bad_answers_are_typed_errors_that_repeat_nothing() {
    let ended = |reason: &str| {
        json!({"choices": [{"finish_reason": reason, "message": {"content": "{\"s3cret"}}]}).to_string()
    };
    let declined = json!({"choices": [{"message": {"content": null, "refusal": "s3cret"}}]}).to_string();
    for (status, body, kind) in [
        (200, "", ErrorKind::Unavailable),
        (200, "<html>s3cret", ErrorKind::Unavailable),
        (200, "{\"s3cret\": 1}", ErrorKind::Unavailable),
        (200, "{\"choices\": []}", ErrorKind::Unavailable),
        (200, "{\"choices\": [{}]}", ErrorKind::Unavailable),
        (200, "{\"choices\": [{\"message\": {\"content\": \"  \"}}]}", ErrorKind::Unavailable),
        (200, ended("length").as_str(), ErrorKind::TooLarge),
        (200, ended("content_filter").as_str(), ErrorKind::Unavailable),
        (200, declined.as_str(), ErrorKind::Unavailable),
        (401, "s3cret", ErrorKind::Unauthenticated),
        (404, "s3cret", ErrorKind::NotFound),
        (400, "{\"error\": {\"message\": \"maximum context length s3cret\"}}", ErrorKind::TooLarge),
        (
            429,
            "{\"error\": {\"code\": \"insufficient_quota\", \"message\": \"s3cret\"}}",
            ErrorKind::QuotaExceeded,
        ),
        (500, "s3cret", ErrorKind::Unavailable),
    ] {
        let server = Server::always(reply(status, &[], body.as_bytes())).await;
        let error = model(&server).complete(&prompt()).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{status} {body}: {error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}

#[tokio::test]
async fn answers_are_bounded_in_time_and_size_and_prompts_in_size() {
    let server = Server::always(vec![Step::Stall]).await;
    let mut hasty = options(&server);
    hasty.timeout_ms = 50;
    let model = OpenAiChat::open(hasty, server.policy(), clock(), ids()).unwrap();
    assert_eq!(model.complete(&prompt()).await.unwrap_err().kind(), ErrorKind::Timeout);

    let server = Server::always(answer(&said(&"x".repeat(MAX_ANSWER_BYTES)))).await;
    assert_eq!(self::model(&server).complete(&prompt()).await.unwrap_err().kind(), ErrorKind::Unavailable);

    let server = Server::always(answer(&said("{}"))).await;
    let mut narrow = options(&server);
    narrow.max_prompt_bytes = 20;
    let model = OpenAiChat::new(narrow, client(&server, 1)).unwrap();
    assert_eq!(model.complete(&prompt()).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(server.count(), 0);
}

fn clock() -> std::sync::Arc<dyn memory_core::Clock> {
    std::sync::Arc::new(memory_fakes::http::FixedClock)
}

fn ids() -> std::sync::Arc<dyn memory_core::IdGen> {
    std::sync::Arc::new(memory_fakes::http::CountingIds::default())
}

#[test]
fn options_out_of_range_are_refused() {
    let local = || {
        let mut options = OpenAiChatOptions::new("m");
        options.base_url = "http://localhost:1/v1".into();
        options
    };
    assert!(local().check().is_ok());
    assert!(OpenAiChatOptions::new("m").check().is_err(), "OpenAI without a key");
    let wrong: [fn(&mut OpenAiChatOptions); 5] = [
        |options| options.model.clear(),
        |options| options.timeout_ms = 0,
        |options| options.max_output_tokens = 0,
        |options| options.temperature = Some(f64::NAN),
        |options| options.max_prompt_bytes = u64::MAX,
    ];
    for wrong in wrong {
        let mut options = local();
        wrong(&mut options);
        assert_eq!(options.check().unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
