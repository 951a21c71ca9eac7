//! A scope with many vectors is searched by its own index, which finds everything it should.

use std::collections::HashSet;
use std::sync::Arc;

use memory_conformance::random::Random;
use memory_core::embed::cosine;
use memory_core::{
    Backend as _, BulkOptions, EmbedRole, Embedder, EmbeddingModel, Field, Filter, Json, Key, Metadata,
    NewEntry, Provider as _, Result, Scalar, Scope, SearchMode, SearchQuery, SetOptions, async_trait,
};
use memory_postgres::{PostgresConfig, PostgresProvider};

use crate::support::Database;

const VECTORS: usize = 4_000;

/// Vectors derived from the text: near those of the same topic.
#[derive(Debug)]
struct Topics(EmbeddingModel);

fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "any numbers will do")]
    let numbers = |name: &str, shift: f64| {
        let mut random = Random::named(name);
        (0..dimensions)
            .map(|_| (random.below(1_000_000) as f64 / 1e6 - 0.5 + shift) as f32)
            .collect::<Vec<f32>>()
    };
    // All slightly to one side, so that none are opposite.
    let topic = numbers(text.split(' ').next().unwrap(), 0.2);
    topic.into_iter().zip(numbers(text, 0.0)).map(|(a, b)| a + b).collect()
}

#[async_trait]
impl Embedder for Topics {
    fn model(&self) -> &EmbeddingModel {
        &self.0
    }

    async fn embed(&self, texts: &[&str], _: EmbedRole) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| vector(text, self.0.dimensions)).collect())
    }
}

fn config(database: &Database) -> PostgresConfig {
    let mut config = database.config();
    config.index_vectors_from = 1_000;
    config
}

async fn open(database: &Database, dimensions: usize) -> PostgresProvider {
    let model = EmbeddingModel { provider: "test".into(), model: "topics".into(), dimensions };
    PostgresProvider::open(config(database)).await.unwrap().with_embedder(Arc::new(Topics(model)))
}

async fn fill(provider: &PostgresProvider, scope: &Scope, texts: &[String]) {
    for (at, chunk) in texts.chunks(1_000).enumerate() {
        let items = chunk.iter().enumerate().map(|(place, text)| {
            let number = i64::try_from(at * 1_000 + place).unwrap();
            let mut item = NewEntry::new(Key::new(format!("{number:05}")).unwrap(), Json::null());
            item.options =
                SetOptions::default().with_text(text).with_metadata(Metadata::new().with("number", number));
            item
        });
        provider.bulk_insert(scope, items.collect(), BulkOptions::default()).await.unwrap();
    }
}

/// The share of expected hits found by some searches.
async fn recall(
    provider: &PostgresProvider,
    scope: &Scope,
    vectors: &[Vec<f32>],
    filter: Option<i64>,
) -> f64 {
    let dimensions = vectors[0].len();
    let (mut found, mut due) = (0, 0);
    for round in 0..20 {
        let asked = format!("topic{} question {round}", round % 40);
        let query_vector = vector(&asked, dimensions);
        let mut scored: Vec<(f64, String)> = vectors
            .iter()
            .enumerate()
            .filter(|(at, _)| filter.is_none_or(|below| i64::try_from(*at).unwrap() < below))
            .map(|(at, vector)| (cosine(vector, &query_vector), format!("{at:05}")))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best: HashSet<String> = scored.into_iter().take(10).map(|(_, key)| key).collect();
        let mut query = SearchQuery::new(&*asked).with_mode(SearchMode::Vector);
        if let Some(below) = filter {
            query = query.with_filter(Filter::Lt(Field::Metadata("number".into()), Scalar::Int(below)));
        }
        let hits = provider.search(scope, query).await.unwrap().hits;
        assert_eq!(hits.len(), best.len(), "a search under-returns");
        found += hits.iter().filter(|hit| best.contains(hit.entry.key.as_str())).count();
        due += best.len();
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
    }
    f64::from(u32::try_from(found).unwrap()) / f64::from(u32::try_from(due).unwrap())
}

fn vectors(texts: &[String], dimensions: usize) -> Vec<Vec<f32>> {
    texts.iter().map(|text| vector(text, dimensions)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_scope_gets_an_index_that_finds_every_expected_hit() {
    let Some(database) = Database::fresh().await else { return };
    let client = database.client().await;
    let indexes = async || {
        let sql = "SELECT indexdef FROM pg_indexes WHERE indexname LIKE 'vector_near_%' ORDER BY indexname";
        client.query(sql, &[]).await.unwrap().iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    let provider = open(&database, 48).await;
    let scope = Scope::agent("public", "large").unwrap();
    let small = Scope::agent("public", "small").unwrap();
    let texts: Vec<String> = (0..VECTORS).map(|at| format!("topic{} note {at}", at % 40)).collect();
    fill(&provider, &scope, &texts).await;
    fill(&provider, &small, &texts[..900]).await;
    assert_eq!(provider.index_vectors().await.unwrap(), 1, "of the large scope alone");
    assert_eq!(provider.index_vectors().await.unwrap(), 0, "it is there");
    client.batch_execute("ANALYZE").await.unwrap();
    assert!(indexes().await[0].contains("hnsw"));
    let vectors = vectors(&texts, 48);
    for filter in [None, Some(2_000), Some(40), Some(5)] {
        let recall = recall(&provider, &scope, &vectors, filter).await;
        println!("below {filter:?}: recall {recall:.3}");
        assert!(recall >= 0.98, "below {filter:?}: recall {recall}");
    }
    let scans = "SELECT coalesce(sum(idx_scan), 0)::bigint FROM pg_stat_user_indexes WHERE indexrelname LIKE 'vector_near_%'";
    provider.close().await.unwrap();
    let mut scanned = 0;
    for _ in 0..50 {
        scanned = client.query_one(scans, &[]).await.unwrap().get::<_, i64>(0);
        if scanned > 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(scanned > 0, "the index is used");
    let provider = open(&database, 48).await;
    provider.drop_scope(&scope).await.unwrap();
    assert_eq!(provider.index_vectors().await.unwrap(), 0);
    assert!(indexes().await.is_empty(), "it goes with its scope");
}

/// The keys of the best hits.
async fn best(provider: &PostgresProvider, scope: &Scope, text: &str, count: usize) -> Vec<String> {
    let query = SearchQuery::new(text).with_mode(SearchMode::Vector).with_top_k(count);
    let hits = provider.search(scope, query).await.unwrap().hits;
    hits.iter().map(|hit| hit.entry.key.as_str().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_equal_vectors_are_compared_one_by_one() {
    let Some(database) = Database::fresh().await else { return };
    let provider = open(&database, 48).await;
    let scope = Scope::agent("public", "equal").unwrap();
    let text = |at: usize| match at {
        0..=1_199 if !at.is_multiple_of(20) => format!("topic{} note {at}", at % 40),
        _ => "topic1 same".to_owned(),
    };
    fill(&provider, &scope, &(0..1_200).map(text).collect::<Vec<_>>()).await;
    assert_eq!(provider.index_vectors().await.unwrap(), 1);
    // A graph gives any of the equal ones; those with the first keys are due.
    assert_eq!(best(&provider, &scope, "topic1 same", 3).await, ["00000", "00020", "00040"]);

    fill(&provider, &scope, &(0..3_000).map(text).collect::<Vec<_>>()).await;
    assert_eq!(provider.index_vectors().await.unwrap(), 0);
    let sql = "SELECT count(*) FROM pg_indexes WHERE indexname LIKE 'vector_near_%'";
    let indexes: i64 = database.client().await.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!(indexes, 0, "a graph of equal vectors leads nowhere");
    for at in (1_usize..1_200).step_by(23).filter(|at| !at.is_multiple_of(20)) {
        assert_eq!(best(&provider, &scope, &text(at), 1).await, [format!("{at:05}")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn longer_vectors_are_indexed_by_direction_in_half_the_bits() {
    let Some(database) = Database::fresh().await else { return };
    let provider = open(&database, 2_400).await;
    let scope = Scope::agent("public", "long").unwrap();
    let texts: Vec<String> = (0..1_100).map(|at| format!("topic{} note {at}", at % 40)).collect();
    fill(&provider, &scope, &texts).await;
    assert_eq!(provider.index_vectors().await.unwrap(), 1);
    let recall = recall(&provider, &scope, &vectors(&texts, 2_400), None).await;
    assert!(recall >= 0.98, "recall {recall}");
}
