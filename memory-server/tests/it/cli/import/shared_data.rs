//! The whole LoCoMo dataset, if `MEMORY_SHARED` has it.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::user::User;

fn locomo() -> Option<PathBuf> {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let file = shared.join("data/locomo/locomo10.json");
    if !file.exists() {
        println!("skipped: no data/locomo/locomo10.json under MEMORY_SHARED");
        return None;
    }
    Some(file)
}

#[test]
fn ten_dialogues_of_5882_turns_go_into_ten_scopes() {
    let Some(file) = locomo() else { return };
    let user = User::new();
    let file = file.to_str().unwrap();
    let report = user.json(&["import", file]);
    assert_eq!((&report["created"], &report["problems"]["count"]), (&json!(5_882), &json!(0)));
    let turns: Vec<(&str, u64)> = report["scopes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|scope| (scope["scope"]["id"].as_str().unwrap(), scope["created"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        turns,
        [
            ("conv-26", 419),
            ("conv-30", 369),
            ("conv-41", 663),
            ("conv-42", 629),
            ("conv-43", 680),
            ("conv-44", 675),
            ("conv-47", 689),
            ("conv-48", 681),
            ("conv-49", 509),
            ("conv-50", 568),
        ]
    );
    assert_eq!(user.json(&["import", file])["unchanged"], 5_882);
    let found = user.json(&[
        "search",
        "When did Caroline go to the LGBTQ support group?",
        "--user",
        "conv-26",
        "-k",
        "5",
    ]);
    let ids: Vec<&Value> =
        found["hits"].as_array().unwrap().iter().map(|hit| &hit["entry"]["metadata"]["dia_id"]).collect();
    assert!(ids.contains(&&json!("D1:3")), "{ids:?}");
}
