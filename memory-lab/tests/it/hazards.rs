//! `eval hazards`.

use serde_json::json;

use crate::user::User;

#[test]
fn each_hazard_is_passed_and_each_of_its_mutants_caught() {
    let report = User::new().json(&["eval", "hazards", "--quiet"]);
    assert_eq!((&report["passed"], &report["failed"]), (&json!(42), &json!(0)), "{report}");
    assert_eq!(report["caught"], report["mutants"], "{report}");
    let hazards = report["hazards"].as_array().unwrap();
    assert_eq!(
        (hazards[7]["number"].as_u64(), hazards[7]["case"].as_str()),
        (Some(8), Some("gov.names.unknown"))
    );
    for hazard in hazards {
        let mutants = hazard["mutants"].as_array().unwrap();
        assert!(!mutants.is_empty() && mutants.iter().all(|one| one["caught"].is_string()), "{hazard}");
    }
}
