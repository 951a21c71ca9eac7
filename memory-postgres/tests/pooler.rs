//! Behind a pooler in transaction mode, where no session outlives a transaction.

mod support;

use memory_core::{HealthStatus, Provider as _};
use memory_postgres::operator::{self, Status};
use memory_postgres::{PostgresConfig, PostgresProvider, Prepared};
use support::{Database, pooler};

/// The database as it looks through a pooler.
async fn pooled(database: &Database) -> PostgresConfig {
    let url = database.url();
    let server = url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let port = pooler::start(server, database.name.clone()).await;
    let url = format!("postgres://postgres@127.0.0.1:{port}/{}", database.name);
    PostgresConfig::new(url).with_pool_size(8).with_prepared(Prepared::Off)
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_made_and_found_through_it() {
    let Some(database) = Database::fresh().await else { return };
    let config = pooled(&database).await;
    for _ in 0..3 {
        let provider = PostgresProvider::open(config.clone()).await.unwrap();
        assert_eq!(provider.health().await.unwrap().status, HealthStatus::Ok);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_sees_it_and_says_what_to_set() {
    let Some(database) = Database::fresh().await else { return };
    let config = pooled(&database).await;
    let pooling = async |config: PostgresConfig| {
        let report = operator::doctor(&config).await.unwrap();
        report.findings.into_iter().find(|finding| finding.check == "pooling").unwrap()
    };
    let found = pooling(config.clone()).await;
    assert_eq!(found.status, Status::Ok, "{found:?}");
    assert!(found.message.contains("in between"), "{found:?}");
}
