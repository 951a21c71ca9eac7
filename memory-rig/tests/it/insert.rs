//! Documents that rig embedded, in a store with the same model.

use memory::{BackendExt, EmbedRole, Embedder, Error, ErrorKind, Memory};
use memory_rig::{MemoryIndex, RigEmbedder};
use rig_core::embeddings::{Embedding, EmbeddingsBuilder};
use rig_core::vector_store::request::VectorSearchRequest;
use rig_core::vector_store::{InsertDocuments, VectorStoreError, VectorStoreIndex};
use serde_json::{Value, json};

use crate::support::{client, scope, store, store_with};

/// A model that knows the sea from mountains.
fn embeddings(request: &Value) -> (u16, Value) {
    let texts: Vec<&str> = match &request["input"] {
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        text => text.as_str().into_iter().collect(),
    };
    if texts.contains(&"unauthorized") {
        return (401, json!({"error": {"message": "the key sk-secret is wrong"}}));
    }
    let about = |text: &str, words: &[&str]| u8::from(words.iter().any(|word| text.contains(word)));
    let vector =
        |text: &&str| json!([about(text, &["boat", "harbour"]), about(text, &["peak", "hike"]), 0.1]);
    let data = texts.iter().enumerate();
    let data = data.map(|(at, text)| json!({"object": "embedding", "index": at, "embedding": vector(text)}));
    let usage = json!({"prompt_tokens": 1, "total_tokens": 1});
    (200, json!({"object": "list", "model": "local", "data": data.collect::<Vec<_>>(), "usage": usage}))
}

async fn embedder() -> RigEmbedder {
    RigEmbedder::new("local", "terrain", client(embeddings).await.embedding("local", Some(3))).unwrap()
}

async fn embedded(texts: &[&str]) -> Vec<(String, Vec<Embedding>)> {
    let model = client(embeddings).await.embedding("local", Some(3));
    let documents = texts.iter().map(|text| (*text).to_owned());
    EmbeddingsBuilder::new(model).documents(documents).unwrap().build().await.unwrap()
}

fn index(memory: &Memory) -> MemoryIndex {
    MemoryIndex::new(memory.clone(), scope()).unwrap().with_prefix("doc/")
}

fn refused(result: Result<(), VectorStoreError>) -> ErrorKind {
    match result.unwrap_err() {
        VectorStoreError::DatastoreError(error) => error.downcast_ref::<Error>().unwrap().kind(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn documents_are_found_by_meaning_and_stored_once() {
    let memory = store_with(embedder().await).await;
    let index = index(&memory);
    for _ in 0..2 {
        index.insert_documents(embedded(&["a boat", "a peak"]).await).await.unwrap();
    }
    let entries = memory.backend().unwrap().list_all(&scope(), "doc/").await.unwrap();
    assert_eq!(entries.len(), 2);

    let request = VectorSearchRequest::builder().query("harbour").samples(1).threshold(0.9).build();
    let found = index.with_mode(memory::backend::SearchMode::Vector).top_n::<String>(request).await.unwrap();
    assert_eq!(found[0].document, "a boat");
    assert!(found[0].score > 0.99, "{found:?}");
}

#[tokio::test]
async fn a_document_with_several_embeddings_is_found_by_each() {
    let memory = store_with(embedder().await).await;
    let [(_, boat), (_, peak)] = <[_; 2]>::try_from(embedded(&["a boat", "a peak"]).await).unwrap();
    let index = index(&memory);
    index.insert_documents(vec![("both".to_owned(), [boat, peak].concat())]).await.unwrap();
    for query in ["harbour", "hike"] {
        let request = VectorSearchRequest::builder().query(query).samples(5).threshold(0.9).build();
        let by_vectors = index.clone().with_mode(memory::backend::SearchMode::Vector);
        assert_eq!(by_vectors.top_n::<String>(request).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn vectors_that_nothing_would_find_are_refused() {
    let documents = embedded(&["a boat"]).await;
    let without = index(&store().await).insert_documents(documents.clone()).await;
    assert_eq!(refused(without), ErrorKind::EmbedderNotConfigured);

    let memory = store_with(embedder().await).await;
    let short =
        vec![("a boat".to_owned(), vec![Embedding { document: "a boat".to_owned(), vec: vec![1.0] }])];
    let both = [documents, short].concat();
    assert_eq!(refused(index(&memory).insert_documents(both).await), ErrorKind::DimensionMismatch);
    assert!(memory.backend().unwrap().list_all(&scope(), "").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_failing_model_is_a_typed_error_that_quotes_nothing() {
    let error = embedder().await.embed(&["unauthorized"], EmbedRole::Document).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(!format!("{error} {error:?}").contains("sk-secret"), "{error:?}");
}
