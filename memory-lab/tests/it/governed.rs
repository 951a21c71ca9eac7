//! `eval governed`.

use std::io::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::user::User;

/// A tracker of two open issues and one note that names the first in its own words.
fn write(user: &User, gzip: bool) {
    let item = |id: &str, title: &str| json!({"repo": "r", "id": id, "title": title, "description": "", "created_at": "2026-01-01T00:00:00Z", "closed_at": null, "type": "bug", "priority": 1});
    let items = [
        item("a-1", "CSV export drops the last column of wide reports"),
        item("a-2", "Search over archived invoices is slow"),
    ];
    let case = json!({
        "case": "t:a-1", "repo": "r", "note": "Fixed: CSV export no longer drops the last column of wide reports.",
        "observed_at": "2026-01-02T00:00:00Z", "gold": "a-1", "open": ["a-1", "a-2"],
    });
    let lines = |values: &[Value]| values.iter().map(|value| format!("{value}\n")).collect::<String>();
    for tracker in ["t", "u"] {
        for (kind, text) in [("items", lines(&items)), ("cases", lines(std::slice::from_ref(&case)))] {
            let name = format!("{tracker}.{kind}.jsonl");
            if gzip {
                user.file(&format!("{name}.gz"), packed(&text));
            } else {
                user.file(&name, text);
            }
        }
    }
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

#[test]
fn a_small_tracker_is_judged_packed_or_plain() {
    for (gzip, file) in [(false, "t.cases.jsonl"), (true, "t.cases.jsonl.gz")] {
        let user = User::new();
        write(&user, gzip);
        let report = user.json(&["eval", "governed", file, "--quiet"]);
        assert_eq!(report["groups"]["t"]["recall"]["whole"], 1, "{report}");
        assert_eq!(report["all"]["top1"]["part"], 1, "{report}");
        assert_eq!(report["all"]["wrong_binds"]["part"], 0, "{report}");
        assert!(report["threshold"].as_f64().unwrap() > 1.0);
    }
    let user = User::new();
    write(&user, false);
    let table = user.ok(&["eval", "governed", "t.cases.jsonl", "--quiet"]);
    assert!(table.contains("wrong binds") && table.contains("all") && !table.contains("\nt\n"), "{table}");
    // The curve of a single tracker is that of all.
    let table = user.ok(&["eval", "governed", "t.cases.jsonl", "--quiet", "--curve"]);
    assert!(!table.contains("\nt\n log odds") && !table.contains("-1797"), "{table}");
    let table = user.ok(&["eval", "governed", "t.cases.jsonl", "u.cases.jsonl", "--quiet", "--curve"]);
    assert!(table.contains("\nt\n log odds") && table.contains("\nu\n log odds"), "{table}");
}

#[test]
fn notes_go_the_whole_way_where_an_interpreter_is_named() {
    let user = User::new();
    write(&user, false);
    let with = |note: &str| {
        let cases = std::fs::read_to_string(user.home().join("t.cases.jsonl")).unwrap();
        let mut case: Value = serde_json::from_str(&cases).unwrap();
        case["note"] = json!(note);
        user.file("t.cases.jsonl", format!("{case}\n"));
        user.json(&["eval", "governed", "t.cases.jsonl", "--interpreter", "rules", "--quiet"])["pipeline"]
            .take()
    };
    for (note, bound, deferred, rejected) in [
        ("a-1 is fixed", 1, 0, 0),
        ("It is fixed", 0, 1, 0),
        ("It is not fixed", 0, 0, 1),
        ("Lunch at noon", 0, 0, 1),
    ] {
        let told = with(note);
        assert_eq!(told["interpreter"], "rules-1");
        let count = |of: &str| {
            told["all"][of].as_object().unwrap().values().map(|one| one.as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(
            (told["groups"]["t"]["precision"]["part"].as_u64(), count("deferred"), count("rejected")),
            (Some(bound), deferred, rejected),
            "{note}: {told}"
        );
        assert_eq!(told["all"]["wrong_binds"]["part"], 0, "{note}: {told}");
    }
    let plain = user.json(&["eval", "governed", "t.cases.jsonl", "--quiet"]);
    assert!(plain.get("pipeline").is_none(), "{plain}");
    let refused =
        user.refused(&["eval", "governed", "t.cases.jsonl", "--interpreter", "model"], 3, "not_found");
    assert!(refused.to_string().contains("[models.chat]"), "{refused}");
}

/// It ended with "an issue cannot be written as shared state".
#[test]
fn ids_and_titles_that_no_row_can_have_go_the_whole_way() {
    let user = User::new();
    let item = |id: Value, title: &str| json!({"id": id, "title": title, "description": "a\u{0}b", "created_at": "2026-01-01T00:00:00Z"});
    let items = [
        item(json!(101), "CSV export drops the last column of wide reports"),
        item(json!("A-1"), ""),
        item(json!("a-1"), &"long ".repeat(2_000)),
        item(json!("a-1"), "once more"),
    ];
    let case = json!({"case": "c", "note": "Fixed: CSV export drops the last column of wide reports",
        "observed_at": "2026-01-02T00:00:00Z", "gold": 101, "open": [101, "A-1", "a-1"]});
    user.file("t.items.jsonl", items.iter().map(|item| format!("{item}\n")).collect::<String>());
    user.file("t.cases.jsonl", format!("{case}\n"));
    let ran = user.run(&["eval", "governed", "t.cases.jsonl", "--interpreter", "rules", "--quiet", "--json"]);
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    let told = ran.document();
    assert_eq!(told["left_out"][0]["line"], 4, "{told}");
    assert_eq!(told["pipeline"]["all"]["recall"]["part"], 1, "{told}");
}

#[test]
fn the_numbers_are_written_one_object_a_line() {
    let user = User::new();
    write(&user, false);
    user.ok(&["eval", "governed", "t.cases.jsonl", "--features", "f.jsonl", "--quiet"]);
    let text = std::fs::read_to_string(user.home().join("f.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    let width = lines[0]["names"].as_array().unwrap().len();
    assert_eq!(lines[1]["rows"], 2);
    assert_eq!(
        lines[2]["present"]["features"]["rows"][0].as_array().unwrap().len(),
        width + 1,
        "with the twin's likeness"
    );
    assert_eq!(lines[2]["removed"]["features"]["ids"], json!(["a-2"]));
}

#[test]
fn bad_files_are_refused_and_named() {
    let user = User::new();
    write(&user, true);
    let refused = |user: &User, kind: &str, wanted: &str| {
        let error = user.refused(&["eval", "governed", "t.cases.jsonl.gz", "--quiet"], 3, kind);
        assert!(error.to_string().contains(wanted), "{error}");
    };
    let whole = std::fs::read(user.home().join("t.items.jsonl.gz")).unwrap();
    user.file("t.items.jsonl.gz", &whole[..whole.len() / 2]);
    refused(&user, "invalid_argument", "t.items.jsonl.gz");
    user.file("t.items.jsonl.gz", packed("{}\n"));
    refused(&user, "invalid_argument", "line 1");
    user.file("t.items.jsonl.gz", packed(""));
    refused(&user, "invalid_argument", "no line");
    let other = json!({"id": "a-9", "title": "Other", "created_at": "2026-01-01T00:00:00Z"});
    user.file("t.items.jsonl.gz", packed(&format!("{other}\n")));
    refused(&user, "invalid_argument", "line 1: `a-1` is not in");
    std::fs::remove_file(user.home().join("t.items.jsonl.gz")).unwrap();
    refused(&user, "not_found", "t.items.jsonl.gz");
    user.file("other.jsonl", "");
    user.refused(&["eval", "governed", "other.jsonl"], 3, "invalid_argument");
    user.file("table.json", "{}");
    user.refused(&["eval", "governed", "t.cases.jsonl.gz", "--model", "table.json"], 3, "invalid_argument");
}

/// Numbers as ids, a time without an offset, no description: read. What cannot be read is named, and the rest is judged.
#[test]
fn odd_lines_do_not_end_the_judgement() {
    let user = User::new();
    let item = |id: u32, title: &str| json!({"id": id, "title": title, "description": null, "created_at": "2026-01-01 08:00"});
    let items = [item(1, "CSV export drops the last column of wide reports"), item(2, "Search is slow")];
    let note = "Fixed: CSV export no longer drops the last column of wide reports.";
    let case = |gold: u32, open: Value| json!({"note": note, "observed_at": "2026-01-02", "gold": gold, "open": open});
    let cases = [case(1, json!([1, 2])), case(3, json!([1, 2])), case(1, json!([1, 4]))];
    let lines = |values: &[Value]| values.iter().map(|value| format!("{value}\n")).collect::<String>();
    user.file("t.items.jsonl", lines(&items) + "{\n");
    user.file("t.cases.jsonl", lines(&cases));
    let ran = user.run(&["eval", "governed", "t.cases.jsonl", "--quiet", "--json"]);
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    let report = ran.document();
    let recall = &report["all"]["recall"];
    assert_eq!((&recall["part"], &recall["whole"]), (&json!(1), &json!(1)), "{report}");
    let left_out = report["left_out"].as_array().unwrap();
    assert_eq!(left_out.iter().map(|line| &line["line"]).collect::<Vec<_>>(), [3, 2, 3]);
    assert!(ran.stderr.contains("`4` is not in"), "{}", ran.stderr);
}

/// On the trackers of the shared data the table was fitted, so this is no measure of quality: it tells a broken resolver.
#[test]
fn the_smallest_shared_trackers_give_figures_as_published() {
    let shared = std::env::var("MEMORY_SHARED").unwrap_or_else(|_| "../../shared".to_owned());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(shared).join("data/trackers");
    if !folder.exists() {
        println!("skipped: no shared data at {}", folder.display());
        return;
    }
    let files: Vec<String> = ["morphir", "agent-island", "neuratrade"]
        .iter()
        .map(|name| folder.join(format!("{name}.cases.jsonl.gz")).display().to_string())
        .collect();
    let arguments: Vec<&str> =
        ["eval", "governed", "--quiet"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let report = User::new().json(&arguments);
    let all = &report["all"];
    assert_eq!(all["recall"]["whole"], 118);
    assert!(all["precision"]["value"].as_f64().unwrap() >= 0.95, "{all}");
    assert!(all["recall"]["value"].as_f64().unwrap() >= 0.2, "{all}");
    assert!(all["wrong_binds"]["value"].as_f64().unwrap() <= 0.03, "{all}");
}
