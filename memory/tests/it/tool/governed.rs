//! The operations on shared state, on each store that serves it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory::audit::{AuditCall, AuditMode, AuditRecord, AuditSink, Auditor};
use memory::governed::{self, Ledger, NoteSource, Trust, WorkingMemory};
use memory::system::SystemClock;
use memory::{Memory, MemoryTool, Policy, RunContext, ScopeKind, SharedAccess};
use serde_json::{Map, Value, json};

use super::{call, code, ok, refused};

fn run(tenant: &str, agent: &str) -> RunContext {
    RunContext::new(tenant.parse().unwrap(), agent.parse().unwrap(), "run-1".parse().unwrap())
}

fn tool(memory: &Memory, agent: &str, access: SharedAccess) -> MemoryTool {
    let policy = Policy::default().with_shared_state(access);
    MemoryTool::new(memory.clone(), policy, run("acme", agent)).unwrap()
}

async fn note(tool: &MemoryTool, words: &str) -> Map<String, Value> {
    ok(tool, &json!({"op": "note", "note": words}).to_string()).await
}

async fn rows(tool: &MemoryTool, input: Value) -> Vec<Value> {
    ok(tool, &input.to_string()).await["rows"].as_array().unwrap().clone()
}

on_both_stores! {
    async fn what_one_agent_notes_another_reads_and_asks_why(memory) {
        let (ann, bob) = (tool(&memory, "ann", SharedAccess::Note), tool(&memory, "bob", SharedAccess::Read));
        let noted = note(&ann, "issue redis_timeout: Redis times out under load").await;
        assert_eq!(noted["status"], "done", "{noted:?}");
        assert_eq!(
            noted["outcomes"],
            json!([{"outcome": "committed", "seq": 1, "bucket": "issues", "target_id": "redis_timeout", "projection": "applied"}])
        );
        let read = rows(&bob, json!({"op": "shared", "bucket": "issues"})).await;
        assert_eq!(read.len(), 1, "{read:?}");
        assert_eq!(
            (&read[0]["id"], &read[0]["status"], &read[0]["fields"]["title"], &read[0]["created_by"]),
            (&json!("redis_timeout"), &json!("open"), &json!("Redis times out under load"), &json!("ann"))
        );
        note(&ann, "redis_timeout is resolved").await;
        assert_eq!(rows(&bob, json!({"op": "shared", "bucket": "issues"})).await, [] as [Value; 0]);
        let one = rows(&bob, json!({"op": "shared", "bucket": "issues", "id": "redis_timeout"})).await;
        assert_eq!(one[0]["status"], "resolved", "a row that has ended is read by its id");
        let why = ok(&bob, r#"{"op":"why","bucket":"issues","id":"redis_timeout"}"#).await;
        let events = why["events"].as_array().unwrap();
        assert_eq!(events.len(), 2, "{why:?}");
        assert_eq!(
            (&events[1]["operation"], &events[1]["note"], &events[1]["reason"]),
            (&json!("resolve"), &json!("redis_timeout is resolved"), &json!("the note names its id"))
        );
        assert_eq!(events[1]["by"], json!({"agent": "ann", "run": "run-1", "trust": "agent"}));
        assert_eq!((&why["row"]["status"], &why["truncated"]), (&json!("resolved"), &json!(false)));
    }

    async fn what_is_not_certain_waits_for_an_authority(memory) {
        let ann = tool(&memory, "ann", SharedAccess::Note);
        for words in ["issue redis_timeout: Redis times out under load", "issue lint: the linter fails"] {
            note(&ann, words).await;
        }
        let vague = note(&ann, "the earlier blocker is fixed").await;
        let outcome = &vague["outcomes"][0];
        assert_eq!((&vague["status"], &outcome["outcome"]), (&json!("done"), &json!("deferred")));
        assert_eq!(outcome["reason"], "its words do not tell which row is meant");
        let mut offered: Vec<_> =
            outcome["candidates"].as_array().unwrap().iter().map(|row| (&row["title"], &row["status"])).collect();
        offered.sort_by_key(|(title, _)| title.as_str());
        let open = json!("open");
        assert_eq!(
            offered,
            [(&json!("Redis times out under load"), &open), (&json!("the linter fails"), &open)],
            "what may be meant, as people know it"
        );
        let waits = ok(&ann, r#"{"op":"pending"}"#).await["pending"].clone();
        assert_eq!(
            (&waits[0]["id"], &waits[0]["note"], &waits[0]["operation"], &waits[0]["status"]),
            (&outcome["pending_id"], &json!("the earlier blocker is fixed"), &json!("resolve"), &json!("waiting"))
        );
        assert_eq!(waits[0]["candidates"], outcome["candidates"]);
        let bind = json!({"op": "pending", "bind": outcome["pending_id"], "target": "redis_timeout"}).to_string();
        assert_eq!(code(&ann, &bind).await, "forbidden", "its own writer has no more authority");
        assert_eq!(rows(&ann, json!({"op": "shared", "bucket": "issues"})).await.len(), 2);

        let bob = tool(&memory, "bob", SharedAccess::Note);
        assert_eq!(ok(&bob, r#"{"op":"pending"}"#).await["pending"], json!([]), "notes of others are private");
        let chief = tool(&memory, "chief", SharedAccess::Authority);
        assert_eq!(ok(&chief, r#"{"op":"pending"}"#).await["pending"], waits, "who decides sees them");
        for (id, target, expected) in [
            (outcome["pending_id"].clone(), "nothing", "not_found"),
            (json!("0".repeat(32)), "lint", "not_found"),
            (json!("x"), "lint", "invalid_argument"),
            (outcome["pending_id"].clone(), "No Id", "invalid_argument"),
        ] {
            let input = json!({"op": "pending", "bind": id, "target": target}).to_string();
            assert_eq!(code(&chief, &input).await, expected, "{input}");
        }
        assert_eq!(ok(&chief, &bind).await["outcome"], "committed");
        assert_eq!(code(&chief, &bind).await, "conflict", "decided once");
        let why = ok(&ann, r#"{"op":"why","bucket":"issues","id":"redis_timeout"}"#).await;
        let last = &why["events"][1];
        assert_eq!((&last["by"]["agent"], &last["reviewed_by"]["agent"]), (&json!("ann"), &json!("chief")));
        assert_eq!(last["reviewed_by"]["trust"], "authority");
    }

    /// What a call says about trust counts for nothing; what the policy says does.
    async fn authority_comes_from_the_policy_alone(memory) {
        note(&tool(&memory, "ann", SharedAccess::Note), "issue lint_step: the linter fails").await;
        let bob = tool(&memory, "bob", SharedAccess::Note);
        for field in ["trust", "source", "agent", "run", "tenant", "space", "scope", "observed_at"] {
            let (code, message, _) = refused(&bob, &format!(r#"{{"op":"note","note":"lint_step is fixed","{field}":"person"}}"#)).await;
            assert_eq!(code, "invalid_argument");
            assert!(message.contains("unknown field"), "{message}");
        }
        let outcome = note(&bob, "lint_step is fixed").await["outcomes"][0].clone();
        assert_eq!((&outcome["outcome"], &outcome["reason"]), (&json!("deferred"), &json!("its writer may not end this row")));
        let chief = tool(&memory, "chief", SharedAccess::Authority);
        assert_eq!(note(&chief, "lint_step is fixed").await["outcomes"][0]["outcome"], "committed");
    }

    async fn a_note_may_be_kept_for_the_operator_to_promote(memory) {
        let ann = tool(&memory, "ann", SharedAccess::Note);
        let kept = ok(&ann, r#"{"op":"note","note":"issue lint: the linter fails","promote":false}"#).await;
        assert_eq!((&kept["status"], &kept["outcomes"]), (&json!("kept"), &json!([])));
        let told = note(&tool(&memory, "bob", SharedAccess::Note), "issue disk: no space left").await;
        assert_eq!(told["outcomes"][0]["target_id"], "disk", "another's note is promoted alone");
        assert_eq!(rows(&ann, json!({"op": "shared", "bucket": "issues"})).await.len(), 1);
        let space = governed::open(&memory, &"acme".parse().unwrap(), "shared").await.unwrap();
        assert_eq!(governed::pipeline(&space).promote(10).await.unwrap().committed, 1);
        assert_eq!(rows(&ann, json!({"op": "shared", "bucket": "issues"})).await.len(), 2);
        let rejected = note(&ann, "just a thought").await;
        assert_eq!(rejected["status"], "rejected");
        assert!(rejected["reason"].as_str().unwrap().starts_with("no rule applies: "), "{rejected:?}");
        Ledger::new(&space).verify(None).await.unwrap();
    }

    async fn the_policy_grants_each_operation_or_it_is_neither_shown_nor_run(memory) {
        let calls = [
            ("note", json!({"op": "note", "note": "issue lint: the linter fails"})),
            ("shared", json!({"op": "shared", "bucket": "issues"})),
            ("why", json!({"op": "why", "bucket": "issues", "id": "lint"})),
            ("pending", json!({"op": "pending"})),
        ];
        let denied = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
        let none = MemoryTool::new(memory.clone(), denied, run("acme", "ann")).unwrap();
        for (name, input) in &calls {
            assert_eq!(code(&none, &input.to_string()).await, "scope_denied", "{name}");
            assert!(!none.description().contains(&format!("- {name}(")), "{name}");
        }
        assert!(none.schema()["properties"].get("bucket").is_none());
        assert!(ok(&none, r#"{"op":"describe"}"#).await.get("shared_state").is_none());

        let reader = tool(&memory, "ann", SharedAccess::Read);
        let (refusal, message, _) = refused(&reader, &calls[0].1.to_string()).await;
        assert_eq!(refusal, "scope_denied");
        assert!(message.contains("only read shared state"), "{message}");
        assert_eq!(ok(&reader, r#"{"op":"describe"}"#).await["shared_state"], "read");
        let shown = |tool: &MemoryTool, field: &str| tool.schema()["properties"].get(field).is_some();
        assert!(reader.description().contains("- shared(bucket, as_of?, cursor?, id?): "), "{}", reader.description());
        assert!(reader.description().contains("- pending(): ") && !shown(&reader, "bind") && !shown(&reader, "note"));
        let chief = tool(&memory, "chief", SharedAccess::Authority);
        assert!(chief.description().contains("- pending(bind?, target?): ") && shown(&chief, "note"));
        assert_eq!(chief.schema()["properties"]["bucket"]["enum"][5], "task_state");
    }

    async fn forgetting_needs_its_own_grant_and_reaches_what_was_derived(memory) {
        let (ann, chief) = (tool(&memory, "ann", SharedAccess::Note), tool(&memory, "chief", SharedAccess::Authority));
        let keeper = tool(&memory, "keeper", SharedAccess::Forget);
        note(&ann, "issue ottilie_key: Ottilie lost her key").await;
        let learned = note(&ann, "learning: label every key of Ottilie").await;
        let row = r#"{"op":"forget_shared","bucket":"issues","id":"ottilie_key"}"#;
        for denied in [&ann, &chief] {
            let (code, message, _) = refused(denied, row).await;
            assert_eq!(code, "scope_denied");
            assert!(message.contains("say in a note what has ended"), "{message}");
            assert!(!denied.description().contains("forget_shared"));
        }
        assert!(keeper.description().contains("- forget_shared(bucket?, dry_run?, id?, note_id?): "), "{}", keeper.description());
        assert_eq!(note(&keeper, "ottilie_key is resolved").await["outcomes"][0]["outcome"], "committed", "with authority, too");
        let trial = ok(&keeper, &row.replace('}', r#","dry_run":true}"#)).await;
        assert_eq!((&trial["dry_run"], &trial["rows"]), (&json!(true), &json!([{"bucket": "issues", "id": "ottilie_key"}])));
        assert_eq!(rows(&ann, json!({"op": "shared", "bucket": "issues", "id": "ottilie_key"})).await.len(), 1);
        let gone = ok(&keeper, row).await;
        assert_eq!((&gone["rows"], &gone["notes"], &gone["events"]), (&trial["rows"], &json!(2), &json!(2)), "{gone:?}");
        assert_eq!(code(&ann, r#"{"op":"why","bucket":"issues","id":"ottilie_key"}"#).await, "not_found");
        let by_note = json!({"op": "forget_shared", "note_id": learned["note_id"]}).to_string();
        assert_eq!(ok(&keeper, &by_note).await["rows"][0]["bucket"], "learnings");
        for (input, expected) in [
            (row, "not_found"),
            (by_note.as_str(), "not_found"),
            (r#"{"op":"forget_shared"}"#, "invalid_argument"),
            (r#"{"op":"forget_shared","bucket":"issues"}"#, "invalid_argument"),
            (r#"{"op":"forget_shared","note_id":"x","bucket":"issues","id":"y"}"#, "invalid_argument"),
            (r#"{"op":"forget_shared","bucket":"issues","id":"No Id"}"#, "invalid_argument"),
            (r#"{"op":"forget_shared","note_id":"x","scope":"agent"}"#, "invalid_argument"),
        ] {
            assert_eq!(code(&keeper, input).await, expected, "{input}");
        }
        // An agent may not erase what a person wrote.
        let space = governed::open(&memory, &"acme".parse().unwrap(), "shared").await.unwrap();
        let person = governed::Actor { agent: "pat".to_owned(), run: "t".to_owned(), trust: Trust::Person };
        let theirs = WorkingMemory::new(&space).note(&person, NoteSource::Agent, "constraint no_leaks: tell nobody", None).await.unwrap();
        governed::pipeline(&space).promote_note(&theirs.id).await.unwrap().unwrap();
        for of in [json!({"op": "forget_shared", "note_id": theirs.id}), json!({"op": "forget_shared", "bucket": "constraints", "id": "no_leaks"})] {
            assert_eq!(code(&keeper, &of.to_string()).await, "forbidden");
        }
        assert_eq!(rows(&ann, json!({"op": "shared", "bucket": "constraints"})).await.len(), 1);
        Ledger::new(&space).verify(None).await.unwrap();
    }

    async fn spaces_and_tenants_are_apart_and_begin_empty(memory) {
        note(&tool(&memory, "ann", SharedAccess::Note), "issue lint: the linter fails").await;
        let team = Policy::default().with_shared_state(SharedAccess::Note).with_shared_space("team".parse().unwrap());
        for other in [
            MemoryTool::new(memory.clone(), team, run("acme", "ann")).unwrap(),
            MemoryTool::new(memory.clone(), Policy::default().with_shared_state(SharedAccess::Authority), run("rival", "ann")).unwrap(),
        ] {
            assert_eq!(rows(&other, json!({"op": "shared", "bucket": "issues"})).await, [] as [Value; 0]);
            assert_eq!(rows(&other, json!({"op": "shared", "bucket": "plan", "as_of": "2020-01-01T00:00:00Z"})).await, [] as [Value; 0]);
            assert_eq!(ok(&other, r#"{"op":"pending"}"#).await["pending"], json!([]));
            assert_eq!(code(&other, r#"{"op":"why","bucket":"issues","id":"lint"}"#).await, "not_found");
        }
    }

    async fn bad_input_is_refused_and_changes_nothing(memory) {
        let chief = tool(&memory, "chief", SharedAccess::Authority);
        note(&chief, "issue lint: the linter fails").await;
        for bad in [
            r#"{"op":"shared","bucket":"wishes"}"#,
            r#"{"op":"shared"}"#,
            r#"{"op":"shared","bucket":"issues","id":"No Id"}"#,
            r#"{"op":"shared","bucket":"issues","id":""}"#,
            r#"{"op":"shared","bucket":"issues","cursor":"'; DROP TABLE notes; --"}"#,
            r#"{"op":"shared","bucket":"issues","cursor":"lint"}"#,
            r#"{"op":"shared","bucket":"issues","cursor":"decisions:lint"}"#,
            r#"{"op":"shared","bucket":"issues","cursor":""}"#,
            r#"{"op":"shared","bucket":"issues","as_of":"yesterday"}"#,
            r#"{"op":"shared","bucket":"issues","as_of":"99999-01-01T00:00:00Z"}"#,
            r#"{"op":"shared","bucket":"issues","as_of":"0001-01-01T00:00:00Z"}"#,
            r#"{"op":"shared","bucket":"issues","as_of":{}}"#,
            r#"{"op":"why","bucket":"issues"}"#,
            r#"{"op":"why","bucket":"issues","id":"a\u0000b"}"#,
            r#"{"op":"pending","bind":"0198"}"#,
            r#"{"op":"pending","target":"lint"}"#,
            r#"{"op":"note"}"#,
            r#"{"op":"note","note":" \n "}"#,
            r#"{"op":"note","note":"a\u0000b"}"#,
            r#"{"op":"note","note":7}"#,
            r#"{"op":"note","note":"x","promote":"no"}"#,
        ] {
            assert_eq!(code(&chief, bad).await, "invalid_argument", "{bad}");
        }
        let (code, message, details) = refused(&chief, &json!({"op": "note", "note": "x".repeat(16_385)}).to_string()).await;
        assert_eq!((code.as_str(), &details["limit"]), ("too_large", &json!(16_384)), "{message}");
        for absurd in ["1970-01-01T00:00:00Z", "9999-12-30T00:00:00Z"] {
            let read = rows(&chief, json!({"op": "shared", "bucket": "issues", "as_of": absurd})).await;
            assert_eq!(read.len(), usize::from(absurd.starts_with('9')), "{absurd}");
        }
        let space = governed::open(&memory, &"acme".parse().unwrap(), "shared").await.unwrap();
        assert_eq!(WorkingMemory::new(&space).notes("chief", "run-1").await.unwrap().len(), 1);
    }

    async fn answers_stay_within_rows_and_bytes(memory) {
        let policy = Policy::default().with_shared_state(SharedAccess::Authority).with_max_rows(2);
        let narrow = MemoryTool::new(memory.clone(), policy.clone(), run("acme", "ann")).unwrap();
        for id in ["a-1", "a1", "a_1", "b"] {
            note(&narrow, &format!("issue {id}: {id} fails")).await;
        }
        let (mut ids, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let page = ok(&narrow, &json!({"op": "shared", "bucket": "issues", "cursor": cursor}).to_string()).await;
            ids.extend(page["rows"].as_array().unwrap().iter().map(|row| row["id"].clone()));
            assert_eq!(page["truncated"], page.contains_key("next"));
            match page.get("next") {
                Some(next) => cursor = next.clone(),
                None => break,
            }
        }
        assert_eq!(ids, ["a-1", "a1", "a_1", "b"], "in byte order, each once");
        for words in ["that one is fixed", "the other one is fixed", "the last one is fixed"] {
            note(&narrow, words).await;
        }
        let waits = ok(&narrow, r#"{"op":"pending"}"#).await;
        assert_eq!((waits["pending"].as_array().unwrap().len(), &waits["truncated"]), (2, &json!(true)));

        // A row, its note and its event that are larger than an answer.
        let small = MemoryTool::new(memory.clone(), policy.with_max_answer_bytes(16 << 10), run("acme", "ann")).unwrap();
        let large = format!("plan: {}", json!({"steps": vec!["a step of the plan"; 650]}));
        note(&small, &large).await;
        let row = rows(&small, json!({"op": "shared", "bucket": "plan"})).await;
        assert_eq!(row[0]["id"], "main");
        assert!(row[0]["omitted_bytes"].as_u64().unwrap() > 10_000, "{row:?}");
        let why = call(&small, r#"{"op":"why","bucket":"plan","id":"main"}"#).await;
        assert!(why["events"][0]["omitted_bytes"].as_u64().unwrap() > 20_000, "{why:?}");
    }

    async fn calls_are_audited_like_any_other(memory) {
        let kept = Kept::default();
        let auditor = Auditor::builder(Arc::new(SystemClock)).mode(AuditMode::Metadata).sink(kept.clone()).start().unwrap();
        let auditor = Arc::new(auditor);
        let ann = tool(&memory, "ann", SharedAccess::Note).with_auditor(Arc::clone(&auditor));
        note(&ann, "issue lint: the hidden linter fails").await;
        ok(&ann, r#"{"op":"shared","bucket":"issues"}"#).await;
        code(&ann, r#"{"op":"why","bucket":"issues","id":"nothing"}"#).await;
        assert!(auditor.flush(Duration::from_secs(30)));
        let calls = kept.0.lock().unwrap().clone();
        let told: Vec<_> = calls.iter().map(|call| (call.op.unwrap(), call.outcome, call.rows)).collect();
        assert_eq!(told, [("note", "ok", Some(1)), ("shared", "ok", Some(1)), ("why", "not_found", None)]);
        assert!(calls.iter().all(|call| call.agent == "ann" && call.scope.is_none()));
        assert!(!serde_json::to_string(&calls).unwrap().contains("hidden"), "no words in metadata");
    }

    /// Notes from other sources, which only the host writes, and agents' notes share one space.
    async fn what_a_tool_said_ends_no_row(memory) {
        let ann = tool(&memory, "ann", SharedAccess::Note);
        note(&ann, "issue lint_step: the linter fails").await;
        let space = governed::open(&memory, &"acme".parse().unwrap(), "shared").await.unwrap();
        let actor = governed::Actor { agent: "ann".to_owned(), run: "run-1".to_owned(), trust: Trust::Person };
        let said = WorkingMemory::new(&space).note(&actor, NoteSource::ToolResult, "lint_step is fixed", None).await.unwrap();
        governed::pipeline(&space).promote_note(&said.id).await.unwrap().unwrap();
        assert!(governed::pipeline(&space).promote_note(&said.id).await.unwrap().is_none(), "promoted once");
        assert_eq!(ok(&ann, r#"{"op":"pending"}"#).await["pending"][0]["note"], "lint_step is fixed");
        assert_eq!(rows(&ann, json!({"op": "shared", "bucket": "issues"})).await.len(), 1);
    }
}

/// Keeps the records of calls.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<AuditCall>>>);

impl AuditSink for Kept {
    fn write(&mut self, record: &AuditRecord) -> memory::Result<()> {
        if let AuditRecord::Call(call) = record {
            self.0.lock().unwrap().push(call.as_ref().clone());
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_store_without_tables_of_the_host_refuses_and_says_what_serves_them() {
    let fake = Memory::new(Arc::<super::fake::Fake>::default()).unwrap();
    let tool = tool(&fake, "ann", SharedAccess::Forget);
    for input in [
        r#"{"op":"note","note":"issue lint: fails"}"#,
        r#"{"op":"shared","bucket":"issues"}"#,
        r#"{"op":"why","bucket":"issues","id":"lint"}"#,
        r#"{"op":"pending"}"#,
        r#"{"op":"forget_shared","note_id":"x"}"#,
    ] {
        let (code, message, details) = refused(&tool, input).await;
        assert_eq!((code.as_str(), &details["provider"]), ("capability_unsupported", &json!(fake.name())));
        assert!(message.contains("such as sqlite, or postgres with `sql.url`"), "{message}");
    }
    assert!(!tool.description().contains("- shared("));
}
