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

/// Sends a head until the answer starts like this: a place becomes free a moment after an answer was read.
fn begun(door: &Door, head: &str, with: &str) -> TcpStream {
    loop {
        let mut stream = door.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut begun = vec![0; with.len()];
        stream.read_exact(&mut begun).unwrap();
        if begun == with.as_bytes() {
            return stream;
        }
        let busy = [&b"HTTP/1.1 503"[..], b"HTTP/1.1 429"].iter().any(|status| begun.starts_with(status));
        assert!(busy, "{}", String::from_utf8_lossy(&begun));
    }
}

#[test]
fn requests_beyond_those_in_flight_are_told_to_wait_and_open_streams_do_not_count() {
    let door = Door::open("[http]\nmax_in_flight = 2\n");
    let [token, other, third] = ["ann", "bob", "eve"].map(|name| door.token(name, &["--agent", name]));
    let session = door.session(&token);
    let head_of =
        |token: &str| format!("/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n");
    let head = head_of(&token);
    let more = format!("Accept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n");
    let _stream = begun(&door, &format!("GET {head}{more}"), "HTTP/1.1 200 OK");
    // Requests whose bodies have not arrived, though the server has begun to read them.
    let more = format!(
        "Connection: close\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        INITIALIZE.len()
    );
    let waiting: Vec<_> = [head, head_of(&other)]
        .iter()
        .map(|head| begun(&door, &format!("POST {head}{more}"), "HTTP/1.1 100 Continue\r\n\r\n"))
        .collect();
    let refused = door.post(&third, None, INITIALIZE);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    let refused = door.post(&token, None, INITIALIZE);
    assert_eq!((refused.status, refused.code()), (429, "rate_limited".to_owned()));
    assert_eq!(door.get("/healthz", &[]).status, 200, "a busy server is alive");
    for mut stream in waiting {
        stream.write_all(INITIALIZE.as_bytes()).unwrap();
        assert_eq!(answer(stream).status, 200);
    }
    while door.post(&token, None, INITIALIZE).status != 200 {}
}

#[test]
fn slow_streams_of_one_token_leave_places_for_others() {
    let door = Door::open("[http]\nmax_in_flight = 8\n");
    let token = |name: &str| door.token(name, &["--tenant", "acme"]);
    let [ann, bob, eve] = ["ann", "bob", "eve"].map(token);
    let head = |token: &str| {
        format!(
            "POST /v1/ops/import_scope HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
        )
    };
    let stream = |token: &str| begun(&door, &head(token), "HTTP/1.1 100 Continue\r\n\r\n");
    let refused = |token: &str| {
        let answer = door.raw(head(token).as_bytes());
        assert_eq!(answer.header("retry-after"), Some("10"), "{answer:?}");
        (answer.status, answer.code())
    };
    let _of_ann = [stream(&ann), stream(&ann)];
    assert_eq!(refused(&ann), (429, "rate_limited".to_owned()));
    let _of_bob = [stream(&bob), stream(&bob)];
    assert_eq!(refused(&eve), (503, "unavailable".to_owned()));
    let bearer = format!("Bearer {ann}");
    let scopes =
        door.request("POST", "/v1/ops/scopes", &[("Authorization", &bearer)], r#"{"tenant": "acme"}"#);
    assert_eq!(scopes.status, 200, "{scopes:?}");
}

#[test]
fn slow_bodies_of_one_token_leave_half_of_the_places_to_others() {
    let door = Door::open("[http]\nmax_in_flight = 4\n");
    let [ann, bob] = ["ann", "bob"].map(|name| door.token(name, &["--tenant", "acme"]));
    let head = format!(
        "POST /v1/ops/scopes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {ann}\r\n\
         Connection: close\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
    );
    let _slow = [(), ()].map(|()| begun(&door, &head, "HTTP/1.1 100 Continue\r\n\r\n"));
    let scopes = |token: &str| {
        let bearer = format!("Bearer {token}");
        door.request("POST", "/v1/ops/scopes", &[("Authorization", &bearer)], r#"{"tenant": "acme"}"#)
    };
    let refused = scopes(&ann);
    assert_eq!((refused.status, refused.code()), (429, "rate_limited".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(scopes(&bob).status, 200);
}

#[test]
fn one_token_has_half_of_the_sessions() {
    let door = Door::open("");
    let (ann, bob) = (door.token("ann", &["--agent", "ann"]), door.token("bob", &["--agent", "bob"]));
    let mut session = None;
    for _ in 0..512 {
        let begun = door.post(&ann, None, INITIALIZE);
        assert_eq!(begun.status, 200, "{begun:?}");
        session = begun.header("mcp-session-id").map(str::to_owned);
    }
    let refused = door.post(&ann, None, INITIALIZE);
    assert_eq!((refused.status, refused.code()), (429, "rate_limited".to_owned()));
    assert_eq!(refused.header("retry-after"), Some("10"));
    assert_eq!(door.post(&bob, None, INITIALIZE).status, 200);
    let bearer = format!("Bearer {ann}");
    let headers = [("Authorization", bearer.as_str()), ("Mcp-Session-Id", session.as_deref().unwrap())];
    assert_eq!(door.request("DELETE", "/mcp", &headers, "").status, 204);
    // A place becomes free a moment after its session has ended.
    while door.post(&ann, None, INITIALIZE).status != 200 {}
}

#[test]
fn standing_streams_of_one_token_leave_connections_to_others() {
    let door = Door::open("[http]\nmax_connections = 8\n");
    let [ann, bob] = ["ann", "bob"].map(|name| door.token(name, &["--agent", name]));
    let stream = |token: &str| {
        let session = door.session(token);
        let head = format!(
            "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Accept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n"
        );
        let mut stream = door.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).unwrap();
        (String::from_utf8(begun.to_vec()).unwrap(), stream)
    };
    let of_ann = [stream(&ann), stream(&ann)];
    assert!(of_ann.iter().all(|(status, _)| status == "HTTP/1.1 200"), "{of_ann:?}");
    assert_eq!(stream(&ann).0, "HTTP/1.1 429");
    assert_eq!(stream(&bob).0, "HTTP/1.1 200");
    drop(of_ann);
    // A place becomes free once the server has seen that its client is gone.
    while stream(&ann).0 != "HTTP/1.1 200" {}
}

#[test]
fn bodies_of_one_token_take_no_more_memory_than_four_of_the_largest() {
    let door = Door::open("[http]\nmax_body_bytes = 1000000\n");
    let [ann, bob] = ["ann", "bob"].map(|name| door.token(name, &["--tenant", "acme"]));
    let head = |token: &str| {
        format!(
            "POST /v1/ops/scopes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\nContent-Length: 1000000\r\n\r\n"
        )
    };
    let (sent, answers) = std::sync::mpsc::channel();
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let (mut stream, sent) = (door.connect(), sent.clone());
            stream.write_all(head(&ann).as_bytes()).unwrap();
            // All but the last byte; a refusal may come earlier.
            let _ = stream.write_all(&[b' '; 999_999]);
            let reader = stream.try_clone().unwrap();
            std::thread::spawn(move || sent.send(answer(reader)));
            stream
        })
        .collect();
    let refused = answers.recv().unwrap();
    assert_eq!((refused.status, refused.code()), (429, "rate_limited".to_owned()), "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let scopes = format!("{}{}{}", head(&bob), r#"{"tenant": "acme"}"#, " ".repeat(999_982));
    assert_eq!(door.raw(scopes.as_bytes()).status, 200);
    for mut stream in waiting {
        let _ = stream.write_all(b" ");
    }
    let others: Vec<_> = answers.iter().take(4).map(|answer| answer.code()).collect();
    assert_eq!(others, ["invalid_argument"; 4], "they came whole, and are blank");
}

#[test]
fn forms_to_sign_in_that_never_come_whole_take_no_place_of_others() {
    let door = Door::open("[http]\nmax_in_flight = 4\n");
    let token = door.token("ann", &["--agent", "ann"]);
    let head = "POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nConnection: close\r\n\
                Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n";
    let _waiting: Vec<_> = (0..32).map(|_| begun(&door, head, "HTTP/1.1 100 Continue\r\n\r\n")).collect();
    assert_eq!(door.post(&token, None, INITIALIZE).status, 200);
    assert_eq!(door.get("/login", &[]).status, 503);
    assert_eq!(door.get("/", &[]).status, 303, "who has signed in is not kept out");
}

#[test]
fn an_answer_of_very_many_bytes_is_refused_before_it_is_written() {
    let door = Door::open("");
    let token = door.token("ops", &["--tenant", "acme"]);
    let scope = serde_json::json!({"tenant": "acme", "kind": "agent", "id": "ann"});
    let bearer = format!("Bearer {token}");
    let ask = |op: &str, body: serde_json::Value| {
        door.request(
            "POST",
            &format!("/v1/ops/{op}"),
            &[("Authorization", bearer.as_str())],
            &body.to_string(),
        )
    };
    let value = "x".repeat(900_000);
    assert_eq!(ask("set", serde_json::json!({"scope": scope, "key": "k", "value": value})).status, 200);
    let many = |count: usize| ask("get_many", serde_json::json!({"scope": scope, "keys": vec!["k"; count]}));
    assert_eq!(many(3).status, 200);
    assert_eq!(many(1_000).code(), "result_too_large");
}

#[test]
fn what_is_slow_is_ended() {
    let door = Door::open("[http]\nheader_timeout_ms = 200\nbody_timeout_ms = 200\n");
    let token = door.token("ann", &["--agent", "ann"]);
    // A connection that sends nothing, one that sends half a head, and one that is idle after an answer.
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
fn a_read_that_is_cut_off_may_be_sent_again_and_of_a_write_it_is_not_known_what_became() {
    let mut door = Door::open("[http]\nrequest_timeout_ms = 300\n[audit]\nfile = \"audit.jsonl\"\n");
    let token = door.token("ops", &["--tenant", "acme"]);
    let bearer = format!("Authorization: Bearer {token}");
    // Their bodies do not arrive.
    let cut: Vec<_> =
        ["ops/get", "tenants/acme/agents/ann/shared", "ops/set", "tenants/acme/agents/ann/note"]
            .into_iter()
            .map(|path| {
                let mut stream = door.connect();
                let head = format!("POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{bearer}\r\n");
                stream
                    .write_all(format!("{head}Connection: close\r\nContent-Length: 9\r\n\r\n").as_bytes())
                    .unwrap();
                stream
            })
            .collect();
    let codes: Vec<_> = cut.into_iter().map(|stream| answer(stream).code()).collect();
    assert_eq!(codes, ["timeout", "timeout", "outcome_unknown", "outcome_unknown"]);
    // A request that waits for the store has a record, even without a reply.
    let set = |key: &str| {
        let scope = serde_json::json!({"tenant": "acme", "kind": "agent", "id": "ann"});
        let body = serde_json::json!({"scope": scope, "key": key, "value": 1}).to_string();
        door.request("POST", "/v1/ops/set", &[("Authorization", &format!("Bearer {token}"))], &body).status
    };
    assert_eq!(set("a"), 200);
    memory::sqlite::prepare_process();
    let holder = rusqlite::Connection::open(door.user.home().join("memory.db")).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(set("b"), 504);
    drop(holder);
    door.signal("TERM");
    assert!(door.ended().0.success());
    let log = std::fs::read_to_string(door.user.home().join("audit.jsonl")).unwrap();
    let outcomes =
        log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["outcome"].clone());
    assert_eq!(outcomes.collect::<Vec<_>>(), ["ok", "outcome_unknown"], "{log}");
}

#[test]
fn a_connection_beyond_their_number_waits_for_a_place() {
    let door = Door::open("[http]\nmax_connections = 2\n");
    let mut open: Vec<_> = (0..2).map(|_| door.connect()).collect();
    for stream in &mut open {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
        let mut begun = [0; 12];
        stream.read_exact(&mut begun).unwrap();
        assert_eq!(&begun, b"HTTP/1.1 200");
    }
    let last = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let mut third = door.connect();
    third.write_all(last("/healthz").as_bytes()).unwrap();
    let mut first = open.swap_remove(0);
    first.write_all(last("/metrics").as_bytes()).unwrap();
    let counted = answer(first);
    assert!(counted.body.contains("memory_http_connections 2\n"), "{counted:?}");
    assert_eq!(
        answer(third).status,
        200,
        "it only had to wait: closed, its client could not know what was done"
    );
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

#[test]
fn a_body_of_the_api_that_is_too_large_or_stops_is_refused_for_that() {
    let door = Door::open("[http]\nmax_body_bytes = 10000\nbody_timeout_ms = 200\n");
    let token = door.token("ops", &["--tenant", "acme"]);
    let scope = r#"{"tenant":"acme","kind":"agent","id":"ann"}"#;
    let large = format!(r#"{{"scope":{scope},"key":"k","value":"{}"}}"#, "x".repeat(20_000));
    let line = format!("{{\"scope\":{scope}}}\n");
    let chunked = |path: &str, text: &str| {
        format!(
            "POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{text}\r\n",
            text.len()
        )
    };
    let entry = "tenants/acme/agent/ann/entries/k";
    let put = chunked(entry, &large).replacen("POST", "PUT", 1);
    for request in [chunked("ops/set", &large), chunked("batch", &large), put] {
        let refused = door.raw(format!("{request}0\r\n\r\n").as_bytes());
        assert_eq!((refused.status, refused.code()), (413, "too_large".to_owned()), "{refused:?}");
    }
    // They begin, and do not continue.
    let put = chunked(entry, "\"half").replacen("POST", "PUT", 1);
    for request in [chunked("ops/set", "{\"scope\":"), chunked("ops/import_scope", &line), put] {
        let mut stream = door.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let refused = answer(stream);
        assert_eq!((refused.status, refused.code()), (504, "timeout".to_owned()), "{request}: {refused:?}");
        assert!(refused.body.contains("\"retryable\":true"), "{refused:?}");
    }
}

fn body_of(stream: &mut TcpStream) -> usize {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    rest.len()
}

#[test]
fn an_answer_that_is_not_read_keeps_its_place_and_its_connection_ends() {
    let door = Door::open("[http]\nmax_in_flight = 1\nmax_connections = 2\nrequest_timeout_ms = 2000\n");
    let token = door.token("ops", &["--tenant", "acme"]);
    let bearer = format!("Bearer {token}");
    let scope = serde_json::json!({"tenant": "acme", "kind": "agent", "id": "ann"});
    let set = serde_json::json!({"scope": scope, "key": "k", "value": "x".repeat(900_000)}).to_string();
    let ask = |op: &str, body: &str| {
        door.request("POST", &format!("/v1/ops/{op}"), &[("Authorization", bearer.as_str())], body).status
    };
    while ask("set", &set) != 200 {}
    let many = serde_json::json!({"scope": scope, "keys": vec!["k"; 60]}).to_string();
    let head = format!(
        "POST /v1/ops/get_many HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nAuthorization: {bearer}\r\n\
         Content-Length: {}\r\n\r\n{many}",
        many.len()
    );
    let mut unread = begun(&door, &head, "HTTP/1.1 200 OK");
    assert_eq!(ask("get_many", &many), 503, "the answer is not taken");
    // Its connection ends, and with it its place.
    while ask("get_many", &many) != 200 {}
    assert!(body_of(&mut unread) < 60 * 900_000);
    // Connections that only send requests leave room for others.
    let mut asking: Vec<_> = (0..2).map(|_| door.connect()).collect();
    for stream in &mut asking {
        stream.set_write_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        while stream
            .write_all("GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(1_000).as_bytes())
            .is_ok()
        {}
    }
    assert_eq!(door.get("/healthz", &[]).status, 200);
}

#[test]
fn a_write_with_a_key_keeps_its_place_when_its_client_has_gone() {
    let door = Door::open(
        "[http]\nmax_in_flight = 1\n[agents.ann]\nsql_scopes = [\"agent\"]\n[sql]\nenabled = true\n",
    );
    let token = door.token("ann", &["--tenant", "acme", "--agent", "ann"]);
    let bearer = format!("Bearer {token}");
    let run = serde_json::json!({"tenant": "acme", "agent": "ann", "run": "r"});
    let scope = serde_json::json!({"tenant": "acme", "kind": "agent", "id": "ann"});
    let exec =
        |sql: &str| serde_json::json!({"run": run, "scope": scope, "sql": sql, "args": []}).to_string();
    let made =
        door.request("POST", "/v1/ops/exec", &[("Authorization", &bearer)], &exec("CREATE TABLE t (x)"));
    assert_eq!(made.status, 200, "{made:?}");
    let slow = exec(
        "INSERT INTO t SELECT max(n) FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE \
         n < 6000000) SELECT n FROM c)",
    );
    let query = exec("SELECT count(*) FROM t");
    let ask = || door.request("POST", "/v1/ops/query", &[("Authorization", &bearer)], &query).status;
    // The client disconnects as soon as the write may have begun, or a little later.
    let is_kept = |patience: u64| {
        let head = format!(
            "POST /v1/ops/exec HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {bearer}\r\nIdempotency-Key: {patience}\r\n\
             Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            slow.len()
        );
        let mut stream = begun(&door, &head, "HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(slow.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(patience));
        drop(stream);
        while !door.get("/metrics", &[]).body.contains("memory_http_in_flight 1\n") {}
        ask() == 503
    };
    assert!([1, 10, 100, 1_000].into_iter().any(is_kept));
    while ask() != 200 {}
}
