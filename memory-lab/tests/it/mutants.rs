//! `mutants`.

use serde_json::json;

use crate::user::User;

#[test]
fn mutants_of_the_reference_provider_are_caught_and_name_their_case() {
    let report = User::new().json(&["mutants", "--filter", "ttl.", "--quiet"]);
    let mutants = &report["mutants"];
    assert!(mutants["total"].as_u64().unwrap() > 0, "{report}");
    assert_eq!((&mutants["caught"], &mutants["survivors"]), (&mutants["total"], &json!([])));
    let caught = report["caught"].as_array().unwrap();
    assert_eq!(caught.len() as u64, mutants["total"]);
    for caught in caught {
        assert!(
            caught["mutant"].as_str().unwrap().contains("ttl.")
                && !caught["case"].as_str().unwrap().is_empty()
        );
    }
}

#[test]
fn sql_mutants_wrap_a_real_store() {
    let report = User::new().json(&["mutants", "--filter", "sql.args-spliced", "--quiet"]);
    let mutants = &report["mutants"];
    assert!(mutants["total"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(mutants["caught"], mutants["total"], "{report}");
}

#[test]
fn a_filter_without_matches_is_refused() {
    User::new().refused(&["mutants", "--filter", "no-such-mutant"], 3, "invalid_argument");
}
