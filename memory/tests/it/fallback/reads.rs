//! FB-1 to FB-9: which store is asked.

use std::time::Duration;

use memory::fallback::{FallbackOptions, observe, pair};
use memory::{
    Consistency, ErrorKind, HealthStatus, IncrementOutcome, ListQuery, RunContext, SearchQuery, SqlFacet,
    UpdateOptions,
};

use crate::fallback::support::{Fault, Stand, faulty, key, scope, set, store, text};

#[tokio::test]
async fn a_healthy_primary_answers_everything_and_the_fallback_is_not_asked() {
    let stand = Stand::journaling();
    stand.set("k", "1").await.unwrap();
    let sum: IncrementOutcome =
        stand.kv().increment(&scope(), &key("n"), 2, UpdateOptions::default()).await.unwrap();
    assert_eq!(sum.value, 2);
    assert_eq!(stand.get("k").await, (Some("1".into()), None));
    assert_eq!(*stand.spare_faults.calls.lock().unwrap(), []);
    assert_eq!(stand.memory.health().await.unwrap().status, HealthStatus::Ok);
}

#[tokio::test]
async fn a_failed_read_falls_back_and_the_caller_is_told() {
    let stand = Stand::refusing();
    set(&stand.primary, "k", "\"primary\"").await.unwrap();
    set(&stand.spare, "k", "\"spare\"").await.unwrap();
    for kind in [ErrorKind::Unavailable, ErrorKind::Timeout] {
        stand.fail(Fault::Before(kind));
        assert_eq!(stand.get("k").await, (Some("\"spare\"".into()), Some("spare".into())), "{kind}");
        let (page, who) = observe(stand.kv().list(&scope(), ListQuery::default())).await;
        assert_eq!((page.unwrap().entries.len(), who.as_deref()), (1, Some("spare")));
        let (found, who) = observe(stand.kv().search(&scope(), SearchQuery::new("spare"))).await;
        assert_eq!((found.unwrap().hits.len(), who.as_deref()), (1, Some("spare")));
    }
    stand.up();
    assert_eq!(stand.get("k").await, (Some("\"primary\"".into()), None));
}

#[tokio::test]
async fn no_other_error_is_hidden_behind_the_fallback() {
    let stand = Stand::refusing();
    set(&stand.spare, "k", "\"spare\"").await.unwrap();
    for kind in ErrorKind::ALL {
        if matches!(kind, ErrorKind::Unavailable | ErrorKind::Timeout) {
            continue;
        }
        stand.fail(Fault::Before(kind));
        let (read, who) = observe(stand.kv().list(&scope(), ListQuery::default())).await;
        assert_eq!((read.unwrap_err().kind(), who), (kind, None));
    }
    assert_eq!(*stand.spare_faults.calls.lock().unwrap(), []);
}

#[tokio::test]
async fn versions_of_the_fallback_never_reach_the_primary() {
    let stand = Stand::refusing();
    set(&stand.primary, "k", "1").await.unwrap();
    set(&stand.spare, "k", "2").await.unwrap();
    stand.down();
    let entry = crate::fallback::support::get(&stand.memory, "k").await.unwrap();
    assert!(entry.version > 1 << 52 && entry.version < 1 << 53, "{}", entry.version);
    stand.up();
    let expecting = crate::fallback::support::expecting(memory::Expect::Version(entry.version));
    let write = stand.kv().set(&scope(), &key("k"), crate::fallback::support::json("3"), expecting).await;
    assert_eq!(write.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(text(&stand.primary, "k").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn writes_without_a_journal_are_refused_and_never_reach_the_fallback() {
    let stand = Stand::refusing();
    stand.down();
    let error = stand.set("k", "1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.details()["fallback"], "refused");
    assert!(error.retry().is_retryable());
    assert_eq!(*stand.spare_faults.calls.lock().unwrap(), []);
}

#[tokio::test]
async fn both_down_is_an_error_that_names_both() {
    let stand = Stand::refusing();
    stand.down();
    *stand.spare_faults.fault.lock().unwrap() = Some(Fault::Before(ErrorKind::Timeout));
    let (read, who) = observe(stand.kv().list(&scope(), ListQuery::default())).await;
    let error = read.unwrap_err();
    assert_eq!((error.kind(), who), (ErrorKind::Timeout, None));
    assert!(error.message().contains("the primary"), "{error}");
}

#[tokio::test]
async fn a_copy_of_a_scope_only_comes_from_the_primary() {
    let stand = Stand::refusing();
    stand.down();
    let Err(error) = stand.kv().export_scope(&scope()).await else { panic!("exported from the fallback") };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_failed_primary_is_not_asked_for_a_while() {
    let stand = Stand::of(|_, mut options| {
        options.rest_millis = 1_000;
        options
    });
    let asked = || stand.faults.calls.lock().unwrap().len();
    stand.down();
    stand.get("k").await;
    assert_eq!(asked(), 1);
    stand.up();
    assert_eq!(stand.get("k").await.1.as_deref(), Some("spare"));
    assert_eq!(asked(), 1);
    // A write has no alternative.
    stand.set("k", "1").await.unwrap();
    assert_eq!(asked(), 2);
    assert_eq!(stand.get("k").await, (Some("1".into()), None));
    stand.down();
    stand.get("k").await;
    stand.up();
    stand.clock.advance(Duration::from_millis(1_000));
    assert_eq!(stand.get("k").await, (Some("1".into()), None));
}

#[tokio::test]
async fn a_pair_serves_common_capabilities_without_read_your_writes() {
    let clock = std::sync::Arc::new(memory_conformance::TestClock::new());
    let (primary, _) = faulty(&store(&clock));
    let faults = std::sync::Arc::new(crate::fallback::support::Faults::default());
    *faults.less.lock().unwrap() = Some(|capabilities| {
        capabilities.stats = false;
        capabilities.max_top_k = 3;
    });
    let spare = crate::fallback::support::limited(&store(&clock), &faults);
    let memory = pair(primary, spare, FallbackOptions::new("spare"));
    let capabilities = memory.unwrap().capabilities();
    assert!(capabilities.kv && !capabilities.vector_search && !capabilities.stats);
    assert_eq!(capabilities.max_top_k, 3);
    assert_eq!(capabilities.consistency, Consistency::Eventual);
}

#[tokio::test]
async fn read_only_statements_fall_back_and_others_do_not() {
    let stand = Stand::journaling();
    let run = RunContext::new("acme".parse().unwrap(), "planner".parse().unwrap(), "r".parse().unwrap());
    let sql: &dyn SqlFacet = stand.memory.sql().unwrap();
    let options = memory::sql::StatementOptions::default;
    stand.down();
    let (rows, who) = observe(sql.query(&run, &scope(), "SELECT 1", &[], options())).await;
    assert_eq!((rows.unwrap().rows.len(), who.as_deref()), (1, Some("spare")));
    let error = sql.exec(&run, &scope(), "CREATE TABLE t (a)", &[], options()).await.unwrap_err();
    assert_eq!((error.kind(), &error.details()["fallback"]), (ErrorKind::Unavailable, &"refused".into()));
    assert!(sql.begin(&run, &scope(), None).await.is_err());
}

/// Fails a search, as with an unreachable embedder, while it is healthy.
#[derive(Debug)]
struct BadEmbedder;

#[memory::async_trait]
impl memory::Hook for BadEmbedder {
    async fn around(
        &self,
        request: memory::Request,
        next: memory::Next<'_>,
    ) -> memory::Result<memory::Reply> {
        match request.op() {
            memory::Op::Search | memory::Op::Query => Err(memory::Error::timeout("by itself")),
            _ => next.run(request).await,
        }
    }
}

#[tokio::test]
async fn a_failing_call_at_a_healthy_store_is_the_callers_error() {
    let clock = std::sync::Arc::new(memory_conformance::TestClock::new());
    let primary = memory::Interposed::new(store(&clock), BadEmbedder);
    let primary = memory::Memory::new(std::sync::Arc::new(primary)).unwrap();
    let (spare, faults) = faulty(&store(&clock));
    let memory = pair(primary, spare, FallbackOptions::new("spare")).unwrap();
    let kv = memory.backend().unwrap();
    let (found, who) = observe(kv.search(&scope(), SearchQuery::new("words"))).await;
    assert_eq!((found.unwrap_err().kind(), who), (ErrorKind::Timeout, None));
    let (listed, who) = observe(kv.list(&scope(), ListQuery::default())).await;
    assert_eq!((listed.is_ok(), who), (true, None));
    assert_eq!(*faults.calls.lock().unwrap(), []);
}
