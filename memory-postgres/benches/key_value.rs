//! What the key/value facet costs compared with the bare driver: the same statements on the same server, side by side.
//!
//! `MEMORY_TEST_POSTGRES_URL=… cargo bench -p memory-postgres --bench key_value [-- list get bulk search]`. Every
//! figure is the median of several rounds, in which the two take turns; ratios are relative to the named floor.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::disallowed_methods,
    missing_docs
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Instant;

use memory_core::{
    BulkOptions, Checked, EmbedRole, Embedder, EmbeddingModel, Field, Filter, GetOptions, Json, Key,
    ListQuery, Metadata, NewEntry, Provider, Result, Scalar, Scope, SearchMode, SearchQuery, SetOptions,
    async_trait,
};
use memory_postgres::PostgresProvider;
use support::Database;
use tokio_postgres::{Client, Statement};

const ENTRIES: usize = 100_000;
const VECTORS: usize = 50_000;
const DIMENSIONS: usize = 384;
const ROUNDS: usize = 7;

/// A scope's entries by key, as the product reads them.
const ROWS: &str = "SELECT e.space, e.born, e.key, e.version, e.created_at, e.updated_at, e.expires_at, e.accesses, e.source, \
     e.metadata::text, e.text, e.value FROM memory.entry e WHERE e.tenant = $1 AND e.space = (SELECT s.space FROM memory.scope s \
     WHERE s.tenant = $1 AND s.kind = 0 AND s.name = $2) AND e.key";

async fn prepare_get(client: &Client) -> Statement {
    client.prepare(&format!("{ROWS} = $3")).await.unwrap()
}

#[derive(Debug)]
struct Directions(EmbeddingModel);

/// A direction derived from the text alone, near those with the same topic (the first word).
fn direction(text: &str) -> Vec<f32> {
    let hash = |text: &str| {
        text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    };
    let numbers = |seed: u64| {
        let mut state = seed | 1;
        (0..DIMENSIONS)
            .map(move |_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
            })
            .collect::<Vec<f32>>()
    };
    let topic = numbers(hash(text.split(' ').next().unwrap_or_default()));
    let own = numbers(hash(text));
    topic.iter().zip(own).map(|(a, b)| a + 0.7 * b).collect()
}

#[async_trait]
impl Embedder for Directions {
    fn model(&self) -> &EmbeddingModel {
        &self.0
    }

    async fn embed(&self, texts: &[&str], _: EmbedRole) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| direction(text)).collect())
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn key(at: usize) -> Key {
    Key::new(format!("entry/{at:06}")).unwrap()
}

fn value(at: usize) -> Json {
    Json::string(&format!(
        "{at} {}",
        "the quick brown fox jumps over the lazy dog ".repeat(5).chars().take(190).collect::<String>()
    ))
}

async fn load(client: &Client) -> String {
    let row = client
        .query_one("SELECT current_setting('server_version'), current_setting('shared_buffers')", &[])
        .await
        .unwrap();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "PostgreSQL {}, shared_buffers {}, load {}",
        row.get::<_, String>(0),
        row.get::<_, String>(1),
        load.trim()
    )
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(database) = Database::fresh().await else { return };
        let raw = database.client().await;
        println!("{}", load(&raw).await);
        let config = database.config().with_pool_size(8);
        let model =
            EmbeddingModel { provider: "bench".into(), model: "directions".into(), dimensions: DIMENSIONS };
        let embedder = Arc::new(Directions(model));
        let provider: Arc<dyn Provider> = Arc::new(
            Checked::new(PostgresProvider::open(config).await.unwrap().with_embedder(embedder)).unwrap(),
        );
        if wants("list") || wants("get") || wants("bulk") {
            let scope = Scope::agent("bench", "store").unwrap();
            fill(&provider, &scope, ENTRIES, false).await;
            if wants("list") {
                list(&provider, &scope, &raw).await;
            }
            raw.batch_execute("VACUUM ANALYZE").await.unwrap();
            if wants("get") {
                get_one(&provider, &scope, &raw).await;
                get_many_tasks(&provider, &scope, &database).await;
            }
            if wants("bulk") {
                bulk(&provider, &raw).await;
            }
        }
        if wants("search") {
            search(&provider, &raw).await;
        }
        drop(provider);
    });
}

async fn fill(provider: &Arc<dyn Provider>, scope: &Scope, count: usize, embed: bool) {
    let begun = Instant::now();
    for chunk in (0..count).collect::<Vec<_>>().chunks(2_000) {
        let items = chunk
            .iter()
            .map(|&at| {
                let mut item = NewEntry::new(key(at), value(at));
                item.options = SetOptions::default().with_embed(memory_core::Embed::Never);
                if embed {
                    item.options = SetOptions::default()
                        .with_text(format!("topic{} note {at}", at % 500))
                        .with_metadata(
                            Metadata::new()
                                .with("percent", i64::try_from(at % 100).unwrap())
                                .with("half", at % 2 == 0),
                        );
                }
                item
            })
            .collect();
        provider.backend().unwrap().bulk_insert(scope, items, BulkOptions::default()).await.unwrap();
    }
    println!(
        "filled {count} entries{} in {:.1} s",
        if embed { " with vectors" } else { "" },
        begun.elapsed().as_secs_f64()
    );
}

/// Pages of 100 from a scope that was just filled, compared with the same rows without a byte limit.
async fn list(provider: &Arc<dyn Provider>, scope: &Scope, raw: &Client) {
    const PAGES: usize = 50;
    let statement = raw.prepare(&format!("{ROWS} > $3 ORDER BY e.key LIMIT 100")).await.unwrap();
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..PAGES {
            let query = ListQuery::prefix("").with_limit(100);
            assert_eq!(provider.backend().unwrap().list(scope, query).await.unwrap().entries.len(), 100);
        }
        ours.push(begun.elapsed().as_secs_f64() / PAGES as f64 * 1e6);
        let begun = Instant::now();
        for _ in 0..PAGES {
            assert_eq!(raw.query(&statement, &[&"bench", &"store", &""]).await.unwrap().len(), 100);
        }
        floor.push(begun.elapsed().as_secs_f64() / PAGES as f64 * 1e6);
    }
    let (ours, floor) = (median(ours), median(floor));
    println!(
        "list 100, tables just filled: {ours:.0} µs; the same rows, raw and prepared: {floor:.0} µs, ratio {:.2}",
        ours / floor
    );
}

/// One task, one get after another.
async fn get_one(provider: &Arc<dyn Provider>, scope: &Scope, raw: &Client) {
    const GETS: usize = 2_000;
    let statement = prepare_get(raw).await;
    let plain = raw
        .prepare("SELECT value FROM memory.entry WHERE tenant = $1 AND space = 1 AND key = $2")
        .await
        .unwrap();
    let backend = provider.backend().unwrap();
    let (mut ours, mut same, mut plainest) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let at = |n: usize| (n * 7_919 + round * 31) % ENTRIES;
        let begun = Instant::now();
        for n in 0..GETS {
            let found = backend.get(scope, &key(at(n)), GetOptions::uncounted()).await.unwrap();
            assert!(found.is_some());
        }
        ours.push(begun.elapsed().as_secs_f64() / GETS as f64 * 1e6);
        let begun = Instant::now();
        for n in 0..GETS {
            let key = key(at(n));
            let rows = raw.query(&statement, &[&"bench", &"store", &key.as_str()]).await.unwrap();
            assert_eq!(rows.len(), 1);
        }
        same.push(begun.elapsed().as_secs_f64() / GETS as f64 * 1e6);
        let begun = Instant::now();
        for n in 0..GETS {
            let key = key(at(n));
            raw.query(&plain, &[&"bench", &key.as_str()]).await.unwrap();
        }
        plainest.push(begun.elapsed().as_secs_f64() / GETS as f64 * 1e6);
    }
    let (ours, same, plain) = (median(ours), median(same), median(plainest));
    println!(
        "get, 1 task: {ours:.0} µs; the same statement, raw and prepared: {same:.0} µs, ratio {:.2}; \
         the value alone by primary key: {plain:.0} µs, ratio {:.2} (target 1.2)",
        ours / same,
        ours / plain
    );
}

/// 64 tasks at once, compared with 64 pipelined on one connection, and with a pool of 8.
async fn get_many_tasks(provider: &Arc<dyn Provider>, scope: &Scope, database: &Database) {
    const GETS: usize = 300;
    let mut clients = Vec::new();
    for _ in 0..8 {
        let client = database.client().await;
        let statement = prepare_get(&client).await;
        clients.push((Arc::new(client), statement));
    }
    let (mut ours, mut pipelined, mut pooled) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let at = move |task: usize, n: usize| (n * 7_919 + task * 131 + round * 31) % ENTRIES;
        let begun = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..64 {
            let (provider, scope) = (Arc::clone(provider), scope.clone());
            tasks.spawn(async move {
                for n in 0..GETS {
                    let backend = provider.backend().unwrap();
                    let found =
                        backend.get(&scope, &key(at(task, n)), GetOptions::uncounted()).await.unwrap();
                    assert!(found.is_some());
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        ours.push((64 * GETS) as f64 / begun.elapsed().as_secs_f64());
        for (figures, connections) in [(&mut pipelined, 1), (&mut pooled, 8)] {
            let begun = Instant::now();
            let mut tasks = tokio::task::JoinSet::new();
            for task in 0..64 {
                let (client, statement) = clients[task % connections].clone();
                tasks.spawn(async move {
                    for n in 0..GETS {
                        let key = key(at(task, n));
                        let rows =
                            client.query(&statement, &[&"bench", &"store", &key.as_str()]).await.unwrap();
                        assert_eq!(rows.len(), 1);
                    }
                });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
            figures.push((64 * GETS) as f64 / begun.elapsed().as_secs_f64());
        }
    }
    let (ours, pipelined, pooled) = (median(ours), median(pipelined), median(pooled));
    println!(
        "get, 64 tasks: {ours:.0}/s; raw, pipelined on one connection {pipelined:.0}/s, on eight {pooled:.0}/s; \
         ratio {:.2} of the better (target .8)",
        ours / pipelined.max(pooled)
    );
}

/// 1,000 new entries at once, compared with `unnest` and COPY into a table with the same columns and indexes.
async fn bulk(provider: &Arc<dyn Provider>, raw: &Client) {
    const ROWS: usize = 1_000;
    raw.batch_execute(
        "CREATE TABLE memory.raw (LIKE memory.entry INCLUDING ALL); \
         CREATE TABLE memory.smallest (tenant text, key text, value text, PRIMARY KEY (tenant, key))",
    )
    .await
    .unwrap();
    let all = "INSERT INTO memory.raw SELECT $1, 1, k, 1, 1, 1, 1, NULL, 0, 200, 10, 1, m::bigint[], c::integer[], NULL, NULL, NULL, v \
               FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) u (k, v, m, c)";
    let least = "INSERT INTO memory.smallest SELECT $1, k, v FROM unnest($2::text[], $3::text[]) u (k, v)";
    let (all, least) = (raw.prepare(all).await.unwrap(), raw.prepare(least).await.unwrap());
    let marks: Vec<String> = (0..ROWS)
        .map(|at| {
            let marks: Vec<String> = (0..10_usize)
                .map(|n| ((at * 31 + n * 7_919) as i64).wrapping_mul(0x9e3_779b_97f4_a7c1).to_string())
                .collect();
            format!("{{{}}}", marks.join(","))
        })
        .collect();
    let counts = vec!["{1,1,1,1,1,1,1,1,1,1}"; ROWS];
    let (mut ours, mut same, mut smallest) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS * 3 {
        let scope = Scope::agent("bench", &format!("bulk{}", round % 3)).unwrap();
        let keys: Vec<String> = (0..ROWS).map(|at| format!("{round}/{at:06}")).collect();
        let values: Vec<Json> = (0..ROWS).map(value).collect();
        let items: Vec<NewEntry> = keys
            .iter()
            .zip(&values)
            .map(|(key, value)| {
                let mut item = NewEntry::new(Key::new(key.as_str()).unwrap(), value.clone());
                item.options = SetOptions::default().with_embed(memory_core::Embed::Never);
                item
            })
            .collect();
        let begun = Instant::now();
        provider.backend().unwrap().bulk_insert(&scope, items, BulkOptions::default()).await.unwrap();
        ours.push(begun.elapsed().as_secs_f64() * 1e3);
        let tenant = format!("t{}", round % 3);
        let values: Vec<&str> = values.iter().map(Json::as_str).collect();
        let begun = Instant::now();
        raw.execute(&all, &[&tenant, &keys, &values, &marks, &counts]).await.unwrap();
        same.push(begun.elapsed().as_secs_f64() * 1e3);
        let begun = Instant::now();
        raw.execute(&least, &[&tenant, &keys, &values]).await.unwrap();
        smallest.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let (ours, same, least) = (median(ours), median(same), median(smallest));
    println!(
        "bulk of 1,000: {ours:.1} ms; raw unnest into the same columns and indexes: {same:.1} ms, ratio {:.2} (target 1.2); \
         into three columns and a key: {least:.1} ms, ratio {:.2}",
        ours / same,
        ours / least
    );
}

/// Search by vectors, with filters, compared with the engine's own plans for them.
async fn search(provider: &Arc<dyn Provider>, raw: &Client) {
    let scope = Scope::agent("bench", "vectors").unwrap();
    fill(provider, &scope, VECTORS, true).await;
    raw.batch_execute(
        "CREATE TABLE memory.rawv AS SELECT e.key, (e.metadata ->> 'percent')::int AS percent, v.embedding::vector(384) AS embedding \
         FROM memory.entry e JOIN memory.vector v USING (tenant, space, key) WHERE e.tenant = 'bench'; \
         CREATE INDEX ON memory.rawv (percent)",
    )
    .await
    .unwrap();
    raw.batch_execute("VACUUM ANALYZE").await.unwrap();
    let exact = raw
        .prepare("SELECT key FROM memory.rawv WHERE percent = $2 ORDER BY embedding <=> $1::real[]::vector LIMIT 10")
        .await
        .unwrap();
    let (mut ours, mut floor, mut found, mut due) = (Vec::new(), Vec::new(), 0, 0);
    for round in 0..50_usize {
        let text = format!("topic{} question {round}", round * 7 % 500);
        let percent = (round * 13 % 100) as i32;
        let query = SearchQuery::new(text.as_str())
            .with_mode(SearchMode::Vector)
            .with_filter(Filter::Eq(Field::Metadata("percent".into()), Scalar::Int(percent.into())));
        let begun = Instant::now();
        let results = provider.backend().unwrap().search(&scope, query).await.unwrap();
        ours.push(begun.elapsed().as_secs_f64() * 1e3);
        let begun = Instant::now();
        let rows = raw.query(&exact, &[&direction(&text), &percent]).await.unwrap();
        floor.push(begun.elapsed().as_secs_f64() * 1e3);
        due += rows.len();
        found += rows
            .iter()
            .filter(|row| results.hits.iter().any(|hit| hit.entry.key.as_str() == row.get::<_, &str>(0)))
            .count();
    }
    let (ours, floor) = (median(ours), median(floor));
    println!(
        "vectors, filter of 1 % of {VECTORS}: {ours:.2} ms, recall {:.3} (target .98); exact over a btree on that very field: \
         {floor:.2} ms, ratio {:.2} (target 2)",
        found as f64 / due as f64,
        ours / floor
    );
    let mut whole = Vec::new();
    for round in 0..15_usize {
        let query =
            SearchQuery::new(format!("topic{} question", round * 7 % 500)).with_mode(SearchMode::Vector);
        let begun = Instant::now();
        provider.backend().unwrap().search(&scope, query).await.unwrap();
        whole.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    println!("vectors, no filter, {VECTORS}: {:.1} ms", median(whole));
    let mut words = Vec::new();
    for round in 0..30_usize {
        let query = SearchQuery::new(format!("topic{} note {}", round * 7 % 500, round))
            .with_mode(SearchMode::Lexical);
        let begun = Instant::now();
        provider.backend().unwrap().search(&scope, query).await.unwrap();
        words.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    println!("words, one of which every entry has, {VECTORS}: {:.1} ms", median(words));
}
