//! Several processes on one database: they agree on the order of operations, a killed one leaves nothing half done, and
//! a wrong clock does not matter.

use std::time::{Duration, Instant, SystemTime};

use memory_conformance::TestClock;
use memory_conformance::linearizability::{Operation, Step, is_linearizable};
use memory_core::{
    Backend, BackendExt as _, BulkOptions, ErrorKind, Expect, GetOptions, Json, Key, NewEntry, Provider as _,
    Quota, Scope, SetOptions, Timestamp, Ttl, UpdateOptions,
};
use memory_postgres::{PostgresConfig, PostgresProvider, Prepared};

use crate::support::Database;
use crate::support::child;
use crate::support::child::Child;

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn scope() -> Scope {
    Scope::agent("public", "replicas").unwrap()
}

/// Nanoseconds by a clock that all processes of this machine share.
fn moment() -> u64 {
    u64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos()).unwrap()
}

async fn open(url: &str) -> PostgresProvider {
    PostgresProvider::open(PostgresConfig::new(url).with_pool_size(6)).await.unwrap()
}

/// Works on one key with several tasks, and reports what every operation saw.
async fn hammer(url: &str, replica: i64) {
    let provider = std::sync::Arc::new(open(url).await);
    child::say("ready");
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..3_i64 {
        let provider = std::sync::Arc::clone(&provider);
        tasks.spawn(async move { work(&*provider, replica * 3 + task).await });
    }
    while let Some(done) = tasks.join_next().await {
        for line in done.unwrap() {
            child::say(&line);
        }
    }
    provider.close().await.unwrap();
}

const STEPS: i64 = 60;

async fn work(backend: &dyn Backend, worker: i64) -> Vec<String> {
    let (scope, key) = (scope(), key("register"));
    let mut lines = Vec::new();
    let mut known: Option<(u64, i64)> = None;
    let mut state = u64::try_from(worker).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for step in 0..STEPS {
        // All written values differ, so a swap by version is a swap by value.
        let fresh = (worker * STEPS + step + 1) * 1_000_000;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let called = moment();
        let said = match state % 5 {
            0 => {
                let entry = backend.get(&scope, &key, GetOptions::default()).await.unwrap();
                known = entry.map(|entry| (entry.version, entry.value.as_i64_exact().unwrap()));
                format!("read {}", known.map_or("-".into(), |(_, value)| value.to_string()))
            }
            1 => {
                let set = backend.set(&scope, &key, Json::from(fresh), SetOptions::default()).await.unwrap();
                known = Some((set.version, fresh));
                format!("write {fresh}")
            }
            2 => {
                let sum = backend.increment(&scope, &key, 1, UpdateOptions::default()).await.unwrap();
                known = Some((sum.version, sum.value));
                format!("add {}", sum.value)
            }
            _ => {
                let expect = known.map_or(Expect::Absent, |(version, _)| Expect::Version(version));
                let from = known.map_or("-".into(), |(_, value)| value.to_string());
                let options = SetOptions::default().with_expect(expect);
                match backend.set(&scope, &key, Json::from(fresh), options).await {
                    Ok(set) => {
                        known = Some((set.version, fresh));
                        format!("swap {from} {fresh}")
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
                        format!("refused {from}")
                    }
                }
            }
        };
        lines.push(format!("{called} {} {said}", moment()));
    }
    lines
}

fn operation(line: &str) -> Operation {
    let words: Vec<&str> = line.split(' ').collect();
    let value = |at: usize| words[at].parse::<i64>().ok();
    let step = match words[2] {
        "read" => Step::Read(value(3)),
        "write" => Step::Write(value(3).unwrap()),
        "add" => Step::Add { by: 1, to: value(3).unwrap() },
        "swap" => Step::Swap { from: value(3), to: value(4).unwrap() },
        "refused" => Step::SwapRefused { from: value(3) },
        other => panic!("a step {other}"),
    };
    Operation { called: words[0].parse().unwrap(), returned: words[1].parse().unwrap(), step }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_see_one_order_of_a_keys_writes() {
    if let Some((role, url)) = child::role() {
        return hammer(&url, role.parse().unwrap()).await;
    }
    let Some(database) = Database::fresh().await else { return };
    let url = database.url();
    open(&url).await.close().await.unwrap();
    let test = "replicas::two_replicas_see_one_order_of_a_keys_writes";
    let history = tokio::task::spawn_blocking(move || {
        let mut replicas = [Child::start(test, "0", &url), Child::start(test, "1", &url)];
        let mut history = Vec::new();
        for replica in &mut replicas {
            assert_eq!(replica.line().as_deref(), Some("ready"));
        }
        for replica in &mut replicas {
            while let Some(line) = replica.line() {
                history.push(operation(&line));
            }
        }
        history
    })
    .await
    .unwrap();
    assert_eq!(history.len(), usize::try_from(6 * STEPS).unwrap());
    assert!(is_linearizable(None, &history), "no order explains what the replicas saw: {history:?}");
}

/// Inserts one bulk after another, and reports before and after each.
async fn insert_for_ever(url: &str) {
    let provider = open(url).await;
    for bulk in 0.. {
        child::say(&format!("begin {bulk}"));
        let items = (0..BULK)
            .map(|at| {
                NewEntry::new(key(&format!("{bulk:06}/{at:04}")), Json::string("the words of an entry"))
            })
            .collect();
        provider.bulk_insert(&scope(), items, BulkOptions::default()).await.unwrap();
        child::say(&format!("done {bulk}"));
    }
}

const BULK: usize = 400;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_replica_leaves_nothing_half_done_and_blocks_nobody() {
    if let Some((_, url)) = child::role() {
        return insert_for_ever(&url).await;
    }
    let Some(database) = Database::fresh().await else { return };
    let url = database.url();
    let provider = open(&url).await;
    let test = "replicas::a_killed_replica_leaves_nothing_half_done_and_blocks_nobody";
    for round in 0..6_u64 {
        provider.drop_scope(&scope()).await.unwrap();
        let url = url.clone();
        let done = tokio::task::spawn_blocking(move || {
            let mut replica = Child::start(test, "insert", &url);
            // During a bulk insert, at a different point each time.
            while replica.line().as_deref() != Some("done 2") {}
            std::thread::sleep(Duration::from_millis(3 + round * 7));
            replica.kill();
            let mut done = 3;
            while let Some(line) = replica.line() {
                done += usize::from(line.starts_with("done"));
            }
            done
        })
        .await
        .unwrap();
        let begun = Instant::now();
        provider.set(&scope(), &key("zz"), Json::from(1), SetOptions::default()).await.unwrap();
        assert!(
            begun.elapsed() < Duration::from_secs(25),
            "the lock of a dead replica was held {:?}",
            begun.elapsed()
        );
        let entries = provider.list_all(&scope(), "").await.unwrap().len();
        assert_eq!((entries - 1) % BULK, 0, "a bulk is there in part");
        assert!(
            (entries - 1) / BULK >= done,
            "an acknowledged bulk is gone: {entries} entries after {done} bulks"
        );
        let stats = provider.stats(&scope()).await.unwrap();
        assert_eq!(stats.entries, u64::try_from(entries).unwrap(), "the counters agree with the rows");
    }
    provider.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_clock_decides_whatever_a_replicas_clock_says() {
    let Some(database) = Database::fresh().await else { return };
    let provider = open(&database.url()).await;
    let client = database.client().await;
    let now = async || {
        let row =
            client.query_one("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint", &[]).await;
        row.unwrap().get::<_, i64>(0)
    };
    let before = now().await;
    let options = SetOptions::default().with_ttl(Ttl::After(Duration::from_millis(400)));
    provider.set(&scope(), &key("k"), Json::from(1), options).await.unwrap();
    let entry = provider.get(&scope(), &key("k"), GetOptions::default()).await.unwrap().unwrap();
    let after = now().await;
    assert!((before - 1..=after).contains(&entry.created_at.as_millis()));
    assert_eq!(entry.expires_at.unwrap().as_millis(), entry.created_at.as_millis() + 400);
    // A replica whose own clock is an hour ahead sees it expired; those with the server's clock do not.
    let ahead = std::sync::Arc::new(TestClock::new());
    ahead.set(Timestamp::from_millis(before + 3_600_000).unwrap());
    let other = PostgresProvider::open_with_clock(database.config(), ahead).await.unwrap();
    assert!(other.get(&scope(), &key("k"), GetOptions::default()).await.unwrap().is_none());
    assert!(provider.get(&scope(), &key("k"), GetOptions::default()).await.unwrap().is_some());
    tokio::time::sleep(Duration::from_millis(450)).await;
    assert!(provider.get(&scope(), &key("k"), GetOptions::default()).await.unwrap().is_none());
    assert_eq!(provider.sweep().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_holds_over_replicas_and_without_prepared_statements() {
    let Some(database) = Database::fresh().await else { return };
    let config = database.config().with_prepared(Prepared::Off);
    let (one, two) = (
        PostgresProvider::open(config.clone()).await.unwrap(),
        PostgresProvider::open(config).await.unwrap(),
    );
    let quota = Quota { max_entries: Some(10), max_bytes: None };
    let write = async |provider: &PostgresProvider, name: &str| {
        let mut written = 0;
        for at in 0..10 {
            let options = SetOptions::default().with_quota(quota);
            match provider.set(&scope(), &key(&format!("{name}{at}")), Json::from(at), options).await {
                Ok(_) => written += 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error:?}"),
            }
        }
        written
    };
    let (a, b) = tokio::join!(write(&one, "a"), write(&two, "b"));
    assert_eq!(a + b, 10);
}
