//! `demo`.

use crate::support::user::User;

#[test]
fn every_step_of_the_tour_does_what_it_says() {
    let user = User::new();
    let report = user.json(&["demo"]);
    assert_eq!(report["ok"], true);
    let steps = report["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 10);
    assert!(steps.iter().all(|step| step["ok"] == true && !step["did"].as_array().unwrap().is_empty()));
    assert!(!std::path::Path::new(report["database"].as_str().unwrap()).exists(), "nothing is left behind");
    let ran = user.run(&["demo"]);
    // The store closes before its folder is removed, so there is nothing to warn about.
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let text = ran.stdout;
    for part in [
        "20 new, 0 unchanged",
        "0 new, 20 unchanged",
        "conflict",
        "500 valid by trial division, 0 invalid",
        "All 10 steps",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_kept_tour_can_be_looked_at_and_taken_again() {
    let user = User::new();
    for _ in 0..2 {
        assert_eq!(user.json(&["demo", "--dir", "tour"])["kept"], true);
    }
    let scope = ["--url", "sqlite:tour/demo.db", "--tenant", "demo", "--user", "mira"];
    assert_eq!(user.ok(&[&["get", "counter/visits"][..], &scope].concat()), "400\n");
    let found = user.json(&[&["search", "who has the spare key"][..], &scope].concat());
    assert!(found["hits"][0]["entry"]["text"].as_str().unwrap().contains("Josef"), "{found}");
}

#[test]
fn a_folder_that_cannot_be_used_is_refused() {
    let user = User::new();
    user.file("taken", "a file");
    user.refused(&["demo", "--dir", "taken"], 5, "unavailable");
}
