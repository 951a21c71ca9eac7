//! `mutants`.

use serde_json::json;

use crate::user::User;

#[test]
fn mutants_of_the_reference_are_caught_and_each_says_by_which_case() {
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
fn mutants_about_sql_stand_around_a_store() {
    let report = User::new().json(&["mutants", "--filter", "sql.args", "--quiet"]);
    let mutants = &report["mutants"];
    assert!(mutants["total"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(mutants["caught"], mutants["total"], "{report}");
}

#[test]
fn a_filter_that_leaves_nothing_is_refused() {
    User::new().refused(&["mutants", "--filter", "no-such-mutant"], 3, "invalid_argument");
}
