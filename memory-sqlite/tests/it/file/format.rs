//! The released file format is pinned: a file of every earlier release opens with its contents unchanged.
//!
//! `tests/fixtures/v6.db` was written by `MEMORY_SQLITE_WRITE_FIXTURE=1 cargo test -p memory-sqlite --test it format`,
//! and `v1.db` to `v5.db` by earlier versions. The newest is rewritten only until its release; a later format gets its
//! own file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::support::files::{folder, integrity, place, pragma};
use crate::support::{Store, TestClock, block_on, fast, json, key, skip};
use memory_conformance::TestEmbedder;
use memory_core::{
    Clock as _, Embed, EmbeddingModel, Entry, Field, Filter, GetOptions, Key, ListQuery, Metadata, NewEntry,
    Provider as _, Record, RecordVector, Reducer, Result, Scope, ScopeUsesQuery, ScopesQuery, SearchMode,
    SearchQuery, SetOptions, Source, TenantId, Ttl, UpdateOptions,
};
use rusqlite::OpenFlags;

/// When the file was written, by its own clock.
const WRITTEN: i64 = 1_800_000_000_000;

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/v{version}.db"))
}

fn foreign_model() -> EmbeddingModel {
    EmbeddingModel { provider: "elsewhere".into(), model: "tiny".into(), dimensions: 3 }
}

/// Long enough to be stored outside its row.
fn long() -> String {
    format!("{{\"text\": \"{}\"}}", "a long story about tea ".repeat(100))
}

fn rich() -> SetOptions {
    let metadata = Metadata::new()
        .with("city", "Zürich \"old town\"")
        .with("exact", 9_007_199_254_740_993)
        .with("share", 0.1)
        .with("whole", 2.0)
        .with("yes", true);
    SetOptions::default()
        .with_metadata(metadata)
        .with_source(Source::new("tool:web").unwrap())
        .with_text("Ünïcode tea ceremony")
}

/// Writes a file with everything the format can hold.
fn write(path: &Path) {
    let store = embedding(path);
    store.set("number", "123456789012345678901234567890.50e-3");
    store.set("object", r#"{ "b": 1, "a": [1.0, null, "\u00e9"], "b": 2 }"#);
    store.try_set_with("rich", "\"value\"", rich()).unwrap();
    store.set("long", &long());
    store.try_set_with("brief", "\"gone soon\"", SetOptions::default().with_ttl(minute())).unwrap();
    store.set("deleted", "1");
    store.set("deleted", "2");
    store.delete("deleted").unwrap();
    store.clock.advance(Duration::from_millis(500));
    store.increment("count", 41).unwrap();
    store.increment("count", 1).unwrap();
    let reducer = Reducer::BoundedList { item: json("\"item\""), limit: 3 };
    block_on(store.backend().update(&store.scope, &key("list"), reducer, UpdateOptions::default())).unwrap();
    store.set("kljuc/ключ", "\"чай и вода\"");
    for _ in 0..3 {
        block_on(store.backend().get(&store.scope, &key("rich"), GetOptions::default())).unwrap();
    }
    for (scope, name) in [
        (Scope::user("acme", "ada").unwrap(), "of a user"),
        (Scope::run("acme", "run-1").unwrap(), "of a run"),
        (Scope::agent("other", "ada").unwrap(), "of another tenant"),
        (Scope::agent("acme", "dropped").unwrap(), "dropped"),
    ] {
        let item = NewEntry::new(key("name"), json(&format!("\"{name} with tea\"")));
        block_on(store.backend().bulk_insert(&scope, vec![item], Default::default())).unwrap();
    }
    block_on(store.backend().drop_scope(&Scope::agent("acme", "dropped").unwrap())).unwrap();
    import_foreign(&store);
    let words = |n: usize| {
        let mut item = NewEntry::new(key(&format!("note/{n:03}")), json(&format!("\"tea number{n}\"")));
        item.options = SetOptions::default().with_embed(Embed::Never);
        item
    };
    let items = (0..600).map(words).collect();
    block_on(store.backend().bulk_insert(&with_segments(), items, Default::default())).unwrap();
    let of_words = SearchQuery::new("number7").with_mode(SearchMode::Lexical);
    block_on(store.backend().search(&with_segments(), of_words)).unwrap();
    store.close();
}

fn with_segments() -> Scope {
    Scope::agent("segments", "ada").unwrap()
}

/// Checks in a copy that the text index of a scope is stored: the texts are changed, so only the index still has the
/// word.
fn check_segments(path: &Path) -> Result<()> {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).unwrap();
    let raw = crate::support::files::raw(&copy);
    raw.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    raw.execute("UPDATE entry SET value = '1' WHERE key LIKE 'note/%'", []).unwrap();
    drop(raw);
    let store = Store { scope: with_segments(), ..Store::open(&copy, fast())? };
    assert_eq!(store.find("number7")?.first().map(String::as_str), Some("note/007"));
    store.close();
    Ok(())
}

fn embedding(path: &Path) -> Store {
    Store::embedding(Some(path), fast(), TestClock::new(), Arc::new(TestEmbedder::new())).unwrap()
}

fn with_vectors() -> Scope {
    Scope::agent("vectors", "ada").unwrap()
}

/// Imports an entry with vectors of two models, one for another text; and one without vectors.
fn import_foreign(store: &Store) {
    let mut record = Record::from(entry("both", "\"black coffee\"", 7));
    let own = TestEmbedder::new();
    let model = memory_core::Embedder::model(&own).clone();
    record.vectors = vec![
        RecordVector { model: foreign_model(), vector: vec![0.25, -1.5, 3.0], text: Some("espresso".into()) },
        RecordVector { model, vector: own.vector("black coffee"), text: None },
    ];
    let records = crate::support::stream(vec![Ok(record)]);
    block_on(store.backend().import_scope(&with_vectors(), records, Default::default())).unwrap();
    let bare = SetOptions::default().with_embed(Embed::Never);
    block_on(store.backend().set(&with_vectors(), &key("bare"), json("\"rain\""), bare)).unwrap();
}

/// Checks in a copy (because hits are counted) that the vectors are there, bit by bit and by search.
fn check_vectors(path: &Path) -> Result<()> {
    let copy = path.with_extension("copy");
    std::fs::copy(path, &copy).unwrap();
    let store = embedding(&copy);
    let found = store.near("ceremony Ünïcode tea", 1)?;
    assert_eq!(found.first().map(|(key, score)| (key.as_str(), *score > 0.999)), Some(("rich", true)));
    let stats = block_on(store.backend().stats(&store.scope))?;
    let models: Vec<_> = stats.models.iter().map(|model| (model.rows, model.bytes, model.missing)).collect();
    assert_eq!(models, [(8, 8 * 64 * 4, 0)]);

    let records = crate::support::collect(block_on(store.backend().export_scope(&with_vectors()))?);
    let records: Vec<Record> = block_on(records).into_iter().collect::<Result<_>>()?;
    assert_eq!(records.iter().map(|record| record.vectors.len()).collect::<Vec<_>>(), [0, 2]);
    let [own, foreign] = records[1].vectors.as_slice() else { panic!("two vectors") };
    assert_eq!(foreign.model, foreign_model());
    assert_eq!(
        (foreign.vector.as_slice(), foreign.text.as_deref()),
        (&[0.25, -1.5, 3.0][..], Some("espresso"))
    );
    assert_eq!(own.vector, TestEmbedder::new().vector("black coffee"));
    store.close();
    Ok(())
}

fn minute() -> Ttl {
    Ttl::After(Duration::from_secs(60))
}

fn entry(name: &str, value: &str, version: u64) -> Entry {
    let at = memory_core::Timestamp::from_millis(WRITTEN).unwrap();
    Entry::new(Key::new(name).unwrap(), json(value), version, at)
}

/// Checks that a file holds what [`write`] wrote.
fn check(path: &Path) -> Result<()> {
    let store = Store::open(path, fast())?;
    let late = memory_core::Timestamp::from_millis(WRITTEN + 500).unwrap();
    let mut brief = entry("brief", "\"gone soon\"", 5);
    brief.expires_at = Some(memory_core::Timestamp::from_millis(WRITTEN + 60_000).unwrap());
    let mut count = entry("count", "42", 9);
    (count.created_at, count.updated_at) = (late, late);
    let mut list = entry("list", "[\"item\"]", 10);
    (list.created_at, list.updated_at) = (late, late);
    let mut foreign = entry("kljuc/ключ", "\"чай и вода\"", 11);
    (foreign.created_at, foreign.updated_at) = (late, late);
    let options = rich();
    let mut rich = entry("rich", "\"value\"", 3);
    (rich.metadata, rich.source, rich.text) = (options.metadata, options.source, options.text);
    rich.access_count = 3;
    let all = [
        brief,
        count,
        foreign,
        list,
        entry("long", &long(), 4),
        entry("number", "123456789012345678901234567890.50e-3", 1),
        entry("object", r#"{ "b": 1, "a": [1.0, null, "\u00e9"], "b": 2 }"#, 2),
        rich,
    ];
    assert_eq!(store.entries("")?, all);

    assert_eq!(store.find("ceremony UNICODE")?, ["rich"]);
    assert_eq!(store.find("чай")?, ["kljuc/ключ"]);
    assert_eq!(store.find("story")?, ["long"]);
    assert_eq!(store.find("dropped")?, Vec::<String>::new());
    let exact = Filter::Eq(Field::Metadata("exact".into()), 9_007_199_254_740_993.into());
    let query = SearchQuery::new("tea").with_mode(SearchMode::Lexical).with_filter(exact.clone());
    let found = block_on(store.backend().search(&store.scope, query))?;
    assert_eq!(found.hits.iter().map(|hit| hit.entry.key.as_str()).collect::<Vec<_>>(), ["rich"]);
    let listed = block_on(store.backend().list(&store.scope, ListQuery::default().with_filter(exact)))?;
    assert_eq!(listed.entries.len(), 1);

    let scopes = block_on(store.backend().scopes(&TenantId::new("acme")?, ScopesQuery::default()))?;
    let names: Vec<String> =
        scopes.scopes.iter().map(|info| format!("{} {}", info.scope, info.entries)).collect();
    assert_eq!(names, ["acme/agent/ada 8", "acme/user/ada 1", "acme/run/run-1 1"]);
    let stats = block_on(store.backend().stats(&store.scope))?;
    assert_eq!((stats.entries, stats.expiring), (8, 1));
    assert_eq!(stats.bytes, all.iter().map(Entry::size_bytes).sum::<u64>());

    // It continues where it stopped: entries expire, and no version is reused.
    store.clock.advance(Duration::from_millis(59_999));
    assert!(store.entry("brief")?.is_some());
    store.clock.advance(Duration::from_millis(1));
    assert_eq!(store.entry("brief")?, None);
    assert_eq!(store.set("deleted", "3"), 12);
    assert_eq!(store.increment("count", 1)?, 43);
    assert_eq!(block_on(store.provider.sweep())?, 1);
    let dropped = Scope::agent("acme", "dropped").unwrap();
    let again = block_on(store.backend().set(&dropped, &key("name"), json("1"), SetOptions::default()))?;
    assert_eq!((again.version, again.created), (2, true));
    block_on(store.kv.end_run(&TenantId::new("acme")?, &memory_core::ScopeId::new("run-1")?))?;
    assert_eq!(
        block_on(store.backend().scopes(&TenantId::new("acme")?, ScopesQuery::default()))?.scopes.len(),
        3
    );
    store.close();
    assert_eq!(integrity(path), "ok");
    Ok(())
}

fn copy_of_the_fixture(version: u32, folder: &Path) -> PathBuf {
    let copy = folder.join(format!("v{version}.db"));
    std::fs::copy(fixture(version), &copy).unwrap();
    copy
}

#[test]
fn a_file_written_now_holds_what_was_written() {
    let (_folder, path) = place();
    write(&path);
    if std::env::var_os("MEMORY_SQLITE_WRITE_FIXTURE").is_some() {
        std::fs::copy(&path, fixture(6)).unwrap();
    }
    check_segments(&path).unwrap();
    check_vectors(&path).unwrap();
    check(&path).unwrap();
}

#[test]
fn a_file_of_every_version_opens_and_holds_what_was_written() {
    let folder = folder();
    for version in 1..=6 {
        let path = copy_of_the_fixture(version, folder.path());
        if version > 5 {
            check_segments(&path).unwrap();
        }
        // The first had no vectors.
        if version > 1 {
            check_vectors(&path).unwrap();
        }
        check(&path).unwrap();
    }
}

/// GC-15: the last use of its scopes is unknown, so it is when the file was opened.
#[test]
fn the_scopes_of_a_file_of_version_4_count_as_used_when_it_is_first_opened() {
    let folder = folder();
    let path = copy_of_the_fixture(4, folder.path());
    let tenant = TenantId::new("acme").unwrap();
    let uses =
        |store: &Store| block_on(store.kv.scope_uses(&tenant, ScopeUsesQuery::default())).unwrap().scopes;
    let store = embedding(&path);
    let opened = store.clock.now();
    let found = uses(&store);
    assert!(found.len() >= 3 && found.iter().all(|found| found.last_used_at == opened), "{found:?}");
    store.close();
    let store = embedding(&path);
    store.clock.advance(Duration::from_secs(86_400));
    assert!(uses(&store).iter().all(|found| found.last_used_at == opened), "it stays the first opening");
    let scope = &found[0].scope;
    let evict = |since| block_on(store.kv.evict(scope, since)).unwrap();
    assert!(!evict(opened).is_evicted());
    assert!(evict(store.clock.now()).is_evicted());
}

#[test]
fn a_file_of_version_1_gets_its_vectors_by_reembedding() {
    let folder = folder();
    let store = embedding(&copy_of_the_fixture(1, folder.path()));
    assert!(store.near("unicode ceremony", 3).unwrap().is_empty());
    let done = block_on(store.backend().reembed(&store.scope, Default::default())).unwrap();
    assert_eq!((done.embedded, done.remaining, done.failed), (8, 0, 0));
    assert_eq!(store.near("Ünïcode tea ceremony", 1).unwrap()[0].0, "rich");
}

/// An injected trigger is noticed before an earlier format is migrated.
#[test]
fn a_file_of_version_1_with_a_trigger_is_refused_and_stays_as_it_was() {
    let folder = folder();
    let path = copy_of_the_fixture(1, folder.path());
    let trigger = "CREATE TRIGGER slipped AFTER INSERT ON entry BEGIN DELETE FROM body; END";
    crate::support::files::raw_or_new(&path).execute_batch(trigger).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(&path, fast()).unwrap_err();
    assert_eq!(error.kind(), memory_core::ErrorKind::Corrupt);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// What other programs may rely on.
#[test]
fn a_file_of_version_6_is_marked_and_laid_out_as_documented() {
    let folder = folder();
    let path = copy_of_the_fixture(6, folder.path());
    let conn = crate::support::files::raw_with(&path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    assert_eq!(pragma(&conn, "application_id"), 0x4d65_6d41);
    assert_eq!(pragma(&conn, "user_version"), 6);
    assert_eq!(pragma(&conn, "auto_vacuum"), 2, "incremental");
    assert_eq!(pragma(&conn, "page_size"), 4_096);
    let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");

    let scope = crate::support::agent("ada");
    let (space, tenant, kind, name): (i64, String, i64, String) = conn
        .query_row(
            "SELECT space, tenant, kind, name FROM scope WHERE digest = ?1",
            [scope.digest().as_bytes().as_slice()],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .unwrap();
    assert_eq!((tenant.as_str(), kind, name.as_str()), ("acme", 0, "ada"));
    let value = |name: &str| -> String {
        conn.query_row(
            "SELECT coalesce(e.value, b.value) FROM entry e LEFT JOIN body b ON b.id = e.body \
             WHERE e.space = ?1 AND e.key = ?2",
            (space, name),
            |row| row.get(0),
        )
        .unwrap()
    };
    assert_eq!(value("number"), "123456789012345678901234567890.50e-3");
    assert_eq!(value("long"), long());
    let (data, dimensions): (Vec<u8>, i64) = conn
        .query_row(
            "SELECT v.data, m.dimensions FROM vector v JOIN model m ON m.id = v.model \
             JOIN entry e ON e.space = v.space AND e.key = v.key AND e.version = v.version \
             WHERE v.space = ?1 AND v.key = 'rich'",
            [space],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let numbers: Vec<f32> = data.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert_eq!(numbers, TestEmbedder::new().vector("Ünïcode tea ceremony"));
    assert_eq!(i64::try_from(numbers.len()).unwrap(), dimensions);
    let vectors: i64 =
        conn.query_row("SELECT vectors FROM scope WHERE space = ?1", [space], |row| row.get(0)).unwrap();
    assert_eq!(vectors, 8);
}

fn normalized(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn ddl(path: &Path) -> Vec<String> {
    let conn = crate::support::files::raw_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let mut statement =
        conn.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name").unwrap();
    let found = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    found.map(|sql| normalized(&sql.unwrap())).collect()
}

#[test]
fn a_new_file_has_the_released_tables() {
    let folder = folder();
    let path = folder.path().join("new.db");
    Store::open(&path, fast()).unwrap().close();
    for version in 1..=5 {
        let migrated = copy_of_the_fixture(version, folder.path());
        Store::open(&migrated, fast()).unwrap().close();
        assert_eq!(ddl(&path), ddl(&migrated), "{version}");
    }
    assert_eq!(ddl(&path), ddl(&copy_of_the_fixture(6, folder.path())));
}

#[test]
fn the_documented_tables_are_those_of_the_file() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/spec/sqlite-file.md");
    let Ok(page) = std::fs::read_to_string(&page) else {
        return skip(
            "the_documented_tables_are_those_of_the_file",
            "the workspace's docs folder is not here",
        );
    };
    let folder = folder();
    // A trigger has semicolons in its body, and ends with its END.
    let blocks = page.split("```sql").skip(1).map(|block| block.split("```").next().unwrap());
    let statements = blocks.flat_map(|block| match block.contains("CREATE TRIGGER") {
        true => block.split("END;").map(|text| format!("{text} END")).collect::<Vec<_>>(),
        false => block.split(';').map(str::to_owned).collect(),
    });
    let documented: Vec<String> = statements
        .map(|statement| normalized(&statement))
        .filter(|statement| statement.starts_with("CREATE "))
        .collect();
    // SQLite's own table, for numbers that are never reused.
    let mut stored = ddl(&copy_of_the_fixture(6, folder.path()));
    stored.retain(|statement| !statement.contains("sqlite_sequence"));
    for statement in &stored {
        assert!(documented.contains(statement), "not documented: {statement}");
    }
    assert_eq!(documented.len(), stored.len(), "something is documented that no file has");
}

#[test]
fn the_clock_of_the_fixture_is_the_clock_of_the_tests() {
    use memory_core::Clock as _;
    assert_eq!(TestClock::new().now().as_millis(), WRITTEN);
}
