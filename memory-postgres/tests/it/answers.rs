//! Answers beyond the suite: every filter decides like the core, and vectors at the limits of their range are compared
//! like others.

use std::sync::Arc;

use memory_conformance::random::Random;
use memory_core::embed::cosine;
use memory_core::{
    Backend as _, BulkOptions, EmbedRole, Embedder, EmbeddingModel, Entry, Field, Filter, GetOptions,
    ImportOptions, Json, Key, ListQuery, Metadata, NewEntry, Provider as _, Record, RecordVector, Result,
    Scalar, Scope, SearchMode, SearchQuery, SetOptions, Source, Timestamp, async_trait,
};
use memory_postgres::PostgresProvider;

use crate::support::Database;

fn scope() -> Scope {
    Scope::agent("public", "answers").unwrap()
}

fn pick<T: Clone>(random: &mut Random, from: &[T]) -> T {
    random.pick(from).unwrap().clone()
}

/// Numbers where integers, floats and decimals could disagree, and texts that sort unexpectedly.
fn scalars() -> Vec<Scalar> {
    let ints = [
        0,
        1,
        -1,
        2,
        9,
        10,
        9_007_199_254_740_992,
        9_007_199_254_740_993,
        i64::MAX,
        i64::MIN,
        1_152_921_504_606_847_210,
    ];
    let floats =
        [0.0, -0.0, 0.1, 0.5, 1.0, 1.5, -1.5, 9.999_999_999_999_999, 5e-324, f64::MAX, f64::MIN, 1e22, 1e23];
    let floats = floats.into_iter().chain([
        9_007_199_254_740_992.0,
        9_007_199_254_740_994.0,
        1_152_921_504_606_847_232.0,
    ]);
    let texts = [
        "",
        "a",
        "A",
        "ä",
        "a\u{308}",
        "aa",
        "10",
        "9",
        "true",
        "\0",
        "\0a",
        "a\0",
        "\u{1}",
        "\u{1}\u{1}",
        "'\"%_\\",
        "\u{1f600}",
        "\u{ffff}",
    ];
    let mut all: Vec<Scalar> = ints.into_iter().map(Scalar::Int).collect();
    all.extend(floats.filter(|float| float.abs() < 9.2e18).map(Scalar::Float));
    all.extend(texts.into_iter().map(Scalar::from));
    all.extend([Scalar::Bool(true), Scalar::Bool(false)]);
    all
}

const NAMES: [&str; 4] = ["n", "m", "a.b", "it's \"odd\" ?"];
const SOURCES: [&str; 4] = ["a", "b", "chat", "a\u{1}"];

fn filter(random: &mut Random, scalars: &[Scalar], depth: u32) -> Filter {
    let field = match random.below(8) {
        0 => Field::Source,
        1 => Field::UpdatedAt,
        2 => Field::ExpiresAt,
        _ => Field::Metadata(pick(random, &NAMES).to_owned()),
    };
    let scalar = |random: &mut Random| match &field {
        Field::Source => Scalar::from(pick(random, &["a", "b", "chat", "a\0", "", "c\0x"])),
        Field::Metadata(_) => pick(random, scalars),
        _ => pick(
            random,
            &[
                Scalar::Int(0),
                Scalar::Int(1_800_000_000_000),
                Scalar::Float(1e12),
                Scalar::from("2030-01-01T00:00:00Z"),
            ],
        ),
    };
    match random.below(if depth == 0 { 8 } else { 11 }) {
        0 => Filter::Eq(field.clone(), scalar(random)),
        1 => Filter::Ne(field.clone(), scalar(random)),
        2 => Filter::Lt(field.clone(), scalar(random)),
        3 => Filter::Lte(field.clone(), scalar(random)),
        4 => Filter::Gt(field.clone(), scalar(random)),
        5 => Filter::Gte(field.clone(), scalar(random)),
        6 => Filter::In(field.clone(), (0..random.below(4)).map(|_| scalar(random)).collect()),
        7 => Filter::Exists(field),
        8 => Filter::Not(Box::new(filter(random, scalars, depth - 1))),
        9 => Filter::And((0..random.below(4)).map(|_| filter(random, scalars, depth - 1)).collect()),
        _ => Filter::Or((0..random.below(4)).map(|_| filter(random, scalars, depth - 1)).collect()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_filter_decides_as_the_core_does() {
    let Some(database) = Database::fresh().await else { return };
    let provider = PostgresProvider::open(database.config()).await.unwrap();
    let (mut random, scalars) = (Random::named("filters"), scalars());
    let mut items = Vec::new();
    for at in 0..250 {
        let mut item = NewEntry::new(Key::new(format!("{at:03}")).unwrap(), Json::string("tea"));
        let mut metadata = Metadata::new();
        for name in NAMES {
            if random.below(3) > 0 {
                metadata.insert(name, pick(&mut random, &scalars));
            }
        }
        item.options = SetOptions::default().with_metadata(metadata);
        if random.below(2) == 0 {
            let label = pick(&mut random, &SOURCES);
            item.options.source = Source::new(label.trim_end_matches('\u{1}')).ok();
        }
        items.push(item);
    }
    provider.bulk_insert(&scope(), items, BulkOptions::default()).await.unwrap();
    let all = provider.list(&scope(), ListQuery::default().with_limit(1_000)).await.unwrap().entries;
    assert_eq!(all.len(), 250);
    for round in 0..400 {
        let filter = filter(&mut random, &scalars, 3);
        if filter.check().is_err() {
            continue;
        }
        let due: Vec<&Key> =
            all.iter().filter(|entry| filter.matches(*entry)).map(|entry| &entry.key).collect();
        let query = ListQuery::default().with_limit(1_000).with_filter(filter.clone());
        let page = provider.list(&scope(), query).await.unwrap();
        let found: Vec<&Key> = page.entries.iter().map(|entry| &entry.key).collect();
        assert_eq!(found, due, "round {round}: {filter:?}");
        let mut query = SearchQuery::new("tea").with_mode(SearchMode::Lexical).with_filter(filter.clone());
        query.top_k = 1_000;
        let hits = provider.search(&scope(), query).await.unwrap().hits;
        let found: Vec<&Key> = hits.iter().map(|hit| &hit.entry.key).collect();
        assert_eq!(found, due, "a search, round {round}: {filter:?}");
    }
}

/// Embeds a text as the vector it spells out.
#[derive(Debug)]
struct Spelled(EmbeddingModel);

fn spelled(text: &str, dimensions: usize) -> Vec<f32> {
    let mut vector: Vec<f32> = text.split(' ').filter_map(|number| number.parse().ok()).collect();
    vector.resize(dimensions, 0.0);
    vector
}

#[async_trait]
impl Embedder for Spelled {
    fn model(&self) -> &EmbeddingModel {
        &self.0
    }

    async fn embed(&self, texts: &[&str], _: EmbedRole) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| spelled(text, self.0.dimensions)).collect())
    }
}

fn model(dimensions: usize) -> EmbeddingModel {
    EmbeddingModel { provider: "test".into(), model: "spelled".into(), dimensions }
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_at_the_limits_are_compared_and_come_back_unchanged() {
    let Some(database) = Database::fresh().await else { return };
    for dimensions in [3, 2_001, 4_001, 16_000, 16_384] {
        let provider = PostgresProvider::open(database.config()).await.unwrap();
        let provider = provider.with_embedder(Arc::new(Spelled(model(dimensions))));
        let scope = Scope::agent("public", &format!("vectors{dimensions}")).unwrap();
        let texts = [
            "1 0 0",
            "1e-30 1e-30 0",
            "1e30 0 1e30",
            "1e-40 0 0",
            "3e38 3e38 3e38",
            "-1 0 0",
            "-2 -1 0",
            "0 1 0",
        ];
        for text in texts {
            let options = SetOptions::default().with_text(text);
            provider.set(&scope, &Key::new(text).unwrap(), Json::null(), options).await.unwrap();
        }
        for asked in ["1 0.5 0.25", "1e-35 0 0", "2e38 1e38 0"] {
            let query = spelled(asked, dimensions);
            let mut due: Vec<(f64, &str)> = texts
                .iter()
                .map(|text| (cosine(&spelled(text, dimensions), &query).max(0.0), *text))
                .collect();
            due.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
            let results =
                provider.search(&scope, SearchQuery::new(asked).with_mode(SearchMode::Vector)).await.unwrap();
            let found: Vec<(f64, &str)> =
                results.hits.iter().map(|hit| (hit.score, hit.entry.key.as_str())).collect();
            assert_eq!(found, due, "{dimensions} dimensions, {asked}");
        }
        let mut records = provider.export_scope(&scope).await.unwrap();
        let mut count = 0;
        while let Some(record) = std::future::poll_fn(|context| records.as_mut().poll_next(context)).await {
            let record = record.unwrap();
            assert_eq!(record.vectors[0].vector, spelled(record.entry.key.as_str(), dimensions));
            count += 1;
        }
        assert_eq!(count, texts.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vectors_the_server_cannot_compare_are_kept_and_found_once_it_can() {
    let Some(database) = Database::fresh().await else { return };
    let client = database.client().await;
    client.batch_execute("DROP EXTENSION vector").await.unwrap();
    let provider = PostgresProvider::open(database.config()).await.unwrap();
    let time = Timestamp::from_millis(1_700_000_000_000).unwrap();
    let mut record = Record::from(Entry::new(Key::new("k").unwrap(), Json::from(1), 7, time));
    record.vectors =
        vec![RecordVector { model: model(3), vector: vec![1.0, 2.0, 3.0], text: Some("1 2 3".into()) }];
    let records = Box::pin(futures_util::stream::iter([Ok(record)]));
    let imported = provider.import_scope(&scope(), records, ImportOptions::default()).await.unwrap();
    assert_eq!(imported.created, 1);
    provider.close().await.unwrap();
    client.batch_execute("CREATE EXTENSION vector").await.unwrap();
    let provider = PostgresProvider::open(database.config()).await.unwrap();
    let provider = provider.with_embedder(Arc::new(Spelled(model(3))));
    let query = SearchQuery::new("1 2 3").with_mode(SearchMode::Vector);
    let hits = provider.search(&scope(), query).await.unwrap().hits;
    assert_eq!(hits.len(), 1);
    assert_eq!(hits[0].score, 1.0);
    assert_eq!(
        provider.get(&scope(), &hits[0].entry.key, GetOptions::default()).await.unwrap().unwrap().version,
        7
    );
}
