//! Eviction across processes, and what a process leaves if it dies during one (GC-5 to GC-16, RUN-1).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::child::{self, Child};
use crate::support::files::place;
use crate::support::sql::Sql;
use crate::support::{TestClock, agent, block_on, json, key, quiet};
use memory_core::sql::{StatementOptions, TxId};
use memory_core::{
    Backend, BackendExt as _, Clock as _, ErrorKind, EvictOutcome, GetOptions, Kept, Provider as _, Scope,
    ScopeUsesQuery,
};
use memory_sqlite::SqliteProvider;

const HOUR: Duration = Duration::from_secs(3_600);

/// A handle with its own clock, set to the time at which every test starts.
struct Place {
    sql: Sql,
    clock: Arc<TestClock>,
    scope: Scope,
}

impl Place {
    fn open(path: &Path) -> Self {
        let clock = TestClock::new();
        let sql = Sql::over(SqliteProvider::open(path, quiet(), clock.clone()).unwrap());
        Self { sql, clock, scope: agent("ada") }
    }

    /// The handle that the parent told the child to open.
    fn given() -> Self {
        Self::open(Path::new(&child::given("DATABASE")))
    }

    /// The same handle, at the scope of the run.
    fn in_its_run(mut self) -> Self {
        self.scope = self.sql.run_scope();
        self.sql = self.sql.at(self.scope.clone());
        self
    }

    fn kv(&self) -> &dyn Backend {
        self.sql.checked.backend().unwrap()
    }

    fn set(&self, name: &str) -> Result<(), ErrorKind> {
        block_on(self.kv().put(&self.scope, &key(name), json("1"))).map(drop).map_err(|error| error.kind())
    }

    fn has(&self, name: &str) -> bool {
        block_on(self.kv().get(&self.scope, &key(name), GetOptions::default())).unwrap().is_some()
    }

    /// As of a millisecond ago.
    fn evict(&self) -> EvictOutcome {
        self.clock.advance(Duration::from_millis(1));
        block_on(self.sql.checked.evict(&self.scope, self.clock.now())).unwrap()
    }

    fn last_use(&self) -> i64 {
        let uses = self.sql.checked.scope_uses(&self.scope.tenant, ScopeUsesQuery::default());
        block_on(uses).unwrap().scopes.first().map_or(0, |found| found.last_used_at.as_millis())
    }

    /// An entry and a table with a row.
    fn fill(&self) {
        self.set("k").unwrap();
        self.sql.exec("CREATE TABLE t (a)");
        self.sql.exec("INSERT INTO t VALUES (1)");
    }

    fn rows(&self) -> Result<i64, ErrorKind> {
        let counted = self.sql.facet().query(
            &self.sql.run,
            &self.scope,
            "SELECT count(*) FROM t",
            &[],
            StatementOptions::default(),
        );
        block_on(counted).map_err(|error| error.kind()).map(|rows| match rows.rows[0][0] {
            memory_core::sql::SqlValue::Int(count) => count,
            ref other => panic!("{other:?}"),
        })
    }
}

/// A process that follows commands, line by line.
fn obey(place: &Place) {
    let mut tx: Option<TxId> = None;
    child::say("ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (order, text) = line.split_once(' ').unwrap_or((&line, ""));
        let told = match order {
            "hours" => {
                place.clock.advance(HOUR * text.parse().unwrap());
                "later".to_owned()
            }
            "begin" => {
                tx = Some(place.sql.try_begin(None).unwrap().tx);
                "begun".to_owned()
            }
            "in" => place.sql.try_exec_in(tx.as_ref().unwrap(), text).unwrap().rows_affected.to_string(),
            "commit" => place.sql.commit(tx.as_ref().unwrap()).unwrap().depth.to_string(),
            "get" => place.has(text).to_string(),
            "set" => place.set(text).err().map_or("set", ErrorKind::code).to_owned(),
            "rows" => place.rows().map_or_else(|kind| kind.code().to_owned(), |rows| rows.to_string()),
            "exec" => {
                place.sql.try_exec(text).map_or_else(|error| error.kind().code(), |_| "done").to_owned()
            }
            other => panic!("no such order: {other}"),
        };
        child::say(&told);
    }
}

#[test]
fn a_scope_with_an_idle_transaction_of_another_process_stays_until_that_dies() {
    if child::role().is_some() {
        return obey(&Place::given());
    }
    let (_folder, path) = place();
    let place = Place::open(&path);
    place.fill();
    let test = child::this_test!();
    let mut other = Child::obedient(test, &path);
    assert_eq!(other.ask("begin"), "begun");
    assert_eq!(other.ask("in INSERT INTO t VALUES (2)"), "1");
    place.clock.advance(HOUR);
    assert_eq!(place.evict(), EvictOutcome::Kept(Kept::InUse));
    assert_eq!((place.has("k"), place.rows()), (true, Ok(1)));
    other.kill();
    other.rest();
    place.clock.advance(HOUR);
    assert!(place.evict().is_evicted());
    assert_eq!((place.has("k"), place.rows()), (false, Err(ErrorKind::InvalidArgument)));
}

#[test]
fn a_use_of_another_process_counts_before_it_is_answered_also_where_that_dies_at_once() {
    if child::role().is_some() {
        return obey(&Place::given());
    }
    let (_folder, path) = place();
    let place = Place::open(&path);
    place.fill();
    let test = child::this_test!();
    for (order, answer) in [("get k", "true"), ("rows", "1"), ("exec INSERT INTO t VALUES (2)", "done")] {
        let mut other = Child::obedient(test, &path);
        // Its clock begins where ours did.
        let hours = place.clock.now().as_millis() - TestClock::new().now().as_millis();
        assert_eq!(other.ask(&format!("hours {}", hours / 3_600_000 + 2)), "later");
        place.clock.advance(HOUR * 2);
        assert_eq!(other.ask(order), answer);
        other.kill();
        other.rest();
        match place.evict() {
            EvictOutcome::Kept(Kept::Used { last_used_at }) => {
                assert!(place.clock.now().as_millis() - last_used_at.as_millis() < 60_000, "{order}");
            }
            other => panic!("{order}: {other:?}"),
        }
        assert!(place.has("k") && place.rows().is_ok(), "{order}");
    }
}

#[test]
fn what_is_held_of_uses_in_memory_is_never_the_slack() {
    let (_folder, path) = place();
    let place = Place::open(&path);
    place.set("k").unwrap();
    for minutes in [2, 3, 4, 9, 11, 30] {
        place.clock.advance(Duration::from_secs(60 * minutes));
        let used = place.clock.now().as_millis();
        assert!(place.has("k"));
        // What another process, or this one after its death, finds in the file.
        let stored: i64 = crate::support::files::raw_or_new(&path)
            .query_row("SELECT used_at FROM scope", [], |row| row.get(0))
            .unwrap();
        assert!(used - stored < 600_000, "{minutes} minutes later: {} ms behind", used - stored);
        assert_eq!(place.last_use(), used, "this handle knows better");
    }
}

/// The state left by an evictor that died right after committing its decision.
fn half_evicted(path: &Path) {
    let raw = crate::support::files::raw_or_new(path);
    raw.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    raw.execute_batch(
        "BEGIN; UPDATE sequence SET last = last + 2;
         INSERT INTO garbage SELECT space FROM scope WHERE name = 'ada';
         UPDATE scope SET leaving = (SELECT last FROM sequence), space = (SELECT last - 1 FROM sequence), entries = 0,
            bytes = 0, expiring = 0, floor = version, changes = changes + 1 WHERE name = 'ada'; COMMIT",
    )
    .unwrap();
}

#[test]
fn who_has_the_store_open_sees_nothing_of_a_scope_whose_evictor_died() {
    for order in ["rows", "list", "make", "dump"] {
        let (_folder, path) = place();
        let first = Place::open(&path);
        first.fill();
        first.sql.clone().close();
        drop(first);
        let place = Place::open(&path);
        place.clock.advance(HOUR);
        half_evicted(&path);
        assert!(!place.has("k"));
        match order {
            "rows" => assert_eq!(place.rows(), Err(ErrorKind::InvalidArgument)),
            "list" => {
                let uses = place.sql.checked.scope_uses(&place.scope.tenant, ScopeUsesQuery::default());
                assert_eq!(block_on(uses).unwrap().scopes, []);
                assert_eq!(place.sql.scopes().len(), 0);
            }
            "make" => {
                place.sql.exec("CREATE TABLE t (a)");
                assert_eq!(place.rows(), Ok(0), "a database made anew");
                place.set("new").unwrap();
            }
            _ => assert_eq!(place.sql.usage(), 0),
        }
        // A latecomer does not remove what was created since.
        block_on(place.sql.checked.reclaim()).unwrap();
        if order == "make" {
            assert_eq!((place.rows(), place.has("new")), (Ok(0), true));
        }
        assert!(!place.has("k"));
    }
}

#[test]
fn a_page_of_uses_does_not_end_at_a_database_that_is_being_removed() {
    let (_folder, path) = place();
    let place = Place::open(&path);
    for name in ["ada", "ben", "cleo"] {
        place.sql.at(agent(name)).exec("CREATE TABLE t (a)");
    }
    place.set("k").unwrap();
    place.sql.clone().close();
    drop(place);
    let place = Place::open(&path);
    half_evicted(&path);
    let (mut names, mut query) = (Vec::new(), ScopeUsesQuery::default());
    query.limit = 1;
    loop {
        let page = block_on(place.sql.checked.scope_uses(&place.scope.tenant, query.clone())).unwrap();
        names.extend(page.scopes.iter().map(|found| found.scope.id.to_string()));
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(names, ["ben", "cleo"]);
}

#[test]
fn opening_finishes_what_an_evictor_left() {
    let (_folder, path) = place();
    let place = Place::open(&path);
    place.fill();
    place.sql.clone().close();
    drop(place);
    half_evicted(&path);
    let place = Place::open(&path);
    let leaving: i64 = crate::support::files::raw_or_new(&path)
        .query_row("SELECT leaving FROM scope", [], |row| row.get(0))
        .unwrap();
    assert_eq!(leaving, 0);
    assert_eq!((place.has("k"), place.rows()), (false, Err(ErrorKind::InvalidArgument)));
    assert_eq!(block_on(place.sql.checked.reclaim()).unwrap().unfinished, 0);
}

#[test]
fn an_ended_run_is_fenced_in_every_process() {
    if child::role().is_some() {
        return obey(&Place::given().in_its_run());
    }
    let (_folder, path) = place();
    let place = Place::open(&path).in_its_run();
    place.fill();
    let mut other = Child::obedient(child::this_test!(), &path);
    assert_eq!(other.ask("set mine"), "set");
    assert_eq!(other.ask("exec INSERT INTO t VALUES (2)"), "done");
    place.sql.end_run();
    assert_eq!(other.ask("set late"), "run_ended");
    assert_eq!(other.ask("exec INSERT INTO t VALUES (3)"), "run_ended");
    assert_eq!(other.ask("exec CREATE TABLE u (a)"), "run_ended");
    assert_eq!(other.ask("rows"), "invalid_argument");
    assert_eq!(other.ask("get mine"), "false");
    other.end();
    assert_eq!(place.set("late"), Err(ErrorKind::RunEnded));
    // After the fence the id starts afresh, and nothing is kept for it.
    place.clock.advance(HOUR * 24);
    assert_eq!(block_on(place.sql.checked.reclaim()).unwrap().fences, 1);
    assert_eq!(place.set("anew"), Ok(()));
}

#[test]
fn reclaiming_removes_vectors_without_entries_and_gives_pages_back() {
    let (_folder, path) = place();
    let store = crate::support::Store::embedding(
        Some(&path),
        quiet(),
        TestClock::new(),
        Arc::new(memory_conformance::TestEmbedder::new()),
    )
    .unwrap();
    for at in 0..20 {
        store.set(&format!("k{at}"), "\"tea and coffee\"");
    }
    // Another program knows nothing of vectors.
    crate::support::files::raw_or_new(&path).execute("DELETE FROM entry WHERE key = 'k3'", []).unwrap();
    let reclaimed = block_on(store.kv.reclaim()).unwrap();
    assert_eq!(reclaimed.vectors, 1);
    assert_eq!(block_on(store.kv.reclaim()).unwrap().vectors, 0);
    assert_eq!(store.near("tea and coffee", 50).unwrap().len(), 19);
}
