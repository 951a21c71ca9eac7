//! Replies that cannot be used, and servers that send none.

use std::time::Duration;

use serde_json::Value;

use crate::http::{Step, head, reply};

fn said(text: &str) -> Vec<Step> {
    reply(200, &[("Content-Type", "application/json")], text.as_bytes())
}

/// Every kind of unusable reply: `list` is the member with the rows, `row` a valid row.
pub fn answers(list: &str, row: &Value) -> Vec<(&'static str, Vec<Step>)> {
    let rows = |rows: &str| said(&format!("{{\"{list}\":[{rows}]}}"));
    let with = |name: &str, text: &str| {
        let mut changed = row.clone();
        changed[name] = Value::from("@");
        changed.to_string().replace("\"@\"", text)
    };
    let without = |name: &str| {
        let mut changed = row.clone();
        changed.as_object_mut().unwrap().remove(name);
        changed.to_string()
    };
    let text = if row.get("memory").is_some() { "memory" } else { "content" };
    let owner = if row.get("user_id").is_some() { "user_id" } else { "agent_id" };
    let score = if row.get("confidence").is_some() { "confidence" } else { "score" };
    let whole = rows(&row.to_string());
    let deep = format!("{{\"{list}\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    vec![
        ("no JSON", said("results: none")),
        ("nothing", said("")),
        ("null", said("null")),
        ("a bare array", said("[]")),
        ("an error with 200", said("{\"error\":\"no\"}")),
        ("a page for people", reply(200, &[("Content-Type", "text/html")], b"<html>Log in</html>")),
        ("JSON that ends early", said(&format!("{{\"{list}\":[{}", row))),
        ("deeply nested", said(&deep)),
        ("rows that are none", rows("7")),
        ("rows in an object", said(&format!("{{\"{list}\":{{}}}}"))),
        ("NaN", rows(&with(score, "NaN"))),
        ("1e400", rows(&with(score, "1e400"))),
        ("a score of words", rows(&with(score, "\"high\""))),
        ("a foreign owner", rows(&with(owner, "\"t2~user~bob\""))),
        ("an owner in capitals", rows(&with(owner, &row[owner].to_string().to_uppercase()))),
        ("an owner with a space", rows(&with(owner, &format!("\"{} \"", row[owner].as_str().unwrap())))),
        ("no owner", rows(&without(owner))),
        ("null for an owner", rows(&with(owner, "null"))),
        ("an id twice", rows(&format!("{row},{row}"))),
        ("an id with a path", rows(&with("id", "\"../../etc/passwd\""))),
        ("an id that is a number", rows(&with("id", "7"))),
        ("no words", rows(&without(text))),
        ("words that are a list", rows(&with(text, "[1]"))),
        ("a foreign row among others", rows(&format!("{row},{}", with(owner, "\"*\"")))),
        (
            "200 MB announced",
            vec![head("HTTP/1.1 200 OK\nContent-Length: 200000000\n\n"), Step::Flood(vec![b' '; 65_536])],
        ),
        (
            "200 MB in chunks",
            vec![
                head("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"),
                Step::Flood([b"10000\r\n".as_slice(), &[b' '; 65_536], b"\r\n"].concat()),
            ],
        ),
        ("a reset half-way", cut(&whole, Step::Reset)),
        ("an end half-way", cut(&whole, Step::Close)),
        ("silence", vec![Step::Stall]),
        ("silence half-way", cut(&whole, Step::Stall)),
        ("a byte now and then", drip(&whole)),
        (
            "a redirect to a private address",
            reply(302, &[("Location", "http://169.254.169.254/latest/meta-data/")], b""),
        ),
        ("a redirect to itself", reply(307, &[("Location", "/memories")], b"")),
        ("401", reply(401, &[], b"{\"detail\":\"no\"}")),
        ("403", reply(403, &[], b"{\"detail\":\"no\"}")),
        ("429", reply(429, &[("Retry-After", "99999")], b"{}")),
        ("500", reply(500, &[], b"{}")),
        ("502", reply(502, &[], b"{\"code\":\"unknown\"}")),
        ("503", reply(503, &[], b"<html>")),
        ("504", reply(504, &[], b"")),
        ("418", reply(418, &[], b"teapot")),
        (
            "an endless refusal",
            vec![head("HTTP/1.1 400 Bad\nContent-Length: 200000000\n\n"), Step::Flood(vec![b' '; 65_536])],
        ),
        ("no HTTP", vec![Step::Send(b"SSH-2.0-OpenSSH\r\n".to_vec()), Step::Close]),
        (
            "endless headers",
            vec![Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), Step::Flood(b"X-A: b\r\n".to_vec())],
        ),
    ]
}

fn bytes(steps: &[Step]) -> Vec<u8> {
    match steps {
        [Step::Send(bytes)] => bytes.clone(),
        _ => panic!("a whole reply is one step"),
    }
}

fn cut(whole: &[Step], end: Step) -> Vec<Step> {
    let bytes = bytes(whole);
    vec![Step::Send(bytes[..bytes.len() - 10].to_vec()), end]
}

fn drip(whole: &[Step]) -> Vec<Step> {
    vec![Step::Drip(bytes(whole), Duration::from_millis(50))]
}
