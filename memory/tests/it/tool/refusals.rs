//! Refusals of the tool, and their hints for the caller.

use std::sync::Arc;

use memory::{MemoryTool, Policy, ScopeKind};
use memory_conformance::TestClock;
use serde_json::json;

use super::{code, ok, providers, refused, run, tools};

#[tokio::test]
async fn an_unknown_op_is_named_with_the_nearest_and_the_list() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        let (code, message, details) = refused(&tool, r#"{"op":"increment","key":"k"}"#).await;
        assert_eq!(code, "invalid_argument");
        assert!(message.contains("`increment`") && message.contains("did you mean `incr`?"), "{message}");
        assert_eq!(details["ops"], json!(tool.ops()), "what is offered, as `describe` lists it");
        let (_, message, _) = refused(&tool, r#"{"op":"🦀"}"#).await;
        assert!(
            message.contains('🦀') && !message.contains("did you mean") && message.contains("list_scopes")
        );
        for bad in [
            r#"{"key":"k"}"#,
            r#"{"op":null}"#,
            r#"{"op":1}"#,
            r#"{"op":["get"]}"#,
            r#"{"op":""}"#,
            r#"{"OP":"get"}"#,
        ] {
            let (_, message, _) = refused(&tool, bad).await;
            assert!(message.contains("`op`") || message.contains("unknown op"), "{bad}: {message}");
        }
    }
}

#[tokio::test]
async fn an_unknown_field_is_named_with_the_nearest_and_the_list() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        let (code, message, details) = refused(&tool, r#"{"op":"set","key":"k","value":1,"tags":{}}"#).await;
        assert_eq!((code.as_str(), &details["field"]), ("invalid_argument", &json!("tags")));
        assert!(message.contains("`tags`") && message.contains("metadata"), "{message}");
        let (_, message, _) = refused(&tool, r#"{"op":"get","keys":"k"}"#).await;
        assert!(message.contains("did you mean `key`?"), "{message}");
        assert_eq!(ok(&tool, r#"{"op":"get","key":"k"}"#).await["found"], false, "nothing was written");
    }
}

#[tokio::test]
async fn a_field_given_twice_is_refused_whatever_it_is() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        for bad in [
            r#"{"op":"get","op":"delete","key":"k"}"#,
            r#"{"op":"get","key":"a","key":"b"}"#,
            r#"{"op":"get","key":"k","\u006fp":"delete"}"#,
            r#"{"op":"set","key":"k","value":1,"value":2}"#,
            r#"{"op":"get","key":"k","scope":"agent","scope":"user"}"#,
        ] {
            let (code, message, _) = refused(&tool, bad).await;
            assert_eq!(code, "invalid_argument");
            assert!(message.contains("twice"), "{bad}: {message}");
        }
    }
}

#[tokio::test]
async fn a_wrong_type_names_its_field_and_what_it_wants() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        for (bad, field) in [
            (r#"{"op":"get","key":1}"#, "key"),
            (r#"{"op":"get","key":null}"#, "key"),
            (r#"{"op":"list","limit":"ten"}"#, "limit"),
            (r#"{"op":"list","limit":1.5}"#, "limit"),
            (r#"{"op":"list","limit":-1}"#, "limit"),
            (r#"{"op":"list","filter":[]}"#, "filter"),
            (r#"{"op":"list","filter":{"like":["metadata.a","x"]}}"#, "filter"),
            (r#"{"op":"list","filter":{"eq":["city","x"]}}"#, "filter"),
            (r#"{"op":"set","key":"k","value":1,"metadata":[]}"#, "metadata"),
            (r#"{"op":"set","key":"k","value":1,"metadata":{"a":null}}"#, "metadata"),
            (r#"{"op":"set","key":"k","value":1,"metadata":{"a":{}}}"#, "metadata"),
            (r#"{"op":"set","key":"k","value":1,"ttl_seconds":"60"}"#, "ttl_seconds"),
            (r#"{"op":"set","key":"k","value":1,"if_version":-1}"#, "if_version"),
            (r#"{"op":"set","key":"k","value":1,"if_absent":1}"#, "if_absent"),
            (r#"{"op":"search","query":"x","mode":"semantic"}"#, "mode"),
            (r#"{"op":"search","query":"x","dedup":{"policy":"squash"}}"#, "dedup"),
            (r#"{"op":"add","messages":[{"role":"robot","content":"x"}]}"#, "messages"),
            (r#"{"op":"sql_query","sql":"SELECT 1","args":[{"a":1}]}"#, "args"),
            (r#"{"op":"get","key":"k","scope":7}"#, "scope"),
        ] {
            let (code, message, details) = refused(&tool, bad).await;
            assert_eq!(
                (code.as_str(), &details["field"]),
                ("invalid_argument", &json!(field)),
                "{bad}: {message}"
            );
            assert!(message.contains(&format!("`{field}`")) && !message.contains("line 1"), "{message}");
        }
        let (_, message, _) = refused(&tool, r#"{"op":"set","key":"k"}"#).await;
        assert!(
            message.contains("missing field `value`") && message.contains("fields: key, value"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_whole_number_may_be_written_as_a_float() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        assert_eq!(ok(&tool, r#"{"op":"incr","key":"n","by":-2.0}"#).await["value"], -2);
        assert_eq!(
            ok(&tool, r#"{"op":"incr","key":"n","by":9007199254740993}"#).await["value"],
            9_007_199_254_740_991_i64
        );
        ok(&tool, r#"{"op":"list","limit":1e1}"#).await;
        ok(&tool, r#"{"op":"list","limit":null}"#).await;
        for bad in ["1.5", "1e300", "9007199254740993.0e1", "-0.5", "\"1\"", "[]", "true"] {
            let (_, message, _) = refused(&tool, &format!(r#"{{"op":"incr","key":"n","by":{bad}}}"#)).await;
            assert!(message.contains("`by` of `incr`: expected a whole number"), "{bad}: {message}");
        }
        let (_, message, _) = refused(&tool, r#"{"op":"list","limit":-1}"#).await;
        assert!(message.ends_with("a whole number, 0 or more"), "{message}");
    }
}

#[tokio::test]
async fn scope_ids_never_come_from_the_input() {
    for tool in tools(&Arc::new(TestClock::new())).await {
        let long = "x".repeat(10_240);
        for scope in ["../x", "*", "", "tenant", "global", "agent/other", "AGENT", " agent", long.as_str()] {
            let (code, message, _) =
                refused(&tool, &format!(r#"{{"op":"get","key":"k","scope":"{scope}"}}"#)).await;
            assert_eq!(code, "invalid_argument");
            assert!(message.contains("`agent`") && message.len() < 1_000, "{message}");
        }
        for field in ["scope_id", "tenant", "agent", "user", "run", "user_id", "root_run", "credentials"] {
            let input = format!(r#"{{"op":"get","key":"k","{field}":"other"}}"#);
            assert!(refused(&tool, &input).await.1.contains(&format!("unknown field `{field}`")));
        }
    }
}

#[tokio::test]
async fn policy_denies_by_default_and_says_what_is_allowed() {
    for memory in providers(&Arc::new(TestClock::new())).await {
        let denied = MemoryTool::new(memory.clone(), Policy::default(), run(Some("ada"))).unwrap();
        for op in ["get", "delete", "incr"] {
            let (code, message, details) = refused(&denied, &format!(r#"{{"op":"{op}","key":"k"}}"#)).await;
            assert_eq!((code.as_str(), &details["allowed"]), ("scope_denied", &json!([])), "{message}");
        }
        assert_eq!(ok(&denied, r#"{"op":"list_scopes"}"#).await["scopes"], json!([]));
        assert_eq!(ok(&denied, r#"{"op":"describe"}"#).await["ops"], json!(["list_scopes", "describe"]));
        assert_eq!(code(&denied, r#"{"op":"describe","scope":"agent"}"#).await, "scope_denied");

        let policy = Policy::default().with_memory_scopes([ScopeKind::User]);
        let tool = MemoryTool::new(memory.clone(), policy.clone(), run(Some("ada"))).unwrap();
        let (code_, message, details) = refused(&tool, r#"{"op":"get","key":"k"}"#).await;
        assert_eq!((code_.as_str(), &details["allowed"]), ("scope_denied", &json!(["user"])));
        assert!(message.contains("agent scope"), "{message}");
        ok(&tool, r#"{"op":"get","key":"k","scope":"user"}"#).await;

        let nobody = MemoryTool::new(memory, policy, run(None)).unwrap();
        let (code_, message, details) = refused(&nobody, r#"{"op":"get","key":"k","scope":"user"}"#).await;
        assert_eq!((code_.as_str(), &details["allowed"]), ("scope_denied", &json!([])));
        assert!(message.contains("no user"), "{message}");
    }
}

#[tokio::test]
async fn missing_capabilities_are_refused_after_the_policy() {
    for memory in providers(&Arc::new(TestClock::new())).await {
        let policy = Policy::default().with_memory_scopes(ScopeKind::ALL);
        let with_sql = policy.clone().with_sql_scopes(ScopeKind::ALL);
        let no_sql = MemoryTool::new(memory.clone(), policy, run(None)).unwrap();
        let tool = MemoryTool::new(memory.clone(), with_sql, run(None)).unwrap();
        for (input, denied) in [
            (r#"{"op":"event","event":"e"}"#, "capability_unsupported"),
            (r#"{"op":"sql_query","sql":"SELECT 1"}"#, "scope_denied"),
            (r#"{"op":"sql_exec","sql":"SELECT 1"}"#, "scope_denied"),
            (r#"{"op":"sql_begin"}"#, "scope_denied"),
            (r#"{"op":"sql_commit"}"#, "scope_denied"),
            (r#"{"op":"sql_rollback"}"#, "scope_denied"),
        ] {
            assert_eq!(code(&no_sql, input).await, denied, "{input}");
            if denied == "scope_denied" && memory.sql().is_some() {
                continue;
            }
            let (code, message, _) = refused(&tool, input).await;
            assert_eq!(code, "capability_unsupported", "{input}");
            assert!(message.contains(memory.name()), "{message}");
        }
    }
}
