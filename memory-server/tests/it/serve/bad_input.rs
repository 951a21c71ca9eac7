//! What a hostile or broken client sends.

use serde_json::{Value, json};

use crate::serve::client::Place;

/// Rules with the smallest input limit, so that a test can stay small.
const SMALL: &str = "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\nagent = \"claude\"\n\
    memory_scopes = [\"agent\"]\n[limits]\nmax_input_bytes = 16384\n";

#[test]
fn invalid_messages_are_answered_and_the_session_goes_on() {
    let place = Place::new();
    let mut client = place.connect();
    for (line, code) in [
        (b"hello".as_slice(), -32700),
        (b"{\"jsonrpc\":\"2.0\",", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}{}", -32700),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600),
        (b"[]", -32600),
        (b"7", -32600),
        (b"{}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600),
    ] {
        client.write(line);
        client.write(b"\n");
        let answer = client.read_message();
        assert_eq!(answer["error"]["code"], code, "{}: {answer}", String::from_utf8_lossy(line));
        assert_eq!(answer["id"], Value::Null, "{answer}");
    }
    client.write_line(r#"{"id":8}"#);
    assert_eq!(client.answer(8)["error"]["code"], -32600, "by its id, where it has one");
    // These need no answer.
    client.write(b"\n \r\n");
    client.write_line(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#);
    client.write_line(r#"{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}"#);
    client.write_line(r#"{"jsonrpc":"2.0","method":"notifications/unheard_of"}"#);
    client.write_line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}"#);
    client.ok(json!({"op": "describe"}));
    assert_eq!(client.others().count(), 0);
}

#[test]
fn arguments_of_a_wrong_shape_are_refused_with_their_place() {
    let place = Place::new();
    let mut client = place.connect();
    for arguments in [json!([]), json!("text"), json!(7), json!(null), json!({"op": 7}), json!({"op": "get"})]
    {
        let answer = client.request("tools/call", json!({"name": "memory", "arguments": arguments}));
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{arguments}: {answer}");
        assert_eq!(result["structuredContent"]["error"]["code"], "invalid_argument", "{arguments}");
    }
    for params in [json!({}), json!({"arguments": {}}), json!({"name": null}), json!([]), json!("memory")] {
        let answer = client.request("tools/call", params.clone());
        assert!(answer["error"]["code"].is_i64(), "{params}: {answer}");
    }
    let answer = {
        client.write_line(r#"{"jsonrpc":"2.0","id":500,"method":"tools/call","params":{"name":"memory","arguments":{"op":"get","op":"set","key":"k","value":1}}}"#);
        client.answer(500)
    };
    assert!(
        answer["result"]["structuredContent"]["error"]["message"].as_str().unwrap().contains("twice"),
        "{answer}"
    );
    assert_eq!(client.ok(json!({"op": "list"}))["entries"], json!([]));
}

#[test]
fn endless_nesting_is_refused_without_harm() {
    let place = Place::new();
    let mut client = place.connect();
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    client.write_line(&format!(
        r#"{{"jsonrpc":"2.0","id":1000,"method":"tools/call","params":{{"name":"memory","arguments":{{"op":"set","key":"k","value":{deep}}}}}}}"#
    ));
    let answer = client.answer(1000);
    assert_eq!(answer["result"]["structuredContent"]["error"]["code"], "invalid_argument", "{answer}");
    client.write_line(&format!(r#"{{"jsonrpc":"2.0","id":1001,"method":"tools/list","params":{deep}}}"#));
    assert_eq!(client.answer(1001)["error"]["code"], -32600);
    client.write_line(&"[".repeat(1_000_000));
    assert!(client.read_message()["error"]["code"].is_i64());
    client.ok(json!({"op": "describe"}));
}

#[test]
fn a_message_over_the_limit_is_refused_by_its_id_and_not_kept() {
    let place = Place::new();
    place.write("memory.toml", SMALL);
    let mut client = place.connect_with(&[]);
    // Over the policy's limit but within the line's: the tool refuses.
    let error = client.refused(json!({"op": "set", "key": "k", "value": "x".repeat(20_000)}));
    assert_eq!((&error["code"], &error["details"]["limit"]), (&json!("too_large"), &json!(16_384)));
    let before = client.peak_memory();
    // Over the line's limit: the protocol refuses, by the id at the end of the line.
    for megabytes in [2, 40] {
        client.write(br#"{"method":"tools/call","params":{"name":"memory","arguments":{"op":"set","key":"k","value":""#);
        let block = vec![b'x'; 1 << 20];
        for _ in 0..megabytes {
            client.write(&block);
        }
        client.write(format!("\"}}}},\"jsonrpc\":\"2.0\",\"id\":{}}}\n", 7_000 + megabytes).as_bytes());
        let answer = client.answer(7_000 + megabytes);
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
    }
    client.write(&vec![b'{'; 8 << 20]);
    client.write(b"\n");
    assert_eq!(client.read_message()["id"], Value::Null);
    let after = client.peak_memory();
    assert!(
        after.zip(before).is_none_or(|(after, before)| after < before + (16 << 20)),
        "{before:?}, then {after:?}"
    );
    assert_eq!(client.ok(json!({"op": "list"}))["entries"], json!([]));
}

#[test]
fn metadata_that_would_fill_memory_is_refused() {
    let place = Place::new();
    let mut client = place.connect();
    let huge = "[],".repeat(1 << 20);
    client.write_line(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"memory","arguments":{{"op":"describe"}},"_meta":{{"x":[{huge}1]}}}}}}"#
    ));
    assert_eq!(client.answer(1)["error"]["code"], -32600);
    client.ok(json!({"op": "describe"}));
}

#[test]
fn calls_over_the_budget_wait_their_turn() {
    let place = Place::new();
    let mut client = place.connect();
    let ids: Vec<u64> =
        (0..500).map(|n| client.send_call(json!({"op": "incr", "key": format!("n{}", n % 3)}))).collect();
    for id in ids {
        assert_eq!(client.answer(id)["result"]["isError"], false);
    }
    let sum: i64 = (0..3)
        .map(|n| client.ok(json!({"op": "get", "key": format!("n{n}")}))["value"].as_i64().unwrap())
        .sum();
    assert_eq!(sum, 500);
}

#[test]
fn reusing_an_id_in_use_does_no_harm() {
    let place = Place::new();
    let mut client = place.connect();
    for n in 0..200 {
        client.write_line(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"memory","arguments":{{"op":"set","key":"k{n}","value":{n}}}}}}}"#
        ));
    }
    // Reusing an id that is in use cancels its first call.
    let answer = client.answer(1);
    let given_up = answer["error"]["message"] == "the call was cancelled";
    assert!(answer["result"]["isError"] == false || given_up, "{answer}");
    // The budget was released.
    for _ in 0..100 {
        client.ok(json!({"op": "incr", "key": "after"}));
    }
    assert!(client.others().all(|message| message["id"] == 1), "nothing but answers to that id");
}

#[test]
fn a_client_that_reads_nothing_is_waited_for_and_then_dropped() {
    let place = Place::new();
    let mut process = place
        .command(&["serve", "--url", "sqlite:memory.db", "--agent", "claude"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let stdout = process.stdout.take().unwrap();
    // Far more answers than the pipe and the queues hold.
    let writer = std::thread::spawn(move || {
        use std::io::Write as _;
        let handshake = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params":
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
        let _ = writeln!(stdin, "{handshake}");
        for id in 1..5_000 {
            let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params":
                {"name": "memory", "arguments": {"op": "describe"}}});
            if writeln!(stdin, "{call}").is_err() {
                return id;
            }
        }
        5_000
    });
    // The server stops reading when its budget is used up, which blocks the writer; then the client disconnects.
    drop(stdout);
    let written = writer.join().unwrap();
    assert!(written < 5_000, "the server took everything");
    process.wait().unwrap();
}
