//! Facts kept by a service.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::program::{ends, ok};
use crate::support::service::Service;
use crate::support::user::has;

/// A home whose default store is the service; ada and ben have a fact each.
fn home(service: &Service) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("key"), memory_fakes::mem0::KEY).unwrap();
    let config = service.config("mem0", "api_key=file:key") + "[default]\nbackend = \"mem0\"\n";
    std::fs::write(home.path().join("memory.toml"), config).unwrap();
    for user in ["ada", "ben"] {
        ok(home.path(), &["add", "I live in Lisbon.", "--tenant", "acme", "--user", user]);
    }
    home
}

fn facts(home: &Path, user: &str) -> usize {
    let answer = ok(home, &["facts", "--json", "--tenant", "acme", "--user", user]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    answer["facts"].as_array().unwrap().len()
}

fn step(report: &str) -> Value {
    let report: Value = serde_json::from_str(report).unwrap();
    let steps = report["steps"].as_array().unwrap();
    let of_facts: Vec<&Value> = steps.iter().filter(|step| step["place"] == "facts").collect();
    assert_eq!(of_facts.len(), 1, "{report}");
    of_facts[0].clone()
}

#[test]
fn facts_of_a_forgotten_scope_are_deleted_at_the_service() {
    let service = Service::mem0();
    let home = home(&service);
    let home = home.path();
    let named = ["forget", "--json", "--tenant", "acme", "--user", "ada"];
    ok(home, &[&named[..], &["--dry-run"]].concat());
    assert_eq!((facts(home, "ada"), facts(home, "ben")), (1, 1), "a dry run touches nothing");
    // mem0 keeps its last messages, and shows them to its model.
    let report = ends(home, &[&named[..], &["--yes"]].concat(), 7);
    let step = step(&report);
    assert_eq!((&step["outcome"], &step["count"]), (&json!("remains"), &json!(1)), "{report}");
    assert!(step["reason"].as_str().unwrap().contains("last 10 messages"), "{report}");
    assert_eq!((facts(home, "ada"), facts(home, "ben")), (0, 1));
    let again = self::step(&ends(home, &[&named[..], &["--yes"]].concat(), 7));
    has(&again, json!({"outcome": "remains", "count": 0}));
}

#[test]
fn facts_of_a_tenant_or_a_key_are_out_of_reach_and_the_report_says_so() {
    let service = Service::mem0();
    let home = home(&service);
    let home = home.path();
    let tenant = ["forget", "--yes", "--json", "--tenant", "acme"];
    for target in [&tenant[..], &[&tenant[..], &["--user", "ada", "--key", "k"]].concat()] {
        let step = step(&ends(home, target, 7));
        assert_eq!(step["outcome"], "out_of_reach", "{step}");
        assert!(step["reason"].as_str().unwrap().contains("scope by scope"), "{step}");
    }
    assert_eq!((facts(home, "ada"), facts(home, "ben")), (1, 1));
}
