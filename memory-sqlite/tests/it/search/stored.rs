//! Stored text indexes save reading the texts, change no answer, and keep no word of what is gone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{EraseTarget, Provider as _, SearchMode, SearchQuery, SetOptions, Ttl};
use rusqlite::config::DbConfig;

use crate::support::files::{contents, folder, integrity, raw};
use crate::support::{Store, TestClock, block_on, eventually, fast, key};

/// Enough entries for an index to be stored.
const MANY: usize = 1_500;
/// In one entry, and nowhere else.
const SECRET: &str = "xylographer";

fn text(n: usize) -> String {
    format!("\"note {n} about tea{} and rain{}\"", n % 7, n % 31)
}

fn fill(store: &Store) {
    store.bulk((0..MANY).map(|n| (format!("note/{n:05}"), text(n)))).unwrap();
}

/// A file whose scope was searched, so that its index is stored.
fn searched(path: &Path) {
    let store = Store::open(path, fast()).unwrap();
    fill(&store);
    store.set("note/00700x", &format!("\"{SECRET} and tea\""));
    assert_eq!(store.find(SECRET).unwrap(), ["note/00700x"]);
    store.close();
    assert_eq!(documents(path), MANY + 1);
}

fn number(path: &Path, sql: &str) -> usize {
    let found: i64 = raw(path).query_row(sql, [], |row| row.get(0)).unwrap();
    usize::try_from(found).unwrap()
}

/// Documents in stored segments.
fn documents(path: &Path) -> usize {
    number(path, "SELECT coalesce(sum(documents), 0) FROM text_segment")
}

/// Stored segments with the secret word.
fn telling(path: &Path) -> usize {
    number(path, &format!("SELECT count(*) FROM text_segment WHERE instr(data, CAST('{SECRET}' AS BLOB))"))
}

/// Changes the file behind our back: triggers do not run, so nothing reports it.
fn secretly(path: &Path, sql: &str) {
    let connection = raw(path);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    connection.execute_batch(sql).unwrap();
}

fn hits(store: &Store, words: &str) -> Vec<(String, u64)> {
    let query = SearchQuery::new(words).with_mode(SearchMode::Lexical).with_top_k(50);
    let found = block_on(store.backend().search(&store.scope, query)).unwrap();
    found.hits.iter().map(|hit| (hit.entry.key.to_string(), hit.score.to_bits())).collect()
}

#[test]
fn a_scope_that_was_searched_is_searched_again_without_reading_its_texts() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    searched(&path);
    secretly(&path, "UPDATE entry SET value = '\"nothing\"'");
    let store = Store::open(&path, fast()).unwrap();
    assert_eq!(store.find(SECRET).unwrap(), ["note/00700x"], "as the stored index has it");
    store.set("note/00001", "\"a new kettle\"");
    assert_eq!(store.find("kettle").unwrap(), ["note/00001"]);
    store.close();
}

/// After a change only the segment around it is read again from its texts.
#[test]
fn a_change_costs_the_segment_around_it() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let store = Store::open(&path, fast()).unwrap();
    store.bulk((0..9_000).map(|n| (format!("note/{n:05}"), text(n)))).unwrap();
    store.find("tea1").unwrap();
    store.close();
    assert_eq!(number(&path, "SELECT count(*) FROM text_segment"), 3);
    let store = Store::open(&path, fast()).unwrap();
    store.set("note/00000", "\"a new kettle\"");
    let left = documents(&path);
    assert!((4_000..8_000).contains(&left), "{left}");
    store.set("other", "\"another kettle\"");
    assert_eq!(documents(&path), left, "no segment has it");
    let counted = number(&path, "SELECT segments FROM scope");
    assert_eq!(counted, number(&path, "SELECT count(*) FROM text_segment"), "the scope counts what is left");
    store.close();
}

#[test]
fn the_background_stores_what_a_search_has_analysed() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let store = Store::open(&path, fast()).unwrap();
    fill(&store);
    assert_eq!(documents(&path), 0, "writes store no index");
    store.find("tea1").unwrap();
    eventually("the index is stored", || (documents(&path) == MANY).then_some(()));
    assert!(!hits(&store, "tea1 rain3").is_empty());
    store.close();
}

#[test]
fn few_entries_are_not_stored() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let store = Store::open(&path, fast()).unwrap();
    store.bulk((0..500).map(|n| (format!("note/{n:05}"), text(n)))).unwrap();
    store.find("tea1").unwrap();
    store.close();
    assert_eq!(documents(&path), 0);
}

#[test]
fn scores_are_those_that_the_texts_give() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    searched(&path);
    let change = |store: &Store| {
        store.set("note/00003", "\"tea3 tea3 rain1\"");
        store.delete("note/00010").unwrap();
        store.set("note/2", "\"rain rain2 tea5\"");
    };
    let store = Store::open(&path, fast()).unwrap();
    let queries = ["tea3", "rain1 tea5", "note about rain2 kettle", SECRET];
    let mut stored: Vec<_> = queries.map(|query| hits(&store, query)).into();
    change(&store);
    stored.extend(queries.map(|query| hits(&store, query)));
    store.close();

    let other = folder.path().join("other.db");
    let fresh = Store::open(&other, fast()).unwrap();
    fill(&fresh);
    fresh.set("note/00700x", &format!("\"{SECRET} and tea\""));
    let mut read: Vec<_> = queries.map(|query| hits(&fresh, query)).into();
    change(&fresh);
    read.extend(queries.map(|query| hits(&fresh, query)));
    fresh.close();
    assert_eq!(stored, read);
}

#[test]
fn what_goes_away_leaves_no_word_in_a_stored_index() {
    type Remove = fn(&Store);
    let cases: [(&str, Remove); 6] = [
        ("delete", |store| assert!(store.delete("note/00700x").unwrap())),
        ("overwrite", |store| {
            store.set("note/00700x", "1");
        }),
        ("increment", |store| {
            store.set("note/00700x", "1");
            store.increment("note/00700x", 1).unwrap();
        }),
        ("reclaim", |store| {
            let brief = SetOptions::default().with_ttl(Ttl::After(Duration::from_secs(1)));
            store.try_set_with("note/00700x", &format!("\"{SECRET} again\""), brief).unwrap();
            assert_eq!(store.find(SECRET).unwrap(), ["note/00700x"]);
            store.clock.advance(Duration::from_secs(2));
            assert_eq!(block_on(store.provider.sweep()).unwrap(), 1);
        }),
        ("drop", |store| {
            block_on(store.backend().drop_scope(&store.scope)).unwrap();
            block_on(store.provider.reclaim()).unwrap();
        }),
        ("erase", |store| {
            let erased = block_on(store.kv.erase(&EraseTarget::Scope(store.scope.clone()))).unwrap();
            assert_eq!(erased.remains, Vec::<String>::new());
        }),
    ];
    for (name, remove) in cases {
        let folder = folder();
        let path = folder.path().join("memory.db");
        searched(&path);
        assert_eq!(telling(&path), 1);
        let store = Store::open(&path, fast()).unwrap();
        remove(&store);
        assert_eq!(telling(&path), 0, "{name}");
        assert_eq!(store.find(SECRET).unwrap(), Vec::<String>::new(), "{name}");
        store.close();
        assert_eq!(telling(&path), 0, "{name}");
        let store = Store::open(&path, fast()).unwrap();
        assert_eq!(store.find(SECRET).unwrap(), Vec::<String>::new(), "{name}");
        store.close();
        assert_eq!(integrity(&path), "ok");
    }
}

#[test]
fn what_is_erased_from_a_searched_scope_is_in_no_file() {
    let scope = crate::support::agent("ada");
    let tenant = scope.tenant.clone();
    for target in [
        EraseTarget::Key { scope: scope.clone(), key: key("note/00700x") },
        EraseTarget::Scope(scope),
        EraseTarget::Tenant(tenant),
    ] {
        let folder = folder();
        let path = folder.path().join("memory.db");
        searched(&path);
        let there = |word: &str| {
            let is_in = |bytes: &[u8]| bytes.windows(word.len()).any(|window| window == word.as_bytes());
            contents(folder.path()).into_iter().any(|(_, bytes)| is_in(&bytes))
        };
        assert!(there(SECRET) && there("note/00700x"));
        let store = Store::open(&path, fast()).unwrap();
        assert_eq!(store.find(SECRET).unwrap(), ["note/00700x"]);
        let erased = block_on(store.kv.erase(&target)).unwrap();
        assert_eq!(erased.remains, Vec::<String>::new());
        assert!(!there(SECRET) && !there("note/00700x"), "at once: {target:?}");
        let key_alone = matches!(target, EraseTarget::Key { .. });
        assert_eq!(hits(&store, "tea1").is_empty(), !key_alone);
        store.close();
        assert!(!there(SECRET) && !there("note/00700x"), "after closing: {target:?}");
        assert_eq!(
            documents(&path),
            if key_alone { MANY } else { 0 },
            "the index of the rest is stored again"
        );
    }
}

#[test]
fn writes_of_other_processes_and_programs_are_seen() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    searched(&path);
    let clock = TestClock::new();
    let (one, other) = (
        Store::open_at(&path, fast(), clock.clone()).unwrap(),
        Store::open_at(&path, fast(), clock).unwrap(),
    );
    assert_eq!(one.find(SECRET).unwrap().len(), 1);
    other.set("note/00700x", "\"a kettle\"");
    other.set("note/00700y", "\"another kettle\"");
    for store in [&one, &other] {
        assert_eq!(store.find(SECRET).unwrap(), Vec::<String>::new());
        assert_eq!(store.find("kettle").unwrap().len(), 2);
    }
    one.close();
    other.close();
    // Another program, whose writes the triggers notice.
    assert_eq!(documents(&path), MANY + 2);
    raw(&path)
        .execute_batch(
            "UPDATE entry SET value = '\"samovar\"' WHERE key = 'note/00700x'; \
             DELETE FROM entry WHERE key = 'note/00700y'",
        )
        .unwrap();
    let store = Store::open(&path, fast()).unwrap();
    assert_eq!(store.find("kettle").unwrap(), Vec::<String>::new());
    assert_eq!(store.find("samovar").unwrap(), ["note/00700x"]);
    store.set("note/1", "1");
    assert_eq!(
        number(&path, "SELECT count(*) FROM text_segment WHERE instr(data, CAST('kettle' AS BLOB))"),
        0
    );
    store.close();
}

#[test]
fn damage_to_a_stored_index_changes_no_answer() {
    for damage in [
        "UPDATE text_segment SET data = CAST(replace(hex(data), '7869', '7870') AS BLOB)",
        "UPDATE text_segment SET data = zeroblob(length(data))",
        "UPDATE text_segment SET data = substr(data, 1, length(data) / 2)",
        "UPDATE text_segment SET data = x''",
        "DELETE FROM text_segment",
        "INSERT INTO text_segment (space, first, last, documents, data) \
         SELECT space, first || 'x', last, documents, data FROM text_segment",
        "UPDATE scope SET segments = 0",
        "UPDATE scope SET segments = 77; DELETE FROM text_segment",
    ] {
        let folder = folder();
        let path = folder.path().join("memory.db");
        searched(&path);
        let store = Store::open(&path, fast()).unwrap();
        let right = hits(&store, "tea3 rain1");
        store.close();
        secretly(&path, damage);
        let store = Store::open(&path, fast()).unwrap();
        assert_eq!(store.find(SECRET).unwrap(), ["note/00700x"], "{damage}");
        assert_eq!(hits(&store, "tea3 rain1"), right, "{damage}");
        store.set("note/00700x", "1");
        assert_eq!(store.find(SECRET).unwrap(), Vec::<String>::new(), "{damage}");
        store.close();
    }
}

#[test]
fn a_damaged_index_is_stored_anew() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    searched(&path);
    secretly(&path, "UPDATE text_segment SET data = zeroblob(length(data))");
    let store = Store::open(&path, fast()).unwrap();
    assert_eq!(store.find(SECRET).unwrap(), ["note/00700x"]);
    store.close();
    assert_eq!(telling(&path), 1);
}

/// The words that another program removed stay in a segment until the next write or repair.
#[test]
fn a_repair_removes_the_index_of_a_scope_that_another_program_changed() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    searched(&path);
    raw(&path).execute("DELETE FROM entry WHERE key = 'note/00700x'", []).unwrap();
    assert_eq!(telling(&path), 1);
    memory_sqlite::repair(&path, &fast(), memory_sqlite::RepairOptions::default()).unwrap();
    assert_eq!((telling(&path), number(&path, "SELECT sum(segments) FROM scope")), (0, 0));
    let store = Store::open(&path, fast()).unwrap();
    assert_eq!(store.find(SECRET).unwrap(), Vec::<String>::new());
    store.close();
    assert_eq!(documents(&path), MANY);
}

/// One process's clock may be ahead: what it considers expired is not lost for the others.
#[test]
fn an_entry_that_one_process_holds_for_expired_is_found_by_another() {
    let folder = folder();
    let path = folder.path().join("memory.db");
    let late = TestClock::new();
    let store = Store::open_at(&path, fast(), Arc::clone(&late)).unwrap();
    fill(&store);
    let brief = SetOptions::default().with_ttl(Ttl::After(Duration::from_secs(60)));
    store.try_set_with("brief", "\"kettle\"", brief).unwrap();
    assert_eq!(store.find("kettle").unwrap(), ["brief"]);
    late.advance(Duration::from_secs(120));
    assert_eq!(store.find("kettle").unwrap(), Vec::<String>::new());
    store.close();
    let store = Store::open(&path, fast()).unwrap();
    assert_eq!(store.find("kettle").unwrap(), ["brief"]);
    store.close();
}

#[test]
fn a_database_in_memory_keeps_its_index_in_order_too() {
    let store = Store::in_memory(fast()).unwrap();
    fill(&store);
    for n in 0..1_000 {
        store.set(&format!("note/{n:05}"), "\"kettle\"");
        if n % 100 == 0 {
            assert_eq!(store.find("kettle").unwrap().len(), n + 1);
        }
    }
    assert_eq!(hits(&store, "kettle").len(), 50);
    store.close();
}
