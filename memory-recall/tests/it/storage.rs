//! What the store contains, and what it does not.

use std::sync::Arc;
use std::time::Duration;

use memory_conformance::{Fixture, Reference};
use memory_core::layer::{AddOptions, AddStatus, FactId, FactsQuery, Forget, Message, RecallQuery, Role};
use memory_core::{
    Backend, Checked, Clock as _, Embedder, Entry, ErrorKind, ImportOptions, Json, ListQuery, MemoryLayer,
    OnExisting, Provider, Quota, Record, RunContext, Scope, SearchQuery, SetOptions, Timestamp,
};
use memory_recall::{RESERVED_PREFIX, Recall, RecallOptions, TurnVectors, is_reserved};

/// The time after which entries overwritten in order to vanish are gone.
const MILLISECOND: Duration = Duration::from_millis(1);

pub(crate) type Conversations = Checked<Recall<Reference>>;

pub(crate) struct Store {
    pub(crate) fixture: Fixture,
    pub(crate) reference: Reference,
}

impl Store {
    pub(crate) fn new(name: &str) -> Self {
        let fixture = Fixture::new(name);
        Self { reference: Reference::new(fixture.clock.clone()), fixture }
    }

    /// Another handle, like that of another process.
    pub(crate) fn open(&self) -> Conversations {
        self.open_with(RecallOptions::default())
    }

    pub(crate) fn open_with(&self, options: RecallOptions) -> Conversations {
        let (clock, ids) = (self.fixture.clock.clone(), self.fixture.ids.clone());
        Checked::new(Recall::new(self.reference.clone(), options, clock, ids)).unwrap()
    }

    /// The vectors of its turns, managed with this embedder.
    pub(crate) fn vectors(&self, embedder: Arc<dyn Embedder>) -> TurnVectors {
        let (clock, ids) = (self.fixture.clock.clone(), self.fixture.ids.clone());
        TurnVectors::new(Arc::new(self.open()), embedder, clock, ids)
    }
}

pub(crate) fn scope() -> Scope {
    Scope::user("acme", "ada").unwrap()
}

pub(crate) fn run() -> RunContext {
    RunContext::new("acme".parse().unwrap(), "planner".parse().unwrap(), "r".parse().unwrap())
}

pub(crate) async fn add(memory: &Conversations, messages: &[Message]) -> Vec<FactId> {
    let outcome = memory.add(&run(), &scope(), messages, AddOptions::default()).await.unwrap();
    match outcome.status {
        AddStatus::Done(ids) => ids,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn recall(memory: &Conversations, text: &str) -> Vec<String> {
    let facts = memory.recall(&run(), &scope(), RecallQuery::new(text)).await.unwrap();
    facts.into_iter().map(|fact| fact.memory).collect()
}

pub(crate) fn said(text: &str) -> [Message; 1] {
    [Message::new(Role::User, text)]
}

async fn entries(memory: &Conversations) -> Vec<Entry> {
    memory.list(&scope(), ListQuery::default().with_limit(1_000)).await.unwrap().entries
}

#[tokio::test]
async fn a_turn_is_kept_whole_and_found_by_a_search_among_entries_too() {
    let store = Store::new("whole");
    let memory = store.open();
    let question = Message::new(Role::Assistant, "Where did you  eat?\n").with_id("q".into());
    let answer = Message::new(Role::User, "At the *harbour*, \u{1f990}!")
        .with_name("Ada".into())
        .with_session("s-1".into())
        .with_at(Timestamp::from_millis(1_700_000_000_000).unwrap())
        .with_answers("q".into())
        .with_id("a".into())
        .with_caption("a plate of shrimps".into());
    let ids = add(&memory, &[question, answer]).await;
    let facts = memory.recall(&run(), &scope(), RecallQuery::new("harbour")).await.unwrap();
    let fact = &facts[0];
    assert_eq!(fact.memory, "At the *harbour*, \u{1f990}!");
    assert_eq!(
        (fact.speaker.as_deref(), fact.role, fact.session.as_deref()),
        (Some("Ada"), Some(Role::User), Some("s-1"))
    );
    assert_eq!(fact.at, Some(Timestamp::from_millis(1_700_000_000_000).unwrap()));
    assert_eq!((fact.answers.as_ref(), fact.caption.as_deref()), (Some(&ids[0]), Some("a plate of shrimps")));
    assert_eq!((fact.order, fact.provenance.as_deref()), (Some(1), Some("a")));
    for words in ["harbour", "Ada", "shrimps"] {
        let found = memory.search(&scope(), SearchQuery::new(words)).await.unwrap().hits;
        assert_eq!(found.len(), 1, "{words}");
        assert!(is_reserved(found[0].entry.key.as_str()));
    }
}

#[tokio::test]
async fn nothing_of_what_was_forgotten_stays_but_digests() {
    let store = Store::new("forgotten");
    let (memory, other) = (store.open(), store.open());
    let secret =
        Message::new(Role::User, "The password is xyzzy").with_name("Ada".into()).with_id("m-7".into());
    let ids =
        add(&memory, &[secret.with_at(Timestamp::EPOCH), Message::new(Role::User, "I own a theremin")]).await;
    assert_eq!(recall(&other, "password").await[0], "The password is xyzzy");
    memory.forget(&run(), &scope(), Forget::Ids(vec![ids[0].clone()])).await.unwrap();
    for handle in [&memory, &other, &store.open()] {
        assert_eq!(recall(handle, "password xyzzy").await, Vec::<String>::new());
        assert_eq!(recall(handle, "theremin").await.len(), 1);
        assert!(handle.search(&scope(), SearchQuery::new("xyzzy")).await.unwrap().hits.is_empty());
    }
    memory.forget(&run(), &scope(), Forget::All).await.unwrap();
    assert_eq!(recall(&other, "theremin").await, Vec::<String>::new());
    store.fixture.clock.advance(MILLISECOND);
    let left = entries(&memory).await;
    for entry in &left {
        let text = serde_json::to_string(entry).unwrap();
        for word in ["xyzzy", "password", "Ada", "m-7", "theremin"] {
            assert!(!text.contains(word), "{text}");
        }
    }
    // The head, and the digests: of an id and a content, and of a content.
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(left[0].value.as_str().matches("\",\"").count(), 2, "{left:?}");
}

#[tokio::test]
async fn what_is_forgotten_makes_room_for_what_is_new() {
    let store = Store::new("room");
    let memory = store.open();
    let options = AddOptions::default().with_quota(Quota { max_entries: Some(6), max_bytes: None });
    for n in 0..40 {
        let message = Message::new(Role::User, format!("I own boat {n}")).with_id(format!("m-{n}"));
        let added = memory.add(&run(), &scope(), &[message], options.clone()).await.unwrap();
        let AddStatus::Done(ids) = added.status else { panic!() };
        memory.forget(&run(), &scope(), Forget::Ids(ids)).await.unwrap();
        store.fixture.clock.advance(MILLISECOND);
    }
    // The head, the digests, and what was forgotten, for readers who have read the log before.
    assert_eq!(entries(&memory).await.len(), 3);
}

#[tokio::test]
async fn what_is_said_again_and_again_takes_no_more_room() {
    let store = Store::new("again");
    let (memory, other) = (store.open(), store.open());
    add(&memory, &said("I own a theremin")).await;
    let ids = add(&memory, &said("I live in Oslo")).await;
    assert_eq!(recall(&other, "theremin").await.len(), 2);
    let mut since = store.fixture.clock.now();
    for _ in 0..10 {
        store.fixture.clock.advance(MILLISECOND);
        since = store.fixture.clock.now();
        add(&memory, &said("I own a theremin")).await;
    }
    store.fixture.clock.advance(MILLISECOND);
    // The head, two turns with their digests, and when they were confirmed.
    assert_eq!(entries(&memory).await.len(), 6);
    let unconfirmed = async |memory: &Conversations| {
        let mut query = RecallQuery::new("theremin Oslo");
        query.unconfirmed_since = Some(since);
        let found = memory.recall(&run(), &scope(), query).await.unwrap();
        found.into_iter().map(|fact| fact.memory).collect::<Vec<_>>()
    };
    assert_eq!(unconfirmed(&other).await, ["I live in Oslo"]);

    // After confirmations, a correction and further confirmations, every reader sees what was said last.
    let confirms = AddOptions::default().with_confirms(ids.clone());
    memory.add(&run(), &scope(), &said("Yes"), confirms).await.unwrap();
    assert_eq!(unconfirmed(&other).await, ["Yes"; 0]);
    let corrects = AddOptions::default().with_supersedes(ids);
    memory.add(&run(), &scope(), &said("I live in Bergen"), corrects).await.unwrap();
    store.fixture.clock.advance(MILLISECOND);
    add(&memory, &said("I own a theremin")).await;
    for handle in [&memory, &other, &store.open()] {
        let found = recall(handle, "live").await;
        assert_eq!(found[0], "I live in Bergen");
        assert!(!found.contains(&"I live in Oslo".to_owned()), "{found:?}");
    }
}

#[tokio::test]
async fn thousands_that_were_forgotten_do_not_come_back_unasked() {
    let store = Store::new("thousands");
    let (memory, other) = (store.open(), store.open());
    let said: Vec<Message> =
        (0..2_500).map(|n| Message::new(Role::User, format!("I own boat {n}"))).collect();
    let mut ids = Vec::new();
    for messages in said.chunks(500) {
        ids.extend(add(&memory, messages).await);
    }
    assert_eq!(recall(&other, "boat 2499").await[0], "I own boat 2499");
    for chunk in ids[..1_200].chunks(300) {
        let forgotten = memory.forget(&run(), &scope(), Forget::Ids(chunk.to_vec())).await.unwrap();
        assert_eq!(forgotten.forgotten, Some(300));
        store.fixture.clock.advance(MILLISECOND);
    }
    // This handle has read the log before.
    let mut query = RecallQuery::new("boat");
    query.top_k = 1_000;
    let left = other.recall(&run(), &scope(), query).await.unwrap();
    assert_eq!(left.len(), 1_000);
    assert!(left.iter().all(|fact| !ids[..1_200].contains(&fact.id)));
    let forgotten = memory.forget(&run(), &scope(), Forget::All).await.unwrap();
    assert_eq!(forgotten.forgotten, Some(1_300));
    store.fixture.clock.advance(MILLISECOND);
    assert_eq!(recall(&other, "boat").await, Vec::<String>::new());
    let left = entries(&memory).await;
    assert!(left.len() <= 18, "the head and 17 pages, not {}", left.len());

    for (again, stored, forgotten) in [(false, 0, 500), (true, 500, 0), (false, 0, 0)] {
        let options = AddOptions::default().with_again(again);
        let outcome = memory.add(&run(), &scope(), &said[1_000..1_500], options).await.unwrap();
        let AddStatus::Done(ids) = outcome.status else { panic!() };
        assert_eq!((ids.len(), outcome.forgotten), (stored, forgotten), "again: {again}");
    }
    // Once more, and its page has space.
    memory.forget(&run(), &scope(), Forget::Ids(ids[1_000..1_001].to_vec())).await.unwrap();
    store.fixture.clock.advance(MILLISECOND);
    let outcome = memory.add(&run(), &scope(), &said[1_000..1_002], AddOptions::default()).await.unwrap();
    assert_eq!((outcome.forgotten, outcome.known), (1, 1));
    let outcome = memory.add(&run(), &scope(), &said[2_400..], AddOptions::default()).await.unwrap();
    assert_eq!(outcome.forgotten, 100);
}

#[tokio::test]
async fn what_an_earlier_version_has_forgotten_stays_so() {
    let store = Store::new("earlier");
    let memory = store.open();
    let ids = add(&memory, &said("I own a theremin")).await;
    memory.drop_scope(&scope()).await.unwrap();
    let tombstone = format!("~turn/id/{}", ids[0]).parse().unwrap();
    memory.set(&scope(), &tombstone, Json::parse("{}").unwrap(), SetOptions::default()).await.unwrap();
    for (again, forgotten) in [(false, 1), (true, 0)] {
        let options = AddOptions::default().with_again(again);
        let outcome = memory.add(&run(), &scope(), &said("I own a theremin"), options).await.unwrap();
        assert_eq!(outcome.forgotten, forgotten, "again: {again}");
    }
    assert_eq!(recall(&memory, "theremin").await.len(), 1);
}

#[tokio::test]
async fn a_quota_counts_turns_and_never_stops_forgetting() {
    let store = Store::new("quota");
    let memory = store.open();
    let with =
        |entries| AddOptions::default().with_quota(Quota { max_entries: Some(entries), max_bytes: None });
    let first = memory.add(&run(), &scope(), &said("I own a theremin"), with(3)).await.unwrap();
    let refused = memory.add(&run(), &scope(), &said("I own a sextant"), with(4)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QuotaExceeded);
    assert_eq!(recall(&memory, "sextant").await, Vec::<String>::new());
    let AddStatus::Done(ids) = first.status else { panic!() };
    memory.forget(&run(), &scope(), Forget::Ids(ids)).await.unwrap();
    assert_eq!(recall(&memory, "theremin").await, Vec::<String>::new());
}

#[tokio::test]
async fn a_dropped_scope_begins_anew() {
    let store = Store::new("dropped");
    let (memory, other) = (store.open(), store.open());
    add(&memory, &said("I own a theremin")).await;
    assert_eq!(recall(&other, "theremin").await.len(), 1);
    memory.drop_scope(&scope()).await.unwrap();
    assert_eq!(recall(&other, "theremin").await, Vec::<String>::new());
    add(&memory, &said("I own a sextant")).await;
    assert_eq!(recall(&other, "sextant theremin").await, ["I own a sextant"]);
}

#[tokio::test]
async fn a_conversation_travels_with_its_scope_and_goes_on() {
    let (from, to) = (Store::new("from"), Store::new("to"));
    let (source, target) = (from.open(), to.open());
    add(&source, &said("I own a theremin")).await;
    add(&source, &said("I own a sextant")).await;
    for existing in [OnExisting::Skip, OnExisting::Replace] {
        let exported = records(&from).await;
        let stream = memory_conformance::stream::records(exported.into_iter().map(Ok).collect());
        target
            .import_scope(&scope(), stream, ImportOptions::default().with_on_existing(existing))
            .await
            .unwrap();
        assert_eq!(recall(&target, "I own").await.len(), 2);
    }
    add(&target, &said("I own a zeppelin")).await;
    assert_eq!(recall(&target, "I own").await.len(), 3);
}

/// Every record of the scope.
async fn records(store: &Store) -> Vec<Record> {
    let memory = store.open();
    let stream = memory.export_scope(&scope()).await.unwrap();
    memory_conformance::stream::collect(stream).await.unwrap()
}

#[tokio::test]
async fn a_log_that_was_put_together_by_an_import_is_mended_by_the_next_add() {
    let (from, to) = (Store::new("long"), Store::new("short"));
    let (source, target) = (from.open(), to.open());
    for n in 0..5 {
        add(&source, &said(&format!("I own a boat called {n}"))).await;
    }
    add(&target, &said("I own a theremin")).await;
    let exported = records(&from).await;
    let stream = memory_conformance::stream::records(exported.into_iter().map(Ok).collect());
    let skip = ImportOptions::default().with_on_existing(OnExisting::Skip);
    target.import_scope(&scope(), stream, skip).await.unwrap();
    add(&target, &said("I own a sextant")).await;
    let found = recall(&target, "I own a boat, a theremin, a sextant").await;
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(recall(&to.open(), "I own a boat, a theremin, a sextant").await.len(), 6);
}

#[tokio::test]
async fn an_id_whose_record_is_another_turn_is_no_fact() {
    let (from, to) = (Store::new("other-log"), Store::new("own-log"));
    let (source, target) = (from.open(), to.open());
    let foreign = add(&source, &said("I own a zeppelin")).await;
    add(&target, &said("I own a theremin")).await;
    let exported = records(&from).await;
    let stream = memory_conformance::stream::records(exported.into_iter().map(Ok).collect());
    let skip = ImportOptions::default().with_on_existing(OnExisting::Skip);
    target.import_scope(&scope(), stream, skip).await.unwrap();
    let forgotten = target.forget(&run(), &scope(), Forget::Ids(foreign.clone())).await.unwrap();
    assert_eq!((forgotten.forgotten, &forgotten.not_found), (Some(0), &foreign));
    for options in [
        AddOptions::default().with_supersedes(foreign.clone()),
        AddOptions::default().with_confirms(foreign.clone()),
    ] {
        let refused = target.add(&run(), &scope(), &said("I own a sextant"), options).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound);
    }
    assert_eq!(recall(&target, "I own").await, ["I own a theremin"]);
}

#[tokio::test]
async fn other_words_under_the_same_id_take_the_place_of_the_first_in_one_step() {
    let store = Store::new("replaced");
    let (memory, other) = (store.open(), store.open());
    let message = |text: &str| [Message::new(Role::User, text).with_id("m-1".into())];
    let ids = add(&memory, &message("I own a theremin")).await;
    add(&memory, &said("I own a kite")).await;
    assert_eq!(recall(&other, "own").await.len(), 2);
    let replaces = AddOptions::default().with_again(true).with_supersedes(ids.clone());
    let outcome = memory.add(&run(), &scope(), &message("I own a sextant"), replaces.clone()).await.unwrap();
    assert_eq!(outcome.status, AddStatus::Done(ids.clone()));
    store.fixture.clock.advance(MILLISECOND);
    for handle in [&memory, &other, &store.open()] {
        let mut found = recall(handle, "own").await;
        found.sort();
        assert_eq!(found, ["I own a kite", "I own a sextant"]);
    }
    let left = serde_json::to_string(&entries(&memory).await).unwrap();
    assert!(!left.contains("theremin"), "{left}");
    // Nothing is lost when there is no space.
    let replaces = replaces.with_quota(Quota { max_entries: Some(1), max_bytes: None });
    memory.add(&run(), &scope(), &message("I own a boat"), replaces).await.unwrap_err();
    assert_eq!(recall(&memory, "sextant").await[0], "I own a sextant");
    // The replaced words do not count as forgotten, and their replacements can be forgotten.
    let outcome =
        memory.add(&run(), &scope(), &said("I own a theremin"), AddOptions::default()).await.unwrap();
    assert_eq!(outcome.forgotten, 0);
    memory.forget(&run(), &scope(), Forget::Ids(ids)).await.unwrap();
    let mut found = recall(&memory, "own").await;
    found.sort();
    assert_eq!(found, ["I own a kite", "I own a theremin"]);
}

#[tokio::test]
async fn forgetting_all_removes_what_cannot_be_read() {
    let store = Store::new("unreadable");
    let memory = store.open();
    for boat in ["zeppelin", "sextant", "theremin"] {
        add(&memory, &said(&format!("I own a {boat}"))).await;
    }
    for key in ["~turn/log/0000000000000001", "~turn/log/1"] {
        let robot = Json::parse(r#"{"turn":{"id":"x","text":"beep","role":"robot"}}"#).unwrap();
        memory.set(&scope(), &key.parse().unwrap(), robot, SetOptions::default()).await.unwrap();
    }
    let unreadable = memory.recall(&run(), &scope(), RecallQuery::new("beep")).await.unwrap_err();
    assert_eq!(unreadable.kind(), ErrorKind::Corrupt);
    let forgotten = memory.forget(&run(), &scope(), Forget::All).await.unwrap();
    assert_eq!(forgotten.forgotten, Some(2));
    store.fixture.clock.advance(MILLISECOND);
    assert_eq!(recall(&memory, "beep zeppelin").await, Vec::<String>::new());
    assert_eq!(add(&memory, &said("I own a kite")).await.len(), 1);
}

#[tokio::test]
async fn a_fact_that_its_own_words_confirm_is_written_once() {
    let store = Store::new("own-words");
    let memory = store.open();
    let ids = add(&memory, &said("I own a theremin")).await;
    store.fixture.clock.advance(MILLISECOND);
    let confirms = AddOptions::default().with_confirms(ids);
    let outcome = memory.add(&run(), &scope(), &said("I own a theremin"), confirms).await.unwrap();
    assert_eq!((outcome.known, outcome.status), (1, AddStatus::Done(Vec::new())));
    let facts = memory.facts(&run(), &scope(), FactsQuery::default()).await.unwrap().facts;
    assert_eq!(facts[0].confirmed_at, Some(store.fixture.clock.now()));
    // The head, the turn with its digest, and when it was confirmed.
    assert_eq!(entries(&memory).await.len(), 4);
}

#[tokio::test]
async fn reading_leaves_no_trace_and_a_scope_that_was_never_written_stays_so() {
    let store = Store::new("reading");
    let memory = store.open();
    assert_eq!(recall(&memory, "theremin").await, Vec::<String>::new());
    memory.forget(&run(), &scope(), Forget::All).await.unwrap();
    assert_eq!(entries(&memory).await, []);
    add(&memory, &said("I own a theremin")).await;
    let before = entries(&memory).await;
    recall(&memory, "theremin").await;
    assert_eq!(entries(&memory).await, before);
    assert!(before.iter().all(|entry| entry.key.as_str().starts_with(RESERVED_PREFIX)));
}

#[tokio::test]
async fn many_writers_lose_nothing_and_store_nothing_twice() {
    let store = Store::new("writers");
    let handles: Vec<Arc<Conversations>> = (0..4).map(|_| Arc::new(store.open())).collect();
    let mut tasks = Vec::new();
    for (writer, memory) in handles.iter().enumerate() {
        let memory = Arc::clone(memory);
        tasks.push(tokio::spawn(async move {
            for n in 0..25 {
                add(&memory, &said(&format!("I own boat {n}, says {writer}"))).await;
                add(&memory, &said(&format!("We share boat {n}"))).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut query = RecallQuery::new("boat");
    query.top_k = 1_000;
    for memory in &handles {
        assert_eq!(memory.recall(&run(), &scope(), query.clone()).await.unwrap().len(), 125);
    }
}

#[tokio::test]
async fn a_question_is_answered_by_words_while_the_embedder_fails() {
    let store = Store::new("embedder");
    let options = RecallOptions::default().with_embedder(store.fixture.embedder.clone());
    let memory = store.open_with(options);
    store.fixture.embedder.fail_always(Some(memory_conformance::EmbedFault::Error(ErrorKind::Unavailable)));
    let outcome =
        memory.add(&run(), &scope(), &said("I own a theremin"), AddOptions::default()).await.unwrap();
    assert_eq!(outcome.without_vector, 1);
    assert_eq!(recall(&memory, "theremin").await.len(), 1);
    assert!(memory.capabilities().layer_sync);
}
