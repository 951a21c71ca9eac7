//! Two servers on one PostgreSQL, one of which is killed under load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memory::{BackendUrl, Registry};
use memory_core::{Error, ErrorKind, Json, Key, Provider as _, Scope, SetOptions};
use memory_fakes::postgres::{Database, SERVER, apart};
use serde_json::{Value, json};

use super::door::{Answer, Door};
use crate::support::user::User;

/// Puts `value` under `key` once; a status of 0 means that there was no answer.
fn put_once(door: &Door, token: &str, key: &str, value: u64) -> Answer {
    let (bearer, once) = (format!("Bearer {token}"), format!("{key}-{value}"));
    let headers = [("Authorization", bearer.as_str()), ("Idempotency-Key", &once)];
    let body = json!({"scope": {"tenant": "acme", "kind": "agent", "id": "ann"}, "key": key, "value": value});
    door.request("POST", "/v1/ops/set", &headers, &body.to_string())
}

fn put(door: &Door, token: &str, key: &str, value: u64) -> u16 {
    put_once(door, token, key, value).status
}

fn get(door: &Door, token: &str, key: &str) -> Value {
    let bearer = format!("Bearer {token}");
    let path = format!("/v1/tenants/acme/agent/ann/entries/{key}");
    let answer = door.request("GET", &path, &[("Authorization", &bearer)], "");
    serde_json::from_str::<Value>(&answer.body).unwrap()["value"].clone()
}

/// Writes until there is no answer, or the others stop; returns what was acknowledged, and the write that was not.
fn write(door: &Door, token: &str, name: &str, stop: &AtomicBool) -> (BTreeMap<String, u64>, Option<String>) {
    let mut acknowledged = BTreeMap::new();
    for number in 0.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let key = format!("{name}-{number}");
        match put(door, token, &key, number) {
            200 => acknowledged.insert(key, number),
            0 => return (acknowledged, Some(key)),
            status => panic!("{key}: {status}"),
        };
    }
    (acknowledged, None)
}

/// Writes through the provider until that fails; returns what was acknowledged, and why it failed.
async fn write_remotely(door: &Door, token: &str) -> (u64, Error) {
    let address = format!("127.0.0.1:{}", door.port);
    door.user.file("token", token);
    let url = BackendUrl::parse(&format!("memory+http://{address}?api_key=file:token")).unwrap();
    let registry = Registry::default().with_allowed_hosts([&address]).with_base_dir(door.user.home());
    let memory = registry.open_url(&url).await.unwrap();
    let (store, scope) = (memory.backend().unwrap(), Scope::agent("acme", "ann").unwrap());
    for number in 0_i64.. {
        let key = Key::new(format!("remote-{number}")).unwrap();
        if let Err(error) = store.set(&scope, &key, Json::from(number), SetOptions::default()).await {
            return (u64::try_from(number).unwrap(), error);
        }
    }
    unreachable!()
}

fn in_flight(door: &Door) -> u32 {
    let metrics = door.get("/metrics", &[]).body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("memory_http_in_flight ")).unwrap();
    line.parse().unwrap()
}

/// Two servers of this database, with the same tokens.
fn replicas(database: &Database) -> (Door, Door) {
    let config = format!(
        "[backends.main]\nurl = \"{}\"\n[default]\nmemory_scopes = [\"agent\"]\n[http]\ntokens = \"{{}}\"\n",
        database.url()
    );
    let (first, second) = (User::new(), User::new());
    let tokens = first.home().join("tokens").display().to_string();
    for user in [&first, &second] {
        user.file("memory.toml", config.replace("{}", &tokens));
    }
    // The first creates the tables.
    (Door::start(first, &[]), Door::start(second, &[]))
}

#[test]
fn the_operator_alone_sees_which_replicas_are_connected() {
    let Some(database) = Database::on_own_runtime(SERVER) else { return };
    let (first, second) = replicas(&database);
    let health = |door: &Door, token: &str| {
        let bearer = format!("Bearer {token}");
        let answer = door.request("POST", "/v1/ops/health", &[("Authorization", &bearer)], "{}");
        serde_json::from_str::<Value>(&answer.body).unwrap()
    };
    let (all, one) = (first.token("all", &["--all-tenants"]), first.token("one", &["--tenant", "acme"]));
    assert_eq!(health(&second, &all)["status"], "ok");
    let seen = health(&first, &all);
    let processes = seen["processes"].as_array().unwrap();
    let named = processes.iter().filter(|process| process["name"].as_str().unwrap().starts_with("memory "));
    assert_eq!(named.count(), 2, "{seen}");
    assert!(processes.iter().all(|process| process["connections"].as_u64() > Some(0)), "{seen}");
    let seen = health(&first, &one);
    assert!(seen["status"] == "ok" && seen.get("processes").is_none(), "{seen}");
}

#[test]
fn what_a_killed_server_acknowledged_is_found_through_another_and_its_clients_do_not_know_of_the_rest() {
    let Some(database) = Database::on_own_runtime(SERVER) else { return };
    let (first, second) = replicas(&database);
    let token = first.token("ops", &["--tenant", "acme"]);

    let stop = AtomicBool::new(false);
    let (killed, kept, remote) = std::thread::scope(|threads| {
        let (stop, token) = (&stop, token.as_str());
        let writers = |door, name: [&'static str; 2]| {
            name.map(|name| threads.spawn(move || write(door, token, name, stop)))
        };
        let (of_first, of_second) = (writers(&first, ["a", "b"]), writers(&second, ["c", "d"]));
        let remote = threads.spawn(|| apart(|| write_remotely(&first, token)));
        // Until some are acknowledged by each.
        for key in ["a-3", "b-3", "c-3", "d-3", "remote-3"] {
            assert!((0..10_000).any(|_| !get(&second, token, key).is_null()), "{key} is never written");
        }
        // Now every writer waits within a request, since nobody can write.
        apart(|| async {
            let holder = database.client().await;
            holder.batch_execute("BEGIN; LOCK TABLE memory.entry IN ACCESS EXCLUSIVE MODE").await.unwrap();
            // Its three writers, and this query itself.
            tokio::time::timeout(Duration::from_secs(30), async {
                while in_flight(&first) < 4 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
            .await
            .unwrap();
            first.signal("KILL");
            holder.batch_execute("ROLLBACK").await.unwrap();
        });
        let killed = of_first.map(|writer| writer.join().unwrap());
        let remote = remote.join().unwrap();
        let before = get(&second, token, "c-3");
        assert_eq!(before, 3, "the other server answers");
        stop.store(true, Ordering::SeqCst);
        (killed, of_second.map(|writer| writer.join().unwrap()), remote)
    });

    for (acknowledged, unknown) in killed.iter().chain(&kept) {
        assert!(acknowledged.len() > 3);
        for (key, number) in acknowledged {
            assert_eq!(get(&second, &token, key), *number, "{key} was acknowledged");
        }
        // Sent again to another server, it gets its reply and is not done again.
        let (key, number) = acknowledged.first_key_value().unwrap();
        assert_eq!(put(&second, &token, key, 1_000_000), 200);
        let again = put_once(&second, &token, key, *number);
        assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")));
        assert_eq!(get(&second, &token, key), 1_000_000);
        if let Some(key) = unknown {
            // Whether it was done or not, doing it through the other server settles it.
            assert_eq!(put(&second, &token, key, 1_000_000), 200);
            assert_eq!(get(&second, &token, key), 1_000_000);
        }
    }
    assert!(killed.iter().all(|(_, unknown)| unknown.is_some()));
    assert!(kept.iter().all(|(_, unknown)| unknown.is_none()), "{kept:?}");
    let bearer = format!("Bearer {token}");
    let scopes =
        second.request("POST", "/v1/ops/scopes", &[("Authorization", &bearer)], r#"{"tenant": "acme"}"#);
    assert_eq!(
        scopes.body.matches("\"kind\"").count(),
        1,
        "replies are kept in no scope that is listed: {scopes:?}"
    );
    let (acknowledged, error) = remote;
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    for number in 0..acknowledged {
        assert_eq!(get(&second, &token, &format!("remote-{number}")), number);
    }
}
