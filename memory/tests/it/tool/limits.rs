//! Quotas, rows and bytes: the operator's limits hold, and nothing gets stuck.

use std::sync::Arc;

use memory::{MemoryTool, Policy, Quota, ScopeKind};
use memory_conformance::TestClock;
use serde_json::json;

use super::{code, ok, providers, refused, run};

async fn tools(policy: Policy) -> Vec<MemoryTool> {
    let policy = policy.with_memory_scopes(ScopeKind::ALL);
    let providers = providers(&Arc::new(TestClock::new())).await;
    providers.into_iter().map(|memory| MemoryTool::new(memory, policy.clone(), run(None)).unwrap()).collect()
}

#[tokio::test]
async fn the_quota_reaches_every_kind_of_write_and_deleting_always_works() {
    let quota = Quota { max_entries: Some(2), max_bytes: Some(1_000) };
    for tool in tools(Policy::default().with_quota(quota)).await {
        ok(&tool, r#"{"op":"set","key":"a","value":[1]}"#).await;
        ok(&tool, r#"{"op":"incr","key":"n"}"#).await;
        for write in [
            r#"{"op":"set","key":"c","value":1}"#.to_owned(),
            r#"{"op":"incr","key":"c"}"#.to_owned(),
            r#"{"op":"update","key":"c","append":1}"#.to_owned(),
            r#"{"op":"bulk_insert","items":[{"key":"c","value":1}]}"#.to_owned(),
            format!(r#"{{"op":"set","key":"a","value":"{}"}}"#, "x".repeat(1_000)),
            format!(r#"{{"op":"update","key":"a","append":"{}"}}"#, "x".repeat(1_000)),
        ] {
            let (code, _, details) = refused(&tool, &write).await;
            assert_eq!(code, "quota_exceeded", "{write}");
            assert!(details.contains_key("limit") && details.contains_key("resource"));
        }
        assert_eq!(ok(&tool, r#"{"op":"get","key":"c"}"#).await["found"], false);
        ok(&tool, r#"{"op":"set","key":"a","value":1}"#).await;
        ok(&tool, r#"{"op":"delete","key":"a"}"#).await;
        ok(&tool, r#"{"op":"set","key":"c","value":1}"#).await;
    }
}

#[tokio::test]
async fn rows_are_capped_and_say_so() {
    for tool in tools(Policy::default().with_max_rows(3)).await {
        for n in 0..5 {
            ok(&tool, &format!(r#"{{"op":"set","key":"k{n}","value":"word"}}"#)).await;
        }
        let page = ok(&tool, r#"{"op":"list","limit":100}"#).await;
        assert_eq!((page["entries"].as_array().unwrap().len(), &page["truncated"]), (3, &json!(true)));
        let rest = ok(&tool, &format!(r#"{{"op":"list","cursor":{}}}"#, page["next"])).await;
        assert_eq!((rest["entries"].as_array().unwrap().len(), &rest["truncated"]), (2, &json!(false)));
        let hits = ok(&tool, r#"{"op":"search","query":"word","top_k":100}"#).await;
        assert_eq!((hits["hits"].as_array().unwrap().len(), &hits["truncated"]), (3, &json!(true)));
        let hits = ok(&tool, r#"{"op":"search","query":"word","top_k":2}"#).await;
        assert_eq!((hits["hits"].as_array().unwrap().len(), &hits["truncated"]), (2, &json!(false)));
    }
}

#[tokio::test]
async fn a_page_is_cut_at_the_bytes_and_goes_on_where_it_was_cut() {
    let limit = 16 << 10;
    for tool in tools(Policy::default().with_max_answer_bytes(limit)).await {
        let text = format!("word {}", "x".repeat(5_000));
        for n in 0..7 {
            ok(&tool, &format!(r#"{{"op":"set","key":"k{n}","value":"{text}"}}"#)).await;
        }
        let (mut keys, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let input = format!(r#"{{"op":"list"{cursor}}}"#);
            let answer = tool.call(&input).await;
            assert!(answer.len() <= limit, "{} bytes", answer.len());
            let page = ok(&tool, &input).await;
            keys.extend(
                page["entries"].as_array().unwrap().iter().map(|e| e["key"].as_str().unwrap().to_owned()),
            );
            pages += 1;
            match page.get("next") {
                Some(next) => cursor = format!(r#","cursor":{next}"#),
                None => break,
            }
        }
        assert_eq!(keys, ["k0", "k1", "k2", "k3", "k4", "k5", "k6"]);
        assert!(pages > 2, "{pages}");
        let hits = ok(&tool, r#"{"op":"search","query":"word"}"#).await;
        assert_eq!(hits["truncated"], true);
        assert!(!hits["hits"].as_array().unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_entry_larger_than_an_answer_is_named_without_its_value() {
    for tool in tools(Policy::default().with_max_answer_bytes(16 << 10)).await {
        let big = "x".repeat(20_000);
        ok(&tool, &format!(r#"{{"op":"set","key":"a","value":["word {big}"]}}"#)).await;
        ok(&tool, r#"{"op":"set","key":"b","value":1}"#).await;
        let page = ok(&tool, r#"{"op":"list"}"#).await;
        assert_eq!(page["entries"][0]["key"], "a");
        assert!(page["entries"][0].get("value").is_none());
        assert!(page["entries"][0]["omitted_bytes"].as_u64() > Some(20_000));
        assert_eq!(page["entries"][1]["value"], 1);
        let hits = ok(&tool, r#"{"op":"search","query":"word"}"#).await;
        assert!(hits["hits"][0]["omitted_bytes"].is_u64() && hits["hits"][0]["score"].is_f64());
        let got = ok(&tool, r#"{"op":"get","key":"a"}"#).await;
        assert_eq!((&got["found"], &got["version"]), (&json!(true), &page["entries"][0]["version"]));
        assert!(got.get("value").is_none() && got["omitted_bytes"] == page["entries"][0]["omitted_bytes"]);
        let updated = ok(&tool, r#"{"op":"update","key":"a","append":2}"#).await;
        assert_eq!((&updated["value"], &updated["appended"]), (&json!(null), &json!(true)));
        assert!(updated["omitted_bytes"].is_u64(), "the write stands, so it is no refusal");
    }
}

#[tokio::test]
async fn input_is_refused_at_one_byte_over_the_limit() {
    for tool in tools(Policy::default().with_max_input_bytes(20_000)).await {
        let exact = |length: usize| {
            let shell = r#"{"op":"set","key":"k","value":""}"#;
            format!(r#"{{"op":"set","key":"k","value":"{}"}}"#, "x".repeat(length - shell.len()))
        };
        ok(&tool, &exact(20_000)).await;
        let (code, _, details) = refused(&tool, &exact(20_001)).await;
        assert_eq!(
            (code.as_str(), &details["limit"], &details["actual"]),
            ("too_large", &json!(20_000), &json!(20_001))
        );
    }
}

#[tokio::test]
async fn values_and_keys_over_the_backend_s_limits_are_too_large() {
    for tool in tools(Policy::default()).await {
        let most = tool.memory().capabilities().max_value_bytes;
        let value = "x".repeat(most - 1);
        assert_eq!(code(&tool, &format!(r#"{{"op":"set","key":"k","value":"{value}"}}"#)).await, "too_large");
        let key = "k".repeat(1_025);
        for op in ["get", "delete", "incr"] {
            assert_eq!(code(&tool, &format!(r#"{{"op":"{op}","key":"{key}"}}"#)).await, "too_large");
        }
        let text = "x".repeat((1 << 20) + 1);
        assert_eq!(
            code(&tool, &format!(r#"{{"op":"set","key":"k","value":1,"text":"{text}"}}"#)).await,
            "too_large"
        );
        let source = "s".repeat(129);
        assert_eq!(
            code(&tool, &format!(r#"{{"op":"set","key":"k","value":1,"source":"{source}"}}"#)).await,
            "too_large"
        );
        assert_eq!(ok(&tool, r#"{"op":"get","key":"k"}"#).await["found"], false);
    }
}

#[tokio::test]
async fn a_quota_that_the_backend_could_not_hold_is_refused_at_once() {
    use memory_conformance::Need;
    use memory_conformance::reference::Reference;
    let clock = Arc::new(TestClock::new());
    let memory = memory::Memory::new(Arc::new(Reference::new(clock).without(Need::Quotas))).unwrap();
    let policy = Policy::default().with_quota(Quota { max_entries: Some(1), max_bytes: None });
    let error = MemoryTool::new(memory.clone(), policy, run(None)).unwrap_err();
    assert_eq!(error.kind().code(), "capability_unsupported");
    assert!(MemoryTool::new(memory, Policy::default(), run(None)).is_ok());
}

#[tokio::test]
async fn an_entry_at_the_size_limit_is_never_silently_left_out() {
    for tool in tools(Policy::default().with_max_answer_bytes(16 << 10)).await {
        for size in 11_900..12_300 {
            ok(&tool, &format!(r#"{{"op":"set","key":"k","value":"{}"}}"#, "x".repeat(size))).await;
            let page = ok(&tool, r#"{"op":"list"}"#).await;
            assert_eq!(
                (page["entries"].as_array().unwrap().len(), &page["truncated"]),
                (1, &json!(false)),
                "{size}"
            );
        }
    }
}

#[tokio::test]
async fn sizes_out_of_range_are_clamped() {
    let mut policy = Policy::default();
    (policy.max_rows, policy.max_answer_bytes, policy.max_input_bytes) = (0, 0, 0);
    for tool in tools(policy).await {
        ok(&tool, r#"{"op":"set","key":"k","value":1}"#).await;
        assert_eq!(ok(&tool, r#"{"op":"list"}"#).await["entries"].as_array().unwrap().len(), 1);
    }
}
