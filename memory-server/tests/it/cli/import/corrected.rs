//! Turns with what became of them, from exports and listings of facts: corrected ones stay corrected, forgotten ones
//! stay away, and no turn is lost in a scope that has its own conversation.

use serde_json::{Value, json};

use crate::support::user::{User, has};

fn add(user: &User, arguments: &[&str]) -> String {
    let added = user.json(&[&["add"], arguments].concat());
    added["ids"][0].as_str().unwrap_or_default().to_owned()
}

fn words(document: &Value) -> Vec<&str> {
    document["facts"].as_array().unwrap().iter().map(|fact| fact["memory"].as_str().unwrap()).collect()
}

fn recalled(user: &User, arguments: &[&str]) -> Vec<String> {
    words(&user.json(&[&["recall"], arguments].concat())).into_iter().map(str::to_owned).collect()
}

fn facts(user: &User, arguments: &[&str]) -> Vec<Value> {
    let lines = user.run(&[&["facts", "--all", "--json"], arguments].concat());
    lines.lines()
}

fn listed(user: &User, arguments: &[&str]) -> Vec<String> {
    facts(user, arguments).iter().map(|fact| fact["memory"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_value_that_is_corrected_back_is_recalled() {
    let user = User::new();
    let bergen = add(&user, &["Ida lives in Bergen"]);
    let oslo = add(&user, &["Ida lives in Oslo", "--supersedes", &bergen]);
    let back = add(&user, &["Ida lives in Bergen", "--supersedes", &oslo]);
    assert_eq!(recalled(&user, &["where does Ida live"]), ["Ida lives in Bergen"]);
    let ends: Vec<Value> = facts(&user, &[]).iter().map(|fact| fact["superseded_by"].clone()).collect();
    assert_eq!(ends, [json!(oslo), json!(back), Value::Null]);
    has(&user.json(&["add", "Ida lives in Bergen"]), json!({"ids": [], "known": 1}));
}

#[test]
fn a_correction_under_the_id_of_another_message_is_refused() {
    let user = User::new();
    let four = add(&user, &["four", "--id", "k1"]);
    let three = add(&user, &["three"]);
    user.refused(&["add", "five", "--id", "k1", "--supersedes", "nosuch"], 3, "not_found");
    let error = user.refused(&["add", "five", "--id", "k1", "--supersedes", &three], 4, "conflict");
    assert!(error["message"].as_str().unwrap().contains(&four), "{error}");
    assert_eq!(listed(&user, &[]), ["four", "three"]);
}

#[test]
fn an_export_is_added_to_a_conversation_that_is_there_and_loses_no_turn_of_either() {
    let user = User::new();
    user.ok(&["set", "note", "1"]);
    add(&user, &["A one", "--name", "Ada", "--session", "s"]);
    let two = add(&user, &["B two", "--at", "2026-01-01"]);
    add(&user, &["B three", "--id", "m-3", "--at", "2026-01-02", "--supersedes", &two]);
    user.ok(&["export", "--out", "bk.jsonl"]);
    let there = ["C one", "C two", "C three", "C four", "C five"];
    for choice in ["skip", "replace", "fail"] {
        let of = ["--user", choice];
        there.iter().for_each(|text| drop(add(&user, &[text, "--user", choice])));
        let import = ["import", "bk.jsonl", "--on-different", choice, "--user", choice];
        let planned = user.json(&[&import[..], &["--dry-run"]].concat());
        has(&planned, json!({"created": 4, "unchanged": 0}));
        assert_eq!(listed(&user, &of).len(), 5, "a dry run stores nothing");
        has(&user.json(&import), json!({"created": 4, "unchanged": 0, "replaced": 0, "kept": 0}));
        has(&user.json(&[&import[..], &["--dry-run"]].concat()), json!({"created": 0, "unchanged": 4}));
        let expected = [&there[..], &["A one", "B two", "B three"]].concat();
        assert_eq!(listed(&user, &of), expected, "{choice}");
        assert_eq!(recalled(&user, &["B", "-k", "1", "--user", choice]), ["B three"]);
        let stored = facts(&user, &of);
        assert_eq!((&stored[5]["speaker"], &stored[5]["session"]), (&json!("Ada"), &json!("s")));
        assert_eq!(stored[6]["superseded_by"], stored[7]["id"]);
        assert_eq!(stored[6]["valid_to"], "2026-01-02T00:00:00.000Z");
        assert_eq!(stored[7]["provenance"], "m-3");
        has(&user.json(&import), json!({"created": 0, "unchanged": 4, "kept": 0}));
        assert_eq!(listed(&user, &of), expected, "{choice}, again");
    }
}

#[test]
fn an_export_restores_a_scope_that_has_no_conversation_as_it_was() {
    let user = User::new();
    let one = add(&user, &["A one"]);
    add(&user, &["A two", "--supersedes", &one]);
    user.ok(&["export", "--out", "bk.jsonl"]);
    let before = facts(&user, &[]);
    let copy = ["--url", "sqlite:copy.db"];
    let import = ["import", "bk.jsonl", "--url", "sqlite:copy.db"];
    user.ok(&import);
    assert_eq!(facts(&user, &copy), before);
    has(&user.json(&import), json!({"created": 0, "kept": 0}));
    add(&user, &["A three", "--url", "sqlite:copy.db"]);
    has(&user.json(&import), json!({"created": 0, "kept": 0, "unchanged": 2}));
    assert_eq!(listed(&user, &copy), ["A one", "A two", "A three"]);
}

#[test]
fn an_import_that_was_interrupted_is_completed_after_something_else_was_added() {
    let user = User::new();
    let texts = ["A one", "A two", "A three", "A four"];
    let ids = texts.map(|text| add(&user, &[text, "--id", text]));
    let said = add(&user, &["A five"]);
    add(&user, &["A six", "--id", "A six", "--supersedes", &ids[1]]);
    user.ok(&["export", "--out", "bk.jsonl"]);
    let export = std::fs::read_to_string(user.home().join("bk.jsonl")).unwrap();
    // The head, every digest, and the first turn of the log.
    let log = export.find(r#"{"entry":{"key":"~turn/log/0000000000000001"#).unwrap();
    user.file("cut.jsonl", &export[..log]);
    let copy = ["--url", "sqlite:copy.db"];
    let with = |arguments: &[&'static str]| [arguments, &copy].concat();
    user.ok(&with(&["import", "cut.jsonl"]));
    assert_eq!(listed(&user, &copy), ["A one"]);
    add(&user, &with(&["A seven"]));
    assert_ne!(add(&user, &with(&["A three", "--id", "A three"])), "", "what is missing is not known");
    has(&user.json(&with(&["import", "bk.jsonl"])), json!({"created": 4, "unchanged": 2, "kept": 0}));
    let expected = ["A one", "A seven", "A three", "A two", "A four", "A five", "A six"];
    assert_eq!(listed(&user, &copy), expected);
    let stored = facts(&user, &copy);
    assert_eq!((&stored[3]["id"], &stored[3]["superseded_by"]), (&json!(ids[1]), &stored[6]["id"]));
    has(&user.json(&with(&["import", "bk.jsonl"])), json!({"created": 0, "unchanged": 6, "kept": 0}));
    assert_eq!(listed(&user, &copy), expected);
    assert_eq!(listed(&user, &[]).len(), 6);
    assert_ne!(said, stored[5]["id"].as_str().unwrap(), "it has the time when it was stored");
}

#[test]
fn an_export_of_another_scope_is_known_there_as_what_it_is() {
    let user = User::new();
    let lines = ["one", "two"].map(|text| json!({"role": "user", "content": text}).to_string());
    user.file("t.jsonl", lines.join("\n"));
    user.ok(&["import", "t.jsonl", "--user", "ada"]);
    let answer = json!([{"role": "user", "content": "two it is", "answers": "jsonl/t/00000002"}]);
    user.file("answer.json", answer.to_string());
    user.ok(&["add", "--messages", "answer.json", "--user", "ada"]);
    user.ok(&["export", "--user", "ada", "--out", "ada.jsonl"]);
    has(&user.json(&["import", "ada.jsonl", "--user", "bob"]), json!({"created": 3}));
    has(&user.json(&["import", "t.jsonl", "--user", "bob"]), json!({"created": 0, "unchanged": 2}));
    has(&user.json(&["import", "ada.jsonl", "--user", "bob"]), json!({"created": 0, "unchanged": 3}));
    let (of_ada, of_bob) = (facts(&user, &["--user", "ada"]), facts(&user, &["--user", "bob"]));
    for (here, there) in of_ada.iter().zip(&of_bob) {
        assert_eq!(here["memory"], there["memory"]);
        assert_ne!(here["id"], there["id"], "ids never repeat across scopes");
    }
    assert_eq!(of_bob[2]["answers"], of_bob[1]["id"]);
}

#[test]
fn what_was_superseded_by_what_is_left_out_is_left_out_too() {
    let user = User::new();
    let rome = add(&user, &["Ida lives in Rome"]);
    let oslo = add(&user, &["Ida lives in Oslo", "--supersedes", &rome]);
    let bergen = add(&user, &["Ida lives in Bergen", "--supersedes", &oslo]);
    add(&user, &["Ida likes tea"]);
    user.ok(&["forget", &bergen]);
    let listing = user.run(&["facts", "--all", "--json"]).stdout;
    user.file("facts.jsonl", listing);
    user.ok(&["export", "--out", "export.jsonl"]);
    for (file, to) in [("facts.jsonl", "a"), ("export.jsonl", "b")] {
        add(&user, &["Bo lives in Rome", "--user", to]);
        for dry in [&["--dry-run"][..], &[]] {
            let ran = user.run(&[&["import", file, "--user", to, "--json"], dry].concat());
            let report = ran.document();
            assert_eq!((ran.code, &report["problems"]["count"]), (Some(7), &json!(2)), "{dry:?}: {report}");
            has(&report, json!({"created": 1}));
        }
        assert_eq!(listed(&user, &["--user", to]), ["Bo lives in Rome", "Ida likes tea"]);
    }
    // Corrected again, it is complete.
    add(&user, &["Ida lives in Lima", "--supersedes", &oslo]);
    assert_eq!(recalled(&user, &["where does Ida live", "-k", "1"]), ["Ida lives in Lima"]);
}

#[test]
fn a_turn_that_was_corrected_is_not_replaced() {
    let user = User::new();
    user.file("t.jsonl", json!({"role": "user", "content": "Ida lives in Rome"}).to_string());
    user.ok(&["import", "t.jsonl"]);
    let rome = facts(&user, &[])[0]["id"].as_str().unwrap().to_owned();
    add(&user, &["Ida lives in Oslo", "--supersedes", &rome]);
    let before = facts(&user, &[]);
    user.file("t.jsonl", json!({"role": "user", "content": "Ida lives in Roma"}).to_string());
    let ran = user.run(&["import", "t.jsonl", "--on-different", "replace", "--json"]);
    let report = ran.document();
    assert_eq!((ran.code, &report["replaced"]), (Some(7), &json!(0)), "{report}");
    assert!(report["problems"]["first"][0]["why"].as_str().unwrap().contains(&rome), "{report}");
    assert_eq!(facts(&user, &[]), before);
}

#[test]
fn what_was_forgotten_comes_back_from_an_export_only_if_asked_for() {
    let user = User::new();
    let pin = add(&user, &["My PIN is 4711"]);
    add(&user, &["I like tea"]);
    user.ok(&["export", "--out", "bk.jsonl"]);
    user.ok(&["forget", &pin]);
    has(&user.json(&["import", "bk.jsonl"]), json!({"created": 0, "forgotten": 1, "unchanged": 1}));
    assert!(user.ok(&["import", "bk.jsonl"]).contains("forgotten before"), "it is said");
    assert_eq!(listed(&user, &[]), ["I like tea"]);
    has(&user.json(&["import", "bk.jsonl", "--again"]), json!({"created": 1, "forgotten": 0}));
    assert_eq!(listed(&user, &[]), ["I like tea", "My PIN is 4711"]);
    user.ok(&["forget", "--all"]);
    has(&user.json(&["import", "bk.jsonl"]), json!({"created": 0, "forgotten": 2}));
    assert_eq!(listed(&user, &[]), [""; 0]);
    has(&user.json(&["import", "bk.jsonl", "--again"]), json!({"created": 2, "forgotten": 0}));
    assert_eq!(listed(&user, &[]).len(), 2);
}

#[test]
fn what_was_forgotten_with_its_scope_or_tenant_comes_back_if_asked_for() {
    for forget in [&["forget", "--agent", "ada", "--yes"][..], &["forget", "--tenant", "default", "--yes"]] {
        let user = User::new();
        let of_ada = |arguments: &[&str]| user.json(&[arguments, &["--agent", "ada"]].concat());
        user.ok(&["set", "drink", "\"tea\"", "--agent", "ada"]);
        add(&user, &["My PIN is 4711", "--agent", "ada"]);
        user.ok(&["export", "--out", "bk.jsonl", "--agent", "ada"]);
        user.ok(forget);
        let all = of_ada(&["import", "bk.jsonl", "--dry-run"])["forgotten"].as_u64().unwrap();
        assert!(all > 1);
        has(&of_ada(&["import", "bk.jsonl"]), json!({"created": 0, "forgotten": all}));
        assert_eq!(listed(&user, &["--agent", "ada"]), [""; 0]);
        let tried = of_ada(&["import", "bk.jsonl", "--again", "--dry-run"]);
        has(&tried, json!({"created": all, "forgotten": 0}));
        has(&of_ada(&["import", "bk.jsonl", "--again"]), json!({"created": all, "forgotten": 0}));
        assert_eq!(listed(&user, &["--agent", "ada"]), ["My PIN is 4711"]);
        assert_eq!(of_ada(&["get", "drink"])["value"], "tea");
        has(&of_ada(&["import", "bk.jsonl"]), json!({"created": 0, "unchanged": all}));
    }
}

#[test]
fn an_entry_that_was_forgotten_alone_comes_back_if_asked_for() {
    let user = User::new();
    let of_ada = |arguments: &[&str]| user.json(&[arguments, &["--agent", "ada"]].concat());
    of_ada(&["set", "drink", "\"tea\""]);
    of_ada(&["set", "food", "\"rice\""]);
    user.ok(&["export", "--out", "bk.jsonl", "--agent", "ada"]);
    user.ok(&["forget", "--key", "drink", "--agent", "ada", "--yes"]);
    let left_out = json!({"forgotten": 1, "unchanged": 1, "created": 0});
    has(&of_ada(&["import", "bk.jsonl", "--dry-run"]), left_out.clone());
    has(&of_ada(&["import", "bk.jsonl"]), left_out);
    has(&of_ada(&["import", "bk.jsonl", "--again"]), json!({"forgotten": 0, "unchanged": 1, "created": 1}));
    assert_eq!(of_ada(&["get", "drink"])["value"], "tea");
}

#[test]
fn an_older_export_does_not_bring_back_what_was_corrected_since() {
    let user = User::new();
    let bergen = add(&user, &["Ida lives in Bergen"]);
    user.ok(&["export", "--out", "old.jsonl"]);
    add(&user, &["Ida lives in Oslo", "--supersedes", &bergen]);
    user.ok(&["export", "--out", "new.jsonl"]);
    has(&user.json(&["import", "old.jsonl"]), json!({"created": 0, "unchanged": 1}));
    assert_eq!(recalled(&user, &["where does Ida live"]), ["Ida lives in Oslo"]);
    // A scope that has the older one does not miss the correction either.
    user.ok(&["import", "old.jsonl", "--user", "copy"]);
    has(&user.json(&["import", "new.jsonl", "--user", "copy"]), json!({"created": 1, "unchanged": 1}));
    assert_eq!(recalled(&user, &["where does Ida live", "--user", "copy"]), ["Ida lives in Oslo"]);
}

#[test]
fn copied_facts_stay_corrected() {
    let user = User::new();
    let bergen = add(&user, &["Ida lives in Bergen", "--at", "2026-01-01"]);
    let oslo = add(&user, &["Ida lives in Oslo", "--at", "2026-02-01", "--supersedes", &bergen]);
    add(&user, &["Ida lives in Rome", "--role", "assistant", "--at", "2026-03-01", "--supersedes", &oslo]);
    let copied = user.run(&["facts", "--all", "--json"]).stdout;
    for expected in [[3, 0], [0, 3]] {
        let ran = user.run_with(&["import", "-", "--user", "copy", "--json"], copied.as_bytes());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        has(&ran.document(), json!({"created": expected[0], "unchanged": expected[1]}));
        assert_eq!(recalled(&user, &["where does Ida live", "--user", "copy"]), ["Ida lives in Rome"]);
        let stored = facts(&user, &["--user", "copy"]);
        assert_eq!(stored[0]["valid_to"], "2026-02-01T00:00:00.000Z");
        assert_eq!(stored[0]["superseded_by"], stored[1]["id"]);
        assert_eq!(
            (&stored[1]["superseded_by"], &stored[2]["role"], stored[2].get("speaker")),
            (&stored[2]["id"], &json!("assistant"), None),
            "the assistant's words are not the user's"
        );
    }
    // Without the turn that superseded it, it would hold again.
    let alone = copied.lines().next().unwrap();
    let ran = user.run_with(&["import", "-", "--user", "alone", "--json"], alone.as_bytes());
    assert_eq!((ran.code, &ran.document()["created"]), (Some(7), &json!(0)), "{ran:?}");
}

#[test]
fn a_time_is_read_alike_by_every_door() {
    let user = User::new();
    for (at, text) in
        [("1741872000", "2025-03-13T13:20:00.000Z"), (r#""2026-03-01""#, "2026-03-01T00:00:00.000Z")]
    {
        let message = format!(r#"{{"role":"user","content":"at {}","#, at.trim_matches('"'));
        user.file("m.json", format!(r#"[{message}"at":{at}}}]"#));
        user.ok(&["add", "--messages", "m.json"]);
        user.file("i.jsonl", format!(r#"{message}"time":{at}}}"#));
        user.ok(&["import", "i.jsonl", "--conversation", text]);
        user.ok(&["add", "by option", "--at", at.trim_matches('"'), "--id", text]);
        let times: Vec<Value> =
            facts(&user, &[]).iter().rev().take(3).map(|fact| fact["at"].clone()).collect();
        assert_eq!(times, [json!(text), json!(text), json!(text)]);
    }
}

#[test]
fn what_cannot_be_imported_says_what_it_is_and_what_to_do() {
    let user = User::new();
    let line = r#"{"role":"user","content":"hello"}"#;
    let utf16: Vec<u8> = format!("\u{feff}{line}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    user.file("wide.jsonl", utf16);
    user.file("small.jsonl.gz", b"\x1f\x8b\x08\x00rest");
    for (file, advice) in [("wide.jsonl", "iconv"), ("small.jsonl.gz", "gunzip")] {
        for format in [&[][..], &["--format", "jsonl"]] {
            let error = user.refused(&[&["import", file], format].concat(), 6, "corrupt");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(advice) && !message.contains("--format"), "{message}");
        }
    }
    let lines = [
        r#"{"role":"user","content":"nul \u0000 in"}"#,
        r#"{"role":"user","content":"when","time":"03/04/2026"}"#,
        r#"{"role":"user","content":"then","time":"2026-03-07 20:00:00 UTC"}"#,
    ];
    user.file("odd.jsonl", lines.join("\n"));
    let ran = user.run(&["import", "odd.jsonl", "--json"]);
    has(&ran.document(), json!({"created": 1}));
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let whys = ran.document()["problems"]["first"].to_string();
    assert!(whys.contains("NUL") && whys.contains("03/04/2026"), "{whys}");
    assert_eq!(facts(&user, &[])[0]["at"], "2026-03-07T20:00:00.000Z");
}
