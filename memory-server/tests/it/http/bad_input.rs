//! Requests that nobody should send.

use std::io::Write as _;

use super::door::{Door, INITIALIZE, get, set};

#[test]
fn other_names_and_pages_of_other_sites_get_nothing() {
    let door = Door::open("");
    let token = door.token("ann", &["--agent", "ann"]);
    let bearer = format!("Bearer {token}");
    for host in [
        "evil.example",
        "127.0.0.1.nip.io",
        "localhost.evil.example:80",
        "10.0.0.1",
        "a b",
        "evil@127.0.0.1",
        "127.0.0.1:99999",
    ] {
        let answer = door.get("/healthz", &[("Host", host)]);
        assert!(matches!(answer.status, 400 | 403), "{host}: {answer:?}");
    }
    let own = format!("http://127.0.0.1:{}", door.port);
    let secure = format!("https://127.0.0.1:{}", door.port);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost", &secure] {
        let answer = door.get("/mcp", &[("Origin", origin), ("Authorization", &bearer)]);
        assert_eq!((answer.status, answer.code()), (403, "forbidden".to_owned()), "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    assert_eq!(door.get("/healthz", &[("Origin", &own)]).status, 200);
    // Neither a proxy's header nor an absolute address can name another host.
    let forwarded =
        [("X-Forwarded-Host", "127.0.0.1"), ("X-Forwarded-For", "127.0.0.1"), ("Host", "evil.example")];
    assert_eq!(door.get("/healthz", &forwarded).status, 403);
    let absolute =
        b"GET http://evil.example/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    assert_eq!(door.raw(absolute).status, 403);
    let none = b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(door.raw(none).status, 400);
    let two = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(door.raw(two).status, 400);
}

#[test]
fn heads_that_are_huge_or_broken_are_refused_and_the_server_lives() {
    let door = Door::open("");
    let long = "x".repeat(100_000);
    assert_eq!(door.get("/healthz", &[("X-Long", &long)]).status, 431);
    let many: Vec<(&str, &str)> = std::iter::repeat_n(("X-Many", "x"), 500).collect();
    assert_eq!(door.get("/healthz", &many).status, 431);
    assert!(matches!(door.get(&format!("/{long}"), &[]).status, 414 | 431));
    for broken in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\xff\xfe\x00\x01\r\n\r\n",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ] {
        assert_ne!(door.raw(broken).status / 100, 2, "{}", String::from_utf8_lossy(broken));
    }
    // The second request must not be taken for part of the first, nor vice versa.
    let smuggled = b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n\
        0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: evil\r\n\r\n";
    assert!(!door.raw(smuggled).body.contains("ok\n"));
    // Nor is a body taken as it is whose coding is not undone, and what follows it is not answered.
    for coding in ["gzip, chunked", "chunked, chunked", "chunked\r\nTransfer-Encoding: chunked"] {
        let coded = format!(
            "POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: {coding}\r\n\r\n0\r\n\r\n\
             GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        );
        let answer = door.raw(coded.as_bytes());
        assert_eq!((answer.status, answer.header("connection")), (400, Some("close")), "{answer:?}");
        assert!(!answer.body.contains("ok\n"), "{answer:?}");
    }
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")];
    assert_ne!(door.get("/healthz", &upgrade).status, 101);
    assert_eq!(door.get("/healthz", &[]).status, 200);
}

#[test]
fn messages_that_are_none_are_refused_and_the_session_lives() {
    let door = Door::open("");
    let token = door.token("ann", &["--agent", "ann"]);
    let session = door.session(&token);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let call = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{{"name":"memory","arguments":{arguments}}}}}"#
        )
    };
    for (bad, status) in [
        (String::new(), 400),
        ("{".to_owned(), 400),
        ("[]".to_owned(), 400),
        (format!("[{INITIALIZE}]"), 400),
        ("7".to_owned(), 400),
        (deep.clone(), 400),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#.to_owned(), 400),
        (call(&deep), 200),
        (call(r#"{"op":"get","op":"set"}"#), 200),
    ] {
        let answer = door.post(&token, Some(&session), &bad);
        assert_eq!(answer.status, status, "{:.80}: {answer:?}", bad);
        if status == 200 {
            assert_eq!(answer.message()["result"]["isError"], true, "{answer:?}");
        }
    }
    let mut bytes = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Length: 3\r\n\r\n"
    )
    .into_bytes();
    bytes.extend([b'"', 0xff, b'"']);
    assert_eq!(door.raw(&bytes).status, 400);
    assert_eq!(door.post(&token, Some("no-such-session"), INITIALIZE).status, 404);
    door.ok(&token, &session, set("agent", "../../etc/passwd", "<script>alert(1)</script>"));
    assert_eq!(door.ok(&token, &session, get("agent", "../../etc/passwd"))["found"], true);
}

#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    let door = Door::open("[http]\nmax_in_flight = 4\n");
    let token = door.token("ann", &["--agent", "ann"]);
    let session = door.session(&token);
    for _ in 0..20 {
        let mut gone = door.connect();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Length: 100000\r\n\r\n{{"
        );
        gone.write_all(head.as_bytes()).unwrap();
        drop(gone);
    }
    // Their places are free again, including those of the last.
    let (mut free, bearer) = (0, format!("Bearer {token}"));
    while free < 10 {
        let status = door.get("/nothing", &[("Authorization", &bearer)]).status;
        free = if status == 404 { free + 1 } else { 0 };
    }
    door.ok(&token, &session, set("agent", "k", "v"));
}
