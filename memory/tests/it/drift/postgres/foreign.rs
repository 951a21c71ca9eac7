//! Other programs on the same tables, with SQL.

use memory::{BackendExt as _, DriftPolicy, ErrorKind, Expect, SetOptions};

use super::agent::is_refused_after;
use super::support::{Agent, BOTH, Fixture, json, key, reason};

/// The scope's entry, in SQL.
const OURS: &str = "tenant = 'acme' AND key = 'k' AND space = (SELECT space FROM scope WHERE name = 'ada')";

#[tokio::test]
async fn scenario_13_every_change_by_an_sql_client_is_detected() {
    let written = [
        format!("UPDATE entry SET value = '9' WHERE {OURS}"),
        format!("UPDATE entry SET metadata = '{{\"a\": 1}}' WHERE {OURS}"),
        format!("UPDATE entry SET version = 77 WHERE {OURS}"),
        // Changed and changed back.
        format!(
            "UPDATE entry SET version = 77, value = '9' WHERE {OURS}; UPDATE entry SET version = 1 WHERE {OURS}"
        ),
        // Deleted and recreated with the same version.
        format!(
            "CREATE TEMP TABLE kept AS SELECT * FROM entry WHERE {OURS}; DELETE FROM entry WHERE {OURS}; \
             INSERT INTO entry SELECT * FROM kept"
        ),
        format!("DELETE FROM entry WHERE {OURS}"),
        "DELETE FROM entry".to_owned(),
        format!(
            "INSERT INTO entry SELECT * FROM entry WHERE {OURS} \
             ON CONFLICT (tenant, space, key) DO UPDATE SET value = '9'"
        ),
        format!(
            "MERGE INTO entry e USING (SELECT * FROM entry WHERE {OURS}) n \
             ON e.tenant = n.tenant AND e.space = n.space AND e.key = n.key WHEN MATCHED THEN UPDATE SET value = '9'"
        ),
        format!("WITH w AS (UPDATE entry SET value = '9' WHERE {OURS} RETURNING key) SELECT * FROM w"),
        // Through another table.
        format!(
            "CREATE TABLE parent (id integer); CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN UPDATE entry SET value = '9' WHERE {OURS}; RETURN NEW; END $$; \
             CREATE TRIGGER pass AFTER INSERT ON parent FOR EACH ROW EXECUTE FUNCTION pass(); INSERT INTO parent VALUES (1)"
        ),
        format!("UPDATE entry SET key = 'other' WHERE {OURS}"),
        format!("BEGIN; SAVEPOINT s; UPDATE entry SET value = '9' WHERE {OURS}; RELEASE s; COMMIT"),
        // Scenario 30.
        "TRUNCATE entry".to_owned(),
        format!("SET session_replication_role = replica; UPDATE entry SET value = '9' WHERE {OURS}"),
        "SET session_replication_role = replica; TRUNCATE entry".to_owned(),
        "DELETE FROM scope".to_owned(),
        "TRUNCATE scope".to_owned(),
    ];
    for sql in written {
        is_refused_after(&sql).await;
    }
}

#[tokio::test]
async fn scenario_30_rows_from_copy_are_detected() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.other_sets("k", "1").await;
        agent.read("k").await;
        assert!(agent.read("copied").await.is_none());
        let client = agent.client().await;
        let row = client
            .query_one(
                "SELECT concat_ws(E'\\t', tenant, space, 'copied', 1, 1, 1, 1, '\\N', 0, 7, 1, 1, '{}', '{}', '\\N', '\\N', \
                 '\\N', '9') FROM memory.entry",
                &[],
            )
            .await
            .unwrap();
        // Nothing else runs on the connection after this.
        let sink = client.copy_in("COPY memory.entry FROM STDIN").await.unwrap();
        copy(sink, &format!("{}\n", row.get::<_, String>(0))).await;
        let refused = reason(agent.set("copied", "2").await);
        assert_eq!(refused, if policy == DriftPolicy::Row { "appeared" } else { "scope_changed" });
        let stats = agent.backend().stats(&agent.scope).await.unwrap();
        assert_eq!((stats.entries, stats.bytes), (2, 9));
        let entry = agent.read("copied").await.unwrap();
        assert!(entry.version > 1, "a version that the scope never had");
    }
}

async fn copy(sink: tokio_postgres::CopyInSink<bytes::Bytes>, text: &str) {
    use futures_util::SinkExt as _;
    let mut sink = Box::pin(sink);
    sink.send(bytes::Bytes::copy_from_slice(text.as_bytes())).await.unwrap();
    assert_eq!(sink.as_mut().finish().await.unwrap(), 1);
}

#[tokio::test]
async fn scenarios_07_14_and_30_statements_without_changes_cause_no_refusal() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        for (round, sql) in [
            // No row is touched.
            "UPDATE entry SET value = '9' WHERE key = 'none'",
            "DELETE FROM entry WHERE key = 'none'",
            "INSERT INTO entry SELECT * FROM entry WHERE key = 'none'",
            "INSERT INTO entry SELECT * FROM entry ON CONFLICT DO NOTHING",
            // Rows stay unchanged except for access counts.
            "UPDATE entry SET value = value",
            "UPDATE entry SET accesses = accesses + 5",
            "UPDATE scope SET entries = entries",
            // Rolled back.
            "BEGIN; UPDATE entry SET value = '9'; ROLLBACK",
            "BEGIN; SAVEPOINT s; DELETE FROM entry; ROLLBACK TO s; COMMIT",
            // Other tables, and housekeeping.
            "CREATE TABLE other (id integer); INSERT INTO other VALUES (1); TRUNCATE other",
            "DELETE FROM vector; TRUNCATE garbage; INSERT INTO model (provider, name, dimensions) VALUES ('a', 'b', 3)",
            "VACUUM entry",
            "VACUUM FULL entry",
            "ANALYZE",
            "CHECKPOINT",
            "REINDEX TABLE entry",
            "CREATE INDEX another ON entry (updated_at)",
        ]
        .into_iter()
        .enumerate()
        {
            agent.foreign_runs(sql);
            let set = agent.set("k", &round.to_string()).await;
            set.unwrap_or_else(|error| panic!("{policy}, {sql}: {error:?}"));
        }
    }
}

#[tokio::test]
async fn one_statement_changes_the_token_once_and_each_row_gets_a_version() {
    let Some(fixture) = Fixture::new().await else { return };
    for n in 0..100 {
        fixture.other_sets(&format!("k{n}"), "1").await;
    }
    let backend = fixture.backend();
    let before = backend.drift_state(&fixture.scope).await.unwrap();
    fixture.foreign_runs("UPDATE entry SET value = '22', size = size + 1");
    let after = backend.drift_state(&fixture.scope).await.unwrap();
    let generation = |state: memory::DriftState| state.token.generation.unwrap().get();
    assert_eq!(generation(after), generation(before) + 1);
    let page = backend.list(&fixture.scope, memory::ListQuery::default()).await.unwrap();
    let mut versions: Vec<u64> = page.entries.iter().map(|entry| entry.version).collect();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions, (101..=200).collect::<Vec<u64>>());
    assert_eq!(after.version, 200);
    assert_eq!(backend.stats(&fixture.scope).await.unwrap().bytes, 490);
    fixture.foreign_runs("DELETE FROM entry WHERE key < 'k5'");
    let stats = backend.stats(&fixture.scope).await.unwrap();
    assert_eq!((stats.entries, stats.bytes), (55, 490 - 5 * 4 - 40 * 5));
}

#[tokio::test]
async fn versions_are_never_reused() {
    for sql in [
        "UPDATE entry SET value = '9'",
        "DELETE FROM entry",
        "TRUNCATE entry",
        "DELETE FROM scope",
        "TRUNCATE scope",
        "UPDATE scope SET version = 0, generation = 1, nonce = 0",
        "CREATE TEMP TABLE kept AS SELECT * FROM scope; DELETE FROM scope; \
         INSERT INTO scope (tenant, kind, name, space, version) SELECT tenant, kind, name, space, 0 FROM kept",
    ] {
        let Some(fixture) = Fixture::new().await else { return };
        let last = (0..5).map(|n| n.to_string());
        let mut seen = Vec::new();
        for value in last {
            seen.push(fixture.other_sets("k", &value).await);
        }
        fixture.foreign_runs(sql);
        let read = fixture.backend().get(&fixture.scope, &key("k"), Default::default()).await.unwrap();
        let given = read.map(|entry| entry.version);
        let version = fixture.other_sets("k", "10").await;
        assert!(seen.iter().all(|old| *old < version), "{sql}: {version} after {seen:?}");
        assert!(given.is_none_or(|given| given < version), "{sql}");
        let stale = SetOptions::default().with_expect(Expect::Version(*seen.last().unwrap()));
        let refused = fixture.backend().set(&fixture.scope, &key("k"), json("11"), stale).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict, "{sql}");
    }
}

#[tokio::test]
async fn a_client_with_rights_on_entries_only_is_detected_too() {
    let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
    agent.set("k", "1").await.unwrap();
    let role = format!("patch_{}", std::process::id());
    agent.foreign_runs(&format!(
        "CREATE ROLE {role}; GRANT USAGE ON SCHEMA memory TO {role}; GRANT SELECT, UPDATE ON entry TO {role}; \
         SET ROLE {role}; UPDATE entry SET value = '9'; RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}"
    ));
    assert_eq!(reason(agent.set("k", "2").await), "scope_changed");
}

#[tokio::test]
async fn calls_of_our_functions_by_a_client_leave_no_exemption() {
    let Some(agent) = Agent::new(DriftPolicy::Strict).await else { return };
    agent.set("k", "1").await.unwrap();
    agent.foreign_runs(
        "BEGIN; SELECT kv_delete('acme', 0::smallint, 'ada', NULL, 'none', 0::smallint, NULL, NULL); \
         UPDATE entry SET value = '9'; COMMIT",
    );
    assert_eq!(reason(agent.set("k", "2").await), "scope_changed");
    agent.backend().put(&agent.scope, &key("k"), json("3")).await.unwrap();
}

/// Both lock the scope and the row, in different orders: whichever the server aborts, nothing is overwritten unseen.
#[tokio::test]
async fn an_uncommitted_foreign_write_is_awaited() {
    for policy in BOTH {
        let Some(agent) = Agent::new(policy).await else { return };
        agent.set("k", "1").await.unwrap();
        let stranger = agent.client().await;
        stranger.batch_execute("BEGIN; UPDATE memory.entry SET value = '9'").await.unwrap();
        let (refused, committed) =
            futures_util::future::join(agent.set("k", "2"), stranger.batch_execute("COMMIT")).await;
        committed.unwrap();
        assert!(reason(refused).contains("changed"));
        assert_eq!(agent.value("k").await.unwrap(), "9");
    }
}
