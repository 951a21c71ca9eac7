//! The meaning of statuses and bodies, none of which is repeated.

use memory_core::{ErrorKind, Retry};
use memory_fakes::http::{Server, builder, reply};
use memory_http::{BreakerPolicy, Call, CallKind, HttpClient, Method, RetryPolicy};
use serde::Deserialize;

fn once(server: &Server) -> HttpClient {
    builder(server.policy())
        .retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() })
        .breaker(BreakerPolicy { failures: 0, ..BreakerPolicy::default() })
        .build()
        .unwrap()
}

#[tokio::test]
async fn every_status_has_its_code() {
    use ErrorKind::*;
    for (status, kind, for_writes) in [
        (300, EgressDenied, EgressDenied),
        (304, EgressDenied, EgressDenied),
        (400, InvalidArgument, InvalidArgument),
        (401, Unauthenticated, Unauthenticated),
        (402, QuotaExceeded, QuotaExceeded),
        (403, Forbidden, Forbidden),
        (404, NotFound, NotFound),
        (405, InvalidArgument, InvalidArgument),
        (407, Unauthenticated, Unauthenticated),
        (408, Timeout, Timeout),
        (409, Conflict, Conflict),
        (410, NotFound, NotFound),
        (412, Conflict, Conflict),
        (413, TooLarge, TooLarge),
        (414, TooLarge, TooLarge),
        (418, InvalidArgument, InvalidArgument),
        (422, InvalidArgument, InvalidArgument),
        (429, RateLimited, RateLimited),
        (431, TooLarge, TooLarge),
        (500, Unavailable, OutcomeUnknown),
        (501, Unsupported, Unsupported),
        (502, Unavailable, OutcomeUnknown),
        (503, Unavailable, OutcomeUnknown),
        (504, Timeout, OutcomeUnknown),
        (599, Unavailable, OutcomeUnknown),
    ] {
        let server = Server::always(reply(status, &[], b"{\"error\": \"s3cret text\"}")).await;
        for (call_kind, expected) in [(CallKind::Safe, kind), (CallKind::NotIdempotent, for_writes)] {
            let call = Call::new(Method::Post, &server.url("/p4th?q=s3cret")).unwrap().kind(call_kind);
            let error = once(&server).request(call.clone()).await.unwrap_err();
            assert_eq!(error.kind(), expected, "{status} {call_kind:?}");
            assert_eq!(error.details()["status"], status);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("s3cret") && !shown.contains("p4th"), "{shown}");
            let reply = once(&server).exchange(call).await.unwrap();
            assert_eq!(reply.status(), status);
            assert_eq!(reply.error().unwrap().kind(), expected);
            assert!(!format!("{reply:?}").contains("s3cret"));
        }
    }
}

#[tokio::test]
async fn what_to_do_after_a_refusal_follows_from_the_status() {
    for (status, retryable) in
        [(401, false), (403, false), (404, false), (409, false), (422, false), (429, true), (503, true)]
    {
        let server = Server::always(reply(status, &[("Retry-After", "9")], b"")).await;
        let error =
            once(&server).request(Call::new(Method::Get, &server.url("/")).unwrap()).await.unwrap_err();
        assert_eq!(error.retry().is_retryable(), retryable, "{status}");
        if retryable {
            assert_eq!(error.retry(), Retry::After(std::time::Duration::from_secs(9)));
        }
    }
}

#[derive(Debug, Deserialize)]
struct Expected {
    #[serde(rename = "name")]
    _name: String,
}

#[tokio::test]
async fn a_page_where_json_was_expected_says_so() {
    for (kind, body) in [
        ("text/html; charset=utf-8", "<!doctype html><title>Sign in s3cret</title>"),
        ("application/json", "\n <html>s3cret</html>"),
        ("TEXT/HTML", "s3cret"),
    ] {
        let server = Server::always(reply(200, &[("Content-Type", kind)], body.as_bytes())).await;
        let reply = once(&server).request(Call::new(Method::Get, &server.url("/")).unwrap()).await.unwrap();
        let error = reply.json::<Expected>().unwrap_err();
        assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Never));
        assert!(error.message().contains("HTML") && error.message().contains("base URL"), "{error}");
        assert!(!format!("{error:?}").contains("s3cret"));
    }
}

#[tokio::test]
async fn json_that_is_broken_or_of_another_shape_is_not_quoted() {
    let deep = "[".repeat(100_000);
    for body in [
        "",
        "s3cret",
        "{\"name\": \"s3cret",
        "{\"name\": 5, \"s3cret\": 1}",
        "[[\"s3cret\"]]",
        &deep,
        "\u{feff}{}",
    ] {
        let server =
            Server::always(reply(200, &[("Content-Type", "application/json")], body.as_bytes())).await;
        let reply = once(&server).request(Call::new(Method::Get, &server.url("/")).unwrap()).await.unwrap();
        let error = reply.json::<Expected>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}
