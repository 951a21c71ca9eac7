//! [`SqlGraphs`]: graphs in the tables of one tenant.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::host::{Cells, HostTables, int, text};
use memory_core::sql::SqlValue;
use memory_core::{ErrorKind, Provider, Result, SqlDialect, TenantId};

use super::insert::{MAX_IDS, marks};
use super::rows::{EPISODIC, SEMANTIC, Table, edge_table, read_edge, read_episodic, read_semantic};
use super::schema;
use super::write::SqlWrite;
use crate::model::{Agent, Counts, Edge, EdgeKind, Episodic, Node, Semantic};
use crate::space::{SPACE, begin};
use crate::store::{Direction, GraphStore, GraphWrite};

/// How long one statement may take: removing a large graph takes longer than an agent's statement may.
const STATEMENT: Duration = Duration::from_secs(600);

/// Graphs in the tables of one tenant, on any provider that serves
/// [`host_tables`](memory_core::Capabilities::host_tables): SQLite and PostgreSQL.
#[derive(Debug)]
pub struct SqlGraphs {
    tables: HostTables,
}

impl SqlGraphs {
    /// Opens the graphs of a tenant, and creates their tables if they are missing.
    ///
    /// # Errors
    /// `capability_unsupported` for a provider without [`host_tables`](memory_core::Capabilities::host_tables); the
    /// store's errors.
    pub async fn open(provider: Arc<dyn Provider>, tenant: &TenantId) -> Result<Self> {
        let tables = HostTables::new(provider, tenant, SPACE)?.with_timeout(STATEMENT);
        let graphs = Self { tables };
        let tx = begin(&graphs.tables).await?;
        let made = schema::create(&tx, graphs.tables.dialect()).await;
        tx.end(made).await?;
        Ok(graphs)
    }

    /// Rows of a table whose key is in a list, each read by `read`.
    async fn by_ids<T>(
        &self,
        agent: &Agent,
        (table, column): (Table, &str),
        ids: &[&str],
        read: impl Fn(&mut Cells) -> Result<T> + Send,
    ) -> Result<Vec<T>> {
        let (mut found, mut left, mut step) = (Vec::new(), ids, MAX_IDS);
        while !left.is_empty() {
            let (some, rest) = left.split_at(step.min(left.len()));
            let query = format!(
                "SELECT {} FROM {} WHERE agent_id = ? AND {column} IN ({})",
                table.columns,
                table.name,
                marks(some.len())
            );
            let mut args = vec![text(agent.as_str())];
            args.extend(some.iter().map(|id| text(*id)));
            match self.tables.plain().query(&query, &args).await {
                Ok(rows) => {
                    for mut row in rows {
                        found.push(read(&mut row)?);
                    }
                    left = rest;
                }
                // Long texts: fewer at a time.
                Err(error) if error.kind() == ErrorKind::ResultTooLarge && step > 1 => step /= 4,
                Err(error) => return Err(error),
            }
            step = step.max(1);
        }
        Ok(found)
    }

    /// A page of a table by its key, from `key` on.
    async fn page<T>(
        &self,
        table: Table,
        page: Page<'_>,
        read: impl Fn(&mut Cells) -> Result<T> + Send,
        key: impl Fn(&T) -> Vec<SqlValue> + Send,
    ) -> Result<Vec<T>> {
        let Page { select, filter, order, mut after, limit } = page;
        let (mut found, mut step) = (Vec::new(), limit);
        while found.len() < limit {
            let wanted = step.min(limit - found.len());
            let (mut args, mut clause) = (filter.1.clone(), filter.0.to_owned());
            if !after.is_empty() {
                clause.push_str(&format!(" AND ({order}) > ({})", marks(after.len())));
                args.extend(after.iter().cloned());
            }
            args.push(int(wanted));
            let query = format!(
                "SELECT {select}{} FROM {} WHERE {clause} ORDER BY {order} LIMIT ?",
                table.columns, table.name
            );
            let rows = match self.tables.plain().query(&query, &args).await {
                Ok(rows) => rows,
                // Long texts: fewer at a time.
                Err(error) if error.kind() == ErrorKind::ResultTooLarge && step > 1 => {
                    step = (step / 4).max(1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let is_last = rows.len() < wanted;
            for mut row in rows {
                found.push(read(&mut row)?);
            }
            if is_last {
                break;
            }
            after = found.last().map(&key).unwrap_or_default();
        }
        Ok(found)
    }
}

/// Which rows of a table, in which order, from where on.
struct Page<'a> {
    /// What is read before the columns of the table.
    select: &'a str,
    /// A condition and its arguments.
    filter: (&'a str, Vec<SqlValue>),
    order: &'a str,
    after: Vec<SqlValue>,
    limit: usize,
}

impl<'a> Page<'a> {
    fn by_id(agent: &Agent, after: Option<&str>, limit: usize) -> Self {
        Self {
            select: "",
            filter: ("agent_id = ?", vec![text(agent.as_str())]),
            order: "memory_id",
            after: after.map(text).into_iter().collect(),
            limit,
        }
    }

    fn by_addition(agent: &Agent, through: u64, order: &'a str, after: Vec<SqlValue>, limit: usize) -> Self {
        let filter = ("agent_id = ? AND added <= ?", vec![text(agent.as_str()), int(through)]);
        Self { select: "added, ", filter, order, after, limit }
    }
}

#[async_trait]
impl GraphStore for SqlGraphs {
    fn name(&self) -> &str {
        match self.tables.dialect() {
            SqlDialect::Postgres => "postgres",
            _ => "sqlite",
        }
    }

    async fn write(&self, agent: &Agent) -> Result<Box<dyn GraphWrite + '_>> {
        let tx = begin(&self.tables).await?;
        Ok(Box::new(SqlWrite::of(tx, agent).await?))
    }

    async fn nodes(&self, agent: &Agent, ids: &[String]) -> Result<Vec<Node>> {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let semantic = |cells: &mut Cells| read_semantic(cells).map(Node::Semantic);
        let mut nodes = self.by_ids(agent, (SEMANTIC, "memory_id"), &ids, semantic).await?;
        if nodes.len() < ids.len() {
            let episodic = |cells: &mut Cells| read_episodic(cells).map(Node::Episodic);
            nodes.extend(self.by_ids(agent, (EPISODIC, "memory_id"), &ids, episodic).await?);
        }
        Ok(nodes)
    }

    async fn edges(
        &self,
        agent: &Agent,
        ids: &[String],
        direction: Direction,
        kinds: &[EdgeKind],
    ) -> Result<Vec<Edge>> {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let columns: &[&str] = match direction {
            Direction::Outgoing => &["source_id"],
            Direction::Incoming => &["target_id"],
            Direction::Both => &["source_id", "target_id"],
        };
        let mut edges = Vec::new();
        for &kind in kinds {
            for column in columns {
                let read = |cells: &mut Cells| read_edge(kind, cells);
                edges.extend(self.by_ids(agent, (edge_table(kind), column), &ids, read).await?);
            }
        }
        edges.sort_by(|a, b| (a.kind(), a.ends()).cmp(&(b.kind(), b.ends())));
        // One between two of the memories was found from both ends.
        edges.dedup_by(|a, b| a.kind() == b.kind() && a.ends() == b.ends());
        Ok(edges)
    }

    async fn semantic_page(&self, agent: &Agent, after: Option<&str>, limit: usize) -> Result<Vec<Semantic>> {
        let key = |node: &Semantic| vec![text(&node.memory_id)];
        self.page(SEMANTIC, Page::by_id(agent, after, limit), read_semantic, key).await
    }

    async fn episodic_page(&self, agent: &Agent, after: Option<&str>, limit: usize) -> Result<Vec<Episodic>> {
        let key = |node: &Episodic| vec![text(&node.memory_id)];
        self.page(EPISODIC, Page::by_id(agent, after, limit), read_episodic, key).await
    }

    async fn entity_page(
        &self,
        agent: &Agent,
        entity: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Semantic>> {
        let filter = ("agent_id = ? AND entity_name = ?", vec![text(agent.as_str()), text(entity)]);
        let page = Page { filter, ..Page::by_id(agent, after, limit) };
        self.page(SEMANTIC, page, read_semantic, |node| vec![text(&node.memory_id)]).await
    }

    async fn edge_page(
        &self,
        agent: &Agent,
        kind: EdgeKind,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Edge>> {
        let ends = |(source, target): (&str, &str)| vec![text(source), text(target)];
        let page = Page {
            order: "source_id, target_id",
            after: after.map(ends).unwrap_or_default(),
            ..Page::by_id(agent, None, limit)
        };
        let key = |edge: &Edge| ends(edge.ends());
        self.page(edge_table(kind), page, |cells| read_edge(kind, cells), key).await
    }

    async fn counts(&self, agent: &Agent) -> Result<Counts> {
        let edges = EdgeKind::ALL.map(|kind| edge_table(kind).name);
        let names = [SEMANTIC.name, EPISODIC.name].into_iter().chain(edges);
        let counts: Vec<String> =
            names.map(|name| format!("(SELECT count(*) FROM {name} WHERE agent_id = ?)")).collect();
        let args = vec![text(agent.as_str()); counts.len()];
        let query = format!("SELECT {}", counts.join(", "));
        let Some(mut row) = self.tables.plain().one(&query, &args).await? else {
            return Ok(Counts::default());
        };
        Ok(Counts {
            semantic_node_count: row.count()?,
            episodic_node_count: row.count()?,
            similar_to_edge_count: row.count()?,
            derives_from_edge_count: row.count()?,
            supersedes_edge_count: row.count()?,
            transitioned_to_edge_count: row.count()?,
        })
    }

    async fn revision(&self, agent: &Agent) -> Result<u64> {
        let query = "SELECT revision FROM graph_agents WHERE agent_id = ?";
        match self.tables.plain().one(query, &[text(agent.as_str())]).await? {
            Some(mut row) => row.count(),
            None => Ok(0),
        }
    }

    async fn cleared_at(&self, agent: &Agent) -> Result<u64> {
        let query = "SELECT cleared_at FROM graph_agents WHERE agent_id = ?";
        match self.tables.plain().one(query, &[text(agent.as_str())]).await? {
            Some(mut row) => row.count(),
            None => Ok(0),
        }
    }

    async fn added_nodes(
        &self,
        agent: &Agent,
        (revision, id): (u64, &str),
        through: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Node)>> {
        let page = || {
            let after = vec![int(revision), text(id)];
            Page::by_addition(agent, through, "added, memory_id", after, limit)
        };
        let key = |(revision, node): &(u64, Node)| vec![int(*revision), text(node.id())];
        let semantic = |cells: &mut Cells| Ok((cells.count()?, Node::Semantic(read_semantic(cells)?)));
        let episodic = |cells: &mut Cells| Ok((cells.count()?, Node::Episodic(read_episodic(cells)?)));
        let mut found = self.page(SEMANTIC, page(), semantic, key).await?;
        found.extend(self.page(EPISODIC, page(), episodic, key).await?);
        found.sort_by(|(a, one), (b, other)| (a, one.id()).cmp(&(b, other.id())));
        found.truncate(limit);
        Ok(found)
    }

    async fn added_edges(
        &self,
        agent: &Agent,
        kind: EdgeKind,
        (revision, source, target): (u64, &str, &str),
        through: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Edge)>> {
        let after = vec![int(revision), text(source), text(target)];
        let page = Page::by_addition(agent, through, "added, source_id, target_id", after, limit);
        let read = |cells: &mut Cells| Ok((cells.count()?, read_edge(kind, cells)?));
        let key = |(revision, edge): &(u64, Edge)| {
            let (source, target) = edge.ends();
            vec![int(*revision), text(source), text(target)]
        };
        self.page(edge_table(kind), page, read, key).await
    }

    async fn agents(&self) -> Result<Vec<Agent>> {
        let query = "SELECT agent_id FROM graph_agents AS a \
             WHERE EXISTS (SELECT 1 FROM semantic_memories AS s WHERE s.agent_id = a.agent_id) \
             OR EXISTS (SELECT 1 FROM episodic_memories AS e WHERE e.agent_id = a.agent_id) ORDER BY agent_id";
        let rows = self.tables.plain().query(query, &[]).await?;
        rows.into_iter().map(|mut row| Agent::new(row.text()?)).collect()
    }
}
