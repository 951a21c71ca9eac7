//! What the SQL facet costs compared with the bare driver: the same statements on the same server, side by side.
//!
//! `MEMORY_TEST_POSTGRES_URL=… cargo bench -p memory-postgres --bench sql [-- warm cold]`. Every figure is the median
//! of several rounds, in which the two take turns. The floor of a warm scope is the statement prepared once on a
//! driver's connection; that of a cold one is connecting as the scope's role and running one query.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    missing_docs
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use memory_core::sql::{SqlValue, StatementOptions};
use memory_core::{Checked, Provider, RunContext, Scope, ScopeId, TenantId};
use memory_postgres::PostgresProvider;
use tokio_postgres::{Client, Statement};

use self::support::sql;

const ROUNDS: i64 = 9;
/// The two take turns in slices of this many statements.
const SLICES: i64 = 10;
const TIMES: i64 = 40;
const ROWS: i64 = 1_000;

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn load() -> String {
    std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim().to_owned()
}

/// A provider, and its caller.
struct Product {
    provider: Arc<dyn Provider>,
    run: RunContext,
    options: StatementOptions,
}

impl Product {
    async fn exec(&self, scope: &Scope, text: &str, args: &[SqlValue]) -> u64 {
        let facet = self.provider.sql().unwrap();
        facet.exec(&self.run, scope, text, args, self.options.clone()).await.unwrap().rows_affected
    }

    async fn query(&self, scope: &Scope, text: &str, args: &[SqlValue]) -> usize {
        let facet = self.provider.sql().unwrap();
        facet.query(&self.run, scope, text, args, self.options.clone()).await.unwrap().rows.len()
    }
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Some(place) = sql::Place::made(support::SERVER).await else { return };
        let raw = place.client().await;
        let row = raw
            .query_one("SELECT current_setting('server_version'), current_setting('fsync')", &[])
            .await
            .unwrap();
        println!(
            "PostgreSQL {}, fsync {}, load {}",
            row.get::<_, String>(0),
            row.get::<_, String>(1),
            load()
        );
        let mut config = place.config();
        if let Some(sql) = &mut config.sql {
            // So few that cold scopes, taken in turn, find no session of theirs.
            sql.connections = 8;
        }
        let provider = PostgresProvider::open(config).await.unwrap();
        let product = Product {
            provider: Arc::new(Checked::new(provider).unwrap()),
            run: RunContext::new(
                TenantId::new("bench").unwrap(),
                ScopeId::new("agent").unwrap(),
                ScopeId::new("run").unwrap(),
            ),
            options: StatementOptions::default(),
        };
        if wants("warm") {
            warm(&product, &raw).await;
        }
        if wants("cold") {
            cold(&product, &place, &raw).await;
        }
        println!("load {}", load());
        for scope in (0..COLD).map(cold_scope).chain([warm_scope()]) {
            product.provider.sql().unwrap().drop_sql_scope(&scope).await.unwrap();
        }
    });
}

fn warm_scope() -> Scope {
    Scope::agent("bench", "warm").unwrap()
}

async fn schema_of(raw: &Client, scope: &Scope) -> String {
    let row = raw
        .query_one("SELECT 'mem_s_' || hex FROM mem_sql.scopes WHERE id = $1", &[&scope.id.as_str()])
        .await
        .unwrap();
    row.get(0)
}

/// One kind of statement, ours and raw.
struct Row<'a> {
    name: &'a str,
    ours: &'a str,
    raw: String,
    writes: bool,
    quota: Option<u64>,
}

/// Statements of a scope that has a session.
async fn warm(product: &Product, raw: &Client) {
    let scope = warm_scope();
    product.exec(&scope, "CREATE TABLE t (id bigint PRIMARY KEY, v text)", &[]).await;
    product.exec(&scope, "CREATE TABLE grows (id bigint, v text)", &[]).await;
    let filled = "INSERT INTO t SELECT g, 'value ' || g FROM generate_series(0, 999) g";
    assert_eq!(product.exec(&scope, filled, &[]).await, 1_000);
    let schema = schema_of(raw, &scope).await;
    // The floor writes into separate tables, because two writers of one row would wait for each other.
    raw.batch_execute(&format!(
        "CREATE TABLE public.t (LIKE {schema}.t INCLUDING ALL); INSERT INTO public.t SELECT * FROM {schema}.t; \
         CREATE TABLE public.grows (LIKE {schema}.grows)"
    ))
    .await
    .unwrap();
    raw.batch_execute("VACUUM ANALYZE").await.unwrap();
    let select = "SELECT v FROM t WHERE id = $1";
    let update = "UPDATE t SET v = 'another value' WHERE id = $1";
    let insert = "INSERT INTO grows VALUES ($1, 'a value')";
    let row = |name, ours: &'static str, writes, quota| Row {
        name,
        ours,
        raw: ours.replace(" t ", " public.t ").replace("grows", "public.grows"),
        writes,
        quota,
    };
    let (far, near) = (Some(1 << 30), Some(64 << 20));
    let rows = [
        row("SELECT by key", select, false, None),
        row("UPDATE by key", update, true, None),
        row("UPDATE by key, quota of 1 GiB", update, true, far),
        row("UPDATE by key, quota of 64 MiB, counted each time", update, true, near),
        row("INSERT", insert, true, None),
        row("INSERT, quota of 1 GiB", insert, true, far),
    ];
    for row in &rows {
        let mut options = product.options.clone();
        options.quota_bytes = row.quota;
        let product = &Product { provider: Arc::clone(&product.provider), run: product.run.clone(), options };
        let statement = raw.prepare(&row.raw).await.unwrap();
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let (mut spent, mut spent_raw) = (0.0, 0.0);
            for slice in 0..SLICES {
                let id = |n: i64| (n * 7_919 + (slice * 131 + round * 31)) % ROWS;
                let begun = Instant::now();
                for n in 0..TIMES {
                    let done = if row.writes {
                        product.exec(&scope, row.ours, &[SqlValue::Int(id(n))]).await
                    } else {
                        product.query(&scope, row.ours, &[SqlValue::Int(id(n))]).await as u64
                    };
                    assert_eq!(done, 1);
                }
                spent += begun.elapsed().as_secs_f64();
                let begun = Instant::now();
                for n in 0..TIMES {
                    ask(raw, &statement, id(n), row.writes).await;
                }
                spent_raw += begun.elapsed().as_secs_f64();
            }
            // The first round warms up.
            if round > 0 {
                ours.push(spent / (SLICES * TIMES) as f64 * 1e6);
                floor.push(spent_raw / (SLICES * TIMES) as f64 * 1e6);
            }
        }
        told(row.name, "raw, prepared", ours, floor, 1.5);
    }
    within(product, raw).await;
}

async fn ask(raw: &Client, statement: &Statement, id: i64, writes: bool) {
    if writes {
        assert_eq!(raw.execute(statement, &[&id]).await.unwrap(), 1);
    } else {
        assert_eq!(raw.query(statement, &[&id]).await.unwrap().len(), 1);
    }
}

/// Statements in an open transaction.
async fn within(product: &Product, raw: &Client) {
    let scope = warm_scope();
    let facet = product.provider.sql().unwrap();
    let open = facet.begin(&product.run, &scope, None).await.unwrap();
    let options = product.options.clone().in_tx(open.tx.clone());
    let statement = raw.prepare("SELECT v FROM public.t WHERE id = $1").await.unwrap();
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    raw.batch_execute("BEGIN").await.unwrap();
    for round in 0..=ROUNDS {
        let (mut spent, mut spent_raw) = (0.0, 0.0);
        for _ in 0..SLICES {
            let begun = Instant::now();
            for n in 0..TIMES {
                let args = [SqlValue::Int(n)];
                let rows = facet
                    .query(&product.run, &scope, "SELECT v FROM t WHERE id = $1", &args, options.clone())
                    .await;
                assert_eq!(rows.unwrap().rows.len(), 1);
            }
            spent += begun.elapsed().as_secs_f64();
            let begun = Instant::now();
            for n in 0..TIMES {
                ask(raw, &statement, n, false).await;
            }
            spent_raw += begun.elapsed().as_secs_f64();
        }
        if round > 0 {
            ours.push(spent / (SLICES * TIMES) as f64 * 1e6);
            floor.push(spent_raw / (SLICES * TIMES) as f64 * 1e6);
        }
    }
    raw.batch_execute("COMMIT").await.unwrap();
    facet.rollback(&product.run, &scope, &open.tx).await.unwrap();
    told("SELECT by key in a transaction", "raw, prepared", ours, floor, 1.5);
}

const COLD: usize = 24;

fn cold_scope(at: usize) -> Scope {
    Scope::agent("bench", &format!("cold{at}")).unwrap()
}

/// The first statement of existing scopes that have no session here.
async fn cold(product: &Product, place: &sql::Place, raw: &Client) {
    let mut roles = Vec::new();
    for scope in (0..COLD).map(cold_scope) {
        product.exec(&scope, "CREATE TABLE t (id bigint PRIMARY KEY, v text)", &[]).await;
        product.exec(&scope, "INSERT INTO t VALUES (1, 'one')", &[]).await;
        roles.push(schema_of(raw, &scope).await.replace("mem_s_", "mem_r_"));
    }
    let url = place.url();
    let as_role = |role: &str| url.replace("postgres@", &format!("{role}@"));
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for at in 0..COLD {
            let found = product.query(&cold_scope(at), "SELECT v FROM t WHERE id = 1", &[]).await;
            assert_eq!(found, 1);
        }
        ours.push(begun.elapsed().as_secs_f64() / COLD as f64 * 1e6);
        // Abandoned ones end on the server meanwhile.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let begun = Instant::now();
        for role in &roles {
            let client = support::connect(&as_role(role)).await;
            client.simple_query("SELECT v FROM t WHERE id = 1").await.unwrap();
        }
        floor.push(begun.elapsed().as_secs_f64() / COLD as f64 * 1e6);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    told("SELECT in a cold scope", "connecting as its role, and the same", ours, floor, 1.3);
}

fn told(name: &str, floor_name: &str, ours: Vec<f64>, floor: Vec<f64>, target: f64) {
    let (ours, floor) = (median(ours), median(floor));
    println!(
        "{name}: {ours:.0} µs; {floor_name}: {floor:.0} µs, ratio {:.2} (target {target})",
        ours / floor
    );
}
