//! Audit records of tool operations.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory::audit::{AuditCall, AuditMode, AuditRecord, AuditSink, Auditor, JsonLines, REDACTED, Redactor};
use memory::system::SystemClock;
use memory::{Error, ErrorKind, MemoryTool, Policy, Result, RunContext, ScopeKind};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

/// Keeps its records; blocks while `gate` is held.
#[derive(Clone, Debug, Default)]
struct Kept {
    records: Arc<Mutex<Vec<AuditRecord>>>,
    gate: Arc<Mutex<()>>,
    fails: Arc<AtomicBool>,
}

impl AuditSink for Kept {
    fn write(&mut self, record: &AuditRecord) -> Result<()> {
        let _open = self.gate.lock().unwrap();
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::unavailable("full"));
        }
        self.records.lock().unwrap().push(record.clone());
        Ok(())
    }
}

impl Kept {
    fn calls(&self) -> Vec<AuditCall> {
        let records = self.records.lock().unwrap();
        records
            .iter()
            .filter_map(|record| match record {
                AuditRecord::Call(call) => Some(call.as_ref().clone()),
                _ => None,
            })
            .collect()
    }
}

fn auditor(mode: AuditMode, sink: impl AuditSink + 'static) -> Arc<Auditor> {
    Arc::new(Auditor::builder(Arc::new(SystemClock)).mode(mode).sink(sink).start().unwrap())
}

async fn tool(auditor: &Arc<Auditor>) -> MemoryTool {
    let memory = memory::open("sqlite::memory:").await.unwrap();
    let run = RunContext::new("acme".parse().unwrap(), "planner".parse().unwrap(), "run-1".parse().unwrap())
        .with_user("ann".parse().unwrap());
    let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
    MemoryTool::new(memory, policy, run).unwrap().with_auditor(Arc::clone(auditor))
}

#[tokio::test]
async fn every_call_is_recorded_and_refusals_by_their_code() {
    let kept = Kept::default();
    let auditor = auditor(AuditMode::Metadata, kept.clone());
    let tool = tool(&auditor).await;
    for call in [
        r#"{"op":"set","key":"city","value":"Lisbon"}"#,
        r#"{"op":"get","key":"city"}"#,
        r#"{"op":"list","prefix":"ci"}"#,
        r#"{"op":"get","key":"city","scope":"user"}"#,
        r#"{"op":"fly"}"#,
        "no json",
        r#"{"op":"event","event":"e"}"#,
        r#"{"op":"describe"}"#,
    ] {
        tool.call(call).await;
    }
    tool.call_bytes(&[0xff]).await;
    assert!(auditor.flush(PATIENCE));
    let calls = kept.calls();
    let seen: Vec<_> = calls.iter().map(|call| (call.op, call.outcome, call.scope, call.rows)).collect();
    let agent = Some(ScopeKind::Agent);
    assert_eq!(
        seen,
        [
            (Some("set"), "ok", agent, Some(1)),
            (Some("get"), "ok", agent, Some(1)),
            (Some("list"), "ok", agent, Some(1)),
            (Some("get"), "scope_denied", Some(ScopeKind::User), None),
            (None, "invalid_argument", None, None),
            (None, "invalid_argument", None, None),
            (Some("event"), "capability_unsupported", agent, None),
            (Some("describe"), "ok", calls[7].scope, None),
            (None, "invalid_argument", None, None),
        ]
    );
    assert_eq!(calls.iter().map(|call| call.number).collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
    let first = &calls[0];
    assert_eq!(
        (first.tenant.as_str(), first.agent.as_str(), first.run.as_str()),
        ("acme", "planner", "run-1")
    );
    assert_eq!((first.user.as_deref(), first.key.as_deref()), (Some("ann"), Some("city")));
    assert_eq!(calls[2].prefix.as_deref(), Some("ci"));
    assert!(calls.iter().all(|call| call.bytes_out > 0));
    assert_eq!(auditor.counts().written, 9);
}

#[tokio::test]
async fn metadata_mode_keeps_no_content_and_full_mode_a_redacted_one() {
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    let call = json!({"op": "set", "key": format!("k {secret}"), "value": {"note": format!("use {secret}"), "password": "x"}});
    let (metadata, full) = (Kept::default(), Kept::default());
    for (mode, kept) in [(AuditMode::Metadata, &metadata), (AuditMode::Full, &full)] {
        let auditor = auditor(mode, kept.clone());
        tool(&auditor).await.call(&call.to_string()).await;
        assert!(auditor.flush(PATIENCE));
    }
    let all = serde_json::to_string(&[metadata.calls(), full.calls()].concat()).unwrap();
    assert!(!all.contains(&secret), "{all}");
    assert_eq!(metadata.calls()[0].input, None);
    let input = full.calls()[0].input.clone().unwrap();
    assert_eq!(input["value"], json!({"note": format!("use {REDACTED}"), "password": REDACTED}));
}

#[cfg(feature = "recall")]
#[tokio::test]
async fn a_recall_leaves_what_it_gave_and_why_but_no_words() {
    let kept = Kept::default();
    let auditor = auditor(AuditMode::Metadata, kept.clone());
    let tool = tool(&auditor).await;
    let said = json!({"op": "add", "messages": [{"role": "user", "content": "Ida lives in Bergen"}]});
    let added: Value = serde_json::from_str(&tool.call(&said.to_string()).await).unwrap();
    let given = tool.call(r#"{"op":"recall","query":"Where does Ida live?"}"#).await;
    let explained = tool.call(r#"{"op":"recall","query":"Where does Ida live?","explain":true}"#).await;
    tool.call(r#"{"op":"recall","query":"zebra","threshold":0.9}"#).await;
    assert!(auditor.flush(PATIENCE));
    let calls = kept.calls();
    let recalled = &calls[1].recalled;
    assert_eq!((recalled.len(), recalled[0].scope), (1, ScopeKind::Agent));
    assert_eq!(Value::from(recalled[0].id.as_str()), added["ids"][0]);
    let sum: f64 = recalled[0].shares.iter().map(|share| share.value).sum();
    assert!((sum - recalled[0].score.unwrap()).abs() < 1e-9 && recalled[0].similarity.is_some());
    assert_eq!((&calls[2].recalled, calls[3].recalled.len(), calls[3].rows), (recalled, 0, Some(0)));
    assert!(!given.contains("shares") && explained.contains("shares"), "only who asked is told why");
    let all = serde_json::to_string(&calls).unwrap();
    assert!(!all.contains("Bergen") && !all.contains("Ida"), "{all}");
}

#[tokio::test]
async fn a_large_input_is_recorded_without_its_content() {
    let kept = Kept::default();
    let auditor = auditor(AuditMode::Full, kept.clone());
    let call = json!({"op": "set", "key": "k", "value": "x".repeat(300 << 10)}).to_string();
    tool(&auditor).await.call(&call).await;
    assert!(auditor.flush(PATIENCE));
    let record = kept.calls().remove(0);
    assert_eq!((record.outcome, record.bytes_in), ("ok", call.len() as u64));
    assert!(record.input.is_none() && record.input_omitted.is_some());
}

#[tokio::test]
async fn a_dropped_call_is_recorded_as_cancelled() {
    let kept = Kept::default();
    let auditor = auditor(AuditMode::Metadata, kept.clone());
    let tool = tool(&auditor).await;
    let mut call = Box::pin(tool.call(r#"{"op":"search","query":"anything"}"#));
    // Polled once, so that it has started.
    let waker = std::task::Waker::noop();
    let begun = call.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending();
    drop(call);
    assert!(auditor.flush(PATIENCE));
    let calls = kept.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].op, calls[0].outcome), (Some("search"), if begun { "cancelled" } else { "ok" }));
}

#[tokio::test]
#[allow(clippy::await_holding_lock, reason = "the sink is to wait for it; no call does")]
async fn a_slow_sink_blocks_no_call_and_dropped_records_are_counted() {
    let kept = Kept::default();
    let sink = kept.clone();
    let auditor = Arc::new(Auditor::builder(Arc::new(SystemClock)).sink(sink).queue(10).start().unwrap());
    let tool = tool(&auditor).await;
    let gate = kept.gate.lock().unwrap();
    for _ in 0..100 {
        assert!(tool.call(r#"{"op":"get","key":"city"}"#).await.contains("found"));
    }
    let dropped = auditor.counts().dropped;
    assert!((89..=90).contains(&dropped), "{dropped}");
    drop(gate);
    assert!(auditor.flush(PATIENCE));
    tool.call(r#"{"op":"get","key":"city"}"#).await;
    assert!(auditor.flush(PATIENCE));
    let records = kept.records.lock().unwrap();
    let told: u64 = records
        .iter()
        .filter_map(|record| match record {
            AuditRecord::Gap(gap) => Some(gap.dropped),
            _ => None,
        })
        .sum();
    assert_eq!(told, dropped);
    assert_eq!(auditor.counts().written + dropped, 101);
}

#[tokio::test]
async fn a_failing_sink_is_counted_and_the_others_continue() {
    let (good, bad) = (Kept::default(), Kept { fails: Arc::new(true.into()), ..Kept::default() });
    let auditor =
        Arc::new(Auditor::builder(Arc::new(SystemClock)).sink(bad).sink(good.clone()).start().unwrap());
    let answer = tool(&auditor).await.call(r#"{"op":"get","key":"city"}"#).await;
    assert!(answer.contains("found"));
    assert!(auditor.flush(PATIENCE));
    assert_eq!((good.calls().len(), auditor.counts().failed, auditor.counts().written), (1, 1, 0));
}

#[tokio::test]
async fn records_that_a_full_disk_refused_are_reported_once_there_is_room() {
    let (disk, other) = (Kept { fails: Arc::new(true.into()), ..Kept::default() }, Kept::default());
    let full = Arc::clone(&disk.fails);
    let auditor = Auditor::builder(Arc::new(SystemClock)).sink(disk.clone()).sink(other.clone());
    let auditor = Arc::new(auditor.start().unwrap());
    let tool = tool(&auditor).await;
    for is_full in [true, true, false] {
        full.store(is_full, Ordering::SeqCst);
        tool.call(r#"{"op":"get","key":"city"}"#).await;
        assert!(auditor.flush(PATIENCE));
    }
    let records = disk.records.lock().unwrap();
    let [AuditRecord::Gap(gap), AuditRecord::Call(call)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((gap.number, gap.dropped, call.number), (3, 2, 4));
    assert_eq!((auditor.counts().failed, auditor.figures()[1].value), (2, 2));
    assert_eq!(other.calls().iter().map(|call| call.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(other.records.lock().unwrap().len(), 3, "nothing is missing there");
}

#[tokio::test]
async fn file_lines_are_complete_private_and_survive_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.jsonl");
    // Left by a killed process.
    std::fs::write(&path, r#"{"kind":"call","numb"#).unwrap();
    let auditor = auditor(AuditMode::Full, JsonLines::open(&path).unwrap());
    let tool = tool(&auditor).await;
    tool.call(r#"{"op":"set","key":"a","value":"line\nbreak"}"#).await;
    assert!(auditor.flush(PATIENCE));
    let lines = std::fs::read_to_string(&path).unwrap();
    let record: Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    assert_eq!(
        (&record["kind"], &record["op"], &record["outcome"]),
        (&json!("call"), &json!("set"), &json!("ok"))
    );
    assert_eq!(record["input"]["value"], "line\nbreak");

    std::fs::rename(&path, dir.path().join("audit.1")).unwrap();
    tool.call(r#"{"op":"get","key":"a"}"#).await;
    assert!(auditor.flush(PATIENCE));
    tool.call(r#"{"op":"get","key":"a"}"#).await;
    drop(tool);
    drop(auditor);
    let rotated = std::fs::read_to_string(dir.path().join("audit.1")).unwrap();
    let fresh = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        (rotated.lines().count(), fresh.lines().count()),
        (2, 2),
        "a record goes where the name leads"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn an_operators_pattern_applies_to_keys_too() {
    let kept = Kept::default();
    let redactor = Redactor::with_patterns([r"EMP-\d{6}"]).unwrap();
    let auditor = Arc::new(
        Auditor::builder(Arc::new(SystemClock)).redactor(redactor).sink(kept.clone()).start().unwrap(),
    );
    tool(&auditor).await.call(r#"{"op":"get","key":"people/EMP-123456"}"#).await;
    assert!(auditor.flush(PATIENCE));
    assert_eq!(kept.calls()[0].key.as_deref(), Some("people/[redacted]"));
}

#[test]
fn the_configuration_names_the_sinks_and_its_mistakes_are_refused_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("memory.toml");
    let read = |text: &str| {
        std::fs::write(&file, format!("[backends.main]\nurl = \"sqlite::memory:\"\n{text}")).unwrap();
        memory::Config::load(&file)
    };
    let auditor = |text: &str| read(text).unwrap().auditor(Arc::new(SystemClock)).unwrap();
    assert!(auditor("").is_none() && auditor("[audit]\nmode = \"full\"").is_none());
    assert!(auditor("[audit]\nfile = \"logs.jsonl\"\nredact = [\"EMP-[0-9]+\"]").is_some());
    assert!(dir.path().join("logs.jsonl").exists());
    for bad in ["mode = \"everything\"", "redact = [\"(\"]", "file = \"\"", "path = \"x\""] {
        assert!(read(&format!("[audit]\n{bad}")).is_err(), "{bad}");
    }
    for bad in ["no/such/folder/x", "."] {
        let refused = read(&format!("[audit]\nfile = \"{bad}\"")).unwrap().auditor(Arc::new(SystemClock));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad}");
    }
}

/// Regression: lines of JSON were appended to the store itself.
#[test]
fn the_audit_file_is_none_that_the_configuration_uses_for_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let read = |file: &str| {
        let text = format!(
            "[backends.main]\nurl = \"sqlite:main.db?durability=normal\"\n[audit]\nfile = \"{file}\"\n[definitions]\n"
        );
        memory::Config::parse(&text, folder.path().join("memory.toml"))
    };
    read("audit.jsonl").unwrap();
    for bad in
        ["memory.toml", "main.db", "./main.db", "main.db-wal", "memory.tokens.jsonl", "memory.definitions.db"]
    {
        let error = read(bad).unwrap_err();
        assert!(error.message().contains("another file"), "{bad}: {error}");
    }
}

#[tokio::test]
async fn a_statement_is_recorded_by_kind_and_tables_without_data() {
    let calls = [
        r#"{"op":"sql_exec","sql":"CREATE TABLE people (name TEXT)"}"#,
        r#"{"op":"sql_exec","sql":"INSERT INTO people VALUES ('Annabel'), (?)","args":["Bertram"]}"#,
        r#"{"op":"sql_query","statement":"SELECT * FROM people WHERE name = 'Annabel'"}"#,
        r#"{"op":"sql_query","sql":"DELETE FROM people"}"#,
        r#"{"op":"sql_exec","sql":"ATTACH 'Annabel.db' AS a"}"#,
        r#"{"op":"sql_query","scope":"user","sql":"SELECT 'Annabel'"}"#,
        // Its name is folded to lower case, where it has no recognisable shape of a secret.
        r#"{"op":"sql_exec","sql":"CREATE TABLE \"AKIAIOSFODNN7EXAMPLE\" (a TEXT)"}"#,
    ];
    for mode in [AuditMode::Metadata, AuditMode::Full] {
        let kept = Kept::default();
        let auditor = auditor(mode, kept.clone());
        let memory = memory::open("sqlite::memory:").await.unwrap();
        let run =
            RunContext::new("acme".parse().unwrap(), "planner".parse().unwrap(), "run-1".parse().unwrap());
        let policy = Policy::default().with_sql_scopes([ScopeKind::Agent]);
        let tool = MemoryTool::new(memory, policy, run).unwrap().with_auditor(Arc::clone(&auditor));
        for call in calls {
            tool.call(call).await;
        }
        assert!(auditor.flush(PATIENCE));
        let seen = kept.calls();
        let told: Vec<_> = seen
            .iter()
            .map(|call| (call.outcome, call.statement, call.tables.join(","), call.rows))
            .collect();
        let people = || "people".to_owned();
        assert_eq!(
            told,
            [
                ("ok", Some("create_table"), people(), Some(0)),
                ("ok", Some("insert"), people(), Some(2)),
                ("ok", Some("select"), people(), Some(1)),
                ("read_only", Some("delete"), people(), None),
                ("statement_refused", None, String::new(), None),
                ("scope_denied", Some("select"), String::new(), None),
                ("ok", Some("create_table"), REDACTED.to_owned(), Some(0)),
            ]
        );
        assert!(seen[4].refused_by.as_ref().unwrap().starts_with("gate:"), "{:?}", seen[4].refused_by);
        let text = serde_json::to_string(&seen).unwrap();
        assert!(!text.contains("Annabel") && !text.contains("Bertram"), "{text}");
        let insert = seen[1].input.as_ref().map(|input| (input["sql"].clone(), input["args"].clone()));
        let redacted = (json!("INSERT INTO people VALUES ([redacted]), (?)"), json!([REDACTED]));
        assert_eq!(insert, (mode == AuditMode::Full).then_some(redacted));
    }
}

#[tokio::test]
async fn a_command_on_files_is_recorded_with_its_path() {
    let kept = Kept::default();
    let auditor = auditor(AuditMode::Metadata, kept.clone());
    let files = memory::FilesTool::new(Arc::new(tool(&auditor).await));
    for call in [
        r#"{"command":"create","path":"/memories/a","file_text":"words"}"#,
        r#"{"command":"rename","old_path":"/memories/b","new_path":"/memories/c"}"#,
        r#"{"command":"none"}"#,
    ] {
        files.call(call).await;
    }
    assert!(auditor.flush(PATIENCE));
    let calls = kept.calls();
    let seen = calls.iter().map(|call| (call.op, call.key.as_deref(), call.scope, call.outcome));
    let scope = Some(ScopeKind::Agent);
    assert_eq!(
        Vec::from_iter(seen),
        [
            (Some("files.create"), Some("/memories/a"), scope, "ok"),
            (Some("files.rename"), Some("/memories/b"), scope, "not_found"),
            (None, None, None, "invalid_argument"),
        ]
    );
}
