//! Defects between a graph and its tables.

use memory_core::sql::SqlValue;
use memory_core::{Next, Reply, Request, Result};

use crate::mutants::mutant::mutants;
use crate::mutants::statements::{column_of, keeps_what_failed, nothing_of, set, written};

mutants! {
    |memory, request, next|
    "graph.floats-rounded": ["GRA-1", "GRA-19"] needs [Sql, HostTables], "a confidence keeps half of its digits"
        => ask(Request::Exec { sql, args, .. } if sql.starts_with("INSERT INTO semantic_memories ") => args.iter_mut().for_each(rounded));
    "graph.kinds-share-ids": ["GRA-2"] needs [Sql, HostTables], "knowledge and an event may have one id"
        => around(nothing_of("SELECT memory_id FROM semantic_memories WHERE agent_id = ? AND memory_id IN", request, next).await);
    "graph.lost-edges": ["GRA-3"] needs [Sql, HostTables], "an edge is acknowledged and not stored"
        => instead(Request::Exec { sql, .. } if sql.starts_with("INSERT INTO derives_from_edges ") => Ok(written(1)));
    "graph.one-way": ["GRA-3"] needs [Sql, HostTables], "an edge is seen from its source alone"
        => around(nothing_of("AND target_id = ? AND (source_id) >", request, next).await);
    "graph.itself-twice": ["GRA-3"] needs [Sql, HostTables], "an edge from a memory to itself counts twice"
        => ask(Request::Query { sql, .. } if sql.contains(" AND source_id <> target_id") => *sql = sql.replace(" AND source_id <> target_id", ""));
    "graph.first-edge-alone": ["GRA-3"] needs [Sql, HostTables], "of many edges only one is shown"
        => ask(Request::Query { sql, args, .. } if sql.contains("AND source_id = ? AND (target_id) >") => set(args, 3, SqlValue::Int(1)));
    "graph.double-edges": ["GRA-4", "GRA-8", "GRA-18"] needs [Sql, HostTables], "two memories have one edge many times"
        => ask(Request::Exec { sql, .. } if sql.starts_with("CREATE TABLE IF NOT EXISTS similar_to_edges ")
            => *sql = sql.replace("PRIMARY KEY (agent_id, source_id, target_id), ", "").replace(" WITHOUT ROWID", ""));
    "graph.loose-ends": ["GRA-5", "GRA-16"] needs [Sql, HostTables], "an edge may end at nothing"
        => ask(Request::Exec { sql, .. } if sql.starts_with("CREATE TABLE IF NOT EXISTS ") => without_foreign_keys(sql));
    "graph.circles": ["GRA-7", "GRA-8"] needs [Sql, HostTables], "memories supersede each other"
        => around(nothing_of("FROM supersedes_edges WHERE agent_id = ? AND target_id IN", request, next).await);
    "graph.circles-merged": ["GRA-25"] needs [Sql, HostTables], "a file closes a circle with what supersedes what already"
        => around(nothing_of("FROM supersedes_edges WHERE agent_id = ? ORDER BY", request, next).await);
    "graph.foreign-rows": ["GRA-9"] needs [Sql, HostTables], "memories of every agent are read"
        => ask(Request::Query { sql, .. } if sql.contains(" FROM semantic_memories WHERE agent_id = ?") => of_everybody(sql));
    "graph.emptied-with-another": ["GRA-9"] needs [Sql, HostTables], "emptying one graph empties all"
        => ask(Request::Exec { sql, .. } if sql.starts_with("DELETE FROM ") && sql.ends_with(" WHERE agent_id = ?") => of_everybody(sql));
    "graph.empty-ones-listed": ["GRA-10"] needs [Sql, HostTables], "an agent whose graph was emptied is listed"
        => ask(Request::Query { sql, .. } if sql.starts_with("SELECT agent_id FROM graph_agents AS a")
            => *sql = "SELECT agent_id FROM graph_agents ORDER BY agent_id".to_owned());
    "graph.weights-ignored": ["GRA-11"] needs [Sql, HostTables], "every edge is as strong as any"
        => around(column_of("FROM similar_to_edges WHERE agent_id = ? ORDER BY", "weight", SqlValue::Real(1.0), request, next).await);
    "graph.superseded-first": ["GRA-12"] needs [Sql, HostTables], "recall does not see what was superseded"
        => around(nothing_of("FROM supersedes_edges WHERE agent_id = ? ORDER BY", request, next).await);
    "graph.recall-of-yesterday": ["GRA-13"] needs [Sql, HostTables], "recall does not see that the graph changed"
        => around(column_of("SELECT revision FROM graph_agents", "revision", SqlValue::Int(0), request, next).await);
    "graph.replaced-unnoticed": ["GRA-13"] needs [Sql, HostTables], "recall does not see that the graph was replaced"
        => around(column_of("SELECT revision, CASE ", "cleared_at", SqlValue::Int(0), request, next).await);
    "graph.transitions-unwalked": ["GRA-14"] needs [Sql, HostTables], "a path does not lead along transitions"
        => around(nothing_of("FROM transitioned_to_edges WHERE agent_id = ? AND source_id IN", request, next).await);
    "graph.history-of-everything": ["GRA-15"] needs [Sql, HostTables], "the history of one entity tells those of others"
        => ask(Request::Query { sql, .. } if sql.contains("AND entity_name = ?") => *sql = sql.replace("entity_name = ?", "? IS NOT NULL"));
    "graph.half-an-import": ["GRA-16"] needs [Sql, HostTables], "what an import wrote before it failed stays"
        => around(keeps_what_failed(memory, 1, request, next).await);
    "graph.events-survive": ["GRA-17"] needs [Sql, HostTables], "what is replaced leaves its events behind"
        => instead(Request::Exec { sql, .. } if sql.starts_with("DELETE FROM episodic_memories") => Ok(written(0)));
    "graph.skipped-as-imported": ["GRA-18"] needs [Sql, HostTables], "an edge that was there counts as imported"
        => around(counts_as_stored(request, next).await);
    "graph.others-skipped": ["GRA-18"] needs [Sql, HostTables], "a memory whose id another one has counts as known"
        => around(nothing_of("entity_name FROM semantic_memories WHERE agent_id = ? AND memory_id IN", request, next).await);
    "graph.first-page-alone": ["GRA-19"] needs [Sql, HostTables], "an export ends with the first page of events"
        => around(nothing_of("FROM episodic_memories WHERE agent_id = ? AND (memory_id) >", request, next).await);
    "graph.learnings-repeat": ["GRA-21"] needs [Sql, HostTables], "an agent learns the same many times in a session"
        => ask(Request::Exec { sql, args, .. } if sql.starts_with("INSERT INTO session_entries ") => set(args, 4, SqlValue::Null));
    "graph.expired-shown": ["GRA-22"] needs [Sql, HostTables], "what is over is shown and counted"
        => ask(Request::Query { sql, .. } if sql.contains("expires_ms > ?") => *sql = sql.replace("expires_ms > ?", "? IS NOT NULL"));
    "graph.over-a-millisecond-late": ["GRA-22"] needs [Sql, HostTables], "an entry is still there at the instant of its end"
        => ask(Request::Query { sql, .. } if sql.contains("expires_ms > ?") => *sql = sql.replace("expires_ms > ?", "expires_ms >= ?"));
    "graph.expired-suppresses": ["GRA-22"] needs [Sql, HostTables], "what is over keeps the same from being learned again"
        => instead(Request::Exec { sql, .. } if sql.starts_with("DELETE FROM session_entries WHERE session_id = ? AND agent_id = ?") => Ok(written(0)));
    "graph.removed-with-another": ["GRA-23"] needs [Sql, HostTables], "removing a session removes the entries of all"
        => ask(Request::Exec { sql, .. } if sql.as_str() == "DELETE FROM session_entries WHERE session_id = ?"
            => *sql = sql.replace("session_id = ?", "? IS NOT NULL"));
}

fn rounded(value: &mut SqlValue) {
    if let SqlValue::Real(real) = value {
        *real = (*real * 1e7).round() / 1e7;
    }
}

fn of_everybody(sql: &mut String) {
    *sql = sql.replacen("agent_id = ?", "? IS NOT NULL", 1);
}

fn without_foreign_keys(sql: &mut String) {
    let Some(at) = sql.find(", FOREIGN KEY") else { return };
    let tail = if sql.ends_with(" WITHOUT ROWID") { ") WITHOUT ROWID" } else { ")" };
    sql.truncate(at);
    sql.push_str(tail);
}

async fn counts_as_stored(request: Request, next: Next<'_>) -> Result<Reply> {
    let is_edge =
        matches!(&request, Request::Exec { sql, .. } if sql.starts_with("INSERT INTO similar_to_edges "));
    let mut reply = next.run(request).await?;
    if let Reply::Exec(outcome) = &mut reply
        && is_edge
    {
        outcome.rows_affected = outcome.rows_affected.max(1);
    }
    Ok(reply)
}
