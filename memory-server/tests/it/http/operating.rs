//! Health, metrics, TLS and shutdown.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::door::{Door, RULES, answer, set};
use crate::support::user::User;

#[test]
fn health_needs_no_token_and_says_nothing_else() {
    let door = Door::open("");
    let health = door.get("/healthz", &[]);
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    let ready = door.get("/readyz", &[]);
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));
}

#[test]
fn metrics_count_operations_refusals_and_latencies_without_names() {
    let door = Door::open("[audit]\nfile = \"audit.jsonl\"\n");
    let token = door.token("reader", &["--tenant", "acme", "--agent", "ann", "--ops", "set"]);
    let session = door.session(&token);
    door.ok(&token, &session, set("agent", "secret-key", "v"));
    door.refused(&token, &session, serde_json::json!({"op": "delete", "key": "k"}));
    door.get("/mcp", &[]);
    let text = door.get("/metrics", &[]).body;
    assert!(text.contains("\nmemory_sqlite_writes_waiting 0\n"), "{text}");
    for line in [
        "memory_operations_total{op=\"set\"} 1",
        "memory_operations_total{op=\"delete\"} 1",
        "memory_operations_denied_total{op=\"delete\"} 1",
        "memory_operations_denied_total{op=\"set\"} 0",
        "memory_operation_seconds_count{op=\"set\"} 1",
        "memory_operation_seconds_bucket{op=\"set\",le=\"+Inf\"} 1",
        "memory_http_refused_total{reason=\"unauthenticated\"} 1",
        "memory_http_responses_total{route=\"mcp\",class=\"4xx\"} 1",
        "memory_http_seconds_bucket{route=\"mcp\",le=\"+Inf\"} 5",
        "memory_http_in_flight 1",
        "memory_mcp_sessions 1",
        "memory_audit_missing_total 0",
        "memory_sqlite_text_index_hits_total 0",
        "memory_sqlite_text_index_misses_total 0",
        "# TYPE memory_http_seconds histogram",
    ] {
        assert!(text.lines().any(|known| known == line), "{line}:\n{text}");
    }
    for name in ["acme", "ann", "secret-key", "reader", "memory_operation_seconds_count{op=\"delete\"}"] {
        assert!(!text.contains(name), "{name}");
    }
}

#[test]
fn a_signal_ends_the_server_once_requests_in_flight_are_answered() {
    let mut door = Door::open("");
    let token = door.token("ann", &["--agent", "ann"]);
    let session = door.session(&token);
    let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"memory","arguments":{"op":"set","key":"k","value":"v"}}}"#;
    let head = |method: &str, more: &str| {
        format!(
            "{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nMcp-Session-Id: {session}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{more}\r\n"
        )
    };
    // A stream that never ends on its own, and a call whose body has not arrived.
    let mut stream = door.connect();
    stream.write_all(head("GET", "").as_bytes()).unwrap();
    let mut call = door.connect();
    let more = format!("Expect: 100-continue\r\nContent-Length: {}\r\n", body.len());
    call.write_all(head("POST", &more).as_bytes()).unwrap();
    call.read_exact(&mut [0; 25]).unwrap();
    door.signal("TERM");
    call.write_all(body.as_bytes()).unwrap();
    let called = answer(call);
    assert_eq!(called.message()["result"]["isError"], false, "{called:?}");
    let (status, stderr) = door.ended();
    assert!(status.success(), "{stderr}");
    assert_eq!(answer(stream).status, 200);
    let kept = door.user.json(&["get", "k", "--agent", "ann"]);
    assert_eq!(kept["value"], "v", "{kept}");
}

#[test]
fn with_json_for_a_format_every_line_of_the_log_is_an_object() {
    let user = User::new();
    user.file("memory.toml", RULES);
    let (address, variables) = ("127.0.0.1:0", [("MEMORY_LOG_FORMAT", "json"), ("MEMORY_LOG", "debug")]);
    let mut process = user.command(&["serve", "--http", address]).envs(variables).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(|line| {
        let line = line.unwrap();
        serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    });
    let listening = lines.find(|line| line["message"].as_str().unwrap().starts_with("listening on "));
    let listening = listening.unwrap();
    assert_eq!((&listening["level"], &listening["target"]), (&json!("INFO"), &json!("memory")));
    assert!(listening["time"].is_string(), "{listening}");
    process.kill().unwrap();
    lines.for_each(drop);
    process.wait().unwrap();
}

#[test]
fn before_it_ends_it_serves_on_and_says_that_it_is_not_ready() {
    let user = User::new();
    user.file("memory.toml", RULES);
    let mut door = Door::start(user, &["--drain", "60"]);
    let token = door.token("ops", &["--tenant", "acme"]);
    // An open connection ends with its next answer.
    let mut kept = door.connect();
    let ask = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    kept.write_all(ask).unwrap();
    kept.read_exact(&mut [0; 12]).unwrap();
    door.signal("TERM");
    while door.get("/readyz", &[]).status == 200 {}
    let ready = door.get("/readyz", &[]);
    assert_eq!((ready.status, ready.body.as_str()), (503, "ending\n"));
    let scope = json!({"tenant": "acme", "kind": "agent", "id": "ann"});
    let body = json!({"scope": scope, "key": "k", "value": 1}).to_string();
    let bearer = format!("Bearer {token}");
    let set = door.request("POST", "/v1/ops/set", &[("Authorization", &bearer)], &body);
    assert_eq!(set.status, 200, "{set:?}");
    kept.write_all(ask).unwrap();
    let told = answer(kept);
    assert!(told.body.contains("connection: close") && told.body.contains("503"), "{told:?}");
    door.signal("TERM");
    let (status, stderr) = door.ended();
    assert_eq!(status.code(), Some(130), "a second signal waits for nothing: {stderr}");
}

#[test]
fn it_ends_in_time_whatever_its_clients_leave_undone() {
    let mut door = Door::open("");
    let (token, ann) = (door.token("ops", &["--tenant", "acme"]), door.token("ann", &["--agent", "ann"]));
    let session = door.session(&ann);
    door.ok(&ann, &session, set("run", "scratch", "1"));
    let scope = json!({"tenant": "acme", "kind": "agent", "id": "ann"});
    let head = |op: &str, length: usize| {
        format!(
            "POST /v1/ops/{op} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    let text = "x".repeat(1_000_000);
    for key in 0..12 {
        let body = json!({"scope": scope, "key": format!("k{key}"), "value": text}).to_string();
        let bearer = format!("Bearer {token}");
        let set = door.request("POST", "/v1/ops/set", &[("Authorization", &bearer)], &body);
        assert_eq!(set.status, 200, "{set:?}");
    }
    let arguments = json!({ "scope": scope }).to_string();
    let undone = [
        "POST /v1/ops/set HTTP/1.1\r\nHost:".to_owned(),
        head("set", 100) + "{",
        head("import_scope", 1_000) + &arguments + "\n",
        head("export_scope", arguments.len()) + &arguments,
    ];
    let open: Vec<_> = undone
        .iter()
        .map(|bytes| {
            let mut stream = door.connect();
            stream.write_all(bytes.as_bytes()).unwrap();
            stream
        })
        .collect();
    // The answer to the last one is on its way.
    open.last().unwrap().peek(&mut [0; 12]).unwrap();
    let begun = Instant::now();
    door.signal("TERM");
    let (status, stderr) = door.ended();
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
    assert!(status.success() && !stderr.contains("memory: the"), "the run is purged: {stderr}");
}

#[test]
fn it_serves_tls_with_a_certificate_and_refuses_what_is_none() {
    let user = User::new();
    user.file("memory.toml", RULES);
    let bad = user.file("bad.pem", "no certificate");
    let bad = bad.to_str().unwrap();
    user.refused(
        &["serve", "--http", "127.0.0.1:0", "--tls-cert", bad, "--tls-key", bad],
        3,
        "invalid_argument",
    );
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(user.home())
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("left out: there is no openssl to make a certificate and to connect");
        return;
    }
    let door = Door::start(user, &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let mut client = Command::new("openssl")
        .args(["s_client", "-quiet", "-verify_quiet", "-CAfile", "cert.pem", "-connect"])
        .arg(format!("127.0.0.1:{}", door.port))
        .current_dir(door.user.home())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    client.stdin.as_mut().unwrap().write_all(request).unwrap();
    let mut answered = String::new();
    client.stdout.take().unwrap().read_to_string(&mut answered).unwrap();
    client.wait().unwrap();
    assert!(answered.starts_with("HTTP/1.1 200") && answered.ends_with("ok\n"), "{answered}");
    assert_ne!(door.get("/healthz", &[]).status, 200, "without TLS");
}

#[test]
fn the_start_says_which_store_is_served() {
    let mut door = Door::open("");
    door.signal("TERM");
    let (_, said) = door.ended();
    assert!(said.contains("The store is sqlite:memory.db.\n"), "{said}");
}
