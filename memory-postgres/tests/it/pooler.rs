//! Behind a pooler in transaction mode, where no session outlives a transaction.

use std::sync::Arc;

use memory_core::{
    Backend as _, BackendExt as _, HealthStatus, Json, Key, Provider as _, Scope, UpdateOptions,
};
use memory_postgres::operator::{self, Status};
use memory_postgres::{PostgresConfig, PostgresProvider, Prepared};

use crate::support::{Database, pooler};

/// The database through a pooler.
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
async fn the_doctor_detects_it_and_says_what_to_set() {
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

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_many_tasks_pass_through_it_intact() {
    let Some(database) = Database::fresh().await else { return };
    let config = pooled(&database).await;
    let provider = Arc::new(PostgresProvider::open(config).await.unwrap());
    let scope = Scope::agent("acme", "pooled").unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (provider, scope) = (Arc::clone(&provider), scope.clone());
            tokio::spawn(async move {
                let (own, sum) = (Key::new(format!("own/{task}")).unwrap(), Key::new("sum").unwrap());
                for number in 0..20 {
                    provider.put(&scope, &own, Json::parse(format!("{number}")).unwrap()).await.unwrap();
                    provider.increment(&scope, &sum, 1, UpdateOptions::default()).await.unwrap();
                    let read = provider.value(&scope, &own).await.unwrap().unwrap();
                    assert_eq!(read.as_str(), format!("{number}"));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let sum = provider.value(&scope, &Key::new("sum").unwrap()).await.unwrap().unwrap();
    assert_eq!(sum.as_str(), "160");
    assert_eq!(provider.list_all(&scope, "own/").await.unwrap().len(), 8);
    assert_eq!(provider.drop_scope(&scope).await.unwrap().entries, 9);
}
