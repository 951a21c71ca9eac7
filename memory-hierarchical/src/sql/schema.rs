//! The tables, in SQL that both dialects understand, except for the placeholders of [`in_dialect`].

use memory_core::SqlDialect;

use crate::model::EdgeKind;
use crate::rows::Table;

/// `{key}` is a text compared by its bytes; `{tail}` makes the table ordered by its key if the dialect can.
///
/// The keys of nodes and edges start with the agent, so that one agent's query reads nothing of another's. For edges,
/// the key serves walks forwards and the index `*_by_target` walks backwards. `added` is the revision that added the
/// row, and `*_by_added` finds what is new to a reader.
const NODES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS graph_agents (agent_id {key} NOT NULL PRIMARY KEY, revision BIGINT NOT NULL, \
     cleared_at BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS semantic_memories (agent_id {key} NOT NULL REFERENCES graph_agents (agent_id), \
     memory_id {key} NOT NULL, added BIGINT NOT NULL, concept TEXT NOT NULL, content TEXT NOT NULL, \
     confidence DOUBLE PRECISION NOT NULL, \
     source_id TEXT NOT NULL, tags TEXT NOT NULL, metadata TEXT NOT NULL, created_at TEXT NOT NULL, \
     entity_name {key} NOT NULL, PRIMARY KEY (agent_id, memory_id))",
    "CREATE INDEX IF NOT EXISTS semantic_by_entity ON semantic_memories (agent_id, entity_name, memory_id)",
    "CREATE TABLE IF NOT EXISTS episodic_memories (agent_id {key} NOT NULL REFERENCES graph_agents (agent_id), \
     memory_id {key} NOT NULL, added BIGINT NOT NULL, content TEXT NOT NULL, source_label TEXT NOT NULL, tags TEXT NOT NULL, \
     metadata TEXT NOT NULL, created_at TEXT NOT NULL, PRIMARY KEY (agent_id, memory_id))",
    "CREATE INDEX IF NOT EXISTS semantic_by_added ON semantic_memories (agent_id, added, memory_id)",
    "CREATE INDEX IF NOT EXISTS episodic_by_added ON episodic_memories (agent_id, added, memory_id)",
];

/// The table of a kind of edges, and its two indexes.
fn edges(kind: EdgeKind) -> [String; 3] {
    let table = Table::Edges(kind);
    let (name, target) = (table.name(), Table::of_targets(kind).name());
    let own = table.columns().iter().skip(table.key().len()).map(|column| match *column {
        "weight" | "confidence" => format!("{column} DOUBLE PRECISION NOT NULL, "),
        "turn" => format!("{column} BIGINT NOT NULL, "),
        text => format!("{text} TEXT NOT NULL, "),
    });
    let own: String = own.collect();
    let short = name.split('_').next().unwrap_or_default();
    [
        format!(
            "CREATE TABLE IF NOT EXISTS {name} (agent_id {{key}} NOT NULL, source_id {{key}} NOT NULL, \
             target_id {{key}} NOT NULL, added BIGINT NOT NULL, {own}PRIMARY KEY (agent_id, source_id, target_id), \
             FOREIGN KEY (agent_id, source_id) REFERENCES semantic_memories (agent_id, memory_id), \
             FOREIGN KEY (agent_id, target_id) REFERENCES {target} (agent_id, memory_id)){{tail}}"
        ),
        format!("CREATE INDEX IF NOT EXISTS {short}_by_target ON {name} (agent_id, target_id, source_id)"),
        format!(
            "CREATE INDEX IF NOT EXISTS {short}_by_added ON {name} (agent_id, added, source_id, target_id)"
        ),
    ]
}

pub(super) fn statements(dialect: SqlDialect) -> Vec<String> {
    let nodes = NODES.iter().map(ToString::to_string);
    let all = nodes.chain(EdgeKind::ALL.into_iter().flat_map(edges));
    all.map(|statement| in_dialect(&statement, dialect)).collect()
}

fn in_dialect(statement: &str, dialect: SqlDialect) -> String {
    let (key, tail) = match dialect {
        SqlDialect::Postgres => ("TEXT COLLATE \"C\"", ""),
        _ => ("TEXT", " WITHOUT ROWID"),
    };
    statement.replace("{key}", key).replace("{tail}", tail)
}
