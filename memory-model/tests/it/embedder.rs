//! The model that is shipped.

use memory_core::embed::cosine;
use memory_core::{EmbedRole, Embedder as _, ErrorKind};
use memory_model::{BUNDLED_PROVIDER, BundledEmbedder, Table};

static FILE: &[u8] = include_bytes!("../../data/model.bin");

async fn vector(text: &str) -> Vec<f32> {
    let embedder = BundledEmbedder::new().unwrap();
    embedder.embed(&[text], EmbedRole::Document).await.unwrap().remove(0)
}

/// `make/make_tokens.py` wrote what the package `tokenizers` finds with the same vocabulary.
#[test]
fn texts_have_the_pieces_that_tokenizers_finds() {
    let table = Table::read(FILE).unwrap();
    let expected: Vec<(String, Vec<String>)> = serde_json::from_str(include_str!("tokens.json")).unwrap();
    assert!(expected.len() > 200);
    for (text, pieces) in expected {
        assert_eq!(table.pieces(&text), pieces, "{text:?}");
    }
}

#[test]
fn the_file_is_small_and_says_what_it_is() {
    assert!(FILE.len() < 10_000_000, "{} bytes", FILE.len());
    let embedder = BundledEmbedder::new().unwrap();
    let model = embedder.model();
    assert_eq!((model.provider.as_str(), model.dimensions), (BUNDLED_PROVIDER, 256));
    assert!(model.model.starts_with("dialogue-256@"), "{}", model.model);
}

#[tokio::test]
async fn what_is_near_in_meaning_is_near() {
    let [question, near, far] = [
        vector("Which pet did she adopt?").await,
        vector("I got a kitten from the shelter yesterday!").await,
        vector("The invoice is due at the end of the month.").await,
    ];
    assert!((question.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    assert!(cosine(&question, &near) > cosine(&question, &far) + 0.1);
}

#[tokio::test]
async fn a_text_without_known_words_is_refused_and_named() {
    let embedder = BundledEmbedder::new().unwrap();
    for text in ["", " \n", "東京", "\u{200b}"] {
        let error = embedder.embed(&["hello", text], EmbedRole::Query).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text:?}");
        assert!(error.to_string().contains("text 1"), "{error}");
    }
}

#[tokio::test]
async fn a_very_long_text_has_a_vector() {
    assert_eq!(vector(&"word ".repeat(2_000_000)).await, vector("word").await);
    assert!(Table::read(FILE).unwrap().embed(&"x".repeat(10 << 20)).is_none());
}
