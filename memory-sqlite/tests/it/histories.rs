//! Random histories give the same results as the plain in-memory reference, search scores included: without an
//! embedder, and with one that sometimes fails and changes its model.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::files::place;
use crate::support::{Store, TestClock, block_on, collect, fast, json, key};
use memory_conformance::{EmbedFault, Reference, TestEmbedder};
use memory_core::entry::value_sha256;
use memory_core::{
    Backend, BulkOptions, Checked, Dedup, DedupPolicy, DeleteOptions, Embed, Entry, Error, ErrorKind, Expect,
    Field, Filter, Fusion, GetOptions, ImportOptions, ListQuery, Metadata, NewEntry, OnExisting,
    Provider as _, Quota, RankOptions, Reducer, ReembedOptions, Result, Scalar, Scope, ScopesQuery,
    SearchMode, SearchQuery, SetOptions, Source, TenantId, Ttl, UpdateOptions,
};
use proptest::prelude::*;
use proptest::sample::select;

const KEYS: [&str; 6] = ["a", "a/b", "a/b%", "A", "ключ", "a\u{10ffff}"];
const PREFIXES: [&str; 5] = ["", "a", "a/", "A", "absent"];
const VALUES: [&str; 12] = [
    "1",
    "-7",
    "1.0",
    "9223372036854775807",
    "null",
    "\"oolong tea from Taiwan\"",
    "\"green tea; GREEN leaves\"",
    "{\"likes\": \"oolong\", \"since\": 2019}",
    "{\"since\":2020,\"nested\":{\"tea\":[1,2]}}",
    "[]",
    "[1, \"tea\", {\"a\":1}]",
    // Long enough to be stored outside its row.
    "\"LONG\"",
];
/// The embedder's models. The first and the last differ only in dimensions.
const MODELS: [(&str, usize); 3] = [("one", 8), ("other", 5), ("one", 6)];
const FAULTS: [Option<EmbedFault>; 4] = [
    None,
    None,
    Some(EmbedFault::Error(ErrorKind::Unavailable)),
    Some(EmbedFault::Error(ErrorKind::TooLarge)),
];
const WORDS: [&str; 7] = ["tea", "oolong", "green tea", "since 2019", "taiwan TEA oolong", "absent", "!?"];

fn value(index: usize) -> String {
    match VALUES[index] {
        "\"LONG\"" => format!("\"{} oolong\"", "tea leaves and water ".repeat(80)),
        text => text.to_owned(),
    }
}

/// A precondition relative to what is stored at that point.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Any,
    Absent,
    Current,
    Stale,
    Hash(usize),
}

#[derive(Clone, Debug)]
struct Write {
    key: usize,
    value: usize,
    metadata: usize,
    source: Option<&'static str>,
    text: Option<&'static str>,
    ttl: Ttl,
    wanted: Wanted,
    quota: Quota,
    embed: Embed,
}

#[derive(Clone, Debug)]
enum Step {
    Set(Write),
    Bulk(Vec<Write>, Quota),
    Delete(usize, Wanted),
    Increment(usize, i64, Ttl),
    Update(usize, Reducer, Ttl),
    Get(usize),
    GetMany(Vec<usize>),
    List(&'static str, usize, Option<Filter>),
    Search {
        words: &'static str,
        prefix: &'static str,
        filter: Option<Filter>,
        top_k: usize,
        rank: RankOptions,
        threshold: f64,
        mode: SearchMode,
        dedup: Option<Dedup>,
    },
    Reembed(usize, bool),
    /// From now on the embedder fails in this way, or works again.
    Fail(Option<EmbedFault>),
    /// From now on the embedder has this model.
    Model(usize),
    Stats,
    Scopes,
    Drop,
    Copy(OnExisting),
    Advance(u64),
    Sweep,
    Reopen,
}

fn ttls() -> impl Strategy<Value = Ttl> {
    prop_oneof![
        3 => Just(Ttl::Keep),
        1 => Just(Ttl::Never),
        3 => select(&[1_u64, 10, 1_000]).prop_map(|ms| Ttl::After(Duration::from_millis(ms))),
    ]
}

fn quotas() -> impl Strategy<Value = Quota> {
    prop_oneof![
        4 => Just(Quota::default()),
        1 => (1..4_u64, 10..4_000_u64)
            .prop_map(|(entries, bytes)| Quota { max_entries: Some(entries), max_bytes: Some(bytes) }),
    ]
}

fn wanted() -> impl Strategy<Value = Wanted> {
    prop_oneof![
        4 => Just(Wanted::Any),
        1 => Just(Wanted::Absent),
        2 => Just(Wanted::Current),
        1 => Just(Wanted::Stale),
        1 => (0..VALUES.len()).prop_map(Wanted::Hash),
    ]
}

fn writes() -> impl Strategy<Value = Write> {
    (
        0..KEYS.len(),
        0..VALUES.len(),
        0..4_usize,
        select(&[None, Some("chat"), Some("tool:web")]),
        select(&[None, None, Some("explicit oolong text")]),
        ttls(),
        wanted(),
        quotas(),
        select(&[Embed::Auto, Embed::Auto, Embed::Always, Embed::Never]),
    )
        .prop_map(|(key, value, metadata, source, text, ttl, wanted, quota, embed)| Write {
            key,
            value,
            metadata,
            source,
            text,
            ttl,
            wanted,
            quota,
            embed,
        })
}

fn filters() -> impl Strategy<Value = Option<Filter>> {
    let city = || Field::Metadata("city".to_owned());
    let number = || Field::Metadata("n".to_owned());
    prop_oneof![
        3 => Just(None),
        1 => Just(Some(Filter::Eq(city(), "Oslo".into()))),
        1 => Just(Some(Filter::Gt(number(), Scalar::Int(1)))),
        1 => Just(Some(Filter::Not(Box::new(Filter::Exists(city()))))),
        1 => Just(Some(Filter::Eq(Field::Source, "chat".into()))),
    ]
}

fn reducers() -> impl Strategy<Value = Reducer> {
    let patch = || (0..VALUES.len()).prop_map(|index| json(&value(index)));
    prop_oneof![
        patch().prop_map(Reducer::Merge),
        patch().prop_map(Reducer::AppendDedupe),
        (patch(), 1..4_usize).prop_map(|(item, limit)| Reducer::BoundedList { item, limit }),
    ]
}

fn ranks() -> impl Strategy<Value = RankOptions> {
    let weights = select(&[(0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.0, 2.0, 0.0), (0.3, 1.0, 0.7)]);
    let fusions = select(&[
        Fusion::Weighted { vector: 0.5 },
        Fusion::Weighted { vector: 0.9 },
        Fusion::ReciprocalRank { k: 60 },
    ]);
    (weights, fusions).prop_map(|((recency, source, frequency), fusion)| RankOptions {
        recency,
        fusion,
        half_life_seconds: 1.0,
        source,
        source_weights: [("chat".to_owned(), 1.0)].into(),
        frequency,
        ..RankOptions::default()
    })
}

fn searches() -> impl Strategy<Value = Step> {
    let modes = select(&[SearchMode::Lexical, SearchMode::Vector, SearchMode::Hybrid, SearchMode::Auto]);
    let dedups = prop_oneof![
        3 => Just(None),
        1 => (select(&[0.0, 0.5, 0.99]), select(&[DedupPolicy::Drop, DedupPolicy::Merge, DedupPolicy::Keep]))
            .prop_map(|(threshold, policy)| Some(Dedup { threshold, policy })),
    ];
    let thresholds = select(&[0.0, 0.0, 0.3]);
    (select(&WORDS), select(&PREFIXES), filters(), 1..5_usize, ranks(), thresholds, modes, dedups).prop_map(
        |(words, prefix, filter, top_k, rank, threshold, mode, dedup)| Step::Search {
            words,
            prefix,
            filter,
            top_k,
            rank,
            threshold,
            mode,
            dedup,
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS.len();
    prop_oneof![
        8 => writes().prop_map(Step::Set),
        2 => (prop::collection::vec(writes(), 0..5), quotas()).prop_map(|(writes, quota)| Step::Bulk(writes, quota)),
        3 => (key(), wanted()).prop_map(|(key, wanted)| Step::Delete(key, wanted)),
        2 => (key(), select(&[1, -3, i64::MAX, 0]), ttls()).prop_map(|(key, delta, ttl)| Step::Increment(key, delta, ttl)),
        2 => (key(), reducers(), ttls()).prop_map(|(key, reducer, ttl)| Step::Update(key, reducer, ttl)),
        3 => key().prop_map(Step::Get),
        // It is unspecified whether a key's second mention shows the access of the first.
        1 => prop::collection::btree_set(key(), 0..5).prop_map(|keys| Step::GetMany(keys.into_iter().collect())),
        2 => (select(&PREFIXES), 1..5_usize, filters()).prop_map(|(prefix, limit, filter)| Step::List(prefix, limit, filter)),
        6 => searches(),
        1 => (1..5_usize, any::<bool>()).prop_map(|(limit, dry_run)| Step::Reembed(limit, dry_run)),
        1 => select(&FAULTS).prop_map(Step::Fail),
        1 => (0..MODELS.len()).prop_map(Step::Model),
        1 => Just(Step::Stats),
        1 => Just(Step::Scopes),
        1 => Just(Step::Drop),
        1 => select(&[OnExisting::Skip, OnExisting::Replace, OnExisting::Fail]).prop_map(Step::Copy),
        3 => select(&[1_u64, 9, 500, 2_000]).prop_map(Step::Advance),
        1 => Just(Step::Sweep),
        1 => Just(Step::Reopen),
    ]
}

/// The part of a result on which two stores must agree. Messages may differ.
fn answer<T: Debug>(result: Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => refusal(&error),
    }
}

fn refusal(error: &Error) -> String {
    format!("{} {:?}", error.kind(), error.details())
}

fn options(write: &Write, expect: Expect) -> SetOptions {
    let metadata = match write.metadata {
        0 => Metadata::new(),
        1 => Metadata::new().with("city", "Oslo").with("n", 1),
        2 => Metadata::new().with("city", "Bergen").with("n", 1.5),
        _ => Metadata::new().with("n", 9_007_199_254_740_993).with("yes", true),
    };
    let mut options = SetOptions::default().with_metadata(metadata).with_ttl(write.ttl).with_expect(expect);
    options.source = write.source.map(|label| Source::new(label).unwrap());
    options.text = write.text.map(str::to_owned);
    options.quota = write.quota;
    options.embed = write.embed;
    options
}

fn expect(wanted: Wanted, stored: Option<&Entry>) -> Expect {
    match wanted {
        Wanted::Any => Expect::Any,
        Wanted::Absent => Expect::Absent,
        Wanted::Current => stored.map_or(Expect::Absent, |entry| Expect::Version(entry.version)),
        Wanted::Stale => Expect::Version(stored.map_or(1, |entry| entry.version.saturating_sub(1).max(1))),
        Wanted::Hash(index) => Expect::Sha256(value_sha256(&json(&value(index)))),
    }
}

/// Runs one step on one store; returns its result.
async fn take(
    kv: &dyn Backend,
    scope: &Scope,
    other: &Scope,
    step: &Step,
    stored: &[Option<Entry>],
) -> String {
    match step {
        Step::Set(write) => {
            let options = options(write, expect(write.wanted, stored[write.key].as_ref()));
            answer(kv.set(scope, &key(KEYS[write.key]), json(&value(write.value)), options).await)
        }
        Step::Bulk(writes, quota) => {
            let items = writes.iter().map(|write| NewEntry {
                options: options(write, expect(write.wanted, stored[write.key].as_ref())),
                ..NewEntry::new(key(KEYS[write.key]), json(&value(write.value)))
            });
            answer(kv.bulk_insert(scope, items.collect(), BulkOptions::default().with_quota(*quota)).await)
        }
        Step::Delete(index, wanted) => {
            let options = DeleteOptions::expecting(expect(*wanted, stored[*index].as_ref()));
            answer(kv.delete(scope, &key(KEYS[*index]), options).await)
        }
        Step::Increment(index, delta, ttl) => {
            let options = UpdateOptions::default().with_ttl(*ttl);
            answer(kv.increment(scope, &key(KEYS[*index]), *delta, options).await)
        }
        Step::Update(index, reducer, ttl) => {
            let options = UpdateOptions::default().with_ttl(*ttl);
            answer(kv.update(scope, &key(KEYS[*index]), reducer.clone(), options).await)
        }
        Step::Get(index) => answer(kv.get(scope, &key(KEYS[*index]), GetOptions::default()).await),
        Step::GetMany(indexes) => {
            let keys: Vec<_> = indexes.iter().map(|index| key(KEYS[*index])).collect();
            answer(kv.get_many(scope, &keys, GetOptions::default()).await)
        }
        Step::List(prefix, limit, filter) => list(kv, scope, prefix, *limit, filter.as_ref()).await,
        Step::Search { words, prefix, filter, top_k, rank, threshold, mode, dedup } => {
            let mut query = SearchQuery::new(*words)
                .with_mode(*mode)
                .with_prefix(*prefix)
                .with_top_k(*top_k)
                .with_rank(rank.clone())
                .with_threshold(*threshold);
            (query.filter, query.dedup) = (filter.clone(), *dedup);
            let found = kv.search(scope, query).await.map(|found| {
                let hits = found
                    .hits
                    .into_iter()
                    .map(|hit| (format!("{:.12} {:.12}", hit.score, hit.rank_score), hit.entry, hit.merged));
                (hits.collect::<Vec<_>>(), found.mode, found.duplicates)
            });
            answer(found)
        }
        Step::Stats => answer(kv.stats(scope).await),
        Step::Scopes => answer(kv.scopes(&TenantId::new("acme").unwrap(), ScopesQuery::default()).await),
        Step::Drop => answer(kv.drop_scope(scope).await),
        Step::Copy(on_existing) => {
            let first = import(kv, scope, other, OnExisting::Fail).await;
            let again = import(kv, scope, other, *on_existing).await;
            format!("{first} {again} {}", list(kv, other, "", 100, None).await)
        }
        Step::Reembed(limit, dry_run) => {
            let mut options = ReembedOptions::default();
            (options.limit, options.dry_run) = (*limit, *dry_run);
            answer(kv.reembed(scope, options).await)
        }
        Step::Advance(_) | Step::Sweep | Step::Reopen | Step::Fail(_) | Step::Model(_) => String::new(),
    }
}

/// Imports one scope's records into another.
async fn import(kv: &dyn Backend, from: &Scope, to: &Scope, on_existing: OnExisting) -> String {
    let records = collect(kv.export_scope(from).await.unwrap()).await;
    let exported = format!("{records:?}");
    let options = ImportOptions::default().with_on_existing(on_existing);
    format!("{exported} {}", answer(kv.import_scope(to, crate::support::stream(records), options).await))
}

/// All pages of a listing.
async fn list(
    kv: &dyn Backend,
    scope: &Scope,
    prefix: &str,
    limit: usize,
    filter: Option<&Filter>,
) -> String {
    let (mut pages, mut cursor) = (String::new(), None);
    loop {
        let mut query = ListQuery::prefix(prefix).with_limit(limit).with_cursor(cursor);
        query.filter = filter.cloned();
        match kv.list(scope, query).await {
            Ok(page) => {
                pages += &format!("{:?};", page.entries);
                match page.next {
                    Some(next) => cursor = Some(next),
                    None => return pages,
                }
            }
            Err(error) => return pages + &refusal(&error),
        }
    }
}

/// Settings of a history.
#[derive(Clone, Copy, Debug)]
struct Setting {
    in_memory: bool,
    /// Without memory for an index, a search reads the scope.
    words_indexed: bool,
    vectors_indexed: bool,
    embeds: bool,
}

impl Setting {
    fn open(self, path: &Path, clock: &Arc<TestClock>, embedder: Arc<TestEmbedder>) -> Store {
        let config = fast()
            .with_search_index_bytes(if self.words_indexed { 1 << 20 } else { 0 })
            .with_vector_index_bytes(if self.vectors_indexed { 1 << 20 } else { 0 });
        let path = (!self.in_memory).then_some(path);
        match (self.embeds, path) {
            (true, path) => Store::embedding(path, config, clock.clone(), embedder),
            (false, Some(path)) => Store::open_at(path, config, clock.clone()),
            (false, None) => Store::in_memory_at(config, clock.clone()),
        }
        .unwrap()
    }

    fn reference(self, reference: &Reference, embedder: Arc<TestEmbedder>) -> Checked<Reference> {
        let reference = reference.clone();
        Checked::new(if self.embeds { reference.with_embedder(embedder) } else { reference }).unwrap()
    }

    /// Without an embedder, leaves out what needs one.
    fn adapt(self, step: &Step) -> Step {
        let mut step = step.clone();
        if !self.embeds {
            match &mut step {
                Step::Set(write) => write.embed = Embed::Auto,
                Step::Bulk(writes, _) => writes.iter_mut().for_each(|write| write.embed = Embed::Auto),
                Step::Search { mode, .. } => *mode = SearchMode::Lexical,
                Step::Reembed(..) => step = Step::Stats,
                _ => {}
            }
        }
        step
    }
}

fn run(history: &[(bool, Step)], setting: Setting) -> std::result::Result<(), TestCaseError> {
    let clock = TestClock::new();
    let plain = Reference::new(Arc::clone(&clock) as Arc<_>);
    let (_folder, path) = place();
    let (mut model, mut fault) = (0, None);
    let embedder = |model: usize, fault| {
        let (name, dimensions) = MODELS[model];
        let embedder = Arc::new(TestEmbedder::named(name, dimensions));
        embedder.fail_always(fault);
        embedder
    };
    let mut expecting = embedder(model, fault);
    let mut embedding = embedder(model, fault);
    let mut reference = setting.reference(&plain, expecting.clone());
    let mut store = setting.open(&path, &clock, embedding.clone());
    let scopes = [crate::support::agent("one"), Scope::user("acme", "two").unwrap()];
    for (number, (second, step)) in history.iter().enumerate() {
        let (scope, step) = (&scopes[usize::from(*second)], &setting.adapt(step));
        // Versions survive only an import into a scope that was never written.
        let other = crate::support::agent(&format!("copy {number}"));
        match step {
            Step::Advance(ms) => clock.advance(Duration::from_millis(*ms)),
            Step::Sweep => drop(block_on(store.provider.sweep()).unwrap()),
            Step::Reopen if !setting.in_memory => {
                store.close();
                store = setting.open(&path, &clock, embedding.clone());
            }
            Step::Fail(now) => {
                fault = *now;
                expecting.fail_always(fault);
                embedding.fail_always(fault);
            }
            Step::Model(now) if !setting.in_memory => {
                model = *now;
                (expecting, embedding) = (embedder(model, fault), embedder(model, fault));
                reference = setting.reference(&plain, expecting.clone());
                store.close();
                store = setting.open(&path, &clock, embedding.clone());
            }
            _ => {}
        }
        // Preconditions depend on what is stored; the reference tells, without counting an access.
        let oracle = reference.backend().unwrap();
        let keys = KEYS.map(key);
        let stored = block_on(oracle.get_many(scope, &keys, GetOptions::uncounted())).unwrap();
        let expected = block_on(take(oracle, scope, &other, step, &stored));
        let found = block_on(take(store.backend(), scope, &other, step, &stored));
        prop_assert_eq!(found, expected, "step {}: {:?}", number, step);
    }
    for on_existing in [OnExisting::Skip, OnExisting::Replace] {
        merge(reference.backend().unwrap(), store.backend(), &scopes, on_existing)?;
    }
    Ok(())
}

/// Imports one scope into another that has its own versions; which new versions it assigns is up to each store.
fn merge(
    oracle: &dyn Backend,
    store: &dyn Backend,
    [from, to]: &[Scope; 2],
    on_existing: OnExisting,
) -> std::result::Result<(), TestCaseError> {
    let keys = KEYS.map(key);
    let read = |kv: &dyn Backend| block_on(kv.get_many(to, &keys, GetOptions::uncounted())).unwrap();
    let before = read(store);
    let expected = block_on(import(oracle, from, to, on_existing));
    let found = block_on(import(store, from, to, on_existing));
    prop_assert_eq!(found.split("] ").last(), expected.split("] ").last(), "merging with {:?}", on_existing);
    for ((before, mut found), mut expected) in before.into_iter().zip(read(store)).zip(read(oracle)) {
        if let (Some(before), Some(found)) = (&before, &found) {
            prop_assert!(found.version > before.version || found == before);
        }
        for entry in [&mut found, &mut expected].into_iter().flatten() {
            entry.version = 0;
        }
        prop_assert_eq!(found, expected, "after merging with {:?}", on_existing);
    }
    Ok(())
}

/// `PROPTEST_CASES` asks for more.
fn cases(default: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default);
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn histories() -> impl Strategy<Value = Vec<(bool, Step)>> {
    prop::collection::vec((any::<bool>(), steps()), 1..60)
}

fn settings(in_memory: bool) -> impl Strategy<Value = Setting> {
    (any::<bool>(), any::<bool>(), prop::bool::weighted(0.7)).prop_map(
        move |(words_indexed, vectors_indexed, embeds)| Setting {
            in_memory,
            words_indexed,
            vectors_indexed,
            embeds,
        },
    )
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn a_database_in_memory_answers_as_the_reference(history in histories(), setting in settings(true)) {
        run(&history, setting)?;
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_database_file_answers_as_the_reference(history in histories(), setting in settings(false)) {
        run(&history, setting)?;
    }
}
