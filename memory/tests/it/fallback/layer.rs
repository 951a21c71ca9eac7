//! FB-8, FB-13: conversational stores.

use std::sync::Arc;

use memory::fallback::{FallbackOptions, observe, pair};
use memory::layer::{AddOptions, FactsQuery, Forget, Message, RecallQuery, Role};
use memory::{ErrorKind, Memory, RunContext};
use memory_conformance::{LayerKind, Reference, TestClock};

use crate::fallback::support::{Fault, faulty, scope};

fn layer() -> Memory {
    Memory::new(Arc::new(Reference::new(Arc::new(TestClock::new())).with_layer(LayerKind::Sync))).unwrap()
}

fn said(words: &str) -> Vec<Message> {
    vec![Message::new(Role::User, words)]
}

#[tokio::test]
async fn recall_falls_back_but_add_and_forget_do_not() {
    let run = RunContext::new("acme".parse().unwrap(), "planner".parse().unwrap(), "r".parse().unwrap());
    let spare = layer();
    for n in 0..3 {
        let words = said(&format!("I own the boat numbered {n}"));
        spare.layer().unwrap().add(&run, &scope(), &words, AddOptions::default()).await.unwrap();
    }
    let (primary, faults) = faulty(&layer());
    let folder = tempfile::tempdir().unwrap();
    let mut options = FallbackOptions::new("spare").with_journal(folder.path().join("j.db"));
    options.rest_millis = 0;
    let memory = pair(primary, spare, options).unwrap();
    let layer = memory.layer().unwrap();
    *faults.fault.lock().unwrap() = Some(Fault::Before(ErrorKind::Unavailable));

    let (found, who) = observe(layer.recall(&run, &scope(), RecallQuery::new("boat"))).await;
    assert_eq!((found.unwrap().len(), who.as_deref()), (3, Some("spare")));
    for refused in [
        layer.add(&run, &scope(), &said("I own a car"), AddOptions::default()).await.map(drop),
        layer.forget(&run, &scope(), Forget::All).await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), &error.details()["fallback"]), (ErrorKind::Unavailable, &"refused".into()));
    }

    // A listing continues at the store where it started, whether or not the other is back.
    let mut query = FactsQuery::default();
    query.limit = 2;
    let (page, who) = observe(layer.facts(&run, &scope(), query.clone())).await;
    let page = page.unwrap();
    assert_eq!((page.facts.len(), who.as_deref()), (2, Some("spare")));
    *faults.fault.lock().unwrap() = None;
    query.cursor = page.next;
    let (rest, who) = observe(layer.facts(&run, &scope(), query.clone())).await;
    assert_eq!((rest.unwrap().facts.len(), who.as_deref()), (1, Some("spare")));
    query.cursor = None;
    let (facts, who) = observe(layer.facts(&run, &scope(), query)).await;
    assert_eq!((facts.unwrap().facts.len(), who), (0, None));
}
