//! Forgetting for operators: tables from earlier versions, and roles without ownership. The sentences are those of
//! `docs/spec/forget.md`.

use memory_conformance::stream;
use memory_core::{
    Backend as _, BackendExt as _, EraseTarget, ErrorKind, GetOptions, ImportOptions, Json, Key,
    Provider as _, Scope, SetOptions, Taken, TombstoneId, TombstonesOf,
};
use memory_postgres::operator::{self, Status};
use memory_postgres::{PostgresProvider, Prepared};

use crate::support;
use crate::support::{Database, drop_role, older, program, url_of};

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn ada() -> Scope {
    Scope::agent("acme", "ada").unwrap()
}

fn ben() -> Scope {
    Scope::user("acme", "ben").unwrap()
}

fn forgotten() -> EraseTarget {
    EraseTarget::Scope(ada())
}

async fn put(provider: &PostgresProvider, scope: &Scope, name: &str) -> u64 {
    let value = Json::parse("\"tea\"").unwrap();
    provider.set(scope, &key(name), value, SetOptions::default()).await.unwrap().version
}

async fn is_there(provider: &PostgresProvider, scope: &Scope, name: &str) -> bool {
    provider.get(scope, &key(name), GetOptions::uncounted()).await.unwrap().is_some()
}

async fn is_buried(provider: &PostgresProvider, target: &EraseTarget) -> bool {
    let tombstones = provider.tombstones(&TombstonesOf::Store, None, 100).await.unwrap();
    tombstones.iter().any(|tombstone| tombstone.id == TombstoneId::of(target))
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_from_before_forgetting_are_migrated_and_can_forget() {
    for version in [1, 3] {
        let Some(database) = Database::fresh().await else { return };
        older::tables(&database, version).await;
        let old = database.client().await;
        for name in ["a", "b", "c"] {
            assert_eq!(older::set(&old, name, "\"tea\"").await.0, 0, "version {version}");
        }
        let provider = PostgresProvider::open(database.config()).await.unwrap();
        put(&provider, &ben(), "kept").await;
        let copy = stream::collect(provider.export_scope(&ada()).await.unwrap()).await.unwrap();
        assert_eq!(copy.len(), 3, "version {version}: what was there is there");

        let erased = provider.erase(&forgotten()).await.unwrap();
        assert_eq!((erased.scopes, erased.entries), (1, 3), "version {version}");
        assert!(erased.tombstone.version >= 3, "version {version}: {:?}", erased.tombstone);
        assert!(is_buried(&provider, &forgotten()).await && is_there(&provider, &ben(), "kept").await);
        let taken = ImportOptions::default().with_taken(Taken::At(erased.tombstone.at));
        let copy = stream::records(copy.into_iter().map(Ok).collect());
        let imported = provider.import_scope(&ada(), copy, taken).await.unwrap();
        assert_eq!((imported.created, imported.forgotten), (0, 3), "version {version}");
        let rows =
            old.query_one("SELECT count(*) FROM memory.entry e WHERE e.key <> 'kept'", &[]).await.unwrap();
        assert_eq!(rows.get::<_, i64>(0), 0, "version {version}: nothing is left in a row");

        // A program of the older version continues above every assigned version.
        let (outcome, next) = older::set(&old, "a", "\"green\"").await;
        assert_eq!(outcome, 0, "version {version}");
        assert!(u64::try_from(next).unwrap() > erased.tombstone.version, "version {version}: {next}");
        assert!(is_there(&provider, &ada(), "a").await, "version {version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_ownership_forgets_and_cannot_undo_it() {
    let Some(database) = Database::fresh().await else { return };
    let (role, config) = program(&database).await;
    operator::provision(&database.config(), Some(&role)).await.unwrap();
    let provider = PostgresProvider::open(config).await.unwrap();
    let targets =
        [EraseTarget::Key { scope: ben(), key: key("k") }, forgotten(), EraseTarget::Tenant(ben().tenant)];
    for target in &targets {
        for scope in [ada(), ben()] {
            put(&provider, &scope, "k").await;
        }
        let last = put(&provider, &ben(), "other").await;
        let erased = provider.erase(target).await.unwrap();
        assert!(erased.entries > 0 && is_buried(&provider, target).await, "{target:?}");
        for scope in [ada(), ben()] {
            let goes = target.has_entry(&scope, &key("k"));
            assert_eq!(is_there(&provider, &scope, "k").await, !goes, "{target:?}: {scope}");
        }
        // Such a role cannot vacuum, and the server would not report that.
        let owner = erased.remains.iter().find(|text| text.contains("`VACUUM "));
        let owner = owner.unwrap_or_else(|| panic!("{:?}", erased.remains));
        for table in ["entry", "vector", "scope", "garbage"] {
            assert!(owner.contains(&format!("memory.{table}")), "{owner}");
        }
        assert!(put(&provider, &ben(), "other").await > last, "{target:?}: a version is given again");
    }
    let hands = support::connect(&url_of(&database, &role)).await;
    for sql in [
        "DELETE FROM memory.tombstone",
        "UPDATE memory.tombstone SET at = 0",
        "INSERT INTO memory.tombstone VALUES ('', '', '', 0, 0)",
        "TRUNCATE memory.tombstone",
        "UPDATE memory.guard SET floor = 0",
    ] {
        assert!(hands.batch_execute(sql).await.is_err(), "{sql}");
    }
    provider.close().await.unwrap();
    drop(hands);
    drop_role(&database, &role).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_the_rights_is_refused_with_advice() {
    let Some(database) = Database::fresh().await else { return };
    let (role, config) = program(&database).await;
    operator::provision(&database.config(), Some(&role)).await.unwrap();
    // As after a schema update without new grants.
    let revoked = format!(
        "REVOKE ALL ON memory.tombstone FROM {role}; \
         REVOKE EXECUTE ON FUNCTION memory.erase_scope(text, smallint, text) FROM {role}"
    );
    database.client().await.batch_execute(&revoked).await.unwrap();
    let provider = PostgresProvider::open(config.clone()).await.unwrap();
    put(&provider, &ada(), "k").await;
    let refused = provider.erase(&forgotten()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden);
    assert!(refused.message().contains("memory postgres provision"), "{refused}");
    assert!(is_there(&provider, &ada(), "k").await);
    let report = operator::doctor(&config).await.unwrap();
    let rights = report.findings.iter().find(|finding| finding.check == "rights").unwrap();
    assert_eq!(rights.status, Status::Problem);
    assert!(rights.message.contains("tombstone") && rights.message.contains("erase_scope()"), "{rights:?}");

    operator::provision(&database.config(), Some(&role)).await.unwrap();
    assert_eq!(provider.erase(&forgotten()).await.unwrap().entries, 1);
    provider.close().await.unwrap();
    drop_role(&database, &role).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_after_the_erasure_remains_and_is_said() {
    let Some(database) = Database::fresh().await else { return };
    let (role, config) = program(&database).await;
    let owner = PostgresProvider::open(database.config()).await.unwrap();
    for name in ["a", "b"] {
        put(&owner, &ada(), name).await;
    }
    let granted = format!(
        "GRANT USAGE ON SCHEMA memory TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA memory TO {role}; \
         GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA memory TO {role}"
    );
    database.client().await.batch_execute(&granted).await.unwrap();
    let provider = PostgresProvider::open(config).await.unwrap();
    let erased = provider.erase(&forgotten()).await.unwrap();
    assert_eq!((erased.scopes, erased.entries), (1, 2));
    assert!(!is_there(&owner, &ada(), "a").await && is_buried(&owner, &forgotten()).await);
    let told = |what: &str| erased.remains.iter().any(|text| text.contains(what));
    assert!(told("erase again") && told("`VACUUM "), "{:?}", erased.remains);
    provider.close().await.unwrap();
    owner.close().await.unwrap();
    drop_role(&database, &role).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tombstones_hold_whatever_backslashes_mean_to_the_database() {
    let Some(database) = Database::fresh().await else { return };
    let off = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off', \
               current_database()); END $$";
    database.client().await.batch_execute(off).await.unwrap();
    // Behind a pooler, where sessions have the database's settings.
    let config = database.config().with_prepared(Prepared::Off);
    let provider = PostgresProvider::open(config).await.unwrap();
    put(&provider, &ada(), "k").await;
    let copy = stream::collect(provider.export_scope(&ada()).await.unwrap()).await.unwrap();
    let erased = provider.erase(&forgotten()).await.unwrap();
    assert!(is_buried(&provider, &forgotten()).await);
    let taken = ImportOptions::default().with_taken(Taken::At(erased.tombstone.at));
    let copy = stream::records(copy.into_iter().map(Ok).collect());
    assert_eq!(provider.import_scope(&ada(), copy, taken).await.unwrap().forgotten, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_table_of_a_forgotten_scope_is_vacuumed() {
    let Some(database) = Database::fresh().await else { return };
    let provider = PostgresProvider::open(database.config()).await.unwrap();
    provider.put(&ada(), &key("k"), Json::parse("1").unwrap()).await.unwrap();
    let erased = provider.erase(&forgotten()).await.unwrap();
    assert!(erased.remains.iter().all(|text| !text.contains("`VACUUM ")), "{:?}", erased.remains);
    let sql = "SELECT count(*) FROM pg_stat_user_tables WHERE schemaname = 'memory' AND vacuum_count > 0 \
               AND relname IN ('entry', 'vector', 'scope', 'garbage')";
    let vacuumed: i64 = database.client().await.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(vacuumed, 4);
}
