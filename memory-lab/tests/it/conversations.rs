//! `memory-lab eval conversations`, with good files and bad ones.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::user::User;

/// A dialogue of two sessions: a value, what replaced it, and a question without an answer.
fn dialogue(id: &str) -> Value {
    json!({
        "id": id,
        "sessions": [
            {"at": "2026-01-01T10:00:00Z", "turns": [
                {"speaker": "Ann", "text": "My sister Ida lives in Bergen"},
                {"speaker": "Ben", "text": "  "},
                {"speaker": "Ben", "text": "I bought a red kite", "caption": "a kite"},
            ]},
            {"at": "2026-02-01T10:00:00Z", "turns": [
                {"speaker": "Ann", "text": "My sister Ida now lives in Oslo"},
                {"speaker": "Ann", "text": "Dinner at the harbour was fine"},
            ]},
        ],
        "questions": [
            {"text": "Where does the sister Ida live?", "at": "2026-03-01T00:00:00Z", "category": "knowledge-update",
             "evidence": [[0, 0], [1, 0]]},
            {"text": "What colour was the kite?", "category": 4, "evidence": [[0, 2]]},
            {"text": "Who is the king of Sweden?", "category": "single-hop"},
        ],
    })
}

fn lines(dialogues: &[Value]) -> Vec<u8> {
    dialogues.iter().flat_map(|dialogue| format!("{dialogue}\n\n").into_bytes()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn a_file_is_measured_plain_and_packed() {
    let user = User::new();
    let plain = lines(&[dialogue("a"), dialogue("b")]);
    std::fs::write(user.home().join("d.jsonl"), &plain).unwrap();
    std::fs::write(user.home().join("d.jsonl.gz"), gzip(&plain)).unwrap();
    let ran =
        user.run(&["eval", "conversations", "d.jsonl", "d.jsonl.gz", "--json", "--quiet", "--budget", "30"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let reports = ran.document();
    for report in reports.as_array().unwrap() {
        assert_eq!((&report["dialogues"], &report["turns"]), (&json!(2), &json!(8)));
        assert_eq!(report["overall"]["questions"], 4, "questions without evidence stand apart");
        assert_eq!(report["categories"]["single-hop (apart)"]["questions"], 2);
        assert_eq!(report["overall"]["recall_at_5"], 1.0);
        assert_eq!((&report["updates"], &report["budget"]), (&json!(2), &json!(30)));
        let coverage = report["overall"]["budget_coverage"].as_f64().unwrap();
        assert!(
            coverage > 0.0 && coverage < 1.0,
            "30 tokens hold one turn, and one question has two: {coverage}"
        );
        for figure in ["recall_p50_ms", "recall_p99_ms", "bytes_per_turn", "store_seconds"] {
            assert!(report[figure].as_f64().unwrap() > 0.0, "{figure}");
        }
    }
    let table = user.run(&["eval", "conversations", "d.jsonl", "--quiet", "--half", "even"]).stdout;
    for part in [
        "1 dialogues, 4 turns",
        "knowledge-update",
        "within 2000 tokens",
        "value that was replaced",
        "bytes a turn",
    ] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
}

#[test]
fn what_is_odd_is_read_or_left_out_and_named_and_the_rest_is_measured() {
    let user = User::new();
    let mut odd = dialogue("b");
    odd["id"] = json!("a/b c");
    odd["sessions"][0]["at"] = json!("last spring");
    odd["sessions"][0]["turns"][0] =
        json!({"speaker": null, "role": "human", "text": "My sister Ida lives in Bergen"});
    odd["sessions"][0]["turns"][1] = json!({"role": "narrator", "text": null});
    odd["sessions"][1]["at"] = json!("2026-02-01 10:00");
    odd["questions"][0]["category"] = json!(null);
    odd["questions"][0]["evidence"] = json!([[0, 0], [1, 2]]);
    odd["questions"][1]["text"] = json!("");
    odd["questions"][2]["evidence"] = json!(null);
    let file =
        [&lines(&[dialogue("a")])[..], b"hello\n", &lines(&[odd]), &[0xff, b'\n'], b"{\"id\": \"c\", "];
    std::fs::write(user.home().join("d.jsonl"), file.concat()).unwrap();
    let ran = user.run(&["eval", "conversations", "d.jsonl", "--quiet", "--json"]);
    assert_eq!(ran.code, Some(7), "{}", ran.stderr);
    let report = &ran.document()[0];
    assert_eq!((&report["dialogues"], &report["turns"]), (&json!(2), &json!(8)));
    assert_eq!((&report["evidence_unmatched"], &report["times_unread"]), (&json!(1), &json!(1)));
    let left_out = report["left_out"].as_array().unwrap();
    assert_eq!(left_out.iter().map(|line| &line["line"]).collect::<Vec<_>>(), [3, 4, 6, 7]);
    assert_eq!(report["categories"]["uncategorised"]["recall_at_10"], 0.5, "what is no turn is never found");
    assert!(ran.stderr.contains("d.jsonl, line 3, left out"), "{}", ran.stderr);
    let table = user.run(&["eval", "conversations", "d.jsonl", "--quiet"]).stdout;
    assert!(table.contains("4 lines or questions are left out"), "{table}");
}

#[test]
fn a_bad_file_is_refused_with_the_place_of_the_fault() {
    let user = User::new();
    let packed = gzip(&lines(&[dialogue("a"), dialogue("b")]));
    for (name, bytes, part) in [
        ("cut gzip", packed[..packed.len() / 2].to_vec(), "cannot be read"),
        ("damaged gzip", [&packed[..40], &[0_u8; 40], &packed[80..]].concat(), "cannot be read"),
        ("nothing", b"\n\n".to_vec(), "no line"),
        ("no dialogue", b"\n[]\nhello\n".to_vec(), "line 2"),
    ] {
        std::fs::write(user.home().join("d.jsonl"), bytes).unwrap();
        let ran = user.run(&["eval", "conversations", "d.jsonl", "--quiet"]);
        assert_ne!(ran.code, Some(0), "{name}");
        assert!(ran.stderr.contains(part) && ran.stdout.is_empty(), "{name}: {}\n{}", ran.stdout, ran.stderr);
    }
    for (arguments, part) in [
        (&["missing.jsonl"][..], "missing.jsonl"),
        (&["d.jsonl", "--budget", "0"], "tokens"),
        (&["d.jsonl", "--signals", "magic"], "there is no signal"),
        (&["d.jsonl", "--weights", "dense=much"], "SIGNAL=WEIGHT"),
    ] {
        let ran = user.run(&[&["eval", "conversations", "--quiet"], arguments].concat());
        assert_ne!(ran.code, Some(0), "{arguments:?}");
        assert!(ran.stderr.contains(part), "{arguments:?}: {}", ran.stderr);
    }
}
