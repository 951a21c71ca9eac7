//! Requests to `memory serve --http`, with a token that allows everything: whatever is asked, the server answers, does not fail,
//! and refuses in its own words.

use std::sync::OnceLock;

use memory_server::fuzzing::HttpServer;
use serde_json::Value;

/// What an input writes in the place of the token.
const TOKEN: &str = "TOKEN";

fn server() -> &'static HttpServer {
    static SERVER: OnceLock<HttpServer> = OnceLock::new();
    SERVER.get_or_init(|| HttpServer::new("sqlite::memory:").expect("a store in memory can be served"))
}

/// Sends the input: a line with method and target, lines of headers, an empty line, and the body.
pub fn run(data: &[u8]) {
    let end = data.windows(2).position(|two| two == b"\n\n");
    let (head, body) = end.map_or((data, &[][..]), |end| (&data[..end], &data[end + 2..]));
    let Ok(head) = std::str::from_utf8(head) else { return };
    let mut lines = head.lines();
    let Some((method, target)) = lines.next().and_then(|line| line.split_once(' ')) else { return };
    let given: Vec<(&str, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name, value.replace(TOKEN, server().token())))
        .collect();
    let mut headers: Vec<(&str, &str)> = given.iter().map(|(name, value)| (*name, value.as_str())).collect();
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        headers.push(("host", "localhost"));
    }
    let Some(answer) = server().answer(method, target, &headers, body).expect("an answer in time") else { return };
    let shown = || format!("{method} {target}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
    // Not served by this store, too busy, too late; never a failure.
    assert!(answer.status < 500 || matches!(answer.status, 501 | 503 | 504), "{}", shown());
    let path = target.split('?').next().unwrap_or_default();
    assert!(!String::from_utf8_lossy(&answer.body).contains(server().token()), "{}", shown());
    // Pages are for people, and the transport of MCP refuses in words of its own.
    let speaks_html = answer.kind.starts_with("text/html") && !path.starts_with("/v1");
    if answer.status >= 400 && path != "/mcp" && method != "HEAD" && !speaks_html {
        assert_eq!(answer.kind, "application/json", "{}", shown());
        let refusal: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| panic!("{}", shown()));
        let error = &refusal["error"];
        assert!(
            error["code"].is_string() && error["message"].is_string() && error["retryable"].is_boolean(),
            "{}",
            shown()
        );
    }
}
