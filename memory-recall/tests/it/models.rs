//! A scope that was written with one model and is read with another.

use std::sync::{Arc, Mutex};

use memory_core::MemoryLayer;
use memory_core::layer::{Message, RecallQuery, Role};
use memory_core::{EmbedRole, Embedder, EmbeddingModel, Result};
use memory_recall::RecallOptions;

use crate::storage::{Store, add, recall, run, scope};

/// One dimension a letter; counts what it embeds.
#[derive(Debug)]
struct Letters {
    model: EmbeddingModel,
    embedded: Mutex<usize>,
}

impl Letters {
    fn new(name: &str) -> Arc<Self> {
        let model = EmbeddingModel { provider: "test".into(), model: name.into(), dimensions: 26 };
        Arc::new(Self { model, embedded: Mutex::default() })
    }
}

#[memory_conformance::async_trait]
impl Embedder for Letters {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[&str], _role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        *self.embedded.lock().unwrap() += texts.len();
        let of = |text: &&str| {
            let mut vector = vec![0.0; 26];
            text.bytes().filter(u8::is_ascii_lowercase).for_each(|b| vector[usize::from(b - b'a')] += 1.0);
            vector
        };
        Ok(texts.iter().map(of).collect())
    }
}

#[tokio::test]
async fn turns_of_another_model_are_found_by_words_and_by_meaning_once_it_is_back() {
    let store = Store::new("models");
    let (first, second) = (Letters::new("first"), Letters::new("second"));
    let with = |model: &Arc<Letters>| store.open_with(RecallOptions::default().with_embedder(model.clone()));
    add(&with(&first), &[Message::new(Role::User, "a listen of the harbour")]).await;
    let other = with(&second);
    assert_eq!(recall(&other, "harbour").await, ["a listen of the harbour"]);
    assert!(recall(&other, "silent").await.is_empty(), "nothing is compared across models");
    add(&other, &[Message::new(Role::User, "an inlets map")]).await;
    assert_eq!(recall(&other, "silent").await[0], "an inlets map");
    let back = with(&first);
    let facts = back.recall(&run(), &scope(), RecallQuery::new("silent")).await.unwrap();
    assert_eq!(facts[0].memory, "a listen of the harbour");
    assert!(facts[0].similarity > Some(0.5));
    assert_eq!(*first.embedded.lock().unwrap(), 2, "a turn and a question: nothing is embedded again");
}
