//! Recall on LoCoMo (Maharana et al., 2024): ten long dialogues with questions and the turns that answer
//! them.

use std::collections::HashMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::lexical::{Analyzer, B, K1, LexicalIndex};

struct Dialogue {
    turns: Vec<(String, String)>,
    questions: Vec<(String, Vec<String>)>,
}

/// `D30:05` and `D30:5` are one turn; one string may name several.
fn turn_ids(evidence: &str) -> Vec<String> {
    evidence
        .split(|c: char| c == ';' || c == ',' || c.is_whitespace())
        .filter(|id| !id.is_empty())
        .map(|id| match id.split_once(':') {
            Some((session, turn)) => format!("{session}:{}", turn.trim_start_matches('0')),
            None => id.to_owned(),
        })
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn dialogues(captions: bool) -> Option<Vec<Dialogue>> {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let file = std::fs::read_to_string(shared.join("data/locomo/locomo10.json")).ok()?;
    let file: Value = serde_json::from_str(&file).unwrap();
    let dialogue = |dialogue: &Value| Dialogue {
        turns: dialogue["conversation"]
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_array)
            .flatten()
            .map(|turn| {
                let mut said = format!("{}: {}", text(&turn["speaker"]), text(&turn["text"]));
                if captions && let Some(caption) = turn["blip_caption"].as_str() {
                    said.push(' ');
                    said.push_str(caption);
                }
                (turn_ids(text(&turn["dia_id"])).concat(), said)
            })
            .collect(),
        questions: dialogue["qa"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|question| question["category"] != 5)
            .map(|question| {
                let evidence = question["evidence"].as_array().unwrap();
                let ids = evidence.iter().flat_map(|id| turn_ids(text(id))).collect::<Vec<_>>();
                (text(&question["question"]).to_owned(), ids)
            })
            .filter(|(_, evidence)| !evidence.is_empty())
            .collect(),
    };
    Some(file.as_array().unwrap().iter().map(dialogue).collect())
}

/// Mean recall@10 over all evidence ids, and over those that name a turn.
struct Recall {
    all: f64,
    known: f64,
    questions: usize,
}

fn recall(dialogues: &[Dialogue], analyzer: fn() -> Analyzer, k1: f64, b: f64) -> Recall {
    let (mut all, mut known, mut questions, mut answerable) = (0.0, 0.0, 0_u32, 0_u32);
    for dialogue in dialogues {
        let mut index = LexicalIndex::with_analyzer(analyzer());
        for (id, said) in &dialogue.turns {
            index.insert(id.clone(), said, None);
        }
        let turns: HashMap<_, _> = dialogue.turns.iter().cloned().collect();
        for (question, evidence) in &dialogue.questions {
            let hits = index.search_with(&mut analyzer(), k1, b, question, |_| true, 10);
            let count = |wanted: &mut dyn Iterator<Item = &String>| {
                wanted.fold((0.0, 0.0), |(found, of), id| {
                    (found + f64::from(u8::from(hits.iter().any(|hit| hit.key == *id))), of + 1.0)
                })
            };
            let (found, of) = count(&mut evidence.iter());
            all += found / of;
            questions += 1;
            let (found, of) = count(&mut evidence.iter().filter(|id| turns.contains_key(*id)));
            if of > 0.0 {
                known += found / of;
                answerable += 1;
            }
        }
    }
    Recall {
        all: all / f64::from(questions),
        known: known / f64::from(answerable),
        questions: usize::try_from(questions).unwrap(),
    }
}

#[test]
fn finds_the_turns_that_answer_locomo_questions() {
    let Some(plain) = dialogues(false) else {
        println!("skipped: no data/locomo/locomo10.json under MEMORY_SHARED");
        return;
    };
    let shipped = recall(&plain, Analyzer::new, K1, B);
    println!(
        "{} questions, recall@10 {:.4} (of known turns {:.4})",
        shipped.questions, shipped.all, shipped.known
    );
    assert_eq!(shipped.questions, 1536);
    assert!(shipped.all >= 0.61, "recall@10 fell to {:.4}", shipped.all);
}

/// `cargo test --release -p memory-core lexical::tests::locomo -- --ignored --nocapture`
#[test]
#[ignore = "a table to look at"]
fn recall_by_parameters() {
    let (Some(plain), Some(captioned)) = (dialogues(false), dialogues(true)) else { return };
    for (name, analyzer) in
        [("stemmed", Analyzer::new as fn() -> Analyzer), ("unstemmed", Analyzer::unstemmed)]
    {
        for (k1, b) in
            [(0.9, 0.4), (1.2, 0.75), (1.5, 0.75), (1.2, 0.5), (1.2, 0.3), (0.8, 0.75), (2.0, 0.75)]
        {
            let (turns, captions) = (recall(&plain, analyzer, k1, b), recall(&captioned, analyzer, k1, b));
            println!("| {name} | {k1} | {b} | {:.4} | {:.4} | {:.4} |", turns.all, turns.known, captions.all);
        }
    }
}
