//! The vectors of the bundled model.

use memory_core::{EmbedRole, Embedder as _, ErrorKind};
use memory_model::{BUNDLED_PROVIDER, BundledEmbedder};
use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

const FILE: &[u8] = include_bytes!("../../data/model.bin");

async fn embed(text: &str) -> Vec<f32> {
    let embedder = BundledEmbedder::new().unwrap();
    embedder.embed(&[text], EmbedRole::Query).await.unwrap().remove(0)
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn the_file_is_small_enough_to_ship_and_is_the_one_the_readme_names() {
    assert!(FILE.len() < 10_000_000);
    let digest: String = Sha256::digest(FILE).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(include_str!("../../make/README.md").contains(&digest), "{digest}");
}

#[test]
fn the_model_is_named_by_its_rows() {
    let embedder = BundledEmbedder::new().unwrap();
    let model = embedder.model();
    assert_eq!((model.provider.as_str(), model.dimensions), (BUNDLED_PROVIDER, 256));
    // Magic, four numbers, then the name and what it is a digest of.
    let body = &FILE[20 + model.model.len()..];
    let digest: String = Sha256::digest(body).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(model.model, format!("dialogue-256@{digest}"));
}

#[tokio::test]
async fn texts_of_one_meaning_are_nearer_than_others() {
    for (asked, near, far) in [
        ("What pet does she have?", "I adopted a puppy last week", "The train was late again"),
        (
            "Where did he go on holiday?",
            "We spent our vacation at the beach",
            "My laptop needs a new battery",
        ),
        ("What is her job?", "I work as a nurse at the hospital", "The soup needs more salt"),
    ] {
        let (asked, near, far) = (embed(asked).await, embed(near).await, embed(far).await);
        assert!(cosine(&asked, &near) > cosine(&asked, &far) + 0.1);
    }
}

#[tokio::test]
async fn a_text_without_a_known_word_has_no_vector_and_says_which() {
    let embedder = BundledEmbedder::new().unwrap();
    // Punctuation has rows too, but means nothing by itself.
    for unknown in ["日本", "日本?", "…!"] {
        let error = embedder.embed(&["a dog", unknown], EmbedRole::Document).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.details()["index"], 1);
    }
    assert_eq!(embedder.embed(&[], EmbedRole::Document).await.unwrap(), Vec::<Vec<f32>>::new());
}

#[tokio::test]
async fn ten_megabytes_of_text_are_a_text() {
    let long = "the quick brown fox ".repeat(500_000);
    let long = embed(&long).await;
    let short = embed("the quick brown fox").await;
    assert!(cosine(&long, &short) > 0.999_99);
}

proptest! {
    #[test]
    fn vectors_are_of_unit_length(text in any::<String>()) {
        let table = memory_model::Table::read(FILE).unwrap();
        if let Some(vector) = table.embed(&text) {
            prop_assert!((cosine(&vector, &vector) - 1.0).abs() < 1e-5);
        }
    }
}
