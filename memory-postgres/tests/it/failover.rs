//! A primary and its synchronous standby: the primary is killed under load, the standby takes over. No acknowledged
//! write is lost, and clients recover.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use memory_core::{BackendExt as _, ErrorKind, HealthStatus, Json, Key, Provider as _, Scope};
use memory_postgres::{PostgresConfig, PostgresProvider};

use crate::support::server::{Server, pair};

fn scope() -> Scope {
    Scope::agent("acme", "failover").unwrap()
}

fn key(task: usize, number: usize) -> Key {
    Key::new(format!("{task}/{number}")).unwrap()
}

/// The standby first: clients must find the host that takes writes.
fn both(primary: &Server, standby: &Server) -> PostgresConfig {
    let url = format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", standby.port, primary.port);
    PostgresConfig::new(url).with_pool_size(8).with_wait_timeout(Duration::from_secs(2))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_and_clients_recover() {
    let Some((mut primary, standby)) = pair().await else { return };
    let provider = Arc::new(PostgresProvider::open(both(&primary, &standby)).await.unwrap());
    let (stop, promoted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (before, after) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let writers: Vec<_> = (0..8)
        .map(|task| {
            let (provider, stop, promoted) =
                (Arc::clone(&provider), Arc::clone(&stop), Arc::clone(&promoted));
            let (before, after) = (Arc::clone(&before), Arc::clone(&after));
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for number in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let value = Json::parse(format!("{number}")).unwrap();
                    match provider.put(&scope(), &key(task, number), value).await {
                        Ok(_) => {
                            acknowledged.push(number);
                            if promoted.load(Ordering::SeqCst) { &after } else { &before }
                                .fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => {
                            let honest =
                                matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown);
                            assert!(honest, "{error:?}");
                        }
                    }
                }
                acknowledged
            })
        })
        .collect();

    let patience = Instant::now() + Duration::from_secs(60);
    let wait_for = async |count: &AtomicUsize, wanted: usize| {
        while count.load(Ordering::SeqCst) < wanted {
            assert!(Instant::now() < patience, "{} writes: {}", count.load(Ordering::SeqCst), standby.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    wait_for(&before, 200).await;
    primary.kill();
    let health = provider.health().await.unwrap();
    assert_eq!(health.status, HealthStatus::Down, "there is no primary now");
    standby.promote();
    promoted.store(true, Ordering::SeqCst);
    wait_for(&after, 200).await;
    stop.store(true, Ordering::SeqCst);

    let mut written = 0;
    for (task, writer) in writers.into_iter().enumerate() {
        for number in writer.await.unwrap() {
            let value = provider.value(&scope(), &key(task, number)).await.unwrap();
            let value = value.unwrap_or_else(|| panic!("the acknowledged write {task}/{number} is lost"));
            assert_eq!(value.as_str(), format!("{number}"));
            written += 1;
        }
    }
    println!(
        "{written} acknowledged writes, all there; {} of them after the failover",
        after.load(Ordering::SeqCst)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_writable_host_the_error_says_so_and_nothing_hangs() {
    let Some((mut primary, standby)) = pair().await else { return };
    let provider = PostgresProvider::open(both(&primary, &standby)).await.unwrap();
    primary.kill();
    let started = Instant::now();
    let value = Json::parse("1").unwrap();
    let error = loop {
        match provider.put(&scope(), &key(0, 0), value.clone()).await {
            Err(error) if error.kind() == ErrorKind::Unavailable && error.message().contains("primary") => {
                break error;
            }
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown),
                "{error:?}"
            ),
            Ok(_) => panic!("a dead server acknowledged a write"),
        }
        assert!(started.elapsed() < Duration::from_secs(30));
    };
    assert!(error.retry().is_retryable());
}
