//! Every key/value operation through the tool.

use std::sync::Arc;

use memory::{MemoryTool, Policy};
use memory_conformance::TestClock;
use serde_json::json;

use super::{call, code, ok, refused, run, tools};

#[tokio::test]
async fn set_then_get_gives_the_same_text_back() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        for value in
            ["9007199254740993", r#"{"b":1,  "a":[1.50,1e400]}"#, r#""\u00e9""#, "null", "0.1e-7", "[[[]]]"]
        {
            let set = tool.call(&format!(r#"{{"op":"set","key":"k","value":{value}}}"#)).await;
            assert!(set.contains(r#""version":"#), "{set}");
            let got = tool.call(r#"{"op":"get","key":"k"}"#).await;
            assert!(got.contains(&format!(r#""value":{value},"#)), "{value} came back as {got}");
        }
    }
}

#[tokio::test]
async fn a_missing_and_an_expired_entry_read_alike() {
    let clock = Arc::new(TestClock::new());
    for tool in tools(&clock).await {
        let missing = ok(&tool, r#"{"op":"get","key":"k"}"#).await;
        assert_eq!(json!(missing), json!({"found": false, "value": null}));
        let set = ok(&tool, r#"{"op":"set","key":"k","value":1,"ttl_seconds":1.5}"#).await;
        assert!(set["expires_at"].is_string());
        clock.advance_ms(1_499);
        assert_eq!(ok(&tool, r#"{"op":"get","key":"k"}"#).await["found"], true);
        clock.advance_ms(1);
        assert_eq!(json!(ok(&tool, r#"{"op":"get","key":"k"}"#).await), json!(missing));
    }
}

#[tokio::test]
async fn ttl_is_kept_cleared_or_set() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        let first = ok(&tool, r#"{"op":"set","key":"k","value":1,"ttl_seconds":60}"#).await;
        let kept = ok(&tool, r#"{"op":"set","key":"k","value":2,"ttl":"keep"}"#).await;
        assert_eq!(kept["expires_at"], first["expires_at"]);
        assert_eq!(ok(&tool, r#"{"op":"set","key":"k","value":3}"#).await["expires_at"], first["expires_at"]);
        assert_eq!(ok(&tool, r#"{"op":"incr","key":"k","ttl":"never"}"#).await["expires_at"], json!(null));
        for bad in ["0", "-1", "1e300", "0.0001", "3153600001"] {
            let input = format!(r#"{{"op":"set","key":"k","value":1,"ttl_seconds":{bad}}}"#);
            assert_eq!(code(&tool, &input).await, "invalid_argument", "{bad}");
        }
        let both = r#"{"op":"set","key":"k","value":1,"ttl_seconds":1,"ttl":"keep"}"#;
        assert!(refused(&tool, both).await.1.contains("not both"));
        assert_eq!(
            code(&tool, r#"{"op":"set","key":"k","value":1,"ttl":"forever"}"#).await,
            "invalid_argument"
        );
    }
}

#[tokio::test]
async fn preconditions_compare_and_set() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        let first = ok(&tool, r#"{"op":"set","key":"k","value":1,"if_absent":true}"#).await;
        assert_eq!(first["created"], true);
        let (code_, message, details) =
            refused(&tool, r#"{"op":"set","key":"k","value":2,"if_absent":true}"#).await;
        assert_eq!(
            (code_.as_str(), &details["current_version"]),
            ("conflict", &first["version"]),
            "{message}"
        );
        let input = format!(r#"{{"op":"set","key":"k","value":2,"if_version":{}}}"#, first["version"]);
        let second = ok(&tool, &input).await;
        assert!(second["version"].as_u64() > first["version"].as_u64());
        let retried = ok(&tool, &input).await;
        assert_eq!((&retried["written"], &retried["version"]), (&json!(false), &second["version"]));
        let stale = format!(r#"{{"op":"delete","key":"k","if_version":{}}}"#, first["version"]);
        assert_eq!(code(&tool, &stale).await, "conflict");
        let both = r#"{"op":"set","key":"k","value":2,"if_absent":true,"if_version":1}"#;
        assert_eq!(code(&tool, both).await, "invalid_argument");
        assert_eq!(ok(&tool, r#"{"op":"delete","key":"k"}"#).await["deleted"], true);
        assert_eq!(ok(&tool, r#"{"op":"delete","key":"k"}"#).await["deleted"], false);
    }
}

#[tokio::test]
async fn list_pages_by_prefix_filter_and_cursor() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        for (key, city) in [("a/1", "Oslo"), ("a/2", "Rome"), ("a/3", "Oslo"), ("b/1", "Oslo")] {
            ok(&tool, &format!(r#"{{"op":"set","key":"{key}","value":1,"metadata":{{"city":"{city}"}}}}"#))
                .await;
        }
        let first = ok(&tool, r#"{"op":"list","prefix":"a/","limit":2}"#).await;
        assert_eq!(first["truncated"], true);
        let keys = |page: &serde_json::Map<String, serde_json::Value>| -> Vec<String> {
            let entries = page["entries"].as_array().unwrap();
            entries.iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(keys(&first), ["a/1", "a/2"]);
        let next = format!(r#"{{"op":"list","prefix":"a/","limit":2,"cursor":{}}}"#, first["next"]);
        let second = ok(&tool, &next).await;
        assert_eq!((keys(&second), &second["truncated"]), (vec!["a/3".to_owned()], &json!(false)));
        assert!(!second.contains_key("next"));
        let oslo = ok(&tool, r#"{"op":"list","filter":{"eq":["metadata.city","Oslo"]}}"#).await;
        assert_eq!(keys(&oslo), ["a/1", "a/3", "b/1"]);
        assert_eq!(code(&tool, r#"{"op":"list","limit":0}"#).await, "invalid_argument");
        assert_eq!(code(&tool, r#"{"op":"list","limit":1001}"#).await, "too_large");
        assert_eq!(code(&tool, r#"{"op":"list","cursor":"AAAA"}"#).await, "invalid_argument");
        let foreign = format!(r#"{{"op":"list","prefix":"b/","cursor":{}}}"#, first["next"]);
        assert_eq!(code(&tool, &foreign).await, "invalid_argument");
    }
}

#[tokio::test]
async fn search_takes_every_option() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        ok(&tool, r#"{"op":"set","key":"note/1","value":"dinner in Lisbon","source":"chat"}"#).await;
        ok(&tool, r#"{"op":"set","key":"note/2","value":"dinner at home","source":"mail"}"#).await;
        ok(&tool, r#"{"op":"set","key":"x","value":17,"text":"the Lisbon file"}"#).await;
        let hits = ok(&tool, r#"{"op":"search","query":"lisbon dinner"}"#).await;
        assert_eq!(
            (hits["hits"][0]["key"].as_str(), hits["mode"].as_str()),
            (Some("note/1"), Some("lexical"))
        );
        assert_eq!(hits["hits"].as_array().unwrap().len(), 3);
        let (score, rank) = (&hits["hits"][0]["score"], &hits["hits"][0]["rank_score"]);
        assert!(score.as_f64().is_some_and(|score| score > 0.0 && score <= 1.0) && score == rank);
        let full = ok(
            &tool,
            r#"{"op":"search","query":"dinner","mode":"lexical","prefix":"note/","filter":{"in":["source",["mail"]]},
               "top_k":5,"threshold":0,"rank":{"recency":0.5,"half_life_seconds":60},"dedup":{"policy":"drop"}}"#,
        )
        .await;
        assert_eq!(full["hits"][0]["value"], "dinner at home");
        assert_eq!(full["hits"].as_array().unwrap().len(), 1);
        assert_eq!(code(&tool, r#"{"op":"search","query":"x","mode":"vector"}"#).await, "vector_unsupported");
        assert_eq!(code(&tool, r#"{"op":"search","query":" "}"#).await, "invalid_argument");
        assert_eq!(code(&tool, r#"{"op":"search","query":"x","top_k":0}"#).await, "invalid_argument");
        assert_eq!(code(&tool, r#"{"op":"search","query":"x","top_k":1000000}"#).await, "too_large");
        assert_eq!(code(&tool, r#"{"op":"search","query":"x","threshold":2}"#).await, "invalid_argument");
        let (_, message, details) =
            refused(&tool, r#"{"op":"search","query":"x","rank":{"novelty":1}}"#).await;
        assert!(message.contains("novelty") && details["field"] == "rank", "{message}");
    }
}

#[tokio::test]
async fn incr_counts_exactly_and_refuses_to_wrap() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        assert_eq!(ok(&tool, r#"{"op":"incr","key":"n"}"#).await["value"], 1);
        assert_eq!(ok(&tool, r#"{"op":"incr","key":"n","by":-3}"#).await["value"], -2);
        assert_eq!(ok(&tool, r#"{"op":"incr","key":"m","by":9223372036854775807}"#).await["value"], i64::MAX);
        assert_eq!(code(&tool, r#"{"op":"incr","key":"m"}"#).await, "invalid_argument");
        ok(&tool, r#"{"op":"set","key":"s","value":"one"}"#).await;
        assert_eq!(code(&tool, r#"{"op":"incr","key":"s"}"#).await, "wrong_type");
        assert_eq!(code(&tool, r#"{"op":"incr","key":"n","by":1.5}"#).await, "invalid_argument");
        assert_eq!(
            code(&tool, r#"{"op":"incr","key":"n","by":9223372036854775808}"#).await,
            "invalid_argument"
        );
    }
}

#[tokio::test]
async fn update_takes_exactly_one_reducer() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        ok(&tool, r#"{"op":"set","key":"o","value":{"id":9007199254740993,"n":1}}"#).await;
        let merged = tool.call(r#"{"op":"update","key":"o","merge":{"n":null}}"#).await;
        assert!(merged.starts_with(r#"{"value":{"id":9007199254740993,"n":null}"#), "{merged}");
        assert_eq!(ok(&tool, r#"{"op":"update","key":"l","append":null}"#).await["value"], json!([null]));
        let again = ok(&tool, r#"{"op":"update","key":"l","append":null}"#).await;
        assert_eq!(again["appended"], false);
        for n in 1..=3 {
            ok(&tool, &format!(r#"{{"op":"update","key":"q","push":{n},"limit":2}}"#)).await;
        }
        let pushed = ok(&tool, r#"{"op":"update","key":"q","push":4,"limit":2}"#).await;
        assert_eq!((&pushed["value"], &pushed["dropped"]), (&json!([3, 4]), &json!(1)));
        for bad in [
            r#"{"op":"update","key":"q"}"#,
            r#"{"op":"update","key":"q","merge":{},"append":1}"#,
            r#"{"op":"update","key":"q","push":1}"#,
            r#"{"op":"update","key":"q","append":1,"limit":2}"#,
            r#"{"op":"update","key":"q","push":1,"limit":0}"#,
            r#"{"op":"update","key":"q","push":1,"limit":-1}"#,
        ] {
            assert_eq!(code(&tool, bad).await, "invalid_argument", "{bad}");
        }
        assert_eq!(code(&tool, r#"{"op":"update","key":"o","append":1}"#).await, "wrong_type");
    }
}

#[tokio::test]
async fn bulk_insert_writes_all_or_nothing() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        let done = ok(
            &tool,
            r#"{"op":"bulk_insert","items":[{"key":"a","value":1},{"key":"b","value":{"x":1},"source":"chat","ttl_seconds":5}]}"#,
        )
        .await;
        assert_eq!(
            (&done["count"], &done["created"], &done["truncated"]),
            (&json!(2), &json!(2), &json!(false))
        );
        assert_eq!(done["items"].as_array().unwrap().len(), 2);
        let (code_, _, details) = refused(
            &tool,
            r#"{"op":"bulk_insert","items":[{"key":"c","value":1},{"key":"a","value":2,"if_absent":true}]}"#,
        )
        .await;
        assert_eq!((code_.as_str(), &details["index"]), ("conflict", &json!(1)));
        assert_eq!(ok(&tool, r#"{"op":"get","key":"c"}"#).await["found"], false);
        let (_, message, details) =
            refused(&tool, r#"{"op":"bulk_insert","items":[{"key":"c","value":1,"tll":2}]}"#).await;
        assert!(
            message.contains("tll") && message.contains("ttl") && details["field"] == "items",
            "{message}"
        );
        let (_, _, details) =
            refused(&tool, r#"{"op":"bulk_insert","items":[{"key":"c","value":1},{"key":"","value":1}]}"#)
                .await;
        assert_eq!(details["index"], 1);
    }
}

#[tokio::test]
async fn scopes_are_apart_and_belong_to_the_run() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        for scope in ["agent", "user", "run"] {
            ok(&tool, &format!(r#"{{"op":"set","scope":"{scope}","key":"k","value":"{scope}"}}"#)).await;
        }
        for scope in ["agent", "user", "run"] {
            let got = ok(&tool, &format!(r#"{{"op":"get","scope":"{scope}","key":"k"}}"#)).await;
            assert_eq!(got["value"], scope);
        }
        assert_eq!(ok(&tool, r#"{"op":"get","key":"k"}"#).await["value"], "agent", "the default scope");
        let stranger = memory::RunContext::new(
            "acme".parse().unwrap(),
            "other".parse().unwrap(),
            "run-2".parse().unwrap(),
        );
        let other = memory::MemoryTool::new(tool.memory().clone(), tool.policy().clone(), stranger).unwrap();
        for scope in ["agent", "run"] {
            let got = ok(&other, &format!(r#"{{"op":"get","scope":"{scope}","key":"k"}}"#)).await;
            assert_eq!(got["found"], false);
        }
    }
}

#[tokio::test]
async fn list_scopes_and_describe_report_the_contents() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        ok(&tool, r#"{"op":"set","key":"k","value":1}"#).await;
        let scopes = ok(&tool, r#"{"op":"list_scopes"}"#).await;
        assert_eq!(
            scopes["scopes"][0],
            json!({"scope": "agent", "durable": true, "memory": true, "sql": false, "entries": 1, "bytes": 2})
        );
        assert_eq!(scopes["scopes"].as_array().unwrap().len(), 3);
        let one = ok(&tool, r#"{"op":"list_scopes","scope":"run"}"#).await;
        assert_eq!(
            (one["scopes"].as_array().unwrap().len(), &one["scopes"][0]["durable"]),
            (1, &json!(false))
        );
        let about = ok(&tool, r#"{"op":"describe"}"#).await;
        assert_eq!(about["provider"], tool.memory().name());
        assert_eq!(about["capabilities"], serde_json::to_value(tool.memory().capabilities()).unwrap());
        assert_eq!(about["scopes"], json!({"memory": ["agent", "user", "run"], "sql": []}));
        let ops: Vec<&str> = about["ops"].as_array().unwrap().iter().filter_map(|op| op.as_str()).collect();
        assert!(ops.contains(&"search") && !ops.contains(&"sql_query") && !ops.contains(&"event"), "{ops:?}");
        for op in ops {
            let (_, message, _) = match call(&tool, &format!(r#"{{"op":"{op}"}}"#)).await.get("error") {
                None => continue,
                Some(error) => (0, error["message"].as_str().unwrap().to_owned(), 0),
            };
            assert!(message.contains("missing field") || message.contains("exactly one"), "{op}: {message}");
        }
    }
}

/// However many records of conversations match.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_search_finds_others_behind_any_number_of_records_of_conversations() {
    use memory::{Key, NewEntry, Scope, SetOptions, Source};

    let memory = memory::open("sqlite::memory:").await.unwrap();
    let scope = Scope::agent("acme", "planner").unwrap();
    let backend = memory.backend().unwrap();
    let entry = |key: String, text: &str, source: &str| {
        let mut entry = NewEntry::new(Key::new(key).unwrap(), "1".parse().unwrap());
        entry.options = SetOptions::default().with_text(text).with_source(Source::new(source).unwrap());
        entry
    };
    let policy = Policy::default().with_memory_scopes([memory::ScopeKind::Agent]);
    let tool = MemoryTool::new(memory.clone(), policy, run(None)).unwrap();
    for (records, source) in [(0, "turn"), (30, "turn"), (1_100, "chat")] {
        let turns: Vec<_> =
            (0..records).map(|n| entry(format!("~turn/log/{n:016x}"), "bees", "turn")).collect();
        backend.bulk_insert(&scope, turns, Default::default()).await.unwrap();
        let own = (0..3).map(|n| entry(format!("k{n}"), "bees in a hive of our own", source)).collect();
        backend.bulk_insert(&scope, own, Default::default()).await.unwrap();
        for top_k in [1, 3, 10] {
            let answer = tool.call(&format!(r#"{{"op":"search","query":"bees","top_k":{top_k}}}"#)).await;
            let hits = answer.matches(r#""key":"k"#).count();
            assert_eq!((hits, answer.contains("~turn")), (top_k.min(3), false), "{records}: {answer}");
        }
    }
}
