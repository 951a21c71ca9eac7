//! How much, how fast, how long, how many.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::door::{Door, INITIALIZE, answer};

#[test]
fn a_token_over_its_rate_is_told_when_to_come_back() {
    let door = Door::open("");
    let slow = door.token("slow", &["--agent", "ann", "--rate", "2"]);
    let other = door.token("other", &["--agent", "bob"]);
    for _ in 0..2 {
        assert_eq!(door.post(&slow, None, INITIALIZE).status, 200);
    }
    let answer = door.post(&slow, None, INITIALIZE);
    assert_eq!((answer.status, answer.code()), (429, "rate_limited".to_owned()));
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&wait), "{wait}");
    assert_eq!(door.post(&other, None, INITIALIZE).status, 200);
}

/// Sends a head until the answer begins so: a place is free again a moment after an answer has been read.
fn begun(door: &Door, head: &str, with: &str) -> TcpStream {
    loop {
        let mut stream = door.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut begun = vec![0; with.len()];
        stream.read_exact(&mut begun).unwrap();
        if begun == with.as_bytes() {
            return stream;
        }
        assert!(begun.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(&begun));
    }
}

#[test]
fn requests_beyond_those_in_flight_are_told_to_wait_and_open_streams_do_not_count() {
    let door = Door::open("[http]\nmax_in_flight = 2\n");
    let token = door.token("ann", &["--agent", "ann"]);
    let session = door.session(&token);
    let head = format!("/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n");
    let more = format!("Accept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n");
    let _stream = begun(&door, &format!("GET {head}{more}"), "HTTP/1.1 200 OK");
    // Requests whose bodies are not there yet, though the server has begun to read them.
    let more = format!(
        "Connection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        INITIALIZE.len()
    );
    let waiting: Vec<_> = (0..2)
        .map(|_| begun(&door, &format!("POST {head}{more}"), "HTTP/1.1 100 Continue\r\n\r\n"))
        .collect();
    let refused = door.post(&token, None, INITIALIZE);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(door.get("/healthz", &[]).status, 200, "a busy server is alive");
    for mut stream in waiting {
        stream.write_all(INITIALIZE.as_bytes()).unwrap();
        assert_eq!(answer(stream).status, 200);
    }
    while door.post(&token, None, INITIALIZE).status != 200 {}
}

#[test]
fn what_is_slow_is_ended() {
    let door = Door::open("[http]\nheader_timeout_ms = 200\nbody_timeout_ms = 200\n");
    let token = door.token("ann", &["--agent", "ann"]);
    // A connection that says nothing, one that is half a head, one that is idle after an answer.
    let silent = door.connect();
    let mut half = door.connect();
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127").unwrap();
    let mut idle = door.connect();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    assert_ne!(answer(silent).status, 200);
    assert_ne!(answer(half).status, 200);
    assert_eq!(answer(idle).status, 200);
    // A body that stops.
    let mut stopped = door.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Length: 1000\r\n\r\n{{"
    );
    stopped.write_all(head.as_bytes()).unwrap();
    let answer = answer(stopped);
    assert_eq!((answer.status, answer.code()), (504, "timeout".to_owned()));
}

#[test]
fn connections_have_a_number() {
    let door = Door::open("[http]\nmax_connections = 2\n");
    let mut open: Vec<_> = (0..2).map(|_| door.connect()).collect();
    for stream in &mut open {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
    }
    assert_eq!(door.get("/healthz", &[]).status, 0, "closed without an answer");
    drop(open);
    // The server notices soon.
    while door.get("/healthz", &[]).status != 200 {}
}

#[test]
fn a_body_over_the_limit_is_refused_announced_or_not() {
    let door = Door::open("[http]\nmax_body_bytes = 2048\n");
    let token = door.token("ann", &["--agent", "ann"]);
    let answer = door.post(&token, None, &" ".repeat(4_000));
    assert_eq!((answer.status, answer.code()), (413, "too_large".to_owned()));
    let chunks = format!("3e8\r\n{}\r\n", " ".repeat(1_000)).repeat(4);
    let answer = door.raw(
        format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
        )
        .as_bytes(),
    );
    assert_eq!((answer.status, answer.code()), (413, "too_large".to_owned()));
}
