//! [`SqlGraphs`]: graphs in the tables of one tenant.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory_core::host::{Cells, HostTables, int, text};
use memory_core::sql::SqlValue;
use memory_core::{Error, ErrorKind, IdGen, Provider, Result, SqlDialect, TenantId};

use super::rows::{MAX_IDS, marks};
use super::schema;
use super::write::SqlWrite;
use crate::model::{Agent, Counts};
use crate::rows::{Order, Page, Row, Table};
use crate::space::{SPACE, begin, create};
use crate::store::{Changes, Direction, GraphStore, GraphWrite, each_row};

/// Time limit of one statement: removing a large graph may take longer than an agent's statement.
const STATEMENT: Duration = Duration::from_secs(600);
/// The largest step by which a revision grows.
const MAX_STEP: u128 = 1 << 24;

/// Graphs in the tables of one tenant, on any provider that serves
/// [`host_tables`](memory_core::Capabilities::host_tables): SQLite and PostgreSQL.
#[derive(Debug)]
pub struct SqlGraphs {
    tables: HostTables,
    ids: Arc<dyn IdGen>,
}

impl SqlGraphs {
    /// Opens a tenant's graphs, and creates their tables if missing. Revisions grow by steps from `ids`, so that an
    /// erased or restored graph never gets a revision that a reader knows from another.
    ///
    /// # Errors
    /// `capability_unsupported` for a provider without [`host_tables`](memory_core::Capabilities::host_tables); the
    /// store's errors.
    pub async fn open(provider: Arc<dyn Provider>, tenant: &TenantId, ids: Arc<dyn IdGen>) -> Result<Self> {
        let tables = HostTables::new(provider, tenant, SPACE)?.with_timeout(STATEMENT);
        let graphs = Self { tables, ids };
        graphs.create().await?;
        Ok(graphs)
    }

    /// Whether a tenant has graphs; does not create any.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn are_made(provider: Arc<dyn Provider>, tenant: &TenantId) -> Result<bool> {
        HostTables::new(provider, tenant, SPACE)?.has("graph_agents").await
    }

    async fn create(&self) -> Result<()> {
        create(&self.tables, &schema::statements(self.tables.dialect())).await
    }

    /// Reads rows. If the tables are gone, because the tenant was erased or restored, they are created again.
    async fn query(&self, query: &str, args: &[SqlValue]) -> Result<Vec<Cells>> {
        match self.tables.plain().query(query, args).await {
            Err(error) if is_without_tables(&error) => {
                self.create().await?;
                self.tables.plain().query(query, args).await
            }
            done => done,
        }
    }

    async fn one(&self, query: &str, args: &[SqlValue]) -> Result<Option<Cells>> {
        Ok(self.query(query, args).await?.into_iter().next())
    }

    async fn begin(&self, agent: &Agent) -> Result<SqlWrite<'_>> {
        let step = u64::try_from(self.ids.fresh() % MAX_STEP).unwrap_or_default() + 1;
        SqlWrite::of(begin(&self.tables).await?, agent, step).await
    }
}

/// Whether a statement failed because its tables are gone; our statements are never invalid otherwise.
fn is_without_tables(error: &Error) -> bool {
    error.kind() == ErrorKind::InvalidArgument
}

/// Asks for fewer rows at a time if they are too long.
fn shorten(error: Error, step: &mut usize) -> Result<()> {
    if error.kind() != ErrorKind::ResultTooLarge || *step <= 1 {
        return Err(error);
    }
    *step = (*step / 4).max(1);
    Ok(())
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
        let begun = match self.begin(agent).await {
            Err(error) if is_without_tables(&error) => {
                self.create().await?;
                self.begin(agent).await
            }
            begun => begun,
        };
        Ok(Box::new(begun?))
    }

    async fn at(&self, agent: &Agent, table: Table, column: &'static str, ids: &[&str]) -> Result<Vec<Row>> {
        let (mut found, mut left, mut step) = (Vec::new(), ids, MAX_IDS);
        let (columns, name) = (table.columns().join(", "), table.name());
        while !left.is_empty() {
            let (some, rest) = left.split_at(step.min(left.len()));
            let marks = marks(some.len());
            let found_by = format!("agent_id = ? AND {column} IN ({marks})");
            let (filter, owners) = match column {
                // SQLite keeps no statistics and would scan all edges of the agent; with the keys alone, it uses the
                // index by target.
                "target_id" => {
                    let keys = format!("SELECT source_id, target_id FROM {name} WHERE {found_by}");
                    (format!("agent_id = ? AND (source_id, target_id) IN ({keys})"), 2)
                }
                _ => (found_by, 1),
            };
            let query = format!("SELECT {columns} FROM {name} WHERE {filter}");
            let mut args = vec![text(agent.as_str()); owners];
            args.extend(some.iter().map(|id| text(*id)));
            match self.query(&query, &args).await {
                Ok(rows) => {
                    for mut row in rows {
                        found.push(Row::read(table, &mut row)?);
                    }
                    left = rest;
                }
                // Longer than one answer may be: read page by page.
                Err(error) if error.kind() == ErrorKind::ResultTooLarge && some.len() == 1 => {
                    for id in some {
                        let mut take = |_, row| {
                            found.push(row);
                            true
                        };
                        each_row(self, agent, table, Order::At(column, id), &mut take).await?;
                    }
                    left = rest;
                }
                Err(error) => shorten(error, &mut step)?,
            }
        }
        Ok(found)
    }

    async fn degree(&self, agent: &Agent, table: Table, direction: Direction, id: &str) -> Result<u64> {
        let name = table.name();
        let ends: &[&str] = match direction {
            Direction::Outgoing => &["source_id = ?"],
            Direction::Incoming => &["target_id = ?"],
            // An edge from the memory to itself is one edge, not two.
            Direction::Both => &["source_id = ?", "target_id = ? AND source_id <> target_id"],
        };
        let mut degree = 0;
        for end in ends {
            let query = format!("SELECT count(*) FROM {name} WHERE agent_id = ? AND {end}");
            let found = self.one(&query, &[text(agent.as_str()), text(id)]).await?;
            degree += found.map_or(Ok(0), |mut row| row.count())?;
        }
        Ok(degree)
    }

    async fn page(&self, agent: &Agent, table: Table, page: Page<'_>) -> Result<Vec<(u64, Row)>> {
        let key = table.key().join(", ");
        let (order, filter, argument) = match page.order {
            Order::Key => (key, "", None),
            Order::Entity(entity) => (key, " AND entity_name = ?", Some(text(entity))),
            // The rest of the key; an index has it in this order.
            Order::At("source_id", id) => ("target_id".to_owned(), " AND source_id = ?", Some(text(id))),
            Order::At(_, id) => ("source_id".to_owned(), " AND target_id = ?", Some(text(id))),
            Order::Added { through, .. } => (format!("added, {key}"), " AND added <= ?", Some(int(through))),
        };
        let place = |revision: u64, key: &[&str]| -> Vec<SqlValue> {
            let revision = matches!(page.order, Order::Added { .. }).then(|| int(revision));
            let key = match page.order {
                Order::At("source_id", _) => key.get(1..).unwrap_or_default(),
                Order::At(..) => key.get(..1).unwrap_or_default(),
                _ => key,
            };
            revision.into_iter().chain(key.iter().copied().map(text)).collect()
        };
        let mut after = match page.order {
            // Every id comes after the empty text, because none is empty.
            Order::Added { from, .. } if page.after.is_empty() => place(from, &vec![""; table.key().len()]),
            Order::Added { from, .. } => place(from, page.after),
            // A lower bound, so that SQLite uses the index by target.
            Order::At(..) if page.after.is_empty() => place(0, &vec![""; table.key().len()]),
            _ => place(0, page.after),
        };
        let (columns, name) = (table.columns().join(", "), table.name());
        let (mut found, mut step) = (Vec::new(), page.limit);
        while found.len() < page.limit {
            let wanted = step.min(page.limit - found.len());
            let from = match after.len() {
                0 => String::new(),
                places => format!(" AND ({order}) > ({})", marks(places)),
            };
            let query = format!(
                "SELECT added, {columns} FROM {name} WHERE agent_id = ?{filter}{from} ORDER BY {order} LIMIT ?"
            );
            let mut args = vec![text(agent.as_str())];
            args.extend(argument.iter().chain(&after).cloned());
            args.push(int(wanted));
            let rows = match self.query(&query, &args).await {
                Ok(rows) => rows,
                Err(error) => {
                    shorten(error, &mut step)?;
                    continue;
                }
            };
            let is_last = rows.len() < wanted;
            for mut row in rows {
                found.push((row.count()?, Row::read(table, &mut row)?));
            }
            let Some((revision, last)) = found.last().filter(|_| !is_last) else { break };
            after = place(*revision, &last.key());
        }
        Ok(found)
    }

    async fn counts(&self, agent: &Agent) -> Result<Counts> {
        let counts =
            Table::ALL.map(|table| format!("(SELECT count(*) FROM {} WHERE agent_id = ?)", table.name()));
        let args = vec![text(agent.as_str()); counts.len()];
        let query = format!("SELECT {}", counts.join(", "));
        let Some(mut row) = self.one(&query, &args).await? else {
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
        let row = self.one(query, &[text(agent.as_str())]).await?;
        row.map_or(Ok(0), |mut row| row.count())
    }

    async fn changes(&self, agent: &Agent, since: u64) -> Result<Changes> {
        let gained = Table::ALL.map(|table| {
            let name = table.name();
            format!("(SELECT max(added) FROM {name} AS t WHERE t.agent_id = g.agent_id AND t.added > ?)")
        });
        // A revision without rows of its own belongs to another graph, or has left no trace.
        let known = Table::ALL.map(|table| {
            let name = table.name();
            format!("OR EXISTS (SELECT 1 FROM {name} AS t WHERE t.agent_id = g.agent_id AND t.added = ?)")
        });
        let query = format!(
            "SELECT revision, CASE WHEN cleared_at = ? {} THEN cleared_at ELSE revision END AS cleared_at, {} \
             FROM graph_agents AS g WHERE g.agent_id = ?",
            known.join(" "),
            gained.join(", ")
        );
        let mut args = vec![int(since); 1 + known.len() + gained.len()];
        args.push(text(agent.as_str()));
        let Some(mut row) = self.one(&query, &args).await? else {
            return Ok(Changes::default());
        };
        let (revision, cleared_at) = (row.count()?, row.count()?);
        let mut tables = Vec::new();
        for table in Table::ALL {
            tables.extend(row.maybe_int()?.map(|_| table));
        }
        Ok(Changes { revision, cleared_at, tables })
    }

    async fn agents(&self) -> Result<Vec<Agent>> {
        let query = "SELECT agent_id FROM graph_agents AS a \
             WHERE EXISTS (SELECT 1 FROM semantic_memories AS s WHERE s.agent_id = a.agent_id) \
             OR EXISTS (SELECT 1 FROM episodic_memories AS e WHERE e.agent_id = a.agent_id) ORDER BY agent_id";
        let rows = self.query(query, &[]).await?;
        rows.into_iter().map(|mut row| Agent::new(row.text()?)).collect()
    }
}
