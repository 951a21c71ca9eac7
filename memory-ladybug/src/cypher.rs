//! The tables and the statements on them. Names come from the constants here and of [`Table`], everything else is a bound
//! parameter.
//!
//! Nodes and edges have the original's properties and two more: `added`, the revision that brought them, and on edges
//! `agent_id`.

use memory_hierarchical::rows::{Order, Table};
use memory_hierarchical::{Direction, EdgeKind};

/// The table of agents, which only our files have.
pub(crate) const AGENTS: &str = "GraphAgent";

/// Makes the tables of a new file.
pub(crate) const SCHEMA: &[&str] = &[
    "CREATE NODE TABLE IF NOT EXISTS SemanticMemory(memory_id STRING, concept STRING, content STRING, \
     confidence DOUBLE, source_id STRING, agent_id STRING, tags STRING, metadata STRING, created_at STRING, \
     entity_name STRING, added INT64, PRIMARY KEY(memory_id))",
    "CREATE NODE TABLE IF NOT EXISTS EpisodicMemory(memory_id STRING, content STRING, source_label STRING, \
     agent_id STRING, tags STRING, metadata STRING, created_at STRING, added INT64, PRIMARY KEY(memory_id))",
    "CREATE REL TABLE IF NOT EXISTS SIMILAR_TO(FROM SemanticMemory TO SemanticMemory, weight DOUBLE, metadata STRING, \
     agent_id STRING, added INT64)",
    "CREATE REL TABLE IF NOT EXISTS DERIVES_FROM(FROM SemanticMemory TO EpisodicMemory, extraction_method STRING, \
     confidence DOUBLE, agent_id STRING, added INT64)",
    "CREATE REL TABLE IF NOT EXISTS SUPERSEDES(FROM SemanticMemory TO SemanticMemory, reason STRING, \
     temporal_delta STRING, agent_id STRING, added INT64)",
    "CREATE REL TABLE IF NOT EXISTS TRANSITIONED_TO(FROM SemanticMemory TO SemanticMemory, from_value STRING, \
     to_value STRING, turn INT64, transition_type STRING, agent_id STRING, added INT64)",
    "CREATE NODE TABLE IF NOT EXISTS GraphAgent(agent_id STRING, revision INT64, cleared_at INT64, \
     PRIMARY KEY(agent_id))",
];

/// The engine's name of a table.
pub(crate) const fn label(table: Table) -> &'static str {
    match table {
        Table::Semantic => "SemanticMemory",
        Table::Episodic => "EpisodicMemory",
        Table::Edges(EdgeKind::SimilarTo) => "SIMILAR_TO",
        Table::Edges(EdgeKind::DerivesFrom) => "DERIVES_FROM",
        Table::Edges(EdgeKind::Supersedes) => "SUPERSEDES",
        Table::Edges(EdgeKind::TransitionedTo) => "TRANSITIONED_TO",
    }
}

/// The end of an edge that is given.
const AT: &str = " {memory_id: $id}";

/// Nodes as `n`, or edges as `n` from `a` to `b`. `source` and `target`: which properties the ends must have.
fn pattern_of(table: Table, source: &str, target: &str) -> String {
    match table {
        Table::Edges(kind) => format!(
            "(a:{}{source})-[n:{}]->(b:{}{target})",
            label(Table::Semantic),
            label(table),
            label(Table::of_targets(kind))
        ),
        _ => format!("(n:{}{source})", label(table)),
    }
}

fn pattern(table: Table) -> String {
    pattern_of(table, "", "")
}

/// Whether a row is the agent's: of an edge both ends are, and in our files the edge itself too.
const fn of_agent(table: Table, is_own: bool) -> &'static str {
    match (table, is_own) {
        (Table::Semantic | Table::Episodic, _) => "n.agent_id = $agent",
        (Table::Edges(_), false) => "a.agent_id = $agent AND b.agent_id = $agent",
        (Table::Edges(_), true) => "a.agent_id = $agent AND b.agent_id = $agent AND n.agent_id = $agent",
    }
}

/// A column of a table: those of an edge's key are properties of its ends.
fn property(table: Table, column: &str) -> String {
    match (table, column) {
        (Table::Edges(_), "source_id") => "a.memory_id".to_owned(),
        (Table::Edges(_), "target_id") => "b.memory_id".to_owned(),
        _ => format!("n.{column}"),
    }
}

/// What is returned of a row.
fn returned(table: Table) -> String {
    let of = |column: &&str| property(table, column);
    table.columns().iter().map(of).collect::<Vec<_>>().join(", ")
}

/// The columns that the engine keeps in the row itself.
pub(crate) fn own_columns(table: Table) -> &'static [&'static str] {
    let columns = table.columns();
    match table {
        Table::Edges(_) => columns.get(table.key().len()..).unwrap_or_default(),
        _ => columns,
    }
}

/// `column: $column, …` or `column: r.column, …`.
fn members(table: Table, from: &str) -> String {
    let of = |column: &&str| format!("{column}: {from}{column}");
    own_columns(table).iter().map(of).collect::<Vec<_>>().join(", ")
}

/// Rows of whose key a column is one of the `$ids`.
pub(crate) fn at(table: Table, column: &str, is_own: bool) -> String {
    let (source, target) = match column {
        "target_id" => ("", " {memory_id: id}"),
        _ => (" {memory_id: id}", ""),
    };
    format!(
        "UNWIND $ids AS id MATCH {} WHERE {} RETURN {}",
        pattern_of(table, source, target),
        of_agent(table, is_own),
        returned(table)
    )
}

/// Which of the `$ids` a table of memories has.
pub(crate) fn held(table: Table) -> String {
    let pattern = pattern_of(table, " {memory_id: id}", "");
    format!("UNWIND $ids AS id MATCH {pattern} WHERE n.agent_id = $agent RETURN n.memory_id")
}

/// Rows after `$key0` (and `$key1`), each after its revision.
pub(crate) fn page(table: Table, order: Order<'_>, is_own: bool) -> String {
    // What the original wrote counts as added by revision 1.
    let added = if is_own { "n.added" } else { "CAST(1, 'INT64')" };
    let key: Vec<String> = table.key().iter().map(|column| property(table, column)).collect();
    let after = match key.as_slice() {
        [source, target] => {
            format!("({source} > $key0 OR ({source} = $key0 AND {target} > $key1))")
        }
        _ => format!("{} > $key0", key.concat()),
    };
    let key = key.join(", ");
    let (source, target) = match order {
        Order::At("source_id", _) => (AT, ""),
        Order::At(..) => ("", AT),
        _ => ("", ""),
    };
    let (filter, order) = match order {
        Order::Key => (after, key),
        Order::Entity(_) => (format!("n.entity_name = $entity AND {after}"), key),
        Order::At(..) => (after, key),
        Order::Added { .. } => (
            format!("{added} <= $through AND ({added} > $from OR ({added} = $from AND {after}))"),
            format!("revision, {key}"),
        ),
    };
    format!(
        "MATCH {} WHERE {} AND {filter} RETURN {added} AS revision, {} ORDER BY {order} LIMIT $limit",
        pattern_of(table, source, target),
        of_agent(table, is_own),
        returned(table)
    )
}

pub(crate) fn count(table: Table, is_own: bool) -> String {
    format!("MATCH {} WHERE {} RETURN count(*)", pattern(table), of_agent(table, is_own))
}

/// How many edges leave, reach or touch the memory `$id`.
pub(crate) fn degree(table: Table, direction: Direction, is_own: bool) -> Vec<String> {
    let count = |source, target, other| {
        let (pattern, owned) = (pattern_of(table, source, target), of_agent(table, is_own));
        format!("MATCH {pattern} WHERE {owned}{other} RETURN count(*)")
    };
    match direction {
        Direction::Outgoing => vec![count(AT, "", "")],
        Direction::Incoming => vec![count("", AT, "")],
        // One from the memory to itself is an edge, not two.
        Direction::Both => vec![count(AT, "", ""), count("", AT, " AND a.memory_id <> $id")],
    }
}

/// Which of the `$pairs` are linked.
pub(crate) fn linked(table: Table) -> String {
    let pattern = pattern_of(table, " {memory_id: p.source_id}", " {memory_id: p.target_id}");
    format!(
        "UNWIND $pairs AS p MATCH {pattern} WHERE {} RETURN a.memory_id, b.memory_id",
        of_agent(table, true)
    )
}

/// Makes memories of `$rows`, or one edge: both of its ends are found by the index of their keys, which a list of edges would
/// not use.
pub(crate) fn create(table: Table) -> String {
    let label = label(table);
    match table {
        Table::Edges(kind) => format!(
            "MATCH (a:{} {{memory_id: $source_id}}), (b:{} {{memory_id: $target_id}}) \
             CREATE (a)-[:{label} {{{}, agent_id: $agent, added: $added}}]->(b)",
            self::label(Table::Semantic),
            self::label(Table::of_targets(kind)),
            members(table, "$")
        ),
        _ => format!(
            "UNWIND $rows AS r CREATE (:{label} {{{}, agent_id: $agent, added: $added}})",
            members(table, "r.")
        ),
    }
}

/// Deletes an agent's memories, and the edges at them.
pub(crate) fn delete(table: Table) -> String {
    format!("MATCH {} WHERE n.agent_id = $agent DETACH DELETE n", pattern(table))
}

/// Every row of the file, whoever's; memories after their agent.
pub(crate) fn all(table: Table) -> String {
    let agent = if let Table::Edges(_) = table { "" } else { "n.agent_id, " };
    format!("MATCH {} RETURN {agent}{}", pattern(table), returned(table))
}
