//! The drift guard for operators: updating a live database, roles without ownership, and the doctor's findings.

use memory_core::Seen;
use memory_core::{
    Backend as _, BackendExt as _, DriftCheck, ErrorKind, GetOptions, Json, Key, Provider as _, Scope,
    SetOptions,
};
use memory_postgres::PostgresProvider;
use memory_postgres::operator::{self, Finding, Report, Status};

use crate::support;
use crate::support::older::{SET, set, tables};
use crate::support::{Database, drop_role, program, url_of};

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn ada() -> Scope {
    Scope::agent("acme", "ada").unwrap()
}

fn finding<'r>(report: &'r Report, check: &str) -> &'r Finding {
    let found = report.findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("no {check}: {report:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn scenario_27_tables_of_version_1_are_migrated_under_load_and_the_first_write_is_clean() {
    let Some(database) = Database::fresh().await else { return };
    tables(&database, 1).await;
    let old = database.client().await;
    assert_eq!(set(&old, "k", "1").await, (0, 1));
    let untouched = old.query_one("SELECT md5(string_agg(e::text, ',')) FROM memory.entry e", &[]);
    let untouched: String = untouched.await.unwrap().get(0);

    let provider = PostgresProvider::open(database.config()).await.unwrap();
    let scope = ada();
    let kept = old.query_one("SELECT md5(string_agg(e::text, ',')) FROM memory.entry e", &[]).await.unwrap();
    assert_eq!(kept.get::<_, String>(0), untouched);
    let state = provider.drift_state(&scope).await.unwrap();
    assert_eq!((state.token.generation.unwrap().get(), state.version), (1, 1));
    let seen = Seen::of(provider.get(&scope, &key("k"), GetOptions::uncounted()).await.unwrap().as_ref());
    let strict = SetOptions::default().with_drift(DriftCheck::Strict(state.token, Some(seen)));
    let json = |text: &str| Json::parse(text).unwrap();
    let written = provider.set(&scope, &key("k"), json("2"), strict.clone()).await.unwrap();
    assert_eq!(written.version, 2);
    let row = SetOptions::default().with_drift(DriftCheck::Row(seen));
    assert_eq!(
        provider.set(&scope, &key("k"), json("3"), row).await.unwrap_err().kind(),
        ErrorKind::DriftDetected
    );

    // The program of version 1 continues with its prepared statement, and is detected.
    let before = provider.drift_state(&scope).await.unwrap();
    assert_eq!(set(&old, "k", "4").await, (0, 3));
    let after = provider.drift_state(&scope).await.unwrap();
    assert_ne!(before.token, after.token);
    assert_eq!(after.token.generation.unwrap().get(), before.token.generation.unwrap().get() + 1);
    let deleted =
        "SELECT * FROM memory.kv_delete('acme', 0::smallint, 'ada', NULL, 'k', 0::smallint, NULL, NULL) f";
    assert_eq!(old.query_one(deleted, &[]).await.unwrap().get::<_, i16>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_continue_while_tables_of_version_1_are_migrated() {
    let Some(database) = Database::fresh().await else { return };
    tables(&database, 1).await;
    let url = database.url();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let writer = tokio::spawn(async move {
        let client = support::connect(&url).await;
        let mut stopped = stopped;
        let mut written = 0_i64;
        while stopped.try_recv() == Err(tokio::sync::oneshot::error::TryRecvError::Empty) {
            match client.query_one(SET, &[&"k", &"1"]).await {
                Ok(row) => {
                    written += 1;
                    assert_eq!((row.get::<_, i16>(0), row.get::<_, i64>(1)), (0, written));
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        written
    });
    let provider = PostgresProvider::open(database.config()).await.unwrap();
    while !writer.is_finished() && provider.drift_state(&ada()).await.unwrap().version < 20 {
        tokio::task::yield_now().await;
    }
    // If the writer failed, waiting for it reports how.
    let _ = stop.send(());
    let written = writer.await.unwrap();
    let state = provider.drift_state(&ada()).await.unwrap();
    assert_eq!(state.version, u64::try_from(written).unwrap());
    assert_eq!(provider.stats(&ada()).await.unwrap().entries, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_a_later_version_are_refused_and_not_touched() {
    let Some(database) = Database::fresh().await else { return };
    PostgresProvider::open(database.config()).await.unwrap();
    let client = database.client().await;
    client.batch_execute("INSERT INTO memory.migration (part, version) VALUES ('entries', 9)").await.unwrap();
    let refused = PostgresProvider::open(database.config()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
    assert_eq!(refused.details()["database_version"], 9);
    assert!(operator::provision(&database.config(), None).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_ownership_is_guarded_and_cannot_disable_the_guard() {
    let Some(database) = Database::fresh().await else { return };
    let (role, config) = program(&database).await;
    operator::provision(&database.config(), Some(&role)).await.unwrap();
    let report = operator::doctor(&config).await.unwrap();
    for check in ["owner", "guard", "rights"] {
        assert_eq!(finding(&report, check).status, Status::Ok, "{report:?}");
    }
    let owner = operator::doctor(&database.config()).await.unwrap();
    assert_eq!(finding(&owner, "owner").status, Status::Warning);
    assert!(finding(&owner, "owner").message.contains("provision --apply --role"), "{owner:?}");

    let provider = PostgresProvider::open(config.clone()).await.unwrap();
    provider.put(&ada(), &key("k"), Json::parse("1").unwrap()).await.unwrap();
    let seen = Seen::of(provider.get(&ada(), &key("k"), GetOptions::uncounted()).await.unwrap().as_ref());
    let program = support::connect(&url_of(&database, &role)).await;
    for sql in [
        "ALTER TABLE memory.entry DISABLE TRIGGER ALL",
        "DROP TRIGGER guard_updated ON memory.entry",
        "TRUNCATE memory.entry",
        "UPDATE memory.guard SET triggers = ''",
        "SET session_replication_role = replica",
    ] {
        assert!(program.batch_execute(sql).await.is_err(), "{sql}");
    }
    program.batch_execute("UPDATE memory.entry SET value = '9'").await.unwrap();
    let row = SetOptions::default().with_drift(DriftCheck::Row(seen));
    let refused = provider.set(&ada(), &key("k"), Json::parse("2").unwrap(), row).await.unwrap_err();
    assert_eq!((refused.kind(), &refused.details()["reason"]), (ErrorKind::DriftDetected, &"changed".into()));
    provider.close().await.unwrap();
    drop(program);
    drop_role(&database, &role).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reports_disabled_and_foreign_triggers() {
    let Some(database) = Database::fresh().await else { return };
    PostgresProvider::open(database.config()).await.unwrap();
    let report = operator::doctor(&database.config()).await.unwrap();
    assert!(
        report.findings.iter().all(|finding| finding.check != "triggers"),
        "its own are none: {report:?}"
    );
    let admin = database.client().await;
    let trigger = "CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$; \
                   CREATE TRIGGER audit AFTER INSERT ON memory.entry FOR EACH ROW EXECUTE FUNCTION audit()";
    admin.batch_execute(trigger).await.unwrap();
    let report = operator::doctor(&database.config()).await.unwrap();
    assert_eq!(finding(&report, "guard").status, Status::Ok);
    assert!(finding(&report, "triggers").message.contains("audit"), "{report:?}");
    // As after `pg_restore --disable-triggers`.
    let off = "ALTER TABLE memory.entry DISABLE TRIGGER ALL; ALTER TABLE memory.entry ENABLE TRIGGER ALL";
    admin.batch_execute(off).await.unwrap();
    let report = operator::doctor(&database.config()).await.unwrap();
    assert_eq!(finding(&report, "guard").status, Status::Problem, "{report:?}");
    assert!(operator::provision(&database.config(), None).await.unwrap().repaired);
    let report = operator::doctor(&database.config()).await.unwrap();
    assert_eq!(finding(&report, "guard").status, Status::Ok, "{report:?}");
}
