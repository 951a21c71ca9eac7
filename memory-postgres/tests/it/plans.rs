//! No operation's cost depends on what the planner knows about the tables: newly filled ones have no statistics, and a
//! session's plans may be older than most rows. Cost is measured in rows that the server reads.

use std::sync::Arc;
use std::time::Duration;

use memory_conformance::random::Random;
use memory_conformance::stream;
use memory_core::{
    Backend as _, BulkOptions, EmbedRole, Embedder, EmbeddingModel, EraseTarget, Field, Filter, GetOptions,
    Json, Key, ListQuery, Metadata, NewEntry, Provider as _, ReembedOptions, Result, Scalar, Scope,
    SearchMode, SearchQuery, SetOptions, UpdateOptions, async_trait,
};
use memory_postgres::PostgresProvider;
use tokio_postgres::Client;

use crate::support::Database;

const ENTRIES: usize = 600;
/// Scopes beside the large one, with the same first key.
const OTHERS: usize = 40;
/// How often each operation is repeated on one connection: more often than it takes to replan a prepared statement.
const TIMES: i64 = 8;

#[derive(Debug)]
struct Directions(EmbeddingModel);

#[async_trait]
impl Embedder for Directions {
    fn model(&self) -> &EmbeddingModel {
        &self.0
    }

    async fn embed(&self, texts: &[&str], _: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let direction = |text: &&str| {
            let mut random = Random::named(text);
            (0..8).map(|_| f32::from(u16::try_from(random.below(1_000)).unwrap()) + 1.0).collect()
        };
        Ok(texts.iter().map(direction).collect())
    }
}

fn large() -> Scope {
    Scope::agent("public", "large").unwrap()
}

fn key(at: usize) -> Key {
    Key::new(format!("{at:05}")).unwrap()
}

async fn open(database: &Database) -> PostgresProvider {
    let model = EmbeddingModel { provider: "test".into(), model: "directions".into(), dimensions: 8 };
    PostgresProvider::open(database.config()).await.unwrap().with_embedder(Arc::new(Directions(model)))
}

async fn fill(provider: &PostgresProvider) {
    let item = |at: usize| {
        let metadata = Metadata::new().with("group", i64::try_from(at % 10).unwrap());
        let text = if at == 7 { "rare note" } else { "note" };
        let mut item = NewEntry::new(key(at), Json::null());
        item.options = SetOptions::default().with_text(text).with_metadata(metadata);
        item
    };
    for other in 0..OTHERS {
        let scope = Scope::agent("public", &format!("other{other}")).unwrap();
        provider.bulk_insert(&scope, vec![item(0)], BulkOptions::default()).await.unwrap();
    }
    let items = (0..ENTRIES).map(item).collect();
    provider.bulk_insert(&large(), items, BulkOptions::default()).await.unwrap();
}

/// Performs one of the operations. Returns its name and how many rows it may read, counting a row found by an index
/// twice; `None` after the last.
async fn operate(provider: &PostgresProvider, operation: usize) -> Option<(&'static str, usize)> {
    let search = async |mode, text: &str, filter: Option<Filter>| {
        let query = SearchQuery::new(text).with_mode(mode);
        provider.search(&large(), filter.into_iter().fold(query, SearchQuery::with_filter)).await.unwrap();
    };
    let group = || Field::Metadata("group".into());
    let (equal, below) = (Filter::Eq(group(), Scalar::Int(3)), Filter::Lt(group(), Scalar::Int(1)));
    Some(match operation {
        0 => {
            provider.get(&large(), &key(0), GetOptions::default()).await.unwrap().unwrap();
            ("get", 8)
        }
        1 => {
            let keys: Vec<Key> = (0..10).map(key).collect();
            provider.get_many(&large(), &keys, GetOptions::uncounted()).await.unwrap();
            ("get_many of 10", 40)
        }
        2 => {
            provider.list(&large(), ListQuery::prefix("").with_limit(10)).await.unwrap();
            ("a page of 10", 40)
        }
        3 => {
            stream::collect(provider.export_scope(&large()).await.unwrap()).await.unwrap();
            ("export", 6 * ENTRIES)
        }
        4 => {
            let options = SetOptions::default().with_text("note");
            provider.set(&large(), &key(1), Json::null(), options).await.unwrap();
            ("set", 30)
        }
        5 => {
            let counter = Key::new("count").unwrap();
            provider.increment(&large(), &counter, 1, UpdateOptions::default()).await.unwrap();
            ("increment", 30)
        }
        6 => {
            search(SearchMode::Vector, "note", Some(equal)).await;
            ("the nearest, by a filter that terms narrow", ENTRIES)
        }
        7 => {
            search(SearchMode::Vector, "note", Some(below)).await;
            ("the nearest, by another filter", 6 * ENTRIES)
        }
        8 => {
            search(SearchMode::Hybrid, "note", Some(equal)).await;
            ("words and the nearest", 4 * ENTRIES)
        }
        9 => {
            search(SearchMode::Lexical, "rare", None).await;
            ("a rare word", 40)
        }
        10 => {
            provider.reembed(&large(), ReembedOptions::default()).await.unwrap();
            ("reembed", 14 * ENTRIES)
        }
        11 => {
            provider.erase(&EraseTarget::Key { scope: large(), key: key(5) }).await.unwrap();
            ("erase", 20)
        }
        _ => return None,
    })
}

/// The name of an operation and how many rows it may read, after repeating it.
async fn repeat(provider: &PostgresProvider, operation: usize) -> Option<(&'static str, i64)> {
    let mut limit = None;
    for _ in 0..TIMES {
        let (name, rows) = operate(provider, operation).await?;
        limit = Some((name, TIMES * i64::try_from(rows).unwrap()));
    }
    limit
}

/// Rows of entries and vectors that ended sessions read in tables and indexes.
async fn rows_read(client: &Client) -> i64 {
    // A session that ends adds its counts before it disappears.
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
                    AND backend_type = 'client backend'";
    for _ in 0..6_000 {
        if client.query_one(sessions, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let read = "SELECT ((SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables WHERE relname = ANY ($1)) \
                + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = ANY ($1)))::bigint";
    client.query_one(read, &[&["entry", "vector"].as_slice()]).await.unwrap().get(0)
}

/// A store in which nothing gathers statistics while the test runs.
async fn without_autovacuum(client: &Client) {
    for table in ["entry", "vector", "scope"] {
        let off = format!("ALTER TABLE memory.{table} SET (autovacuum_enabled = off)");
        client.batch_execute(&off).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operation_needs_statistics() {
    let Some(database) = Database::fresh().await else { return };
    let client = database.client().await;
    let provider = open(&database).await;
    without_autovacuum(&client).await;
    fill(&provider).await;
    provider.close().await.unwrap();
    let mut over = Vec::new();
    for operation in 0.. {
        let before = rows_read(&client).await;
        let provider = open(&database).await;
        let Some((name, limit)) = repeat(&provider, operation).await else { break };
        provider.close().await.unwrap();
        let read = rows_read(&client).await - before;
        println!("{name}: {read} rows of at most {limit}");
        if read > limit {
            over.push(name);
        }
    }
    assert!(over.is_empty(), "too many rows were read by: {}", over.join(", "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_began_with_small_tables_makes_plans_that_fit_large_ones() {
    let Some(database) = Database::fresh().await else { return };
    let client = database.client().await;
    let provider = open(&database).await;
    without_autovacuum(&client).await;
    provider.set(&large(), &key(0), Json::null(), SetOptions::default().with_text("note")).await.unwrap();
    client.batch_execute("ANALYZE").await.unwrap();
    let small = async |operation| repeat(&provider, operation).await.is_some();
    let mut operation = 0;
    while small(operation).await {
        operation += 1;
    }
    fill(&provider).await;
    let mut limit = i64::try_from(20 * ENTRIES).unwrap();
    for operation in 0.. {
        let Some((_, rows)) = repeat(&provider, operation).await else { break };
        limit += rows;
    }
    provider.close().await.unwrap();
    let read = rows_read(&client).await;
    println!("{read} rows of at most {limit}");
    assert!(read <= limit, "{read} rows were read, expected at most {limit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn uses_without_a_scope_are_found_by_an_index() {
    let Some(database) = Database::fresh().await else { return };
    let provider = open(&database).await;
    fill(&provider).await;
    let mut client = database.client().await;
    let uses = "DELETE FROM memory.scope_use; INSERT INTO memory.scope_use \
         SELECT memory.scope_mark('public', 0::smallint, 'other' || g), 0, g::text FROM generate_series(0, 99) g; ANALYZE";
    client.batch_execute(uses).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let found = transaction.query("SELECT mark FROM memory.unused(NULL, '', 1000)", &[]).await.unwrap();
    assert_eq!(found.len(), 100 - OTHERS);
    let marks: Vec<&[u8]> = found.iter().map(|row| row.get(0)).collect();
    transaction.execute("SELECT memory.forget_uses(NULL, $1)", &[&marks]).await.unwrap();
    let left = transaction.query_one("SELECT count(*) FROM memory.scope_use", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), i64::try_from(OTHERS).unwrap());
    let scans = "SELECT pg_stat_get_xact_numscans('memory.scope'::regclass), \
         pg_stat_get_xact_numscans('memory.scope_pkey'::regclass)";
    let scans = transaction.query_one(scans, &[]).await.unwrap();
    assert_eq!((scans.get::<_, i64>(0), scans.get::<_, i64>(1)), (0, 0), "scans of all scopes");
}
