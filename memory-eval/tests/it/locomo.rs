//! The goal of retrieval, held through the product: a fresh SQLite file, opened by URL.

use std::path::PathBuf;

use memory_core::{ErrorKind, SearchMode};
use memory_eval::{EvalOptions, evaluate, locomo};

/// The dialogues, or `None` with a printed reason where the data is not there.
fn dialogues() -> Option<Vec<locomo::Dialogue>> {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")), PathBuf::from);
    let file = shared.join("data/locomo/locomo10.json");
    if !file.is_file() {
        println!("skipped: no data/locomo/locomo10.json under MEMORY_SHARED");
        return None;
    }
    Some(locomo::load(&file).unwrap())
}

#[test]
fn the_published_file_is_read_whole() {
    let Some(dialogues) = dialogues() else { return };
    assert_eq!(dialogues.len(), 10);
    assert_eq!(dialogues.iter().map(|dialogue| dialogue.turns.len()).sum::<usize>(), 5_882);
    let questions: Vec<_> = dialogues.iter().flat_map(|dialogue| &dialogue.questions).collect();
    assert_eq!(questions.len(), 1_986);
    assert_eq!(questions.iter().filter(|question| question.is_judged()).count(), 1_536);
    assert!(dialogues.iter().flat_map(|dialogue| &dialogue.turns).all(|turn| turn.time.is_some()));
}

#[tokio::test]
async fn words_alone_find_three_fifths_of_the_evidence_among_ten_turns() {
    let Some(dialogues) = dialogues() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("eval.db").display());
    let memory = memory::open(&url).await.unwrap();
    let report =
        evaluate(&memory, &dialogues, SearchMode::Lexical, &EvalOptions::default(), &|_| {}).await.unwrap();
    println!("{}", serde_json::to_string_pretty(&report).unwrap());
    assert_eq!(report.overall.questions, 1_536);
    assert_eq!(report.evidence_unmatched, 3);
    assert!(report.overall.recall_at_10 >= 0.61, "recall@10 fell to {}", report.overall.recall_at_10);
    assert!(report.overall.recall_at_5 < report.overall.recall_at_10);

    let left = memory.backend().unwrap();
    let tenant = memory_core::TenantId::new("memory-eval").unwrap();
    let scopes = left.scopes(&tenant, memory_core::ScopesQuery::default()).await.unwrap();
    assert!(scopes.scopes.is_empty(), "the evaluation left {} scopes behind", scopes.scopes.len());
}

/// The folder of a static model, or `None` with a printed reason where there is none.
fn model() -> Option<PathBuf> {
    let folder = std::env::var_os("MEMORY_TEST_MODEL").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: MEMORY_TEST_MODEL names no folder with a static model (cargo xtask model)");
    }
    folder
}

#[tokio::test]
async fn a_local_model_beside_words_finds_more_than_words_alone() {
    let (Some(dialogues), Some(model)) = (dialogues(), model()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("eval.db").display());
    let embedder = memory::embedders::open_static(model).unwrap();
    let memory = memory::Registry::default().with_embedder(embedder.clone()).open(&url).await.unwrap();
    let options = EvalOptions::default();
    let words = evaluate(&memory, &dialogues, SearchMode::Lexical, &options, &|_| {}).await.unwrap();
    let both = evaluate(&memory, &dialogues, SearchMode::Hybrid, &options, &|_| {}).await.unwrap();
    println!("{}", serde_json::to_string_pretty(&both).unwrap());
    assert_eq!(both.model.as_ref(), Some(embedder.model()));
    assert_eq!(words.model, None);
    let paired = both.against(&words).unwrap();
    println!("{paired:?}");
    assert!(paired.difference > 0.0, "hybrid is at {}", both.overall.recall_at_10);
    assert!(paired.interval.low > 0.0, "the gain may be chance: {paired:?}");
    assert!(both.overall.recall_at_10 >= 0.63, "recall@10 fell to {}", both.overall.recall_at_10);
}

#[tokio::test]
async fn vectors_without_an_embedder_are_refused_before_anything_is_stored() {
    let turn = r#"[{"sample_id":"c","conversation":{"session_1":[{"speaker":"A","dia_id":"D1:1","text":"hi"}]},
        "qa":[{"question":"who?","category":4,"evidence":["D1:1"]}]}]"#;
    let dialogues = locomo::parse(turn.as_bytes()).unwrap();
    let memory = memory::open("sqlite::memory:").await.unwrap();
    for mode in [SearchMode::Vector, SearchMode::Hybrid] {
        let error = evaluate(&memory, &dialogues, mode, &EvalOptions::default(), &|_| {}).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::VectorUnsupported);
    }
}
