//! Writing with an embedder: what is embedded, what is refused before anything is written, what a failing or hanging
//! embedder leaves, and that nothing stale is ever found.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::embedders::Directions;
use crate::support::files::folder;
use crate::support::{Store, TestClock, block_on, fast, json, key};
use memory_core::{
    Backend as _, Embed, Embedder as _, Embedding, ErrorKind, ImportOptions, NewEntry, OnExisting,
    Provider as _, Record, RecordVector, Reducer, ReembedOptions, Scope, SearchMode, SearchQuery, SetOptions,
    Ttl, UpdateOptions,
};
use memory_sqlite::SqliteConfig;

fn in_memory(embedder: &Arc<Directions>) -> Store {
    Store::embedding(None, fast(), TestClock::new(), embedder.clone()).unwrap()
}

fn in_file(path: &Path, config: SqliteConfig, embedder: &Arc<Directions>) -> Store {
    Store::embedding(Some(path), config, TestClock::new(), embedder.clone()).unwrap()
}

fn item(name: &str, text: &str) -> NewEntry {
    NewEntry::new(key(name), json(&format!("\"{text}\"")))
}

fn bulk(store: &Store, items: Vec<NewEntry>) -> Vec<Embedding> {
    let outcomes = block_on(store.backend().bulk_insert(&store.scope, items, Default::default())).unwrap();
    outcomes.into_iter().map(|outcome| outcome.embedding).collect()
}

fn never() -> SetOptions {
    SetOptions::default().with_embed(Embed::Never)
}

/// The keys nearest to a text that was embedded for them: those with a cosine of 1.
fn found(store: &Store, text: &str) -> Vec<String> {
    let hits = store.near(text, 100).unwrap();
    hits.into_iter().filter(|(_, score)| *score > 0.999_999).map(|(name, _)| name).collect()
}

// ---- The write path ----

#[test]
fn the_texts_of_a_bulk_insert_go_to_the_embedder_together() {
    let embedder = Arc::new(Directions::new(8));
    let store = in_memory(&embedder);
    let items = (0..200).map(|n| item(&format!("k{n:03}"), &format!("text {n}"))).collect();
    assert_eq!(bulk(&store, items), vec![Embedding::Stored; 200]);
    assert_eq!(embedder.calls(), [64, 64, 64, 8]);
    for n in [0, 63, 64, 199] {
        assert_eq!(found(&store, &format!("text {n}")), [format!("k{n:03}")]);
    }
}

#[test]
fn long_texts_go_in_smaller_chunks() {
    let embedder = Arc::new(Directions::new(8));
    let store = in_memory(&embedder);
    let items = (0..5).map(|n| item(&format!("k{n}"), &"x".repeat(100 << 10))).collect();
    assert_eq!(bulk(&store, items), vec![Embedding::Stored; 5]);
    assert_eq!(embedder.calls(), [2, 2, 1]);
}

#[test]
fn of_several_items_with_one_key_the_last_is_embedded() {
    let embedder = Arc::new(Directions::new(8));
    let store = in_memory(&embedder);
    let mut unwanted = item("b", "four");
    unwanted.options.embed = Embed::Never;
    let items = vec![item("a", "one"), item("b", "two"), item("a", "three"), unwanted];
    let skipped = Embedding::Skipped;
    assert_eq!(bulk(&store, items), [skipped.clone(), skipped.clone(), Embedding::Stored, skipped]);
    assert_eq!(embedder.calls(), [1]);
    assert_eq!(found(&store, "three"), ["a"]);
    assert_eq!(store.near("two", 10).unwrap().len(), 1);
}

#[test]
fn a_text_that_the_model_refuses_fails_alone() {
    let embedder = Arc::new(Directions::new(8));
    let store = in_memory(&embedder);
    embedder.refuse("bad");
    let embedded = bulk(&store, vec![item("a", "one"), item("b", "bad"), item("c", "three")]);
    assert_eq!((&embedded[0], &embedded[2]), (&Embedding::Stored, &Embedding::Stored));
    assert!(matches!(&embedded[1], Embedding::Failed(reason) if reason.contains("too long")), "{embedded:?}");
    let again = block_on(store.backend().reembed(&store.scope, ReembedOptions::default())).unwrap();
    assert_eq!((again.embedded, again.remaining, again.failed), (0, 1, 1));
}

#[test]
fn an_embedder_that_hangs_fails_the_embedding_in_time_and_the_write_stands() {
    let embedder = Arc::new(Directions::new(8));
    let config = fast().with_embed_timeout(Duration::from_millis(20));
    let store = Store::embedding(None, config, TestClock::new(), embedder.clone()).unwrap();
    embedder.hang(true);
    let outcome = store.try_set("k", "\"tea\"").unwrap();
    assert!(
        matches!(&outcome.embedding, Embedding::Failed(reason) if reason.contains("20 ms")),
        "{outcome:?}"
    );
    assert_eq!(store.text("k").as_deref(), Some("\"tea\""));
    let error = store.near("tea", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(store.find("tea").unwrap(), ["k"], "words need no embedder");
    // A hundred texts wait once, not each in turn.
    let items = (0..100).map(|n| item(&format!("b{n}"), "x")).collect();
    assert!(bulk(&store, items).iter().all(|embedding| matches!(embedding, Embedding::Failed(_))));
    embedder.hang(false);
    let done = block_on(store.backend().reembed(&store.scope, ReembedOptions::default())).unwrap();
    assert_eq!((done.embedded, done.remaining), (101, 0));
    assert_eq!(found(&store, "tea"), ["k"]);
}

#[test]
fn closing_ends_the_wait_for_an_embedder() {
    let embedder = Arc::new(Directions::new(8));
    let store = in_memory(&embedder);
    embedder.hang(true);
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| store.try_set("k", "\"tea\""));
        crate::support::eventually("the embedder is asked", || (!embedder.calls().is_empty()).then_some(()));
        block_on(store.provider.close()).unwrap();
        assert!(matches!(waiting.join().unwrap().unwrap().embedding, Embedding::Failed(_)));
    });
}

// ---- Dimensions ----

#[test]
fn vectors_that_have_expired_refuse_no_other_dimensions() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let store = in_file(&path, fast(), &Arc::new(Directions::new(8)));
    let brief = SetOptions::default().with_ttl(Ttl::After(Duration::from_secs(1)));
    store.try_set_with("k", "\"tea\"", brief).unwrap();
    store.close();
    let store = in_file(&path, fast(), &Arc::new(Directions::new(5)));
    assert_eq!(store.try_set("new", "1").unwrap_err().kind(), ErrorKind::DimensionMismatch);
    store.clock.advance(Duration::from_secs(1));
    assert_eq!(store.try_set("new", "1").unwrap().embedding, Embedding::Stored);
}

// ---- Nothing stale ----

/// Every way in which a vector can go, each after a search that has the vectors in memory.
fn no_stale_hit(store: &Store, others: &[&Store]) {
    let nowhere = |text: &str, why: &str| {
        for store in others.iter().chain([&store]) {
            assert_eq!(found(store, text), Vec::<String>::new(), "{why}");
        }
    };
    let write = |name: &str, text: &str, options: SetOptions| {
        let outcome = store.try_set_with(name, &format!("\"{text}\""), options).unwrap();
        assert_eq!(outcome.embedding, Embedding::Stored);
        for store in others.iter().chain([&store]) {
            assert_eq!(found(store, text), [name]);
        }
    };
    for n in 0..10 {
        write(&format!("filler{n}"), &format!("filler {n}"), SetOptions::default());
    }

    write("k", "one", SetOptions::default());
    write("k", "two", SetOptions::default());
    nowhere("one", "overwritten");
    store.try_set_with("k", "\"two\"", never()).unwrap();
    nowhere("two", "overwritten without embedding");

    write("k", "three", SetOptions::default());
    store.delete("k").unwrap();
    nowhere("three", "deleted");
    store.try_set_with("k", "\"three\"", never()).unwrap();
    nowhere("three", "deleted and written without embedding");

    write("brief", "four", SetOptions::default().with_ttl(Ttl::After(Duration::from_secs(1))));
    store.clock.advance(Duration::from_secs(1));
    others.iter().for_each(|other| other.clock.advance(Duration::from_secs(1)));
    nowhere("four", "expired");
    assert_eq!(block_on(store.provider.sweep()).unwrap(), 1);
    nowhere("four", "expired and reclaimed");
    // What was reclaimed does not come back when the clock is set back.
    store.clock.set_back(Duration::from_secs(1));
    others.iter().for_each(|other| other.clock.set_back(Duration::from_secs(1)));
    nowhere("four", "reclaimed, and the clock set back");
    store.try_set_with("brief", "\"five\"", never()).unwrap();

    store.set("k", "{\"a\":\"five\"}");
    assert_eq!(found(store, "a five"), ["k"]);
    let (reducer, options) = (Reducer::Merge(json("{\"a\":\"six\"}")), UpdateOptions::default());
    block_on(store.backend().update(&store.scope, &key("k"), reducer, options)).unwrap();
    nowhere("a five", "reduced");
    write("count", "7", SetOptions::default().with_text("7"));
    store.try_set_with("count", "7", never()).unwrap();
    store.increment("count", 1).unwrap();
    nowhere("7", "incremented");

    write("k", "eight", SetOptions::default());
    let mut record = Record::from(store.entry("k").unwrap().unwrap());
    record.entry.value = json("\"nine\"");
    let options = ImportOptions::default().with_on_existing(OnExisting::Replace);
    let records = crate::support::stream(vec![Ok(record)]);
    block_on(store.backend().import_scope(&store.scope, records, options)).unwrap();
    nowhere("eight", "replaced by an import");

    write("k", "ten", SetOptions::default());
    block_on(store.backend().drop_scope(&store.scope)).unwrap();
    nowhere("ten", "dropped");
    store.try_set_with("k", "\"ten\"", never()).unwrap();
    nowhere("ten", "dropped and written without embedding");
    write("k", "eleven", SetOptions::default());
    assert_eq!(store.near("eleven", 100).unwrap().len(), 1);
}

#[test]
fn no_stale_hit_by_another_handle() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let embedder = Arc::new(Directions::new(16));
    let [store, other] = [(); 2].map(|()| in_file(&path, fast(), &embedder));
    let scanning = in_file(&path, fast().with_vector_index_bytes(0), &embedder);
    no_stale_hit(&store, &[&other, &scanning]);
}

#[test]
fn rows_and_counters_agree_after_all_that() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let store = in_file(&path, fast(), &Arc::new(Directions::new(16)));
    no_stale_hit(&store, &[]);
    block_on(store.provider.sweep()).unwrap();
    store.close();
    let conn = crate::support::files::raw_or_new(&path);
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("SELECT count(*) FROM vector"), 1, "of dropped scopes too");
    assert_eq!(number("SELECT sum(vectors) FROM scope"), 1);
}

// ---- Models, records ----

#[test]
fn without_an_embedder_vectors_stay_with_their_entries_and_are_exported() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let embedder = Arc::new(Directions::new(8));
    let store = in_file(&path, fast(), &embedder);
    for name in ["a", "b", "c"] {
        store.set(name, &format!("\"text {name}\""));
    }
    store.close();
    let plain = Store::open(&path, fast()).unwrap();
    assert_eq!(plain.near("text a", 1).unwrap_err().kind(), ErrorKind::VectorUnsupported);
    plain.delete("a").unwrap();
    plain.set("b", "\"text b\"");
    let records =
        block_on(crate::support::collect(block_on(plain.backend().export_scope(&plain.scope)).unwrap()));
    let records: Vec<Record> = records.into_iter().map(Result::unwrap).collect();
    assert_eq!(records.iter().map(|record| record.vectors.len()).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(records[1].vectors[0].vector, embedder.vector("text c"));
    let copy = Scope::agent("acme", "copy").unwrap();
    let records = crate::support::stream(records.into_iter().map(Ok).collect());
    block_on(plain.backend().import_scope(&copy, records, ImportOptions::default())).unwrap();
    plain.close();
    let store = in_file(&path, fast(), &embedder);
    let query = SearchQuery::new("text c").with_mode(SearchMode::Vector);
    let hits = block_on(store.backend().search(&copy, query)).unwrap().hits;
    assert_eq!(hits.iter().map(|hit| hit.entry.key.as_str()).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn a_record_with_vectors_that_cannot_be_is_refused_by_the_bare_provider_too() {
    let store = in_memory(&Arc::new(Directions::new(3)));
    store.try_set_with("k", "1", never()).unwrap();
    let entry = store.entry("k").unwrap().unwrap();
    let model = Directions::named("m", 2).model().clone();
    let unnamed = Directions::named("", 2).model().clone();
    let vector = |model: &memory_core::EmbeddingModel, numbers: &[f32]| RecordVector {
        model: model.clone(),
        vector: numbers.to_vec(),
        text: None,
    };
    for vectors in [
        vec![vector(&model, &[1.0])],
        vec![vector(&model, &[0.0, 0.0])],
        vec![vector(&model, &[1.0, f32::NAN])],
        vec![vector(&unnamed, &[1.0, 1.0])],
        vec![vector(&model, &[1.0, 1.0]), vector(&model, &[1.0, 2.0])],
    ] {
        let mut record = Record::from(entry.clone());
        record.vectors = vectors;
        let records = crate::support::stream(vec![Ok(record)]);
        let copy = Scope::agent("acme", "copy").unwrap();
        let refused = block_on(store.provider.import_scope(&copy, records, ImportOptions::default()));
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), &error.details()["index"]), (ErrorKind::InvalidArgument, &0.into()));
    }
}

#[test]
fn a_damaged_vector_is_a_typed_error_and_words_are_found_all_the_same() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let embedder = Arc::new(Directions::new(8));
    for damage in ["X'00'", "zeroblob(32)", &format!("X'0000c07f{}'", "00".repeat(28))] {
        let store = in_file(&path, fast(), &embedder);
        store.set("k", "\"tea\"");
        store.close();
        crate::support::files::raw_or_new(&path)
            .execute(&format!("UPDATE vector SET data = {damage}"), [])
            .unwrap();
        for bytes in [1 << 20, 0] {
            let store = in_file(&path, fast().with_vector_index_bytes(bytes), &embedder);
            assert_eq!(store.near("tea", 1).unwrap_err().kind(), ErrorKind::Corrupt, "{damage}");
            assert_eq!(store.find("tea").unwrap(), ["k"]);
            store.close();
        }
        let store = in_file(&path, fast(), &embedder);
        store.set("k", "\"tea\"");
        assert_eq!(found(&store, "tea"), ["k"], "writing it anew mends it");
    }
}

/// Like a program that knows only version 1 of the file, and had it open when it became version 2.
#[test]
fn a_vector_that_another_program_left_behind_is_never_found() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let embedder = Arc::new(Directions::new(8));
    for bytes in [1 << 20, 0] {
        let store = in_file(&path, fast().with_vector_index_bytes(bytes), &embedder);
        for name in ["overwritten", "deleted", "kept"] {
            store.set(name, &format!("\"{name}\""));
        }
        assert_eq!(found(&store, "overwritten"), ["overwritten"]);
        let conn = crate::support::files::raw_or_new(&path);
        let overwrite =
            "UPDATE entry SET version = version + 100, value = '\"new\"' WHERE key = 'overwritten'";
        conn.execute_batch(&format!(
            "{overwrite}; DELETE FROM entry WHERE key = 'deleted'; UPDATE scope SET changes = changes + 2, \
             version = version + 100, entries = entries - 1"
        ))
        .unwrap();
        drop(conn);
        for mode in [SearchMode::Vector, SearchMode::Hybrid] {
            let query = SearchQuery::new("overwritten deleted kept").with_mode(mode);
            let hits = block_on(store.backend().search(&store.scope, query)).unwrap().hits;
            assert_eq!(
                hits.iter().map(|hit| hit.entry.key.as_str()).collect::<Vec<_>>(),
                ["kept"],
                "{mode:?}"
            );
        }
        block_on(store.backend().reembed(&store.scope, ReembedOptions::default())).unwrap();
        assert_eq!(found(&store, "new"), ["overwritten"]);
        store.set("deleted", "\"again\"");
        assert_eq!(found(&store, "again"), ["deleted"]);
        store.close();
    }
}
