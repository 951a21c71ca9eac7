//! The Memory tool: `row` unless the operator says otherwise.

use memory::{BackendExt as _, Config, DriftPolicy, ErrorKind, MemoryTool, Policy, RunContext, ScopeKind};

use super::support::Fixture;

fn run(id: &str) -> RunContext {
    RunContext::new("acme".parse().unwrap(), "ada".parse().unwrap(), id.parse().unwrap())
}

fn tool(fixture: &Fixture, id: &str, policy: Policy) -> MemoryTool {
    MemoryTool::new(fixture.memory.clone(), policy.with_memory_scopes([ScopeKind::Agent]), run(id)).unwrap()
}

async fn code(tool: &MemoryTool, input: &str) -> String {
    let answer: serde_json::Value = serde_json::from_str(&tool.call(input).await).unwrap();
    answer["error"]["code"].as_str().unwrap_or("ok").to_owned()
}

const READ: &str = r#"{"op":"get","key":"k"}"#;
const WRITE: &str = r#"{"op":"set","key":"k","value":1}"#;
const OTHER: &str = r#"{"op":"set","key":"k","value":2}"#;

#[tokio::test]
async fn two_runs_do_not_overwrite_each_other_unread() {
    let Some(fixture) = Fixture::new().await else { return };
    let (one, two) = (tool(&fixture, "1", Policy::default()), tool(&fixture, "2", Policy::default()));
    assert_eq!(one.drift().policy(), DriftPolicy::Row);
    assert_eq!(code(&one, WRITE).await, "ok");
    assert_eq!(code(&two, READ).await, "ok");
    assert_eq!(code(&two, OTHER).await, "ok");
    let refusal = one.call(r#"{"op":"delete","key":"k"}"#).await;
    assert!(
        refusal.contains(r#""code":"drift_detected""#) && refusal.contains(r#""retryable":false"#),
        "{refusal}"
    );
    assert!(
        refusal.contains(r#""drift_backup":"memory.bak."#) && !refusal.contains("memory.db"),
        "{refusal}"
    );
    assert_eq!(code(&one, WRITE).await, "drift_detected");
    assert_eq!(code(&one, READ).await, "ok");
    assert_eq!(code(&one, WRITE).await, "ok");
    let description = one.call(r#"{"op":"describe"}"#).await;
    assert!(description.contains(r#""drift":"row""#) && description.contains(r#""drift":["row","strict"]"#));
}

#[tokio::test]
async fn a_run_does_not_write_over_what_another_program_added_since_it_began() {
    let Some(fixture) = Fixture::new().await else { return };
    let tool = tool(&fixture, "1", Policy::default());
    tool.begin().await.unwrap();
    fixture.other_sets("k", "\"of somebody else\"").await;
    assert_eq!(code(&tool, WRITE).await, "drift_detected");
    assert_eq!(code(&tool, READ).await, "ok");
    assert_eq!(code(&tool, WRITE).await, "ok");
}

#[tokio::test]
async fn what_an_answer_left_out_was_not_seen() {
    let large = format!("tea {}", "x".repeat(8_000));
    let huge = format!("tea {}", "x".repeat(20_000));
    for (stored, reads) in [
        (&large, [r#"{"op":"list"}"#, r#"{"op":"search","query":"tea","mode":"lexical"}"#]),
        (&huge, [r#"{"op":"get","key":"k"}"#, r#"{"op":"list","prefix":"k"}"#]),
    ] {
        let Some(fixture) = Fixture::new().await else { return };
        let tool = tool(&fixture, "1", Policy::default().with_max_answer_bytes(16 << 10));
        assert_eq!(code(&tool, READ).await, "ok");
        // Entries before it in a list and in a search.
        for name in ["a", "b"] {
            fixture.other_sets(name, &format!("\"tea tea tea {stored}\"")).await;
        }
        fixture.other_sets("k", &format!("\"{stored}\"")).await;
        assert_eq!(code(&tool, WRITE).await, "drift_detected");
        for read in reads {
            let answer = tool.call(read).await;
            assert!(!answer.contains(&format!(r#""key":"k","value":"{stored}"#)), "{read}");
            assert_eq!(code(&tool, WRITE).await, "drift_detected", "{read}");
        }
        assert_ne!(fixture.value("k").await.unwrap(), "1");
        // It states its version, which permits overwriting it knowingly.
        let version = fixture.backend().get(&fixture.scope, &"k".parse().unwrap(), Default::default()).await;
        let version = version.unwrap().unwrap().version;
        let knowing = format!(r#"{{"op":"set","key":"k","value":1,"if_version":{version}}}"#);
        assert_eq!(code(&tool, &knowing).await, "ok");
        assert_eq!(code(&tool, OTHER).await, "ok");
    }
}

#[tokio::test]
async fn entries_shown_whole_in_a_cut_answer_were_seen() {
    let Some(fixture) = Fixture::new().await else { return };
    let tool = tool(&fixture, "1", Policy::default().with_max_answer_bytes(16 << 10));
    let large = format!("\"tea {}\"", "x".repeat(8_000));
    for read in [r#"{"op":"list"}"#, r#"{"op":"search","query":"tea","mode":"lexical","prefix":"k"}"#, READ] {
        assert_eq!(code(&tool, READ).await, "ok");
        for name in ["k", "l", "m"] {
            fixture.backend().remove(&fixture.scope, &name.parse().unwrap()).await.unwrap();
            fixture.other_sets(name, &large).await;
        }
        assert_eq!(code(&tool, WRITE).await, "drift_detected");
        assert!(tool.call(read).await.contains(r#""key":"k","value":"tea"#), "{read}");
        assert_eq!(code(&tool, WRITE).await, "ok", "{read}");
    }
}

#[tokio::test]
async fn the_operator_can_disable_it_or_make_it_strict() {
    for (policy, expected) in
        [(DriftPolicy::Off, "ok"), (DriftPolicy::Row, "ok"), (DriftPolicy::Strict, "drift_detected")]
    {
        let Some(fixture) = Fixture::new().await else { return };
        let one = tool(&fixture, "1", Policy::default().with_drift(policy));
        let two = tool(&fixture, "2", Policy::default());
        assert_eq!(code(&one, READ).await, "ok");
        assert_eq!(code(&two, r#"{"op":"set","key":"elsewhere","value":2}"#).await, "ok");
        assert_eq!(code(&one, WRITE).await, expected, "{policy}");
    }
}

#[tokio::test]
async fn a_policy_that_the_backend_does_not_serve_is_refused_and_the_default_is_off_there() {
    #[derive(Debug)]
    struct Lacks;
    impl memory::Hook for Lacks {
        fn capabilities(&self, mut inner: memory::Capabilities) -> memory::Capabilities {
            inner.drift.clear();
            inner
        }
    }
    let Some(fixture) = Fixture::new().await else { return };
    let lacking = memory::Interposed::new(fixture.memory.clone(), Lacks);
    let memory = memory::Memory::new(std::sync::Arc::new(lacking)).unwrap();
    let plain = MemoryTool::new(memory.clone(), Policy::default(), run("1")).unwrap();
    assert_eq!(plain.drift().policy(), DriftPolicy::Off);
    let asked = Policy::default().with_drift(DriftPolicy::Row);
    let refused = MemoryTool::new(memory, asked, run("1")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_configuration_may_tighten_and_an_agent_only_within_its_limit() {
    let text = |limit: &str, agent: &str| {
        format!(
            "[default]\nbackend = \"b\"\n[backends.b]\nurl = \"sqlite::memory:\"\n[limits]\n{limit}\n[agents.a]\n{agent}\n"
        )
    };
    let of = |limit: &str, agent: &str| {
        Config::parse(&text(limit, agent), "memory.toml").map(|config| config.policy("a").drift)
    };
    assert_eq!(of("", "").unwrap(), None);
    assert_eq!(of("", "drift = \"off\"").unwrap(), Some(DriftPolicy::Off));
    assert_eq!(of("drift = \"row\"", "").unwrap(), Some(DriftPolicy::Row));
    assert_eq!(of("drift = \"row\"", "drift = \"strict\"").unwrap(), Some(DriftPolicy::Strict));
    let loose = of("drift = \"strict\"", "drift = \"row\"").unwrap_err().to_string();
    assert!(loose.contains("[limits]") && loose.contains("`drift`"), "{loose}");
    assert!(of("drift = \"rows\"", "").is_err());
}
