//! Where secrets come from, and that nothing shows them.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use memory_core::ErrorKind;
use memory_fakes::http::{Server, json};
use memory_http::{Call, Credential, MAX_SECRET_BYTES, Method, Origin, SecretSource};

fn file(content: &[u8]) -> (tempfile::TempDir, SecretSource) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, content).unwrap();
    (folder, SecretSource::File(path))
}

#[test]
fn a_secret_is_read_from_the_environment_or_a_file() {
    // Cargo sets this one for every test.
    let source = SecretSource::Env("CARGO_PKG_NAME".into());
    assert_eq!(source.load().unwrap().expose(), "memory-http");
    let (_folder, source) = file(b"  sk-123\r\n");
    assert_eq!(source.load().unwrap().expose(), "sk-123");
}

#[test]
fn what_is_no_secret_is_refused_without_showing_it() {
    let missing = SecretSource::Env("MEMORY_HTTP_TEST_IS_NEVER_SET".into());
    let error = missing.load().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(error.message().contains("MEMORY_HTTP_TEST_IS_NEVER_SET"), "{error}");
    let missing = SecretSource::File("/nonexistent/key".into());
    assert_eq!(missing.load().unwrap_err().kind(), ErrorKind::Unauthenticated);
    let folder = tempfile::tempdir().unwrap();
    let folder = SecretSource::File(folder.path().to_owned());
    assert_eq!(folder.load().unwrap_err().kind(), ErrorKind::InvalidArgument);

    for (content, kind) in [
        (b"".to_vec(), ErrorKind::Unauthenticated),
        (b" \n".to_vec(), ErrorKind::Unauthenticated),
        (b"hunter2\nhunter3".to_vec(), ErrorKind::InvalidArgument),
        (b"hunter2\0".to_vec(), ErrorKind::InvalidArgument),
        ("hunter2é".as_bytes().to_vec(), ErrorKind::InvalidArgument),
        (b"hunter2\xff".to_vec(), ErrorKind::InvalidArgument),
        (b"h".repeat(MAX_SECRET_BYTES + 1), ErrorKind::TooLarge),
    ] {
        let (_folder, source) = file(&content);
        let error = source.load().unwrap_err();
        assert_eq!(error.kind(), kind, "{:?}", &content[..content.len().min(20)]);
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
}

#[test]
fn a_secret_in_the_place_of_its_variables_name_is_not_shown() {
    for (name, kind) in [
        ("sk-proj-hunter2", ErrorKind::InvalidArgument),
        ("hunter2hunter2", ErrorKind::Unauthenticated),
        ("", ErrorKind::InvalidArgument),
        ("A=B", ErrorKind::InvalidArgument),
        ("A\0B", ErrorKind::InvalidArgument),
        (&"A".repeat(129), ErrorKind::InvalidArgument),
    ] {
        let source = SecretSource::Env(name.to_owned());
        let error = source.load().unwrap_err();
        assert_eq!(error.kind(), kind, "{name:?}");
        assert!(!format!("{error:?} {source:?} {source}").contains("hunter2"), "{error:?}");
    }
}

/// Everything that is logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl tracing::field::Visit for Log {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        let _ = writeln!(self.0.lock().unwrap(), "{field}={value:?}");
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut self.clone());
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn logs_have_origin_status_and_sizes_and_no_content() {
    // With a single subscriber, tracing asks the thread that first reaches a call site whether anybody listens. That
    // may be another test's thread, where nobody does.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let server = Server::script(vec![
        memory_fakes::http::reply(503, &[("X-Echo", "s3cret-header")], b"s3cret-reply"),
        json(&serde_json::json!({"text": "s3cret-reply"})),
    ])
    .await;
    let (_folder, source) = file(b"s3cret-key");
    let origin = Origin::of(&server.url("/")).unwrap();
    let call = Call::new(Method::Post, &server.url("/s3cret-path?s3cret=query"))
        .unwrap()
        .kind(memory_http::CallKind::Safe)
        .header("x-user", "s3cret-user")
        .unwrap()
        .credential(Credential::bearer(origin, &source.load().unwrap()).unwrap())
        .unwrap()
        .json(&serde_json::json!({"text": "s3cret-body"}))
        .unwrap();
    server.client().request(call).await.unwrap();
    let text = log.0.lock().unwrap().clone();
    assert!(text.contains("status=503") && text.contains("status=200"), "{text}");
    assert!(text.contains("attempt=2") && text.contains("method=\"POST\""), "{text}");
    assert!(text.contains(&server.address.to_string()), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}
