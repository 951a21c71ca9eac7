//! What is retried, after how long, and when an origin is left alone.

use std::sync::Arc;
use std::time::Duration;

use memory_core::{ErrorKind, Retry};
use memory_fakes::http::{Server, Step, TestTimer, builder, head, json, reply};
use memory_http::{BreakerPolicy, Call, CallKind, HttpClient, Method, Reply, RetryPolicy};

fn post(server: &Server, kind: CallKind) -> Call {
    Call::new(Method::Post, &server.url("/")).unwrap().kind(kind).json(&serde_json::json!({"n": 1})).unwrap()
}

fn with_timer(server: &Server) -> (HttpClient, Arc<TestTimer>) {
    let timer = Arc::new(TestTimer::default());
    let client = builder(server.policy())
        .timer(Arc::clone(&timer) as _)
        .breaker(BreakerPolicy { failures: 0, ..BreakerPolicy::default() })
        .build()
        .unwrap();
    (client, timer)
}

fn ok() -> Vec<Step> {
    json(&serde_json::json!({"ok": true}))
}

#[tokio::test]
async fn each_kind_of_call_repeats_what_its_kind_allows() {
    use CallKind::{Idempotent, NotIdempotent, Safe};
    for (status, repeated_by) in [
        (408, &[Safe, Idempotent][..]),
        (425, &[Safe, Idempotent]),
        (429, &[Safe, Idempotent, NotIdempotent]),
        (500, &[Safe]),
        (502, &[Safe, Idempotent]),
        (503, &[Safe, Idempotent]),
        (504, &[Safe, Idempotent]),
        (400, &[]),
        (401, &[]),
        (404, &[]),
        (409, &[]),
        (413, &[]),
        (501, &[]),
    ] {
        for kind in [Safe, Idempotent, NotIdempotent] {
            let server = Server::script(vec![reply(status, &[], b"no"), ok()]).await;
            let (client, timer) = with_timer(&server);
            let result = client.request(post(&server, kind)).await;
            let repeats = repeated_by.contains(&kind);
            assert_eq!(result.is_ok(), repeats, "{status} {kind:?}");
            assert_eq!(server.count(), if repeats { 2 } else { 1 }, "{status} {kind:?}");
            assert_eq!(timer.waits().len(), usize::from(repeats));
        }
    }
}

#[tokio::test]
async fn a_lost_reply_is_repeated_only_where_twice_is_as_good_as_once() {
    for kind in [CallKind::Safe, CallKind::Idempotent] {
        let server = Server::script(vec![vec![Step::Close], ok()]).await;
        let (client, _) = with_timer(&server);
        assert!(client.request(post(&server, kind)).await.is_ok());
        assert_eq!(server.count(), 2);
    }
    let server = Server::script(vec![vec![Step::Close], ok()]).await;
    let (client, _) = with_timer(&server);
    let error = client.request(post(&server, CallKind::NotIdempotent)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
    assert_eq!(error.retry(), Retry::Never);
    assert_eq!(server.count(), 1, "sent once");
}

/// Incomplete replies to a read: the connection ends, the compressed body ends, the JSON ends.
fn cut_short() -> Vec<(&'static str, Vec<Step>)> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packed, br#"{"ok": true, "words": "honest honest honest"}"#).unwrap();
    let packed = packed.finish().unwrap();
    vec![
        ("closed", vec![head("HTTP/1.1 200 OK\nContent-Length: 12\n\n{\"ok\""), Step::Close]),
        ("reset", vec![head("HTTP/1.1 200 OK\nContent-Length: 12\n\n{\"ok\""), Step::Reset]),
        ("chunked", vec![head("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\n{\"ok\"\n"), Step::Close]),
        ("compressed", reply(200, &[("Content-Encoding", "gzip")], &packed[..packed.len() / 2])),
        ("half the JSON", reply(200, &[("Content-Type", "application/json")], b"{\"ok\": ")),
    ]
}

#[tokio::test]
async fn a_read_whose_reply_is_cut_short_is_repeated_and_a_write_is_not() {
    for (what, cut) in cut_short() {
        let server = Server::script(vec![cut.clone(), ok()]).await;
        let (client, _) = with_timer(&server);
        let reply = client.request(post(&server, CallKind::Safe)).await.unwrap();
        assert_eq!(
            (reply.json::<serde_json::Value>().unwrap()["ok"].clone(), server.count()),
            (true.into(), 2),
            "{what}"
        );

        let server = Server::script(vec![cut, ok()]).await;
        let (client, _) = with_timer(&server);
        let _ = client.request(post(&server, CallKind::NotIdempotent)).await;
        assert_eq!(server.count(), 1, "{what}");
    }
}

#[tokio::test]
async fn a_5xx_to_a_call_that_must_not_happen_twice_may_have_come_after_it_happened() {
    for status in [500, 502, 503, 504, 507, 520] {
        let server = Server::always(reply(status, &[], b"")).await;
        let (client, _) = with_timer(&server);
        let error = client.request(post(&server, CallKind::NotIdempotent)).await.unwrap_err();
        assert_eq!((error.kind(), server.count()), (ErrorKind::OutcomeUnknown, 1), "{status}");
    }
}

#[tokio::test]
async fn a_call_that_must_not_happen_twice_and_times_out_has_an_unknown_outcome() {
    let server = Server::always(vec![Step::Stall]).await;
    let (client, _) = with_timer(&server);
    let call = post(&server, CallKind::NotIdempotent).timeout(Duration::from_millis(200));
    assert_eq!(client.request(call).await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let call = post(&server, CallKind::Safe).timeout(Duration::from_millis(200));
    assert_eq!(client.request(call).await.unwrap_err().kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn retry_after_in_seconds_or_as_a_date_is_waited_for() {
    // The test clock says 2026-11-22T00:00:00Z.
    for asked in ["7", "Sun, 22 Nov 2026 00:00:07 GMT"] {
        let server = Server::script(vec![reply(429, &[("Retry-After", asked)], b""), ok()]).await;
        let (client, timer) = with_timer(&server);
        client.request(post(&server, CallKind::NotIdempotent)).await.unwrap();
        let waits = timer.waits();
        assert!((Duration::from_secs(7)..Duration::from_millis(7_300)).contains(&waits[0]), "{waits:?}");
    }
}

#[tokio::test]
async fn a_retry_after_longer_than_the_cap_or_the_deadline_ends_the_call_and_is_reported() {
    for (asked, timeout) in [("3600", 60), ("20", 10)] {
        let server = Server::script(vec![reply(429, &[("Retry-After", asked)], b""), ok()]).await;
        let (client, timer) = with_timer(&server);
        let call = post(&server, CallKind::Safe).timeout(Duration::from_secs(timeout));
        let error = client.request(call).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RateLimited);
        assert_eq!(error.retry(), Retry::After(Duration::from_secs(asked.parse().unwrap())));
        assert_eq!((server.count(), timer.waits().len()), (1, 0));
    }
}

#[tokio::test]
async fn attempts_are_counted_and_the_last_failure_is_the_result() {
    let server = Server::always(reply(503, &[], b"")).await;
    let timer = Arc::new(TestTimer::default());
    let client = builder(server.policy())
        .timer(Arc::clone(&timer) as _)
        .retry(RetryPolicy { attempts: 4, ..RetryPolicy::default() })
        .build()
        .unwrap();
    let error = client.request(post(&server, CallKind::Safe)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.details()["status"], 503);
    assert_eq!((server.count(), timer.waits().len()), (4, 3));
    let ceilings = [200, 400, 800].map(Duration::from_millis);
    assert!(timer.waits().iter().zip(ceilings).all(|(wait, ceiling)| *wait < ceiling));
}

#[tokio::test]
async fn an_origin_that_keeps_failing_is_left_alone_and_then_probed() {
    let server = Server::start(|n, _| if n < 4 { reply(500, &[], b"") } else { ok() }).await;
    let timer = Arc::new(TestTimer::default());
    let client = builder(server.policy())
        .timer(Arc::clone(&timer) as _)
        .retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() })
        .breaker(BreakerPolicy { failures: 3, cooldown: Duration::from_secs(10) })
        .build()
        .unwrap();
    for _ in 0..3 {
        assert_eq!(client.request(post(&server, CallKind::Safe)).await.unwrap_err().details()["status"], 500);
    }
    timer.advance(Duration::from_secs(4));
    let error = client.request(post(&server, CallKind::Safe)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::After(Duration::from_secs(6))));
    assert_eq!(error.details()["breaker"], "open");
    assert_eq!(server.count(), 3, "not asked");

    timer.advance(Duration::from_secs(6));
    assert_eq!(client.request(post(&server, CallKind::Safe)).await.unwrap_err().details()["status"], 500);
    assert_eq!(client.request(post(&server, CallKind::Safe)).await.unwrap_err().details()["breaker"], "open");
    timer.advance(Duration::from_secs(10));
    assert!(client.request(post(&server, CallKind::Safe)).await.is_ok(), "the second probe closes it");
    assert!(client.request(post(&server, CallKind::Safe)).await.is_ok());
}

#[tokio::test]
async fn refusals_of_the_callers_making_do_not_open_the_breaker() {
    let server = Server::always(reply(400, &[], b"")).await;
    let client = builder(server.policy())
        .breaker(BreakerPolicy { failures: 2, cooldown: Duration::from_secs(10) })
        .build()
        .unwrap();
    for _ in 0..6 {
        let error = client.request(post(&server, CallKind::Safe)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(server.count(), 6);
}

#[tokio::test]
async fn a_service_that_refuses_one_call_in_its_own_words_is_well() {
    let server = Server::always(reply(502, &[], br#"{"code": "unknown"}"#)).await;
    let client = builder(server.policy())
        .breaker(BreakerPolicy { failures: 2, cooldown: Duration::from_secs(10) })
        .build()
        .unwrap();
    let words = |reply: &Reply| reply.body().starts_with(br#"{"code""#).then_some(false);
    for _ in 0..6 {
        let call = post(&server, CallKind::Safe).judged_by(words);
        assert_eq!(client.request(call).await.unwrap_err().details()["status"], 502);
    }
    assert_eq!(server.count(), 6, "each is asked once, and none is held back");
}

#[tokio::test]
async fn a_call_abandoned_in_its_course_holds_nothing() {
    let server = Server::start(|n, _| if n < 3 { vec![Step::Stall] } else { ok() }).await;
    let (client, _) = with_timer(&server);
    for _ in 0..3 {
        let call = client.request(post(&server, CallKind::Safe));
        assert!(tokio::time::timeout(Duration::from_millis(50), call).await.is_err());
    }
    assert!(client.request(post(&server, CallKind::Safe)).await.is_ok());
}
