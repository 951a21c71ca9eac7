//! `search`.

use serde_json::Value;

use crate::support::user::User;

fn fed() -> User {
    let user = User::new();
    for (key, text, source) in [
        ("tea", "oolong tea from Taiwan", "chat"),
        ("coffee", "coffee in the morning, tea never", "tool"),
        ("trip", "Zürich by night train", "chat"),
    ] {
        user.ok(&["set", key, "--text", text, "--source", source, "--metadata", "kind=note"]);
    }
    user
}

fn keys(results: &Value) -> Vec<&str> {
    let hits = results["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["entry"]["key"].as_str().unwrap()).collect()
}

#[test]
fn words_find_entries_and_the_better_match_comes_first() {
    let user = fed();
    let results = user.json(&["search", "oolong", "tea"]);
    assert_eq!(keys(&results), ["tea", "coffee"]);
    assert_eq!(results["mode"], "lexical");
    let scores: Vec<f64> =
        results["hits"].as_array().unwrap().iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
    assert!(scores[0] > scores[1] && scores[0] <= 1.0, "{scores:?}");
    assert_eq!(keys(&user.json(&["search", "zurich"])), ["trip"]);
    assert_eq!(keys(&user.json(&["search", "tea", "-k", "1"])), ["tea"]);
    let text = user.ok(&["search", "oolong"]);
    assert!(text.contains("  tea\n") && text.contains("oolong tea from Taiwan"), "{text}");
}

#[test]
fn the_model_that_comes_with_the_program_finds_by_meaning() {
    let user = User::new();
    user.file("memory.toml", "[backends.main]\nurl = \"sqlite:m.db\"\nembedder = \"bundled\"\n");
    for (key, text) in [("pet", "Minka likes tuna"), ("car", "the engine needs oil")] {
        user.ok(&["set", key, "--text", text]);
    }
    let results = user.json(&["search", "food for a cat"]);
    assert_eq!((&results["mode"], keys(&results)[0]), (&Value::from("hybrid"), "pet"), "{results}");
    // Without the configuration, by the option.
    let named = ["--embedder", "bundled", "--url", "sqlite:other.db"];
    user.ok(&[&["set", "pet", "--text", "Minka likes tuna"][..], &named].concat());
    assert_eq!(keys(&user.json(&[&["search", "food for a cat"][..], &named].concat())), ["pet"]);
    user.file("memory.toml", "[embedders.bundled]\nkind = \"static\"\npath = \"x\"\n");
    let checked = user.run(&["config", "check"]);
    assert_eq!(checked.code, Some(8));
    assert!(checked.stdout.contains("comes with the program; choose another"), "{checked:?}");
}

#[test]
fn nothing_found_is_an_answer() {
    let user = fed();
    assert_eq!(keys(&user.json(&["search", "quux"])), [""; 0]);
    assert_eq!(user.ok(&["search", "quux"]), "nothing found in user:default\n");
}

#[test]
fn hits_are_narrowed_by_prefix_filter_and_threshold() {
    let user = fed();
    assert_eq!(keys(&user.json(&["search", "tea", "--prefix", "co"])), ["coffee"]);
    assert_eq!(keys(&user.json(&["search", "tea", "--filter", r#"{"eq":["source","tool"]}"#])), ["coffee"]);
    let scores = user.json(&["search", "oolong tea"]);
    let best = scores["hits"][0]["score"].to_string();
    assert_eq!(keys(&user.json(&["search", "oolong tea", "--threshold", &best])), ["tea"]);
}

#[test]
fn the_order_follows_the_weights_and_is_explained() {
    let user = fed();
    let ordered = user.json(&["search", "tea", "--source-weight", "tool=5", "--explain"]);
    assert_eq!(keys(&ordered), ["coffee", "tea"]);
    let why = &ordered["hits"][0]["explanation"];
    assert_eq!(why["words"], serde_json::json!(["tea"]));
    assert_eq!(why["source"], 5.0);
    let score = &ordered["hits"][0];
    let sum = score["score"].as_f64().unwrap() + 5.0;
    assert!((score["rank_score"].as_f64().unwrap() - sum).abs() < 1e-9, "{score}");
    let text = user.ok(&["search", "tea", "--recency", "1", "--half-life", "7d", "--explain"]);
    assert!(text.contains("words: tea") && text.contains("recency +1.0000"), "{text}");
}

#[test]
fn a_query_out_of_range_or_unserved_is_refused() {
    let user = fed();
    for (arguments, code) in [
        (&["search", " "][..], "invalid_argument"),
        (&["search", "tea", "-k", "0"], "invalid_argument"),
        (&["search", "tea", "-k", "100000"], "too_large"),
        (&["search", "tea", "--threshold", "1.5"], "invalid_argument"),
        (&["search", "tea", "--recency", "-1"], "invalid_argument"),
        (&["search", "tea", "--mode", "vector"], "vector_unsupported"),
    ] {
        user.refused(arguments, 3, code);
    }
    assert_eq!(user.run(&["search"]).code, Some(2));
    assert_eq!(user.run(&["search", "tea", "--half-life", "soon"]).code, Some(2));
}
