//! An operator's work: setting up a database for a separate role, and diagnosing problems.

use memory_core::{ErrorKind, Provider as _};
use memory_postgres::operator::{self, Finding, Report, Status};
use memory_postgres::{PostgresConfig, PostgresProvider, Prepared};

use crate::support;
use crate::support::{Database, drop_role, program};

fn finding<'r>(report: &'r Report, check: &str) -> &'r Finding {
    report
        .findings
        .iter()
        .find(|finding| finding.check == check)
        .unwrap_or_else(|| panic!("no {check}: {report:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_ownership_works_after_provisioning() {
    let Some(database) = Database::fresh().await else { return };
    let (role, config) = program(&database).await;
    let before = PostgresProvider::open(config.clone()).await.unwrap_err();
    assert!(matches!(before.kind(), ErrorKind::NotFound | ErrorKind::Forbidden), "{before:?}");
    assert_eq!(operator::doctor(&config).await.unwrap().status(), Status::Problem);

    let provisioned = operator::provision(&database.config(), Some(&role)).await.unwrap();
    assert_eq!((provisioned.schema.as_str(), provisioned.vector), ("memory", true));
    let again = operator::provision(&database.config(), Some(&role)).await.unwrap();
    assert_eq!(again, provisioned);

    let provider = PostgresProvider::open(config.clone()).await.unwrap();
    provider.health().await.unwrap();
    let report = operator::doctor(&config).await.unwrap();
    assert_eq!(finding(&report, "user").status, Status::Ok, "{report:?}");
    assert_eq!(finding(&report, "rights").status, Status::Ok, "{report:?}");
    assert!(finding(&report, "pgvector").message.contains("pgvector 0."), "{report:?}");
    provider.close().await.unwrap();
    drop_role(&database, &role).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_script_creates_what_opening_creates() {
    let (Some(printed), Some(opened)) = (Database::fresh().await, Database::fresh().await) else { return };
    let script = operator::script(&printed.config(), None, true).unwrap();
    printed.client().await.batch_execute(&script).await.unwrap();
    PostgresProvider::open(opened.config()).await.unwrap();
    let objects = "SELECT c.relname || ' ' || c.relkind::text FROM pg_class c WHERE c.relnamespace = 'memory'::regnamespace \
                   UNION ALL SELECT p.proname || md5(p.prosrc) FROM pg_proc p WHERE p.pronamespace = 'memory'::regnamespace \
                   UNION ALL SELECT part || version FROM memory.migration ORDER BY 1";
    let read = async |database: &Database| {
        let rows = database.client().await.query(objects, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    assert_eq!(read(&printed).await, read(&opened).await);
    PostgresProvider::open(printed.config().with_migrate(false)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_what_is_wrong() {
    let Some(database) = Database::fresh().await else { return };
    let empty = operator::doctor(&database.config()).await.unwrap();
    assert_eq!(finding(&empty, "tables").status, Status::Problem);
    PostgresProvider::open(database.config()).await.unwrap();

    let report = operator::doctor(&database.config()).await.unwrap();
    assert_eq!(finding(&report, "version").status, Status::Ok);
    assert_eq!(finding(&report, "user").status, Status::Warning, "a superuser: {report:?}");
    assert_eq!(finding(&report, "pooling").status, Status::Ok);
    assert!(report.findings.iter().all(|finding| finding.check != "tables"), "{report:?}");
    let unprepared = operator::doctor(&database.config().with_prepared(Prepared::Off)).await.unwrap();
    assert_eq!(finding(&unprepared, "pooling").status, Status::Warning);
    let crowded = operator::doctor(&database.config().with_pool_size(150)).await.unwrap();
    assert_eq!(finding(&crowded, "connections").status, Status::Warning, "{crowded:?}");

    let (role, config) = program(&database).await;
    let grant = format!(
        "CREATE TABLE memory.extra (); GRANT USAGE ON SCHEMA memory TO {role}; GRANT SELECT ON memory.migration TO {role}"
    );
    database.client().await.batch_execute(&grant).await.unwrap();
    let rightless = operator::doctor(&config).await.unwrap();
    assert_eq!(finding(&rightless, "rights").status, Status::Problem, "{rightless:?}");
    assert!(finding(&rightless, "rights").message.contains("provision"), "{rightless:?}");
    drop_role(&database, &role).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_server_is_a_finding_without_secrets() {
    let nobody = PostgresConfig::new("postgres://app:hunter2@127.0.0.1:1/memory")
        .with_wait_timeout(std::time::Duration::from_millis(100));
    let report = operator::doctor(&nobody).await.unwrap();
    assert_eq!(finding(&report, "connection").status, Status::Problem);
    assert!(!format!("{report:?}").contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_pgvector_is_distinguished_from_a_missing_installation() {
    if let Some(plain) = Database::plain().await {
        let report = operator::doctor(&plain.config()).await.unwrap();
        assert!(finding(&report, "pgvector").message.contains("the server has no pgvector"), "{report:?}");
        assert!(!operator::provision(&plain.config(), None).await.unwrap().vector);
    }
    let Some(database) = Database::fresh().await else { return };
    database.client().await.batch_execute("DROP EXTENSION vector").await.unwrap();
    let report = operator::doctor(&database.config()).await.unwrap();
    assert!(finding(&report, "pgvector").message.contains("CREATE EXTENSION"), "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_for_agents_sql_is_provisioned_and_diagnosed_too() {
    let (Some(database), Some(agents)) = (Database::fresh().await, Database::on(support::SERVER).await)
    else {
        return;
    };
    let files = tempfile::tempdir().unwrap();
    let key = files.path().join("key");
    let url = |key: &std::path::Path| {
        let sql: String = agents.url().bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("{}?sql.url={sql}&sql.key_file={}", database.url(), key.display())
    };
    let without_key = operator::doctor(&PostgresConfig::from_url(&url(&key)).unwrap()).await.unwrap();
    assert_eq!(finding(&without_key, "sql_key").status, Status::Problem, "{without_key:?}");

    std::fs::write(&key, "0123456789abcdef0123456789abcdef").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let config = PostgresConfig::from_url(&url(&key)).unwrap();
    let before = operator::doctor(&config).await.unwrap();
    assert_eq!(finding(&before, "sql_setup").status, Status::Warning, "{before:?}");
    assert!(operator::provision(&config, None).await.unwrap().sql);
    let after = operator::doctor(&config).await.unwrap();
    for check in ["sql_key", "sql_user", "sql_setup", "sql_pgvector", "sql_names"] {
        assert_eq!(finding(&after, check).status, Status::Ok, "{after:?}");
    }
    assert!(after.exposures.is_empty(), "a superuser closes everything: {after:?}");
}
