//! `Checked` and `Interposed`: what reaches the inner provider, and what does not.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use memory_core::backend::RecordStream;
use memory_core::{
    Backend, BulkOptions, Capabilities, Checked, DeleteOptions, DeleteOutcome, DropOutcome, Embed, Entry,
    ErrorKind, Expect, Figure, GetOptions, Health, HealthStatus, Hook, ImportOptions, ImportOutcome,
    IncrementOutcome, Interposed, Json, Key, ListQuery, MemoryLayer, NewEntry, Next, Op, Page, Provider,
    Quota, Reducer, ReembedOptions, ReembedOutcome, Reply, Request, Result, RunContext, Scope, ScopeId,
    ScopePage, ScopeStats, ScopesQuery, SearchMode, SearchQuery, SearchResults, SetOptions, SetOutcome,
    SqlFacet, TenantId, Timestamp, UpdateOptions, UpdateOutcome, async_trait,
};

/// Polls a future that never waits.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits"),
    }
}

/// Counts what reaches it and answers without storing anything.
#[derive(Debug)]
struct Counting {
    capabilities: Capabilities,
    reached: AtomicUsize,
}

impl Counting {
    fn new(change: impl FnOnce(&mut Capabilities)) -> Arc<Self> {
        let mut capabilities = Capabilities::none();
        capabilities.kv = true;
        change(&mut capabilities);
        Arc::new(Self { capabilities, reached: AtomicUsize::new(0) })
    }

    fn reach(&self) {
        self.reached.fetch_add(1, Ordering::Relaxed);
    }

    fn reached(&self) -> usize {
        self.reached.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Provider for Counting {
    fn name(&self) -> &str {
        "counting"
    }
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }
    fn backend(&self) -> Option<&dyn Backend> {
        Some(self)
    }
    async fn health(&self) -> Result<Health> {
        Ok(Health::new(HealthStatus::Ok, "counts"))
    }
    fn figures(&self) -> Vec<Figure> {
        vec![Figure::gauge("counting_calls", "Calls.", 7)]
    }
    async fn end_run(&self, _: &TenantId, _: &ScopeId) -> Result<()> {
        self.reach();
        Ok(())
    }
    async fn close(&self) -> Result<()> {
        self.reach();
        Ok(())
    }
}

#[async_trait]
impl Backend for Counting {
    async fn get(&self, _: &Scope, key: &Key, _: GetOptions) -> Result<Option<Entry>> {
        self.reach();
        Ok(Some(Entry::new(key.clone(), Json::null(), 1, Timestamp::EPOCH)))
    }
    async fn get_many(&self, _: &Scope, keys: &[Key], _: GetOptions) -> Result<Vec<Option<Entry>>> {
        self.reach();
        Ok(vec![None; keys.len()])
    }
    async fn set(&self, _: &Scope, _: &Key, _: Json, _: SetOptions) -> Result<SetOutcome> {
        self.reach();
        Ok(SetOutcome::new(1, true, true, None))
    }
    async fn delete(&self, _: &Scope, _: &Key, _: DeleteOptions) -> Result<DeleteOutcome> {
        self.reach();
        Ok(DeleteOutcome::new(false))
    }
    async fn list(&self, _: &Scope, _: ListQuery) -> Result<Page> {
        self.reach();
        Ok(Page::new(Vec::new(), None))
    }
    async fn increment(&self, _: &Scope, _: &Key, delta: i64, _: UpdateOptions) -> Result<IncrementOutcome> {
        self.reach();
        Ok(IncrementOutcome::new(delta, 1, None))
    }
    async fn update(&self, _: &Scope, _: &Key, _: Reducer, _: UpdateOptions) -> Result<UpdateOutcome> {
        self.reach();
        Ok(UpdateOutcome::new(Json::null(), 1, None))
    }
    async fn bulk_insert(&self, _: &Scope, _: Vec<NewEntry>, _: BulkOptions) -> Result<Vec<SetOutcome>> {
        self.reach();
        Ok(Vec::new())
    }
    async fn search(&self, _: &Scope, query: SearchQuery) -> Result<SearchResults> {
        self.reach();
        Ok(SearchResults::new(Vec::new(), query.mode))
    }
    async fn stats(&self, _: &Scope) -> Result<ScopeStats> {
        self.reach();
        Ok(ScopeStats::default())
    }
    async fn reembed(&self, _: &Scope, _: ReembedOptions) -> Result<ReembedOutcome> {
        self.reach();
        Ok(ReembedOutcome::default())
    }
    async fn scopes(&self, _: &TenantId, _: ScopesQuery) -> Result<ScopePage> {
        self.reach();
        Ok(ScopePage::new(Vec::new(), None))
    }
    async fn drop_scope(&self, _: &Scope) -> Result<DropOutcome> {
        self.reach();
        Ok(DropOutcome::default())
    }
    async fn export_scope(&self, _: &Scope) -> Result<RecordStream> {
        self.reach();
        Err(memory_core::Error::internal("not asked for"))
    }
    async fn import_scope(&self, _: &Scope, _: RecordStream, _: ImportOptions) -> Result<ImportOutcome> {
        self.reach();
        Ok(ImportOutcome::default())
    }
}

pub(crate) fn scope() -> Scope {
    Scope::agent("t", "a").unwrap()
}

pub(crate) fn key() -> Key {
    Key::new("k").unwrap()
}

#[test]
fn a_provider_that_contradicts_itself_is_not_opened() {
    for (what, change) in [
        ("a layer it does not have", (|c: &mut Capabilities| c.memory_layer = true) as fn(&mut Capabilities)),
        ("a backend it hides", |c| c.kv = false),
        ("sql without a dialect", |c| c.sql = true),
        ("vectors nobody computes", |c| c.vector_search = true),
    ] {
        let error = Checked::new(Counting::new(change)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal, "{what}");
    }
}

/// Healthy, and useless.
#[derive(Debug)]
struct Bare;

#[async_trait]
impl Provider for Bare {
    fn name(&self) -> &str {
        "bare"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::none()
    }
    async fn health(&self) -> Result<Health> {
        Ok(Health::new(HealthStatus::Ok, "nothing can go wrong"))
    }
    async fn end_run(&self, _: &TenantId, _: &ScopeId) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_provider_without_any_facet_is_not_opened() {
    let error = Checked::new(Bare).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.message().contains("`bare`") && error.message().contains("no facet"), "{error}");
}

#[test]
fn figures_pass_through_whatever_stands_around_a_provider() {
    let inner: Box<dyn Provider> = Box::new(Counting::new(|_| {}));
    let shared: Arc<dyn Provider> = Arc::new(Checked::new(inner).unwrap());
    assert_eq!(Checked::new(shared).unwrap().figures(), [Figure::gauge("counting_calls", "Calls.", 7)]);
}

#[test]
fn what_is_not_advertised_never_reaches_the_provider() {
    let inner = Counting::new(|_| {});
    let checked = Checked::new(inner.clone()).unwrap();
    let set = |options| now(checked.set(&scope(), &key(), Json::null(), options)).unwrap_err();
    for (error, kind) in [
        (now(checked.stats(&scope())).unwrap_err(), ErrorKind::Unsupported),
        (now(checked.search(&scope(), SearchQuery::new("x"))).unwrap_err(), ErrorKind::Unsupported),
        (
            now(checked.search(&scope(), SearchQuery::new("x").with_mode(SearchMode::Vector))).unwrap_err(),
            ErrorKind::VectorUnsupported,
        ),
        (
            now(checked.reembed(&scope(), ReembedOptions::default())).unwrap_err(),
            ErrorKind::VectorUnsupported,
        ),
        (set(SetOptions::default().with_expect(Expect::Absent)), ErrorKind::Unsupported),
        (
            set(SetOptions::default().with_quota(Quota { max_entries: Some(1), max_bytes: None })),
            ErrorKind::Unsupported,
        ),
        (set(SetOptions::default().with_embed(Embed::Always)), ErrorKind::VectorUnsupported),
    ] {
        assert_eq!(error.kind(), kind);
        assert_eq!(error.details()["provider"], "counting");
    }
    assert_eq!(inner.reached(), 0);
    assert!(checked.layer().is_none() && checked.sql().is_none());
}

#[test]
fn the_facets_it_lacks_are_refused_by_name() {
    let checked = Checked::new(Counting::new(|_| {})).unwrap();
    let run =
        RunContext::new(TenantId::new("t").unwrap(), ScopeId::new("a").unwrap(), ScopeId::new("r").unwrap());
    let error = now(checked.recall(&run, &scope(), memory_core::layer::RecallQuery::new("x"))).unwrap_err();
    assert_eq!(error.details()["operation"], "recall");
    let error =
        now(checked.query(&run, &scope(), "SELECT 1", &[], memory_core::sql::StatementOptions::default()))
            .unwrap_err();
    assert_eq!(error.details()["operation"], "query");
}

#[test]
fn arguments_are_judged_before_the_provider_sees_them() {
    let inner = Counting::new(|c| {
        c.lexical_search = true;
        c.max_value_bytes = 8;
    });
    let checked = Checked::new(inner.clone()).unwrap();
    let kinds = [
        now(checked.set(&scope(), &key(), Json::string("1234567"), SetOptions::default())).unwrap_err(),
        now(checked.list(&scope(), ListQuery::default().with_limit(0))).unwrap_err(),
        now(checked.list(&scope(), ListQuery::default().with_limit(1_001))).unwrap_err(),
        now(checked.search(&scope(), SearchQuery::new(" "))).unwrap_err(),
        now(checked.search(&scope(), SearchQuery::new("x").with_threshold(f64::NAN))).unwrap_err(),
        now(checked.get_many(&scope(), &vec![key(); 1_001], GetOptions::default())).unwrap_err(),
    ]
    .map(|error| error.kind());
    use ErrorKind::{InvalidArgument, TooLarge};
    assert_eq!(kinds, [TooLarge, InvalidArgument, TooLarge, InvalidArgument, InvalidArgument, TooLarge]);
    assert_eq!(inner.reached(), 0);

    let results = now(checked.search(&scope(), SearchQuery::new("x"))).unwrap();
    assert_eq!(results.mode, SearchMode::Lexical, "Auto is decided before the provider is asked");
    assert_eq!(inner.reached(), 1);
}

#[test]
fn closing_passes_through_every_wrapper() {
    let inner = Counting::new(|_| {});
    let pointed: Box<dyn Provider> = Box::new(inner.clone());
    let interposed = Interposed::new(Arc::new(pointed), Swap);
    now(Checked::new(interposed).unwrap().close()).unwrap();
    assert_eq!(inner.reached(), 1);
}

#[derive(Debug)]
struct Swap;

#[async_trait]
impl Hook for Swap {
    async fn around(&self, request: Request, next: Next<'_>) -> Result<Reply> {
        match request.op() {
            // Answers one operation with another's reply: a bug in the hook.
            Op::Stats => Ok(Reply::EndRun(())),
            // Runs the same request twice.
            Op::DropScope => {
                let scope = request.scope().cloned().unwrap();
                next.run(request).await?;
                next.run(Request::DropScope { scope }).await
            }
            _ => next.run(request).await,
        }
    }
}

#[test]
fn a_hook_may_repeat_a_call_but_not_answer_another() {
    let inner = Counting::new(|_| {});
    let interposed = Interposed::new(inner.clone(), Swap);
    assert_eq!(now(interposed.stats(&scope())).unwrap_err().kind(), ErrorKind::Internal);
    now(interposed.drop_scope(&scope())).unwrap();
    assert_eq!(inner.reached(), 2);
    assert!(interposed.backend().is_some() && interposed.layer().is_none());
}

#[test]
fn operations_have_distinct_names_over_all_facets() {
    let names: std::collections::BTreeSet<_> = Op::ALL.iter().map(|op| op.as_str()).collect();
    assert_eq!(names.len(), Op::ALL.len());
}

#[test]
fn pointers_to_providers_and_backends_are_providers_and_backends() {
    let inner = Counting::new(|_| {});
    let boxed: Box<dyn Provider> = Box::new(inner.clone());
    let checked = Checked::new(Arc::new(boxed)).unwrap();
    assert!(now(checked.get(&scope(), &key(), GetOptions::default())).unwrap().is_some());
    let backend: Box<dyn Backend> = Box::new(inner.clone());
    assert!(now(Arc::new(backend).get(&scope(), &key(), GetOptions::default())).unwrap().is_some());
    assert_eq!(inner.reached(), 2);
}
