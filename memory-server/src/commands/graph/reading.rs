//! `graph tree`, `show`, `history`, `stats` and `recall`.

use clap::Args;
use memory::hierarchical::rows::{Page, Table};
use memory::hierarchical::{
    Agent, AgentMemory, DEFAULT_MEMORY_BYTES, Direction, Edge, EdgeKind, GraphHit, GraphRecall, Neighbour,
    Node, RecallOptions, Recalled, Stats,
};
use memory_core::{Error, ScopeKind};
use serde::Serialize;
use serde_json::{Value, json};

use super::Graphs;
use crate::terminal::{Exit, Failure, Out, note, word};

/// Most edges shown for one memory.
const EDGES: usize = 100;
/// Most bytes of a tree; each line costs some in addition to its own.
const TREE_BYTES: usize = 32 << 20;
const LINE_BYTES: usize = 1 << 10;

#[derive(Args, Debug)]
pub(crate) struct TreeArgs {
    /// Edges to follow from each memory: 0 to 4
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=4))]
    depth: u8,
    /// Most memories of an agent to begin with: 1 to 10,000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: u16,
}

pub(super) async fn tree(graphs: &Graphs, args: &TreeArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (mut document, mut shown) = (Vec::new(), Shown::default());
    for agent in graphs.agents().await? {
        let memory = graphs.memory_of(agent.clone());
        let limit = usize::from(args.limit);
        let mut nodes: Vec<Node> = Vec::new();
        for table in Table::NODES {
            let page = Page::first(limit - nodes.len());
            let rows = graphs.graphs.page(&agent, table, page).await?;
            nodes.extend(rows.into_iter().filter_map(|(_, row)| row.node()));
        }
        shown.lines.push(agent.to_string());
        let mut memories = Vec::new();
        for node in nodes {
            if !shown.take(format!("  {}", said(&node))) {
                break;
            }
            memories.push(branch(&memory, &node, args.depth, 2, &mut shown).await?);
        }
        let truncated = if memories.len() < limit {
            shown.is_full
        } else {
            let counts = graphs.graphs.counts(&agent).await?;
            let all = counts.semantic_node_count + counts.episodic_node_count;
            shown.rest(1, usize::try_from(all).unwrap_or(usize::MAX).saturating_sub(memories.len()))
        };
        document.push(json!({ "agent": agent, "memories": memories, "truncated": truncated }));
    }
    out.tell(&document, |out| shown.lines.iter().try_for_each(|line| out.line(line)))?;
    if shown.is_cut || shown.is_full {
        note(
            "memory: the tree goes on; ask for more with --limit, for less with --depth, or for one memory with `memory graph show`",
        );
        return Ok(Exit::Partial);
    }
    Ok(Exit::Ok)
}

/// What is shown of a tree. A memory is repeated wherever an edge leads to it.
#[derive(Default)]
struct Shown {
    lines: Vec<String>,
    bytes: usize,
    /// Whether there is more than was asked for.
    is_cut: bool,
    /// Whether there is more than fits.
    is_full: bool,
}

impl Shown {
    /// Shows a line; returns `false` if it no longer fits.
    fn take(&mut self, line: String) -> bool {
        self.bytes += line.len() + LINE_BYTES;
        self.is_full |= self.bytes > TREE_BYTES;
        if !self.is_full {
            self.lines.push(line);
        }
        !self.is_full
    }

    /// Says how many more there are, if any. Returns whether something is left out.
    fn rest(&mut self, indent: usize, more: usize) -> bool {
        if more > 0 {
            self.take(format!("{}and {more} more", "  ".repeat(indent)));
            self.is_cut = true;
        }
        more > 0
    }
}

/// A memory and what it leads to.
async fn branch(
    memory: &AgentMemory,
    node: &Node,
    depth: u8,
    indent: usize,
    shown: &mut Shown,
) -> Result<Value, Failure> {
    let (mut beside, mut truncated) = (Vec::new(), false);
    if depth > 0 {
        let found = memory.neighbours(node.id(), Direction::Outgoing, &EdgeKind::ALL, EDGES).await?;
        for Neighbour { edge, node } in &found.shown {
            if !shown.take(format!("{}{} {}", "  ".repeat(indent), word(&edge.kind()), said(node))) {
                break;
            }
            let next = Box::pin(branch(memory, node, depth - 1, indent + 1, shown)).await?;
            beside.push(json!({ "edge": edge, "to": next }));
        }
        truncated = shown.rest(indent, found.total - beside.len().min(found.total));
    }
    Ok(json!({ "node": node, "edges": beside, "truncated": truncated }))
}

/// A memory as one line.
fn said(node: &Node) -> String {
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    match node {
        Node::Semantic(node) if node.concept.is_empty() => {
            format!("{}: {}", node.memory_id, line(&node.content))
        }
        Node::Semantic(node) => {
            format!("{}: {}: {}", node.memory_id, line(&node.concept), line(&node.content))
        }
        Node::Episodic(node) => format!("{} (event): {}", node.memory_id, line(&node.content)),
    }
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Its id
    id: String,
}

pub(super) async fn show(graphs: &Graphs, args: &ShowArgs, out: &mut Out) -> Result<Exit, Failure> {
    let memory = graphs.memory_of(graphs.agent()?);
    let node = memory.nodes(std::slice::from_ref(&args.id)).await?.pop().ok_or_else(|| {
        let agent = memory.agent();
        Error::not_found(format!("{agent} has no such memory; `memory graph tree` lists them"))
    })?;
    let beside = memory.neighbours(&args.id, Direction::Both, &EdgeKind::ALL, EDGES).await?;
    out.tell(&json!({ "node": node, "neighbours": beside }), |out| {
        out.raw_line(&serde_json::to_string_pretty(&node).unwrap_or_default())?;
        for Neighbour { edge, node } in &beside.shown {
            let arrow = if edge.ends().0 == args.id { "->" } else { "<-" };
            out.line(format!("{arrow} {} {}", word(&edge.kind()), said(node)))?;
        }
        match beside.total - beside.shown.len() {
            0 => Ok(()),
            more => out.line(format!("and {more} more")),
        }
    })?;
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    /// The entity
    entity: String,
}

pub(super) async fn history(graphs: &Graphs, args: &HistoryArgs, out: &mut Out) -> Result<Exit, Failure> {
    let history = graphs.memory_of(graphs.agent()?).history(&args.entity).await?;
    out.tell(&history, |out| {
        for entry in &history {
            let from: Vec<String> = entry.from.iter().map(followed).collect();
            let from = if from.is_empty() { String::new() } else { format!(" ({})", from.join(", ")) };
            out.line(format!(
                "{}  {}{from}",
                entry.memory.created_at,
                said(&Node::Semantic(entry.memory.clone()))
            ))?;
        }
        Ok(())
    })?;
    if history.is_empty() {
        note(&format!(
            "nothing is known of an entity `{}`; `--entity` of `graph remember` names one",
            args.entity
        ));
    }
    Ok(Exit::Ok)
}

fn followed(edge: &Edge) -> String {
    format!("{} {}", word(&edge.kind()), edge.ends().1)
}

#[derive(Serialize)]
struct Counted {
    agent: Agent,
    #[serde(flatten)]
    stats: Stats,
}

pub(super) async fn stats(graphs: &Graphs, out: &mut Out) -> Result<Exit, Failure> {
    let mut all = Vec::new();
    for agent in graphs.agents().await? {
        let stats = graphs.memory_of(agent.clone()).stats().await?;
        all.push(Counted { agent, stats });
    }
    let line = |Counted { agent, stats }: &Counted| {
        let counts = stats.counts;
        format!(
            "{agent}: {} semantic and {} episodic memories; edges: {} SIMILAR_TO, {} DERIVES_FROM, {} SUPERSEDES, \
             {} TRANSITIONED_TO; revision {}",
            counts.semantic_node_count,
            counts.episodic_node_count,
            counts.similar_to_edge_count,
            counts.derives_from_edge_count,
            counts.supersedes_edge_count,
            counts.transitioned_to_edge_count,
            stats.revision
        )
    };
    match (&all[..], graphs.opened.scope().kind) {
        ([one], ScopeKind::Agent) => out.tell(one, |out| out.line(line(one)))?,
        _ => out.tell(&all, |out| all.iter().try_for_each(|one| out.line(line(one))))?,
    }
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct RecallArgs {
    /// What is looked for
    #[arg(required = true)]
    words: Vec<String>,
    /// Most memories
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Edges to walk from what the words found: 0 to 4
    #[arg(long, value_name = "N", default_value_t = 2)]
    steps: usize,
}

pub(super) async fn recall(graphs: &Graphs, args: &RecallArgs, out: &mut Out) -> Result<Exit, Failure> {
    let recall = GraphRecall::new(std::sync::Arc::clone(&graphs.graphs), DEFAULT_MEMORY_BYTES);
    let options = RecallOptions::default().with_top_k(args.limit).with_steps(args.steps);
    let Recalled { hits, truncated } =
        recall.recall(&graphs.agent()?, &args.words.join(" "), &options).await?;
    out.tell(&hits, |out| {
        for hit in &hits {
            out.line(format!("{:.3}  {}{}", hit.score, said(&hit.node), how(hit)))?;
        }
        if hits.is_empty() { out.line("nothing found") } else { Ok(()) }
    })?;
    if truncated {
        note("memory: the walk ended before it had looked everywhere; ask for less with --limit or --steps");
        return Ok(Exit::Partial);
    }
    Ok(Exit::Ok)
}

/// Whether a hit is superseded, and how it was reached.
fn how(hit: &GraphHit) -> String {
    let mut notes = Vec::new();
    if hit.is_superseded {
        notes.push("superseded".to_owned());
    }
    if let Some(first) = hit.path.first() {
        let steps = hit.path.iter().map(|step| {
            let (before, after) = if step.is_forward { ("-", "->") } else { ("<-", "-") };
            format!(" {before}{}{after} {}", word(&step.kind), step.to)
        });
        notes.push(format!("{}{}", first.from, steps.collect::<String>()));
    }
    if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) }
}
