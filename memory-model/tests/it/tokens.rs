//! Texts are split as the `tokenizers` package splits them; `make/expect_pieces.py` wrote down how.

use memory_model::Table;
use serde_json::Value;

#[test]
fn pieces_are_those_of_the_tokenizer_that_taught_the_model() {
    let file = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/data/model.bin")).unwrap();
    let table = Table::read(&file).unwrap();
    let cases: Value = serde_json::from_str(include_str!("../data/pieces.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert!(cases.len() > 40);
    let mut wrong = Vec::new();
    for case in cases {
        let text = case["text"].as_str().unwrap();
        let expected: Vec<&str> =
            case["pieces"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let found = table.pieces(text);
        if found != expected {
            wrong.push(format!("{text:?}: {found:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
