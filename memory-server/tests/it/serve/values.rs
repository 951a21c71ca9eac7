//! Values come back exactly as text.

use serde_json::json;

use crate::serve::client::Place;

#[test]
fn digits_order_and_spelling_survive_in_both_directions() {
    let place = Place::new();
    let mut client = place.connect();
    let value =
        r#"{"z":123456789012345678901234567890,"a":1.10,"m":[1E5,-0,"\u00e9"],"big":9007199254740993}"#;
    client.write_line(&format!(
        r#"{{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{{"name":"memory","arguments":{{"op":"set","key":"k","value":{value}}}}}}}"#
    ));
    client.answer(900);
    let id = client.send_call(json!({"op": "get", "key": "k"}));
    let line = client.read_line();
    assert!(
        line.contains(&format!(r#""structuredContent":{{"found":true,"key":"k","value":{value}"#)),
        "{line}"
    );
    let message: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(message["id"], id);
    assert!(message["result"]["content"][0]["text"].as_str().unwrap().contains(value), "{line}");
}

#[test]
fn a_value_of_maximal_depth_survives() {
    let place = Place::new();
    let mut client = place.connect();
    let value = format!("{}{}", "[".repeat(128), "]".repeat(128));
    client.write_line(&format!(
        r#"{{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{{"name":"memory","arguments":{{"op":"set","key":"deep","value":{value}}}}}}}"#
    ));
    assert!(client.read_line().contains(r#""version":1"#));
    client.send_call(json!({"op": "list"}));
    assert!(client.read_line().contains(&value));
}

#[test]
fn a_value_stored_over_several_lines_stays_in_one_message() {
    let place = Place::new();
    let pretty = "{\n  \"a\": [\r\n    1,\n    2\n  ]\n}\n";
    place.write("value.json", pretty);
    let set = ["set", "--url", "sqlite:memory.db", "--agent", "claude", "doc", "--file", "value.json"];
    assert!(place.command(&set).status().unwrap().success());
    let mut client = place.connect();
    let answer = client.ok(json!({"op": "get", "key": "doc"}));
    assert_eq!(answer["value"], json!({"a": [1, 2]}));
}

#[test]
fn an_entry_over_the_limit_of_answers_is_named_without_its_value() {
    let place = Place::new();
    place.write(
        "memory.toml",
        "[backends.main]\nurl = \"sqlite:memory.db\"\n[default]\nagent = \"claude\"\nmemory_scopes = [\"agent\"]\nmax_answer_bytes = 16384\n",
    );
    let mut client = place.connect_with(&[]);
    client.ok(json!({"op": "set", "key": "k", "value": "x".repeat(20_000)}));
    let got = client.ok(json!({"op": "get", "key": "k"}));
    assert!(got.get("value").is_none() && got["omitted_bytes"].as_u64() > Some(20_000), "{got}");
    let listed = client.request("resources/list", json!({}));
    assert_eq!(listed["result"]["resources"][0]["size"], got["omitted_bytes"], "{listed}");
    let read = client.request("resources/read", json!({"uri": "memory://agent/k"}));
    assert_eq!(read["error"]["data"]["code"], "result_too_large", "{read}");
}
