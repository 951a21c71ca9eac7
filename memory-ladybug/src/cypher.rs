//! The tables and the statements on them. Names come from the constants here, everything else is a bound parameter.
//!
//! Nodes and edges have the original's properties and two more: `added`, the revision that brought them, and on edges
//! `agent_id`.

use memory_hierarchical::EdgeKind;

/// A table of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeTable {
    pub(crate) label: &'static str,
    /// The properties of a memory, in the order of a row's values.
    pub(crate) columns: &'static [&'static str],
}

pub(crate) const SEMANTIC: NodeTable = NodeTable {
    label: "SemanticMemory",
    columns: &[
        "memory_id",
        "concept",
        "content",
        "confidence",
        "source_id",
        "tags",
        "metadata",
        "created_at",
        "entity_name",
    ],
};

pub(crate) const EPISODIC: NodeTable = NodeTable {
    label: "EpisodicMemory",
    columns: &["memory_id", "content", "source_label", "tags", "metadata", "created_at"],
};

/// A table of edges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeTable {
    pub(crate) label: &'static str,
    pub(crate) target: NodeTable,
    /// The properties after the ends, in the order of a row's values.
    pub(crate) columns: &'static [&'static str],
}

pub(crate) const fn edge_table(kind: EdgeKind) -> EdgeTable {
    match kind {
        EdgeKind::SimilarTo => {
            EdgeTable { label: "SIMILAR_TO", target: SEMANTIC, columns: &["weight", "metadata"] }
        }
        EdgeKind::DerivesFrom => EdgeTable {
            label: "DERIVES_FROM",
            target: EPISODIC,
            columns: &["extraction_method", "confidence"],
        },
        EdgeKind::Supersedes => {
            EdgeTable { label: "SUPERSEDES", target: SEMANTIC, columns: &["reason", "temporal_delta"] }
        }
        EdgeKind::TransitionedTo => EdgeTable {
            label: "TRANSITIONED_TO",
            target: SEMANTIC,
            columns: &["from_value", "to_value", "turn", "transition_type"],
        },
    }
}

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

/// Which rows, in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Page {
    /// By key.
    ByKey,
    /// By key, of one entity.
    OfEntity,
    /// By the revision that added them, then by key.
    ByAddition,
}

/// The revision that added `name`. What the original wrote counts as added by revision 1.
fn added(name: &str, is_own: bool) -> String {
    if is_own { format!("{name}.added") } else { "CAST(1, 'INT64')".to_owned() }
}

fn properties(name: &str, columns: &[&str]) -> String {
    columns.iter().map(|column| format!("{name}.{column}")).collect::<Vec<_>>().join(", ")
}

/// `{column: $column, …}` or `{column: r.column, …}`.
fn members(columns: &[&str], from: &str) -> String {
    columns.iter().map(|column| format!("{column}: {from}{column}")).collect::<Vec<_>>().join(", ")
}

impl NodeTable {
    pub(crate) fn by_ids(self) -> String {
        let Self { label, columns } = self;
        let returned = properties("n", columns);
        format!(
            "UNWIND $ids AS id MATCH (n:{label} {{memory_id: id}}) WHERE n.agent_id = $agent RETURN {returned}"
        )
    }

    pub(crate) fn held(self) -> String {
        let label = self.label;
        format!(
            "UNWIND $ids AS id MATCH (n:{label} {{memory_id: id}}) WHERE n.agent_id = $agent RETURN n.memory_id"
        )
    }

    pub(crate) fn page(self, page: Page, is_own: bool) -> String {
        let Self { label, columns } = self;
        let (returned, added) = (properties("n", columns), added("n", is_own));
        let (returned, filter, order) = match page {
            Page::ByKey => (returned, "n.memory_id > $after".to_owned(), "n.memory_id"),
            Page::OfEntity => {
                (returned, "n.memory_id > $after AND n.entity_name = $entity".to_owned(), "n.memory_id")
            }
            Page::ByAddition => (
                format!("{added} AS revision, {returned}"),
                format!(
                    "{added} <= $through AND ({added} > $revision OR ({added} = $revision AND n.memory_id > $after))"
                ),
                "revision, n.memory_id",
            ),
        };
        format!(
            "MATCH (n:{label}) WHERE n.agent_id = $agent AND {filter} RETURN {returned} ORDER BY {order} LIMIT $limit"
        )
    }

    pub(crate) fn count(self) -> String {
        format!("MATCH (n:{}) WHERE n.agent_id = $agent RETURN count(*)", self.label)
    }

    pub(crate) fn create(self) -> String {
        let Self { label, columns } = self;
        let members = members(columns, "r.");
        format!("UNWIND $rows AS r CREATE (:{label} {{{members}, agent_id: $agent, added: $added}})")
    }

    pub(crate) fn delete(self) -> String {
        format!("MATCH (n:{}) WHERE n.agent_id = $agent DETACH DELETE n", self.label)
    }
}

impl EdgeTable {
    /// Both ends are the agent's; in our files the edge itself too.
    fn of_agent(is_own: bool) -> &'static str {
        if is_own {
            "a.agent_id = $agent AND b.agent_id = $agent AND e.agent_id = $agent"
        } else {
            "a.agent_id = $agent AND b.agent_id = $agent"
        }
    }

    fn returned(self) -> String {
        format!("a.memory_id AS source, b.memory_id AS target, {}", properties("e", self.columns))
    }

    pub(crate) fn at(self, is_outgoing: bool, is_own: bool) -> String {
        let (source, target) = if is_outgoing { (" {memory_id: id}", "") } else { ("", " {memory_id: id}") };
        format!(
            "UNWIND $ids AS id MATCH (a:{}{source})-[e:{}]->(b:{}{target}) WHERE {} RETURN {}",
            SEMANTIC.label,
            self.label,
            self.target.label,
            Self::of_agent(is_own),
            self.returned()
        )
    }

    pub(crate) fn page(self, page: Page, is_own: bool) -> String {
        let after = "(a.memory_id > $source OR (a.memory_id = $source AND b.memory_id > $target))";
        let added = added("e", is_own);
        let (returned, filter, order) = match page {
            Page::ByKey | Page::OfEntity => (self.returned(), after.to_owned(), "source, target"),
            Page::ByAddition => (
                format!("{added} AS revision, {}", self.returned()),
                format!("{added} <= $through AND ({added} > $revision OR ({added} = $revision AND {after}))"),
                "revision, source, target",
            ),
        };
        format!(
            "MATCH (a:{})-[e:{}]->(b:{}) WHERE {} AND {filter} RETURN {returned} ORDER BY {order} LIMIT $limit",
            SEMANTIC.label,
            self.label,
            self.target.label,
            Self::of_agent(is_own),
        )
    }

    pub(crate) fn count(self, is_own: bool) -> String {
        format!(
            "MATCH (a:{})-[e:{}]->(b:{}) WHERE {} RETURN count(*)",
            SEMANTIC.label,
            self.label,
            self.target.label,
            Self::of_agent(is_own)
        )
    }

    /// Which of these pairs are linked.
    pub(crate) fn linked(self) -> String {
        format!(
            "UNWIND $pairs AS p MATCH (a:{} {{memory_id: p.source}})-[e:{}]->(b:{} {{memory_id: p.target}}) \
             WHERE {} RETURN a.memory_id, b.memory_id",
            SEMANTIC.label,
            self.label,
            self.target.label,
            Self::of_agent(true)
        )
    }

    /// One edge: both ends are found by the index of their keys, which a list of edges would not use.
    pub(crate) fn create(self) -> String {
        format!(
            "MATCH (a:{} {{memory_id: $source}}), (b:{} {{memory_id: $target}}) \
             CREATE (a)-[:{} {{{}, agent_id: $agent, added: $added}}]->(b)",
            SEMANTIC.label,
            self.target.label,
            self.label,
            members(self.columns, "$")
        )
    }

    /// Every edge of the file, whoever's, with the agent of its source.
    pub(crate) fn all(self) -> String {
        format!(
            "MATCH (a:{})-[e:{}]->(b:{}) RETURN {}",
            SEMANTIC.label,
            self.label,
            self.target.label,
            self.returned()
        )
    }
}

impl NodeTable {
    /// Every memory of the file, whoever's, after its agent.
    pub(crate) fn all(self) -> String {
        format!("MATCH (n:{}) RETURN n.agent_id, {}", self.label, properties("n", self.columns))
    }
}
