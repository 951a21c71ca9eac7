//! A database of the original, read whole before anything is written.

use std::path::Path;

use memory_core::{Error, Result};

use super::flat::{self, Flat};
use super::layout::Layout;
use super::report::{Migrated, TableReport};
use super::storing;
use crate::model::{Agent, Counts};
use crate::rows::Table;
use crate::sessions::Sessions;
use crate::store::GraphStore;
use crate::transfer::{Foreign, Found, Mode, Outcome, Refusals, Tables, Why, import_rows, read_rows};

/// What a database holds.
#[derive(Debug)]
pub struct Source {
    layout: Layout,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Graph(Agent, Box<Found>),
    Flat(Box<Flat>),
}

impl Source {
    /// Reads a database; its columns tell the layout. The file is opened for reading only, with its log if it has one.
    ///
    /// `agent`: only that agent's rows are taken; the others are refused as foreign. Without one, a graph's file gives
    /// the rows of the agent it is named after, as in `my-agent.db`, and a flat layout those of every agent.
    ///
    /// # Errors
    /// `invalid_argument` for anything but an ordinary file, and if its name is not an agent's;
    /// `capability_unsupported` for a graph engine's file; `corrupt` for an unknown layout or a damaged file;
    /// `unavailable` for a file that is being written; `too_large`.
    pub fn read(path: &Path, agent: Option<&Agent>) -> Result<Self> {
        let foreign = Foreign::open(path)?;
        let named = || path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let source = Self::of(&foreign, agent, named)?;
        foreign.finish()?;
        Ok(source)
    }

    /// Reads a connection: for the graph engine, whose files are read into tables of these layouts, and for the fuzz target.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[doc(hidden)]
    pub fn of_connection(connection: rusqlite::Connection, agent: Option<&Agent>) -> Result<Self> {
        Self::of(&Foreign::over(connection)?, agent, || "")
    }

    fn of<'a>(foreign: &Foreign, agent: Option<&Agent>, named: impl Fn() -> &'a str) -> Result<Self> {
        let layout = Layout::of(foreign)?;
        let content = if layout == Layout::Graph {
            let agent = match agent {
                Some(agent) => agent.clone(),
                None => Agent::new(named()).map_err(|error| {
                    error.retold("the file is not named after an agent; name the agent whose graph it is")
                })?,
            };
            let found = read_rows(foreign, &agent, false)?;
            Content::Graph(agent, Box::new(found))
        } else {
            Content::Flat(Box::new(flat::read(foreign, layout, agent)?))
        };
        Ok(Self { layout, content })
    }

    /// What the file is.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Stores what does not exist yet: a graph in one transaction, flat rows in transactions of at most 500.
    ///
    /// # Errors
    /// The store's errors. Run it again to continue where it was interrupted.
    pub async fn store(self, graphs: &dyn GraphStore, sessions: &Sessions) -> Result<Migrated> {
        let (tables, refusals) = match self.content {
            Content::Flat(flat) => storing::store(sessions, *flat).await?,
            Content::Graph(agent, found) => {
                let Found { graph, rows, mut refusals } = *found;
                let (outcomes, taken) = if graph.counts() == Counts::default() {
                    // An agent without rows in the file gets no graph.
                    (Tables::default(), Vec::new())
                } else {
                    import_rows(graphs, &agent, graph, Mode::Merge).await?
                };
                taken.into_iter().for_each(|(table, id)| refusals.add(table.name(), Why::Taken, || id));
                (tables(rows, outcomes, &refusals), refusals)
            }
        };
        for table in &tables {
            if table.rows != table.stored + table.skipped + table.refused {
                return Err(Error::internal(format!(
                    "rows of {} are not accounted for; compare before the source is removed",
                    table.table
                )));
            }
        }
        Ok(Migrated { layout: self.layout, tables, refusals: refusals.all() })
    }
}

/// The tables of a graph, in the order of the format.
fn tables(mut rows: Tables<u64>, mut outcomes: Tables<Outcome>, refusals: &Refusals) -> Vec<TableReport> {
    let report = |table: Table| {
        let (rows, outcome) = (*rows.of(table), *outcomes.of(table));
        TableReport {
            table: table.name(),
            rows,
            stored: outcome.imported,
            skipped: outcome.skipped,
            refused: refusals.of(table.name()),
        }
    };
    Table::ALL.map(report).into()
}
