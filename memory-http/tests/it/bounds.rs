//! Bytes and time: every call ends, and none exceeds its limits.

use std::io::Write as _;
use std::time::{Duration, Instant};

use memory_core::ErrorKind;
use memory_fakes::http::{Server, Step, builder, head, reply};
use memory_http::{Call, CallKind, EgressPolicy, HttpClient, Limits, Method, Resolver, RetryPolicy};

const MIB: usize = 1024 * 1024;

fn get(server: &Server) -> Call {
    Call::new(Method::Get, &server.url("/")).unwrap()
}

/// One attempt, short waits.
fn hasty(server: &Server) -> HttpClient {
    let limits = Limits {
        max_response_bytes: MIB,
        idle_timeout: Duration::from_millis(300),
        total_timeout: Duration::from_millis(900),
        ..Limits::default()
    };
    builder(server.policy())
        .limits(limits)
        .retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() })
        .build()
        .unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_announced_reply_over_the_cap_is_refused_unread() {
    let server = Server::always(vec![
        head("HTTP/1.1 200 OK\nContent-Length: 209715200\n\n"),
        Step::Flood(vec![b'x'; MIB]),
    ])
    .await;
    let error = hasty(&server).request(get(&server)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(error.details()["limit"], MIB);
}

#[tokio::test]
async fn an_endless_reply_ends_at_the_cap() {
    let chunk = [format!("{MIB:x}\r\n").into_bytes(), vec![b'x'; MIB], b"\r\n".to_vec()].concat();
    let server =
        Server::always(vec![head("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"), Step::Flood(chunk)])
            .await;
    let error = hasty(&server).request(get(&server)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(server.sent() < 64 * MIB as u64, "{} bytes taken", server.sent());
}

#[tokio::test]
async fn a_reply_of_exactly_the_cap_is_whole() {
    let body = vec![b'x'; 1_000];
    let server = Server::always(reply(200, &[], &body)).await;
    let client = hasty(&server);
    assert_eq!(client.request(get(&server).max_response_bytes(1_000)).await.unwrap().body(), body);
    let error = client.request(get(&server).max_response_bytes(999)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn compressed_replies_are_read_and_bombs_end_at_the_cap() {
    let text = b"honest ".repeat(1_000);
    for (encoding, packed) in [("gzip", gzip(&text)), ("deflate", zlib(&text))] {
        let server = Server::always(reply(200, &[("Content-Encoding", encoding)], &packed)).await;
        assert_eq!(hasty(&server).request(get(&server)).await.unwrap().body(), text, "{encoding}");
    }
    let zeros = vec![0_u8; 64 * MIB];
    for (encoding, bomb) in [("gzip", gzip(&zeros)), ("deflate", zlib(&zeros))] {
        assert!(bomb.len() < MIB / 8);
        let server = Server::always(reply(200, &[("Content-Encoding", encoding)], &bomb)).await;
        let error = hasty(&server).request(get(&server)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{encoding}: {error}");
        assert!(error.details()["actual"].as_u64().unwrap() < 2 * MIB as u64, "stopped early: {error:?}");
    }
}

#[tokio::test]
async fn what_is_not_the_encoding_it_says_is_a_typed_error() {
    for (encoding, body) in [
        ("gzip", b"not gzip at all".to_vec()),
        ("gzip", gzip(&[7; 5_000])[..20].to_vec()),
        ("br", vec![0xff; 40]),
    ] {
        let server = Server::always(reply(200, &[("Content-Encoding", encoding)], &body)).await;
        let error = hasty(&server).request(get(&server)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{encoding}: {error:?}");
    }
}

#[tokio::test]
async fn a_request_over_its_cap_is_not_sent() {
    let server = Server::always(reply(200, &[], b"")).await;
    let limits = Limits { max_request_bytes: 100, ..Limits::default() };
    let client = builder(server.policy()).limits(limits).build().unwrap();
    let call =
        Call::new(Method::Post, &server.url("/")).unwrap().body("text/plain", vec![b'x'; 101]).unwrap();
    assert_eq!(client.request(call).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn a_server_that_says_nothing_ends_by_the_idle_timeout() {
    let server = Server::always(vec![Step::Stall]).await;
    let limits = Limits {
        idle_timeout: Duration::from_millis(300),
        total_timeout: Duration::from_secs(600),
        ..Limits::default()
    };
    let client =
        builder(server.policy()).limits(limits).retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() });
    let start = Instant::now();
    let error = client.build().unwrap().request(get(&server)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_server_that_drips_ends_by_the_total_timeout() {
    let slow = Duration::from_millis(40);
    for steps in [
        vec![Step::Drip(b"HTTP/1.1 200 OK\r\nX-Long: ".iter().copied().chain([b'a'; 500]).collect(), slow)],
        vec![head("HTTP/1.1 200 OK\nContent-Length: 500\n\n"), Step::Drip(vec![b'x'; 500], slow)],
        vec![
            head("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"),
            Step::Drip(b"1\r\nx\r\n".repeat(100), slow),
        ],
    ] {
        let server = Server::always(steps).await;
        let start = Instant::now();
        let error = hasty(&server).request(get(&server)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn what_is_not_http_is_a_typed_error() {
    for garbage in [
        b"\0\x01\x02\x03\xff\xfe garbage\r\n\r\n".to_vec(),
        b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(),
        b"HTTP/1.1 9999 No\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello".to_vec(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort".to_vec(),
        [b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-Header: 1\r\n".repeat(5_000), b"\r\n".to_vec()].concat(),
        [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'a'; 2 * MIB], b"\r\n\r\n".to_vec()].concat(),
        b"".to_vec(),
    ] {
        let server = Server::always(vec![Step::Send(garbage.clone()), Step::Close]).await;
        let error = hasty(&server).request(get(&server)).await.unwrap_err();
        let shown = String::from_utf8_lossy(&garbage[..garbage.len().min(60)]).into_owned();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{shown}: {error:?}");
    }
}

#[tokio::test]
async fn a_connection_reset_in_the_body_is_a_typed_error() {
    let steps = vec![head("HTTP/1.1 200 OK\nContent-Length: 100\n\nabc"), Step::Reset];
    let server = Server::always(steps).await;
    let error = hasty(&server).request(get(&server)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let post = Call::new(Method::Post, &server.url("/")).unwrap();
    let error = hasty(&server).request(post).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
    assert!(!error.retry().is_retryable());
}

#[tokio::test]
async fn a_status_stands_though_its_body_is_huge_or_broken() {
    for steps in [
        vec![head("HTTP/1.1 401 No\nContent-Length: 209715200\n\n"), Step::Flood(vec![b'x'; MIB])],
        vec![head("HTTP/1.1 401 No\nContent-Length: 100\n\nabc"), Step::Close],
    ] {
        let server = Server::always(steps).await;
        let error = hasty(&server).request(get(&server)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error:?}");
    }
}

#[tokio::test]
async fn where_nothing_listens_the_call_is_unavailable_and_known_not_to_have_happened() {
    let server = Server::always(vec![]).await;
    let (policy, url) = (server.policy(), server.url("/private/path?q=1"));
    drop(server);
    let client = builder(policy).build().unwrap();
    // The listener closes a moment after its task was told to end.
    let mut error = None;
    for _ in 0..100 {
        let call = Call::new(Method::Post, &url).unwrap().kind(CallKind::NotIdempotent);
        match client.request(call.timeout(Duration::from_secs(5))).await {
            Err(found) if found.kind() == ErrorKind::Unavailable => {
                error = Some(found);
                break;
            }
            _ => tokio::task::yield_now().await,
        }
    }
    let error = error.unwrap();
    assert!(!format!("{error:?}").contains("private"), "{error:?}");
}

/// Never answers.
#[derive(Debug)]
struct Silent;

#[async_trait::async_trait]
impl Resolver for Silent {
    async fn resolve(&self, _: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_call_that_ends_while_it_connects_is_known_not_to_have_happened() {
    let policy = EgressPolicy::new().allow_host("slow.example:80").unwrap();
    let call = |url: &str, timeout| {
        let call = Call::new(Method::Post, url).unwrap().kind(CallKind::NotIdempotent);
        call.json(&[1]).unwrap().timeout(Duration::from_millis(timeout))
    };
    // By the call's deadline, and by the limit of silence.
    for (idle, total) in [(60_000, 200), (200, 60_000)] {
        let limits = Limits { idle_timeout: Duration::from_millis(idle), ..Limits::default() };
        let client = builder(policy.clone())
            .limits(limits)
            .retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() })
            .resolver(std::sync::Arc::new(Silent))
            .build()
            .unwrap();
        let error = client.request(call("http://slow.example/", total)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
        assert!(error.message().contains("no connection"), "{error}");
    }
    // With a connection, it may have happened.
    let server = Server::always(vec![Step::Stall]).await;
    let error = hasty(&server).request(call(&server.url("/"), 200)).await.unwrap_err();
    assert_eq!((error.kind(), server.count()), (ErrorKind::OutcomeUnknown, 1), "{error:?}");
    let empty = Call::new(Method::Post, &server.url("/")).unwrap().timeout(Duration::from_millis(200));
    let error = hasty(&server).request(empty).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error:?}");
}

#[test]
fn without_a_runtime_a_call_is_an_error_not_a_panic() {
    let client = builder(EgressPolicy::new()).build().unwrap();
    let mut call = Box::pin(client.request(Call::new(Method::Get, "https://api.example/").unwrap()));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match call.as_mut().poll(&mut cx) {
        std::task::Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::Internal),
        _ => panic!("it must be ready and an error"),
    }
}
