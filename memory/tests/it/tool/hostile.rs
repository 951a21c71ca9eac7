//! Any input gives one JSON object, and nothing unrequested is written.

use std::sync::Arc;

use memory::{Memory, MemoryTool, Policy, ScopeKind};
use memory_conformance::TestClock;
use memory_conformance::reference::Reference;
use proptest::prelude::*;

use super::{code, ok, refused, run, tools};

#[tokio::test]
async fn anything_but_one_json_object_is_refused() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        for bad in [
            "",
            " ",
            "null",
            "1",
            "\"get\"",
            "[]",
            "[{\"op\":\"get\"}]",
            "{",
            "}",
            "{}x",
            "{\"op\"}",
            "{\"op\":}",
            "{'op':'get'}",
            "{\"op\":\"get\",}",
            "\u{feff}{\"op\":\"describe\"}",
            "{\"op\":\"describe\"} {\"op\":\"describe\"}",
            "{\"op\":\"get\",\"key\":\"\\ud800\"}",
            "{\"\\ud800\":1,\"op\":\"describe\"}",
            "{\"op\":\"\\udfff\"}",
            "\0",
            "{\"op\":\"get\",\"key\":\"a\0b\"}",
            "{\"op\":\"set\",\"key\":\"k\",\"value\":\"\\ud800\"}",
            "{\"op\":\"set\",\"key\":\"k\",\"value\":01}",
            "{\"op\":\"set\",\"key\":\"k\",\"value\":NaN}",
            "{\"op\":\"get\",\"key\":\"\\u0000\"}",
            "{\"op\":\"set\",\"key\":\"k\",\"value\":1,\"text\":\"\\u0000\"}",
            // An array of its members is not an object.
            "{\"op\":\"bulk_insert\",\"items\":[[\"k\",1]]}",
            "{\"op\":\"search\",\"query\":\"x\",\"rank\":[1.0]}",
        ] {
            assert_eq!(code(&tool, bad).await, "invalid_argument", "{bad:?}");
        }
        assert!(tool.call_bytes(b"{\"op\":\"get\",\"key\":\"\xff\"}").await.contains("UTF-8"));
        assert_eq!(ok(&tool, r#"{"op":"list"}"#).await["entries"], serde_json::json!([]));
    }
}

#[tokio::test]
async fn nesting_is_refused_before_a_parser_could_recurse() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        let nested = |open: &str, close: &str, depth: usize| {
            format!(r#"{{"op":"set","key":"k","value":{}1{}}}"#, open.repeat(depth), close.repeat(depth))
        };
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            ok(&tool, &nested(open, close, 128)).await;
            for depth in [129, 130, 131, 132, 200, 100_000] {
                assert_eq!(code(&tool, &nested(open, close, depth)).await, "invalid_argument", "{depth}");
            }
        }
        assert_eq!(code(&tool, &"[".repeat(100_000)).await, "invalid_argument");
        assert_eq!(code(&tool, &r#"{"op":"#.repeat(100_000)).await, "invalid_argument");
        let deep_filter = format!(
            r#"{{"op":"list","filter":{}{{"and":[]}}{}}}"#,
            r#"{"not":"#.repeat(100),
            "}".repeat(100)
        );
        assert_eq!(code(&tool, &deep_filter).await, "too_large");
        let item = format!(
            r#"{{"op":"bulk_insert","items":[{{"key":"b","value":{}{}}}]}}"#,
            "[".repeat(128),
            "]".repeat(128)
        );
        ok(&tool, &item).await;
    }
}

#[tokio::test]
async fn large_inputs_end_in_a_typed_error() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        let ten = "x".repeat(10 << 20);
        for (input, expected) in [
            (format!(r#"{{"op":"set","key":"k","value":"{ten}"}}"#), "too_large"),
            (format!(r#"{{"op":"get","key":"{ten}"}}"#), "too_large"),
            (format!(r#"{{"op":"{ten}"}}"#), "invalid_argument"),
            (format!(r#"{{"{ten}":1,"op":"get"}}"#), "invalid_argument"),
            (format!(r#"{{"op":"list","limit":"{ten}"}}"#), "invalid_argument"),
            (format!(r#"{{"op":"search","query":"{ten}"}}"#), "too_large"),
            (format!(r#"{{"op":"list","cursor":"{ten}"}}"#), "invalid_argument"),
            (format!(r#"{{"op":"get","key":"k","scope":"{ten}"}}"#), "invalid_argument"),
            (format!(r#"{{"op":"set","key":"k","value":1,"source":"{ten}"}}"#), "too_large"),
            (ten.repeat(2), "too_large"),
        ] {
            let (code, message, _) = refused(&tool, &input).await;
            assert_eq!(code, expected, "{}: {message}", &input[..40]);
            assert!(message.len() < 2_000, "{} bytes of message", message.len());
        }
        let many: String = (0..100_000).map(|n| format!(r#""f{n}":1,"#)).collect();
        assert_eq!(code(&tool, &format!(r#"{{{many}"op":"get"}}"#)).await, "invalid_argument");
        let items = vec![r#"{"key":"k","value":1}"#; 10_001].join(",");
        assert_eq!(code(&tool, &format!(r#"{{"op":"bulk_insert","items":[{items}]}}"#)).await, "too_large");
    }
}

#[tokio::test]
async fn keys_are_bytes_and_nothing_else() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        for key in
            ["../x", "*", "%", "_", "k'; DROP TABLE entries; --", "é", "e\u{301}", " ", "\u{1}", "\u{202e}"]
        {
            let name = serde_json::to_string(key).unwrap();
            assert_eq!(
                ok(&tool, &format!(r#"{{"op":"get","key":{name}}}"#)).await["found"],
                false,
                "{key:?}"
            );
            ok(&tool, &format!(r#"{{"op":"set","key":{name},"value":{name}}}"#)).await;
            assert_eq!(ok(&tool, &format!(r#"{{"op":"get","key":{name}}}"#)).await["value"], key);
        }
        assert_eq!(ok(&tool, r#"{"op":"list"}"#).await["entries"].as_array().unwrap().len(), 10);
    }
}

fn oracle() -> (tokio::runtime::Runtime, MemoryTool) {
    let memory = Memory::new(Arc::new(Reference::new(Arc::new(TestClock::new())))).unwrap();
    let policy = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    (runtime, MemoryTool::new(memory, policy, run(Some("ada"))).unwrap())
}

fn is_object(answer: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(answer).is_ok()
}

/// Fields with valid, nearly valid and invalid values.
fn calls() -> impl Strategy<Value = String> {
    let ops: Vec<String> = memory::ToolOp::ALL.iter().map(|op| format!("\"{}\"", op.as_str())).collect();
    let properties = memory::tool_schema()["properties"].clone();
    let names: Vec<String> =
        properties.as_object().unwrap().keys().filter(|name| *name != "op").cloned().collect();
    let values = prop_oneof![
        prop::sample::select(vec![
            "null",
            "true",
            "0",
            "-1",
            "1",
            "1e400",
            "9223372036854775808",
            "\"\"",
            "\"k\"",
            "\"agent\"",
            "\"keep\"",
            "[]",
            "[null]",
            "{}",
            r#"{"a":1}"#,
            r#"{"eq":["source","x"]}"#,
            r#"{"$serde_json::private::Number":"1"}"#,
            r#"{"$serde_json::private::RawValue":"1"}"#,
            r#"[{"key":"k","value":{}}]"#,
            r#"[{"role":"user","content":""}]"#,
            r#"{"threshold":0.5}"#,
            r#"{"recency":1}"#,
            "\"SELECT 1\"",
            "\"\\ud83d\\ude00\"",
            "\"\\u0000\"",
        ])
        .prop_map(str::to_owned),
        any::<f64>().prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        ".{0,20}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    let fields = prop::collection::vec((prop::sample::select(names), values), 0..6);
    (prop::sample::select(ops), fields).prop_map(|(op, fields)| {
        let fields: String = fields.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
        format!("{{\"op\":{op}{fields}}}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_give_a_json_object(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (runtime, tool) = oracle();
        let answer = runtime.block_on(tool.call_bytes(&bytes));
        prop_assert!(is_object(&answer), "{answer}");
    }

    #[test]
    fn random_calls_give_a_json_object(inputs in prop::collection::vec(calls(), 1..8)) {
        let (runtime, tool) = oracle();
        for input in inputs {
            let answer = runtime.block_on(tool.call(&input));
            prop_assert!(is_object(&answer), "{input}: {answer}");
        }
    }

    #[test]
    fn a_call_with_one_byte_changed_gives_a_json_object(at in 0_usize..80, byte in any::<u8>()) {
        let (runtime, tool) = oracle();
        let mut input = br#"{"op":"set","scope":"agent","key":"k","value":{"a":[1,"x"]},"ttl_seconds":5}"#.to_vec();
        let at = at % input.len();
        input[at] = byte;
        prop_assert!(is_object(&runtime.block_on(tool.call_bytes(&input))));
    }
}
