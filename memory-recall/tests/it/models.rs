//! A scope written with one model and read with another.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_core::layer::{AddOptions, FactsQuery, Forget, Message, RecallQuery, Role};
use memory_core::{
    EmbedRole, Embedder, EmbeddingModel, Error, MemoryLayer, Metadata, ReembedOutcome, Result, Timestamp, Ttl,
};
use memory_recall::RecallOptions;

use crate::storage::{Store, add, recall, run, scope};

/// One dimension per letter; counts what it embeds.
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
            let known = vector.iter().any(|x| *x > 0.0);
            known.then_some(vector).ok_or_else(|| Error::invalid("a text without letters"))
        };
        texts.iter().map(of).collect()
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

#[tokio::test]
async fn turns_of_another_model_are_counted_and_embedded_again_with_nothing_else_changed() {
    let store = Store::new("reembed");
    let (first, second) = (Letters::new("first"), Letters::new("second"));
    let with = |model: &Arc<Letters>| store.open_with(RecallOptions::default().with_embedder(model.clone()));
    let old = with(&first);
    let at = Timestamp::from_millis(1_700_000_000_000).unwrap();
    let message = Message::new(Role::User, "a listen of the harbour").with_name("Ada".into()).with_at(at);
    let labelled = AddOptions::default()
        .with_metadata(Metadata::new().with("mood", "calm"))
        .with_ttl(Ttl::After(Duration::from_secs(60)));
    old.add(&run(), &scope(), &[message], labelled).await.unwrap();
    add(&store.open(), &[Message::new(Role::User, "an enlist office")]).await;
    add(&old, &[Message::new(Role::User, "12345")]).await;

    let new = with(&second);
    let listed = async || new.facts(&run(), &scope(), FactsQuery::default()).await.unwrap().facts;
    let before = listed().await;
    assert_eq!(recall(&new, "harbour").await[0], "a listen of the harbour");
    let vectors = store.vectors(second.clone());
    let stats = vectors.stats(&scope()).await.unwrap();
    assert_eq!((stats.turns, stats.stale, stats.missing), (3, 2, 1));
    assert_eq!(stats.stale_models, [("test/first/26".to_owned(), 2)].into());

    let outcome = vectors.reembed(&scope(), &|_| true).await.unwrap();
    assert_eq!((outcome.embedded, outcome.failed, outcome.remaining), (2, 1, 0));
    let stats = vectors.stats(&scope()).await.unwrap();
    assert_eq!(
        (stats.turns, stats.stale, stats.missing),
        (3, 0, 0),
        "a text without a vector is not tried again"
    );
    assert_eq!(vectors.reembed(&scope(), &|_| true).await.unwrap(), ReembedOutcome::default());
    assert_eq!(listed().await, before);
    // A handle that had read the turns finds them by their new vectors.
    assert_eq!(recall(&new, "silent").await[..2], ["an enlist office", "a listen of the harbour"]);
    store.fixture.clock.advance(Duration::from_secs(60));
    let found = recall(&new, "silent").await;
    assert!(!found.contains(&"a listen of the harbour".to_owned()), "the lifetime is the old one: {found:?}");
}

#[tokio::test]
async fn embedding_again_keeps_what_was_done_and_what_happens_meanwhile() {
    let store = Store::new("meanwhile");
    let plain = store.open();
    let turns: Vec<Message> =
        (0..600).map(|n| Message::new(Role::User, format!("listen to tape {n}"))).collect();
    let ids = add(&plain, &turns).await;
    let model = Letters::new("first");
    let vectors = store.vectors(model.clone());
    let stopped = vectors.reembed(&scope(), &|so_far| so_far.embedded < 256).await.unwrap();
    assert_eq!((stopped.embedded, stopped.remaining), (256, 344));
    let (run, scope) = (run(), scope());
    let forgets = plain.forget(&run, &scope, Forget::Ids(ids[300..400].to_vec()));
    let (embedded, forgotten) = tokio::join!(vectors.reembed(&scope, &|_| true), forgets);
    assert_eq!(forgotten.unwrap().forgotten, Some(100));
    embedded.unwrap();
    let stats = vectors.stats(&scope).await.unwrap();
    assert_eq!((stats.turns, stats.missing), (500, 0), "nothing that was forgotten comes back");
}
