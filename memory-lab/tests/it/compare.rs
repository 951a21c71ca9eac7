//! `compare`, with what needs no download.

use crate::user::User;

#[test]
fn each_call_of_a_product_is_measured_and_what_cannot_be_had_is_named() {
    let user = User::new();
    let only = ["--only", "memory", "--only", "memory-normal", "--only", "memory-postgres"];
    let ran = user.run(&[&["compare", "--entries", "200", "--json", "--quiet"], &only[..]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines = ran.lines();
    let names: Vec<_> = lines.iter().map(|line| line["product"].as_str().unwrap()).collect();
    assert_eq!(names, ["memory", "memory-normal", "memory-postgres"]);
    for line in &lines[..2] {
        for call in ["put", "get", "list", "put_vector", "near", "words"] {
            assert!(line["rows"][call]["p50_us"].as_f64().unwrap() > 0.0, "{call}: {line}");
        }
        assert_eq!(line["rows"]["put"]["count"], 200);
        // The searches are those of 200 entries, where nothing is approximate.
        assert_eq!(
            (&line["rows"]["near"]["exact"], &line["rows"]["words"]["exact"]),
            (&1.0.into(), &1.0.into())
        );
    }
    assert!(lines[2]["why"].as_str().unwrap().contains("--postgres"), "{}", lines[2]);
    user.refused(&["compare", "--only", "nonsense"], 3, "invalid_argument");
}
