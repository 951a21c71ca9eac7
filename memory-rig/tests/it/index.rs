//! Searching an index, and what it refuses.

use memory::{Error, ErrorKind, Provider};
use memory_rig::MemoryIndex;
use rig_core::vector_store::request::{Filter, FilterError, SearchFilter, VectorSearchRequest};
use rig_core::vector_store::{VectorStoreError, VectorStoreIndex};
use serde_json::{Value, json};

use crate::support::{scope, set, store};

type Request = VectorSearchRequest<Filter<Value>>;

fn request(query: &str, samples: u64) -> Request {
    VectorSearchRequest::builder().query(query).samples(samples).build()
}

fn filtered(filter: Filter<Value>) -> Request {
    VectorSearchRequest::builder().query("city").samples(10).filter(filter).build()
}

/// Three cities, with the number of the note and whether it is a capital.
async fn cities() -> MemoryIndex {
    let memory = store().await;
    for (key, value, metadata) in [
        ("city/1", r#""Lisbon is a city by the sea""#, r#"{"n": 1, "capital": true}"#),
        ("city/2", r#""Porto is a city""#, r#"{"n": 2, "capital": false}"#),
        ("city/3", r#""Oslo is a cold city by a fjord""#, r#"{"n": 3, "capital": true}"#),
        ("pet/1", r#""The cat lives in the city""#, r#"{"n": 9}"#),
    ] {
        set(&memory, key, value, metadata).await;
    }
    MemoryIndex::new(memory, scope()).unwrap().with_prefix("city/")
}

async fn ids(index: &MemoryIndex, request: Request) -> Vec<String> {
    let mut ids: Vec<String> =
        index.top_n_ids(request).await.unwrap().into_iter().map(|result| result.id).collect();
    ids.sort();
    ids
}

async fn refusal(index: &MemoryIndex, request: Request) -> ErrorKind {
    match index.top_n_ids(request).await.unwrap_err() {
        VectorStoreError::DatastoreError(error) => error.downcast_ref::<Error>().unwrap().kind(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn it_finds_what_a_search_finds_with_its_scores_in_its_order() {
    let index = cities().await;
    let found = index.top_n::<String>(request("city by the sea", 2)).await.unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!((found[0].id.as_str(), found[0].document.as_str()), ("city/1", "Lisbon is a city by the sea"));
    assert!(found[0].score > found[1].score && found[1].score > 0.0, "{found:?}");
}

#[tokio::test]
async fn a_threshold_leaves_out_what_is_below_it() {
    let index = cities().await;
    let all = index.top_n_ids(request("city by the sea", 10)).await.unwrap();
    assert_eq!(all.len(), 3);
    let threshold = all[0].score;
    let request =
        VectorSearchRequest::builder().query("city by the sea").samples(10).threshold(threshold).build();
    assert_eq!(ids(&index, request).await, ["city/1"]);
}

#[tokio::test]
async fn filters_apply_to_metadata_and_times() {
    let index = cities().await;
    let capital = || Filter::eq("capital", json!(true));
    assert_eq!(ids(&index, filtered(capital())).await, ["city/1", "city/3"]);
    assert_eq!(ids(&index, filtered(capital().and(Filter::gt("metadata.n", json!(1))))).await, ["city/3"]);
    assert_eq!(
        ids(&index, filtered(Filter::lt("n", json!(1.5)).or(Filter::eq("n", json!(2))))).await,
        ["city/1", "city/2"]
    );
    assert!(ids(&index, filtered(Filter::lt("created_at", json!("2020-01-01T00:00:00Z")))).await.is_empty());
    let many = (0..200).fold(capital(), |all, n| all.and(Filter::lt("n", json!(n + 4))));
    assert_eq!(ids(&index, filtered(many)).await, ["city/1", "city/3"]);
}

#[tokio::test]
async fn a_filter_that_cannot_be_applied_is_refused() {
    let index = cities().await;
    let deep = (0..20).fold(Filter::eq("n", json!(1)), |inner, n| {
        let other = Filter::eq("n", json!(n));
        if n % 2 == 0 { inner.and(other) } else { inner.or(other) }
    });
    for filter in [
        Filter::eq("capital", json!(null)),
        Filter::eq("capital", json!(["a"])),
        Filter::gt("n", json!({"a": 1})),
        Filter::eq("", json!(1)),
        Filter::eq("x".repeat(1_000), json!(1)),
        deep,
    ] {
        let error = index.top_n_ids(filtered(filter)).await.unwrap_err();
        let expected =
            matches!(error, VectorStoreError::FilterError(FilterError::TypeError(_) | FilterError::Must(..)));
        assert!(expected, "{error:?}");
    }
    let no_time = Filter::lt("created_at", json!("yesterday"));
    assert_eq!(refusal(&index, filtered(no_time)).await, ErrorKind::InvalidArgument);
    let long = (0..2_000).fold(Filter::eq("n", json!(1)), |all, n| all.or(Filter::eq("n", json!(n))));
    assert_eq!(refusal(&index, filtered(long)).await, ErrorKind::TooLarge);
}

#[tokio::test]
async fn limits_are_those_of_the_provider() {
    let index = cities().await;
    let max = store().await.capabilities().max_top_k as u64;
    assert!(index.top_n_ids(request("city", max)).await.is_ok());
    let error = index.top_n_ids(request("city", max + 1)).await.unwrap_err();
    let VectorStoreError::SamplesOutOfRange { requested, max: most } = error else { panic!("{error:?}") };
    assert_eq!((requested, most), (max + 1, max));

    assert_eq!(refusal(&index, request("city", 0)).await, ErrorKind::InvalidArgument);
    assert_eq!(refusal(&index, request(&"x".repeat(70_000), 1)).await, ErrorKind::TooLarge);
    for threshold in [-0.1, 1.1, f64::NAN] {
        let request = VectorSearchRequest::builder().query("city").samples(1).threshold(threshold).build();
        assert_eq!(refusal(&index, request).await, ErrorKind::InvalidArgument, "{threshold}");
    }
    let by_vectors = index.clone().with_mode(memory::backend::SearchMode::Vector);
    assert_eq!(refusal(&by_vectors, request("city", 1)).await, ErrorKind::VectorUnsupported);
}

#[tokio::test]
async fn a_value_that_is_no_such_document_is_an_error() {
    let error = cities().await.top_n::<u64>(request("city", 1)).await.unwrap_err();
    assert!(matches!(error, VectorStoreError::JsonError(_)), "{error:?}");
}
