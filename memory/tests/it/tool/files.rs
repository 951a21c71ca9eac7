//! Files under `/memories`: `docs/spec/files.md`.

use std::path::Path;
use std::sync::Arc;

use memory::{FilesTool, Json, MemoryTool, Policy, Quota, ScopeKind, SetOptions, ToolOp};
use memory_conformance::TestClock;
use serde_json::json;

use super::{providers, run, tools};

async fn files(clock: &Arc<TestClock>) -> Vec<(FilesTool, Arc<MemoryTool>)> {
    let tools = tools(clock).await.into_iter().map(Arc::new);
    tools.map(|tool| (FilesTool::new(Arc::clone(&tool)), tool)).collect()
}

/// Calls the tool, which must succeed.
async fn ok(files: &FilesTool, input: serde_json::Value) -> String {
    let answer = files.call(&input.to_string()).await;
    assert!(!answer.is_error, "{input}: {}", answer.text);
    answer.text
}

/// Calls the tool, which must refuse.
async fn refused(files: &FilesTool, input: serde_json::Value) -> String {
    let answer = files.call(&input.to_string()).await;
    assert!(answer.is_error, "{input}: {}", answer.text);
    answer.text
}

fn create(path: &str, text: &str) -> serde_json::Value {
    json!({"command": "create", "path": path, "file_text": text})
}

fn view(path: &str) -> serde_json::Value {
    json!({"command": "view", "path": path})
}

#[tokio::test]
async fn every_call_of_the_page_is_answered_as_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/files.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = page.split("```files\n").nth(1).unwrap().split("```").next().unwrap();
    for (files, _) in files(&Arc::new(TestClock::default())).await {
        let mut calls = 0;
        for call in block.split("> ").filter(|call| !call.is_empty()) {
            let (input, answer) = call.split_once('\n').unwrap();
            let is_error = answer.starts_with("! ");
            let text: Vec<&str> = answer.lines().map(|line| &line[2..]).collect();
            let given = files.call(input).await;
            assert_eq!(
                (given.text.as_str(), given.is_error),
                (text.join("\n").as_str(), is_error),
                "{input}"
            );
            calls += 1;
        }
        assert!(calls > 15, "{calls}");
    }
}

#[tokio::test]
async fn a_file_is_an_entry_and_an_edit_keeps_what_belongs_to_it() {
    for (files, tool) in files(&Arc::new(TestClock::default())).await {
        let set = r#"{"op":"set","key":"/memories/a.md","value":"one\ntwo","metadata":{"city":"Oslo"},"source":"chat","ttl_seconds":3600}"#;
        tool.try_call(set).await.unwrap();
        ok(
            &files,
            json!({"command": "str_replace", "path": "/memories/a.md", "old_str": "one", "new_str": "1"}),
        )
        .await;
        ok(&files, json!({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b.md"}))
            .await;
        let got: serde_json::Value =
            serde_json::from_str(&tool.call(r#"{"op":"get","key":"/memories/b.md"}"#).await).unwrap();
        assert_eq!(
            (&got["value"], &got["metadata"], &got["source"]),
            (&json!("1\ntwo"), &json!({"city": "Oslo"}), &json!("chat"))
        );
        assert!(got["expires_at"].is_string(), "{got}");
        tool.try_call(r#"{"op":"set","key":"/memories/number","value":7}"#).await.unwrap();
        assert!(ok(&files, view("/memories")).await.contains("1B\t/memories/number"));
        assert!(refused(&files, view("/memories/number")).await.contains("no text"));
    }
}

#[tokio::test]
async fn what_is_there_is_not_written_over() {
    for (files, _) in files(&Arc::new(TestClock::default())).await {
        ok(&files, create("/memories/a/b.md", "text")).await;
        for (path, why) in [
            ("/memories/a/b.md", "already exists"),
            ("/memories/a", "already exists"),
            ("/memories", "already exists"),
            ("/memories/a/b.md/c", "The path /memories/a/b.md is a file, not a directory"),
        ] {
            assert!(refused(&files, create(path, "text")).await.contains(why), "{path}");
        }
        ok(&files, create("/memories/c", "c")).await;
        let rename = |from: &str, to: &str| json!({"command": "rename", "old_path": from, "new_path": to});
        for (from, to, why) in [
            ("/memories/c", "/memories/a", "Error: The destination /memories/a already exists"),
            ("/memories/c", "/memories/a/b.md", "Error: The destination /memories/a/b.md already exists"),
            ("/memories/c", "/memories/c", "Error: The destination /memories/c already exists"),
            ("/memories/a", "/memories/a/x", "Error: The destination /memories/a/x is inside /memories/a"),
            ("/memories/a", "/memories/c/x", "Error: The path /memories/c is a file, not a directory"),
            ("/memories", "/memories/x", "Error: Cannot rename the /memories directory itself"),
            ("/memories/none", "/memories/x", "Error: The path /memories/none does not exist"),
        ] {
            assert_eq!(refused(&files, rename(from, to)).await, why);
        }
        for command in ["delete", "view"] {
            let path = "/memories/ab";
            assert!(
                refused(&files, json!({"command": command, "path": path})).await.contains("does not exist")
            );
        }
        assert_eq!(
            refused(&files, json!({"command": "delete", "path": "/memories/"})).await,
            "Error: Cannot delete the /memories directory itself"
        );
        let directory =
            json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"});
        assert_eq!(refused(&files, directory).await, "Error: The path /memories/a does not exist");
    }
}

/// Regression: a listing named paths that every command refused.
#[tokio::test]
async fn what_others_left_under_odd_names_is_reached_as_it_is_listed_and_not_made() {
    for (files, tool) in files(&Arc::new(TestClock::default())).await {
        let names = ["\u{202e}evil.md", "a\nb", "c\u{2029}/d.md", "e\\f"];
        for name in names {
            let key = format!("/memories/n/{name}");
            tool.try_call(&json!({"op": "set", "key": key, "value": "words"}).to_string()).await.unwrap();
            for path in [key.as_str(), &key.replace('\u{202e}', "\\u{202e}")] {
                let path = path.replace("/n/", "/m/");
                assert!(refused(&files, create(&path, "x")).await.contains("Invalid path"), "{path}");
                let rename = json!({"command": "rename", "old_path": "/memories/n", "new_path": path});
                assert!(refused(&files, rename).await.contains("Invalid path"), "{path}");
            }
        }
        let listed = ok(&files, view("/memories/n")).await;
        let paths: Vec<String> = listed
            .lines()
            .filter_map(|line| line.split_once('\t').map(|(_, path)| path.to_owned()))
            .filter(|path| path != "/memories/n" && !path.ends_with('/'))
            .collect();
        assert_eq!(paths.len(), names.len(), "{listed}");
        for (number, path) in paths.into_iter().enumerate() {
            assert!(ok(&files, view(&path)).await.contains("1\twords"), "{path}");
            let edit =
                json!({"command": "str_replace", "path": path, "old_str": "words", "new_str": "others"});
            ok(&files, edit).await;
            if number % 2 == 0 {
                let deleted = ok(&files, json!({"command": "delete", "path": path})).await;
                assert_eq!(deleted, format!("Successfully deleted {path}"));
            } else {
                let new_path = format!("/memories/kept/{number}");
                ok(&files, json!({"command": "rename", "old_path": path, "new_path": new_path})).await;
                assert!(ok(&files, view(&new_path)).await.contains("1\tothers"), "{path}");
            }
        }
        assert!(refused(&files, view("/memories/n")).await.contains("does not exist"));
    }
}

#[tokio::test]
async fn only_input_of_the_tool_is_accepted() {
    for (files, _) in files(&Arc::new(TestClock::default())).await {
        let nulls = json!({"command": "view", "path": "/memories", "file_text": null, "view_range": null});
        ok(&files, nulls).await;
        ok(&files, create("/memories/floats", "1\n")).await;
        let insert =
            json!({"command": "insert", "path": "/memories/floats", "insert_line": 1.0, "insert_text": "2"});
        ok(&files, insert).await;
        let range = json!({"command": "view", "path": "/memories/floats", "view_range": [2.0, 2]});
        assert!(ok(&files, range).await.ends_with(":\n     2\t2"), "JSON Schema counts 1.0 as an integer");
        for bad in [
            r#"{"command":"view","path":"/memories/floats","view_range":[1,null]}"#,
            r#"{"command":"view","path":"/memories/floats","view_range":[1,1.5]}"#,
            "",
            "{",
            "[]",
            r#"["view","/memories"]"#,
            "7",
            r#"{"path":"/memories"}"#,
            r#"{"command":"undo_edit","path":"/memories"}"#,
            r#"{"command":"view"}"#,
            r#"{"command":"view","path":7}"#,
            r#"{"command":"create","path":"/memories/a"}"#,
            r#"{"command":"view","path":"/memories","path":"/memories"}"#,
            r#"{"command":"view","path":"/memories","x":1}"#,
            r#"{"command":"rename","path":"/memories/a","new_path":"/memories/b"}"#,
            r#"{"command":"insert","path":"/memories/a","insert_line":1.5,"insert_text":"x"}"#,
        ] {
            assert!(files.call(bad).await.is_error, "{bad}");
        }
    }
}

#[tokio::test]
async fn no_edit_is_lost_however_many_write_at_once() {
    let clock = Arc::new(TestClock::default());
    for memory in providers(&clock).await {
        let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
        let open =
            || FilesTool::new(Arc::new(MemoryTool::new(memory.clone(), policy.clone(), run(None)).unwrap()));
        let (one, two) = (open(), open());
        let marks: Vec<String> = (0..12).map(|n| format!("<{n}>")).collect();
        ok(&one, create("/memories/a", &marks.join("\n"))).await;
        let edits = marks.iter().enumerate().map(|(n, mark)| {
            let files = if n % 2 == 0 { one.clone() } else { two.clone() };
            let edit =
                json!({"command": "str_replace", "path": "/memories/a", "old_str": mark, "new_str": "done"});
            tokio::spawn(async move { files.call(&edit.to_string()).await })
        });
        for edit in Vec::from_iter(edits) {
            let answer = edit.await.unwrap();
            assert!(!answer.is_error, "{}", answer.text);
        }
        assert_eq!(ok(&one, view("/memories/a")).await.matches("done").count(), 12);
    }
}

#[tokio::test]
async fn a_line_is_not_named_in_a_file_that_others_changed() {
    let clock = Arc::new(TestClock::default());
    for memory in providers(&clock).await {
        let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]);
        let open =
            || FilesTool::new(Arc::new(MemoryTool::new(memory.clone(), policy.clone(), run(None)).unwrap()));
        let (one, two) = (open(), open());
        ok(&one, create("/memories/a", "1\n2\n")).await;
        let insert =
            json!({"command": "insert", "path": "/memories/a", "insert_line": 1, "insert_text": "x"});
        ok(&two, insert.clone()).await;
        assert!(refused(&one, insert.clone()).await.contains("has changed since you saw it"));
        // Seeing a part does not count as seeing the whole.
        ok(&one, json!({"command": "view", "path": "/memories/a", "view_range": [1, 1]})).await;
        refused(&one, insert.clone()).await;
        ok(&one, view("/memories/a")).await;
        ok(&one, insert).await;
        // What one has seen and another has changed is not deleted unseen.
        refused(&two, json!({"command": "delete", "path": "/memories/a"})).await;
        ok(&two, view("/memories/a")).await;
        ok(&two, json!({"command": "delete", "path": "/memories/a"})).await;
    }
}

#[tokio::test]
async fn the_rules_of_the_memory_tool_hold() {
    let clock = Arc::new(TestClock::default());
    for memory in providers(&clock).await {
        let policy = Policy::default().with_memory_scopes([ScopeKind::User, ScopeKind::Run]);
        let open = |tool: MemoryTool| FilesTool::new(Arc::new(tool));
        let user = open(MemoryTool::new(memory.clone(), policy.clone(), run(Some("ada"))).unwrap());
        ok(&user, create("/memories/a", "of ada")).await;
        let other = open(MemoryTool::new(memory.clone(), policy.clone(), run(Some("bob"))).unwrap());
        assert!(refused(&other, view("/memories/a")).await.contains("does not exist"));
        assert!(
            refused(&user.clone().with_scope(ScopeKind::Agent), view("/memories"))
                .await
                .contains("agent scope")
        );
        let nothing = open(MemoryTool::new(memory.clone(), Policy::default(), run(Some("ada"))).unwrap());
        assert!(
            refused(&nothing, view("/memories"))
                .await
                .contains("the operator allows this agent no memory scope")
        );

        let reader = MemoryTool::new(memory.clone(), policy.clone(), run(Some("ada"))).unwrap();
        let reader = open(reader.with_denied([ToolOp::Set, ToolOp::Delete]));
        ok(&reader, view("/memories/a")).await;
        for command in [
            create("/memories/b", "x"),
            json!({"command": "str_replace", "path": "/memories/a", "old_str": "a", "new_str": "b"}),
            json!({"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "b"}),
            json!({"command": "delete", "path": "/memories/a"}),
            json!({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}),
        ] {
            assert!(refused(&reader, command).await.contains("does not allow this caller"));
        }

        let small = policy.with_quota(Quota { max_entries: Some(1), max_bytes: None });
        let small = open(MemoryTool::new(memory, small, run(Some("ada"))).unwrap());
        assert!(refused(&small, create("/memories/b", "x")).await.contains("quota"));
        assert!(refused(&small, create("/memories/c", &"x".repeat(2 << 20))).await.starts_with("Error: "));
    }
}

#[tokio::test]
async fn a_long_answer_is_cut_or_refused() {
    let clock = Arc::new(TestClock::default());
    for memory in providers(&clock).await {
        let policy = Policy::default().with_memory_scopes([ScopeKind::Agent]).with_max_answer_bytes(16 << 10);
        let tool = Arc::new(MemoryTool::new(memory, policy, run(None)).unwrap());
        let scope = tool.run().scope(ScopeKind::Agent).unwrap();
        let backend = tool.memory().backend().unwrap();
        for n in 0..600 {
            let key = format!("/memories/{n:0>40}").parse().unwrap();
            backend.set(&scope, &key, Json::string("x"), SetOptions::default()).await.unwrap();
        }
        let files = FilesTool::new(tool);
        let listing = ok(&files, view("/memories")).await;
        assert!(listing.len() <= 16 << 10 && listing.ends_with(" more; view a directory among these"));
        ok(&files, create("/memories/long", &"a line\n".repeat(5_000))).await;
        assert!(refused(&files, view("/memories/long")).await.contains("`view_range`"));
        ok(&files, json!({"command": "view", "path": "/memories/long", "view_range": [4_990, -1]})).await;
        ok(&files, create("/memories/wide", &format!("one {}", "x".repeat(20_000)))).await;
        let edit =
            json!({"command": "str_replace", "path": "/memories/wide", "old_str": "one", "new_str": "two"});
        assert_eq!(ok(&files, edit).await, "The memory file has been edited.");
    }
}
