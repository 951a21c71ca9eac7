//! Defects between the stages and their tables: a stage writes or reads something different. They match statements of
//! `memory-governed`; one that no longer matches catches nothing, and fails the tests.

use memory_core::sql::SqlValue;
use memory_core::{Error, Next, Reply, Request, Result};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::statements::{column_of, keeps_what_failed, nothing_of, set, written};

mutants! {
    |memory, request, next|
    "gov.plan-version-stands": ["GOV-1"] needs [Sql, HostTables], "a plan that replaces another has its version"
        => ask(Request::Exec { sql, args, .. } if sql.starts_with("INSERT INTO shared_plan (") => set(args, 3, SqlValue::Int(1)));
    "gov.event-without-its-row": ["GOV-3"] needs [Sql, HostTables], "an event is kept, and its row is not written"
        => instead(Request::Exec { sql, .. } if sql.starts_with("INSERT INTO shared_issues (") => Ok(written(1)));
    "gov.decisions-overwrite": ["GOV-4"] needs [Sql, HostTables], "a decision overwrites another of its id"
        => ask(Request::Exec { sql, args, .. } if sql.starts_with("INSERT INTO shared_decisions (") => without_suffix(args));
    "gov.results-overwrite": ["GOV-5"] needs [Sql, HostTables], "a measurement overwrites another of its id"
        => ask(Request::Exec { sql, args, .. } if sql.starts_with("INSERT INTO shared_results (") => without_suffix(args));
    "gov.done-is-final": ["GOV-6"] needs [Sql, HostTables], "a task that is done stays done"
        => around(done_is_final);
    "gov.learnings-many-times": ["GOV-7"] needs [Sql, HostTables], "a statement under another id is another learning"
        => around(nothing_of("FROM shared_learnings WHERE statement = ", request, next).await);
    "gov.rows-open-since-ever": ["GOV-12"] needs [Sql, HostTables], "it is not known since when a row holds"
        => around(column_of("FROM shared_issues ", "valid_from", SqlValue::Int(0), request, next).await);
    "gov.half-a-projection": ["GOV-26"] needs [Sql, HostTables], "what a projection wrote before it failed stays"
        => around(keeps_what_failed(memory, 2, request, next).await);
    "gov.fault-loses-the-event": ["GOV-26"] needs [Sql, HostTables], "an event whose projection fails is lost with it"
        => stop(matches!(&request, Request::Exec { sql, args, .. }
                if sql.starts_with("INSERT INTO event_projection ") && args.contains(&SqlValue::Text("failed".to_owned())))
            => Error::internal("the projection failed"));
    "gov.overtakes-a-fault": ["GOV-27"] needs [Sql, HostTables], "a write does not wait for an earlier one that failed"
        => around(nothing_of("status IN ('failed', 'blocked', 'dead') AND bucket", request, next).await);
    "gov.fault-is-final": ["GOV-27"] needs [Sql, HostTables], "a projection that failed is not tried again"
        => around(nothing_of("FROM event_projection WHERE status = 'failed' AND next_attempt_at", request, next).await);
    "gov.rebuild-leaves-the-tables": ["GOV-28"] needs [Sql, HostTables], "a rebuild does not put its tables in place"
        => instead(Request::Exec { sql, options, .. } if options.tx.is_some()
                && (sql.contains(" SELECT * FROM shadow_") || sql.starts_with("DELETE FROM shared_"))
            => Ok(written(0)));
    "gov.rebuild-is-the-writer": ["GOV-28"] needs [Sql, HostTables], "a rebuild forgets who wrote"
        => around(column_of(
            "FROM events_memory e WHERE e.seq > ? ORDER BY", "source_agent", SqlValue::Text("rebuild".to_owned()), request, next,
        ).await);
    "gov.half-a-commit": ["GOV-29"] needs [Sql, HostTables], "the event stays where its deferred write cannot be marked"
        => around(keeps_what_failed(memory, 1, request, next).await);
    "gov.repeats-what-is-done": ["GOV-29", "GOV-30"] needs [Sql, HostTables], "a request that is known is not recognised"
        => around(nothing_of("WHERE idempotency_key = ? UNION ALL", request, next).await);
    "gov.keys-of-the-moment": ["GOV-30"] needs [Sql, HostTables], "the key of an event is another at each try"
        => ask(Request::Exec { sql, args, .. } if sql.starts_with("INSERT INTO events_memory ") => {
            if let Some(id) = args.get(1).cloned() { set(args, 2, id); }
        });
    "gov.leases-ignored": ["GOV-31"] needs [Sql, HostTables], "a pipeline takes what another has leased"
        => ask(leases_ignored);
    "gov.oldest-first": ["GOV-32"] needs [Sql, HostTables], "of what waits, the oldest are tried again and again"
        => ask(oldest_first);
    "gov.replayed-by-the-pipeline": ["GOV-34"] needs [Sql, HostTables], "a replay is recorded under the pipeline's name"
        => around(column_of(DEFERRED, "agent", SqlValue::Text("pipeline".to_owned()), request, next).await);
    "gov.replayed-now": ["GOV-34"] needs [Sql, HostTables], "a replay is observed when it is replayed"
        => around({
            let now = SqlValue::Int(memory.now().as_millis());
            column_of(DEFERRED, "observed_at", now, request, next).await
        });
    "gov.latest-recorded-wins": ["GOV-37"] needs [Sql, HostTables], "the task state that was recorded last wins, not the one observed last"
        => around(column_of("FROM shared_task_state WHERE", "observed_at", SqlValue::Int(0), request, next).await);
    "gov.events-may-change": ["GOV-38"] needs [Sql, HostTables], "nothing keeps events from being changed"
        => instead(Request::Exec { sql, .. } if sql.contains("TRIGGER") && sql.contains(" ON events_memory") => Ok(written(0)));
    "gov.hashes-unread": ["GOV-38"] needs [Sql, HostTables], "events are not compared with their hashes: changed ones pass"
        => around(as_first_read(&["source_agent", "target_id"], memory, request, next).await);
    "gov.words-unread": ["GOV-38"] needs [Sql, HostTables], "words are not compared with their digest: changed ones pass"
        => around(as_first_read(&["raw_input"], memory, request, next).await);
    "gov.ledger-keeps-the-words": ["GOV-43"] needs [Sql, HostTables], "what a forgotten note said of a row stays in the ledger"
        => instead(Request::Exec { sql, .. } if sql.starts_with("UPDATE events_memory SET payload_json = '{}'") => Ok(written(1)));
    "gov.names-outlive-the-row": ["GOV-44"] needs [Sql, HostTables], "the names of a forgotten row stay"
        => instead(Request::Exec { sql, .. } if sql.starts_with("DELETE FROM aliases ") => Ok(written(1)));
    "gov.id-outlives-the-row": ["GOV-44"] needs [Sql, HostTables], "the id of a forgotten row stays in the ledger"
        => instead(Request::Exec { sql, .. } if sql.starts_with("UPDATE events_memory SET target_id = ") => Ok(written(1)));
    "gov.left-by-forgetting": ["GOV-44"] needs [Sql, HostTables], "a deferred write waits on for what is left once a candidate is forgotten"
        => instead(Request::Exec { sql, .. } if sql.starts_with("UPDATE pending_memory_events SET status = 'needs_review', attempts = 0 WHERE")
            => Ok(written(1)));
    "gov.forgets-without-a-trace": ["GOV-45"] needs [Sql, HostTables], "what is forgotten leaves no tombstone"
        => instead(Request::Exec { sql, .. } if sql.starts_with("INSERT INTO tombstones ") => Ok(written(1)));
    "gov.successor-lost": ["GOV-47"] needs [Sql, HostTables], "what took the place of a row is not kept"
        => around(column_of("FROM shared_decisions ", "superseded_by", SqlValue::Null, request, next).await);
    "gov.second-note-unmarked": ["GOV-42"] needs [Sql, HostTables], "only the first note is marked as done"
        => around(first_is_marked);
}

/// How a stage reads a deferred write that it tries again.
const DEFERRED: &str = "FROM pending_memory_events WHERE pending_id = ?";

/// Verification sees these columns of an event as they were when first read: later changes pass, but removals do not.
async fn as_first_read(columns: &[&str], memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_asked = matches!(&request, Request::Query { sql, .. }
        if sql.contains("LEFT JOIN events_raw r ON r.event_id = e.event_id WHERE e.seq > ?"));
    let mut reply = next.run(request).await?;
    if let Reply::Query(rows) = &mut reply
        && is_asked
    {
        let mut remembered = memory.lock();
        let first = remembered.rows.entry("verified".to_owned()).or_insert_with(|| rows.clone());
        let of: Vec<usize> =
            columns.iter().filter_map(|column| rows.columns.iter().position(|name| name == column)).collect();
        for row in &mut rows.rows {
            // The first column is the event's position.
            let Some(before) = first.rows.iter().find(|before| before.first() == row.first()) else {
                continue;
            };
            for at in &of {
                set(row, *at, before.get(*at).cloned().unwrap_or(SqlValue::Null));
            }
        }
    }
    Ok(reply)
}

/// The id without the suffix that makes it differ from the requested one.
fn without_suffix(args: &mut [SqlValue]) {
    if let Some(SqlValue::Text(id)) = args.first_mut()
        && let Some((asked, suffix)) = id.rsplit_once('-')
        && suffix.len() == 12
    {
        *id = asked.to_owned();
    }
}

async fn done_is_final(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Exec { scope, sql, args, .. } = &request
        && sql.starts_with("INSERT INTO shared_task_state (")
    {
        if memory.lock().scopes.contains(scope) {
            return Ok(written(1));
        }
        if args.contains(&SqlValue::Text("done".to_owned())) {
            memory.lock().scopes.insert(scope.clone());
        }
    }
    next.run(request).await
}

async fn first_is_marked(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_marked =
        matches!(&request, Request::Exec { sql, .. } if sql.starts_with("UPDATE notes SET state = 'done'"));
    if is_marked && std::mem::replace(&mut memory.lock().flag, true) {
        return Ok(written(1));
    }
    next.run(request).await
}

fn leases_ignored(request: &mut Request) {
    if let Request::Exec { sql, args, .. } | Request::Query { sql, args, .. } = request
        && sql.contains("state <> 'done' AND lease_until <= ?")
        && let Some(now) = args.last_mut()
    {
        *now = SqlValue::Int(i64::MAX);
    }
}

/// Takes due writes by age, and counts no attempts.
fn oldest_first(request: &mut Request) {
    match request {
        Request::Query { sql, .. } => {
            *sql = sql.replace("ORDER BY next_attempt_at, seq LIMIT", "ORDER BY seq LIMIT");
        }
        Request::Exec { sql, args, .. }
            if sql.starts_with("UPDATE pending_memory_events SET attempts = ?") =>
        {
            set(args, 0, SqlValue::Int(0));
            set(args, 1, SqlValue::Int(0));
        }
        _ => {}
    }
}
