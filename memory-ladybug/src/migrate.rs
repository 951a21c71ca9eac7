//! Files of the original's engine, read into tables of the original's SQLite layouts: from there on they are migrated as its
//! databases are, with the same checks and the same account.

use std::path::Path;

use lbug::Value;
use memory_core::{Error, Result};
use memory_hierarchical::migrate::{ENTRY_COLUMNS, SESSION_COLUMNS, Source};
use memory_hierarchical::rows::Table;
use memory_hierarchical::transfer::has_long_integer;
use memory_hierarchical::{Agent, EdgeKind};
use rusqlite::Connection;
use rusqlite::types::Value as Cell;
use serde_json::Value as Json;

use crate::cypher::{self, label};
use crate::engine::{Engine, Side, no_graph};
use crate::lock::Opening;
use crate::rows::{Cells, text};

/// Reads a file of the original's engine: the graph of an agent, or sessions and their memories. The file is only read.
///
/// `agent`: whose rows are taken, the others are refused as foreign. Without one, of a graph those of the agent that the file
/// is named after (of `graph_db` and `kuzu_db`, its folder), and of sessions those of every agent.
///
/// # Errors
/// `invalid_argument` for a symbolic link, and where the name is no agent's; `corrupt` for anything else than these two, and
/// for a damaged file; `unavailable` while a program has it open for writing.
pub async fn read_source(path: &Path, agent: Option<&Agent>) -> Result<Source> {
    crate::files::refuse_link(path)?;
    let named = named(path);
    let agent = agent.cloned();
    let engine = Engine::open(path, Opening::Foreign).await?;
    let read = engine.run(move |connections| {
        let (connection, is_graph) = tables(&connections.reader)?;
        let agent = match agent {
            None if is_graph => Some(named?),
            agent => agent,
        };
        Source::of_connection(connection, agent.as_ref())
    });
    read.await
}

/// The agent that a file is named after.
fn named(path: &Path) -> Result<Agent> {
    let is_graph = |name: &str| matches!(name, "graph_db" | "kuzu_db");
    let of = |path: &Path| path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let name = match of(path) {
        Some(name) if is_graph(&name) => path.parent().and_then(of),
        name => name,
    };
    Agent::new(name.unwrap_or_default()).map_err(|error| {
        error.retold("the file is not named after an agent; name the agent whose graph it is")
    })
}

/// The file's content in SQLite, and whether it is the graph of an agent.
fn tables(side: &Side<'_>) -> Result<(Connection, bool)> {
    let labels = side.labels()?;
    let has = |label: &str| labels.iter().any(|known| known == label);
    memory_sqlite::prepare_process();
    let tables = Tables { side, connection: Connection::open_in_memory().map_err(sql)? };
    let edges = Table::Edges(EdgeKind::SimilarTo);
    let is_graph = [Table::Semantic, Table::Episodic, edges].into_iter().all(|table| has(label(table)));
    if is_graph {
        tables.graph()?;
    } else if has("Session") && FLAT.iter().all(|memories| has(memories.label) && has(memories.edge)) {
        tables.flat()?;
    } else {
        return Err(no_graph());
    }
    Ok((tables.connection, is_graph))
}

struct Tables<'a, 'db> {
    side: &'a Side<'db>,
    connection: Connection,
}

impl Tables<'_, '_> {
    /// Makes a table and fills it with the answer of a statement, whose values have the order of the columns.
    fn fill(&self, table: &str, columns: &[&str], statement: &str) -> Result<()> {
        let read = |cells: &mut Cells| Ok(columns.iter().map(|column| set(column, cells.value())).collect());
        let rows = self.side.rows(statement, Vec::new(), read)?;
        self.make(table, columns)?;
        self.insert(table, columns.len(), rows)
    }

    fn make(&self, table: &str, columns: &[&str]) -> Result<()> {
        // The layout is told by the type of this one.
        let declared = columns.join(", ").replace("importance", "importance REAL");
        self.connection.execute_batch(&format!("CREATE TABLE {table} ({declared})")).map_err(sql)
    }

    fn insert(&self, table: &str, width: usize, rows: Vec<Vec<Value>>) -> Result<()> {
        let marks = vec!["?"; width].join(", ");
        let mut insert =
            self.connection.prepare(&format!("INSERT INTO {table} VALUES ({marks})")).map_err(sql)?;
        for row in rows {
            insert.execute(rusqlite::params_from_iter(row.into_iter().map(cell))).map_err(sql)?;
        }
        Ok(())
    }

    fn graph(&self) -> Result<()> {
        for table in Table::ALL {
            let mut columns: Vec<&str> = table.columns().to_vec();
            match table {
                Table::Edges(_) => columns.push("id"),
                _ => columns.insert(0, "agent_id"),
            }
            self.fill(table.name(), &columns, &cypher::all(table))?;
        }
        Ok(())
    }

    fn flat(&self) -> Result<()> {
        let sessions = "MATCH (n:Session) RETURN n.session_id, CAST(n.created_at AS STRING), \
             CAST(coalesce(n.last_accessed, n.created_at) AS STRING), n.metadata";
        let (more, times) = (&["n.user_id", "n.context", "n.status"], &["n.start_time", "n.end_time"]);
        let sessions = format!("{sessions}{}", also(more, times));
        let rows = self.side.rows(&sessions, Vec::new(), |cells| {
            let (id, created, last) = (cells.value(), utc(cells.value()), utc(cells.value()));
            let metadata = with(cells.value(), more, times, cells)?;
            Ok(vec![id, created, last, metadata])
        })?;
        self.make("sessions", SESSION_COLUMNS)?;
        self.insert("sessions", SESSION_COLUMNS.len(), rows)?;
        self.make("memory_entries", ENTRY_COLUMNS)?;
        for memories in FLAT {
            let rows = self.side.rows(&memories.statement(), Vec::new(), |cells| memories.row(cells))?;
            self.insert("memory_entries", ENTRY_COLUMNS.len(), rows)?;
        }
        let used = "CREATE TABLE session_agents AS SELECT session_id, agent_id, min(created_at) AS first_used, \
             max(accessed_at) AS last_used FROM memory_entries WHERE session_id IS NOT NULL GROUP BY 1, 2";
        self.connection.execute_batch(used).map_err(sql)
    }
}

/// A table of memories of sessions.
struct Flat {
    label: &'static str,
    /// From a session to a memory.
    edge: &'static str,
    kind: &'static str,
    importance: &'static str,
    expires: &'static str,
    /// Properties of the memory and of its edge that the tables have no column for; they go into the metadata.
    more: &'static [&'static str],
    /// As these, but times.
    times: &'static [&'static str],
}

const FLAT: &[Flat] = &[
    Flat {
        label: "SemanticMemory",
        edge: "CONTRIBUTES_TO_SEMANTIC",
        kind: "semantic",
        importance: "NULL",
        expires: "NULL",
        more: &[
            "n.concept",
            "n.category",
            "n.confidence_score",
            "n.version",
            "r.contribution_type",
            "r.delta",
        ],
        times: &["n.last_updated", "r.timestamp"],
    },
    Flat {
        label: "EpisodicMemory",
        edge: "CONTAINS_EPISODIC",
        kind: "episodic",
        importance: "n.importance_score",
        expires: "CAST(n.expires_at AS STRING)",
        more: &["n.event_type", "n.emotional_valence", "r.sequence_number"],
        times: &["n.timestamp"],
    },
    Flat {
        label: "ProceduralMemory",
        edge: "USES_PROCEDURE",
        kind: "procedural",
        importance: "NULL",
        expires: "NULL",
        more: &[
            "n.procedure_name",
            "n.description",
            "n.steps",
            "n.preconditions",
            "n.postconditions",
            "n.success_rate",
            "n.usage_count",
            "r.success",
            "r.notes",
        ],
        times: &["n.last_used", "r.timestamp"],
    },
    Flat {
        label: "ProspectiveMemory",
        edge: "CREATES_INTENTION",
        kind: "prospective",
        importance: "NULL",
        expires: "CAST(n.expires_at AS STRING)",
        more: &[
            "n.intention",
            "n.trigger_condition",
            "n.priority",
            "n.status",
            "n.scope",
            "n.completion_criteria",
        ],
        times: &["n.due_date", "r.timestamp"],
    },
    Flat {
        label: "WorkingMemory",
        edge: "CONTAINS_WORKING",
        kind: "working",
        importance: "NULL",
        expires: "CAST(n.expires_at AS STRING)",
        more: &["n.memory_type", "n.priority", "n.ttl_seconds", "r.activation_level"],
        times: &[],
    },
];

impl Flat {
    fn statement(&self) -> String {
        let more = also(self.more, self.times);
        format!(
            "MATCH (n:{}) OPTIONAL MATCH (s:Session)-[r:{}]->(n) RETURN n.memory_id, s.session_id, n.agent_id, \
             coalesce(n.title, ''), coalesce(n.content, ''), n.tags, {}, CAST(n.created_at AS STRING), \
             CAST(coalesce(n.accessed_at, n.created_at) AS STRING), {}, n.metadata{more}",
            self.label, self.edge, self.importance, self.expires
        )
    }

    fn row(&self, cells: &mut Cells) -> Result<Vec<Value>> {
        let (id, session, agent) = (cells.value(), cells.value(), cells.value());
        let (title, content, tags) = (cells.value(), cells.value(), cells.value());
        let importance = cells.value();
        let (created, accessed, expires) = (utc(cells.value()), utc(cells.value()), utc(cells.value()));
        let metadata = with(cells.value(), self.more, self.times, cells)?;
        let (kind, none) = (Value::String(self.kind.to_owned()), || Value::Null(lbug::LogicalType::Any));
        Ok(vec![
            id,
            session,
            agent,
            kind,
            title,
            content,
            none(),
            metadata,
            tags,
            importance,
            created,
            accessed,
            expires,
            none(),
        ])
    }
}

/// The value of a property of a graph. One that was never set counts as empty, as where the file is read in its place.
fn set(column: &str, value: Value) -> Value {
    match (value, column) {
        (Value::Null(_), "confidence" | "weight") => Value::Double(0.0),
        (Value::Null(_), "turn") => Value::Int64(0),
        (Value::Null(_), "tags") => text("[]"),
        (Value::Null(_), "metadata") => text("{}"),
        (Value::Null(_), _) => text(""),
        (value, _) => value,
    }
}

/// A time of the engine's, which is UTC to the microsecond, as RFC 3339.
fn utc(time: Value) -> Value {
    match time {
        Value::String(text) => Value::String(format!("{}+00:00", text.replacen(' ', "T", 1))),
        other => other,
    }
}

/// Properties to return besides, and times.
fn also(more: &[&str], times: &[&str]) -> String {
    let more = more.iter().map(|property| format!(", {property}"));
    more.chain(times.iter().map(|time| format!(", CAST({time} AS STRING)"))).collect()
}

/// Metadata with the next cells under the names of these properties, where they are set and their names free. Metadata that are
/// no object are left as they are, for the reader to refuse.
fn with(metadata: Value, more: &[&str], times: &[&str], cells: &mut Cells) -> Result<Value> {
    let parsed = match &metadata {
        Value::String(text) if has_long_integer(text) => None,
        Value::String(text) if !text.is_empty() => {
            text.parse::<memory_core::Json>().ok().and_then(|json| json.to_value().ok())
        }
        _ => Some(Json::Object(serde_json::Map::new())),
    };
    let Some(Json::Object(mut members)) = parsed else { return Ok(metadata) };
    let values: Vec<Value> = more.iter().map(|_| cells.value()).collect();
    let values = values.into_iter().chain(times.iter().map(|_| utc(cells.value())));
    for (property, value) in more.iter().chain(times).zip(values) {
        let (_, name) = property.split_once('.').unwrap_or_default();
        let value = match value {
            Value::String(text) if !text.is_empty() => Json::from(text),
            Value::Bool(truth) => Json::from(truth),
            Value::Double(number) => Json::from(number),
            Value::Int64(number) => Json::from(number),
            _ => continue,
        };
        members.entry(name).or_insert(value);
    }
    let written = serde_json::to_string(&members);
    written.map(Value::String).map_err(|error| Error::internal("metadata is no JSON").with_source(error))
}

fn cell(value: Value) -> Cell {
    match value {
        Value::String(text) => Cell::Text(text),
        Value::Double(number) => Cell::Real(number),
        Value::Int64(number) => Cell::Integer(number),
        _ => Cell::Null,
    }
}

fn sql(error: rusqlite::Error) -> Error {
    Error::internal("a database in memory cannot be filled").with_source(error)
}
