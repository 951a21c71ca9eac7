//! The graphs kept in memory: a bounded number of bytes, least recently used dropped first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use futures_util::lock::Mutex as AsyncMutex;
use memory_core::Result;

use super::index::GraphIndex;
use crate::model::Agent;
use crate::rows::{Order, Row, Table};
use crate::store::{Changes, GraphStore, each_row};

/// A graph that gained more rows than this is reread, while others keep using the old index.
const MAX_GAIN: usize = 20_000;
/// How often to retry reading a graph that keeps being replaced.
const ATTEMPTS: usize = 5;
/// Most graphs in memory.
const MAX_AGENTS: usize = 64;

/// One agent's graph. Readers share it; only taking over changes excludes them.
#[derive(Debug, Default)]
pub(super) struct Slot {
    index: RwLock<GraphIndex>,
    /// Held while rows are read, so that two readers do not read the same.
    reading: AsyncMutex<()>,
}

impl Slot {
    pub(super) fn index(&self) -> RwLockReadGuard<'_, GraphIndex> {
        // A panic under the lock leaves an index that is at worst incomplete; hits are read from the store anyway.
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, GraphIndex> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Slots {
    /// Each with when it was last used.
    by_agent: HashMap<Agent, (Arc<Slot>, u64)>,
    uses: u64,
}

/// The graphs in memory.
#[derive(Debug)]
pub(super) struct Cache {
    slots: Mutex<Slots>,
    most_bytes: usize,
}

impl Cache {
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { slots: Mutex::default(), most_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, agent: &Agent) -> Arc<Slot> {
        let mut slots = self.lock();
        slots.uses += 1;
        let now = slots.uses;
        let (slot, used) = slots.by_agent.entry(agent.clone()).or_default();
        *used = now;
        Arc::clone(slot)
    }

    /// The agent's current graph. One read tells whether it changed; then only what is new is read.
    pub(super) async fn current(&self, graphs: &dyn GraphStore, agent: &Agent) -> Result<Arc<Slot>> {
        let slot = self.slot(agent);
        let mut revision = graphs.revision(agent).await?;
        if slot.index().revision != revision {
            let _reading = slot.reading.lock().await;
            revision = catch_up(graphs, agent, &slot).await?;
            self.make_room(agent);
        }
        if revision == 0 {
            // Names of agents that do not exist must take no memory.
            self.lock().by_agent.remove(agent);
        }
        Ok(slot)
    }

    /// Drops the least recently used graphs until the rest fits; the one in use stays.
    fn make_room(&self, in_use: &Agent) {
        let mut slots = self.lock();
        loop {
            let bytes: usize = slots
                .by_agent
                .values()
                .map(|(slot, _)| slot.index.try_read().map_or(0, |index| index.bytes()))
                .sum();
            if bytes <= self.most_bytes && slots.by_agent.len() <= MAX_AGENTS {
                return;
            }
            let others = slots.by_agent.iter().filter(|(agent, _)| *agent != in_use);
            let oldest = others.min_by_key(|(_, (_, used))| *used).map(|(agent, _)| agent.clone());
            let Some(oldest) = oldest else { return };
            slots.by_agent.remove(&oldest);
        }
    }
}

/// Brings an index up to the graph's revision, and returns that. The index changes in one step, so a caller that goes
/// away leaves it intact.
async fn catch_up(graphs: &dyn GraphStore, agent: &Agent, slot: &Slot) -> Result<u64> {
    for _ in 1..ATTEMPTS {
        let revision = catch_up_once(graphs, agent, slot).await?;
        // If the graph is replaced while it is read, the index has parts of both.
        if graphs.changes(agent, revision).await?.cleared_at <= revision {
            return Ok(revision);
        }
    }
    catch_up_once(graphs, agent, slot).await
}

async fn catch_up_once(graphs: &dyn GraphStore, agent: &Agent, slot: &Slot) -> Result<u64> {
    let known = slot.index().revision;
    let Changes { revision, cleared_at, tables } = graphs.changes(agent, known).await?;
    if known == revision {
        // Someone else has read it in the meantime.
        return Ok(revision);
    }
    if known > 0 && known < revision && cleared_at <= known {
        let mut gained = Vec::new();
        let is_all = read(graphs, agent, &tables, (known, revision), &mut |change| {
            gained.push(change);
            gained.len() <= MAX_GAIN
        })
        .await?;
        if is_all {
            let mut index = slot.change();
            gained.iter().for_each(|change| index.apply(change));
            index.revision = revision;
            return Ok(revision);
        }
    }
    let mut fresh = GraphIndex::default();
    read(graphs, agent, &Table::ALL, (0, revision), &mut |change| {
        fresh.apply(&change);
        true
    })
    .await?;
    fresh.revision = revision;
    *slot.change() = fresh;
    Ok(revision)
}

/// Hands over what a graph gained after one revision up to another, memories before edges, until `take` has enough.
/// Returns whether it took all.
async fn read(
    graphs: &dyn GraphStore,
    agent: &Agent,
    tables: &[Table],
    (known, through): (u64, u64),
    take: &mut (dyn FnMut(Row) -> bool + Send),
) -> Result<bool> {
    // A whole graph is read faster by its keys.
    let order = match known {
        0 => Order::Key,
        known => Order::Added { from: known.saturating_add(1), through },
    };
    for &table in tables {
        let mut take = |revision, row| revision > through || take(row);
        if !each_row(graphs, agent, table, order, &mut take).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
