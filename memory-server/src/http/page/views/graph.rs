//! The graph of an agent: its memories and their neighbours.

use std::sync::Arc;

use maud::{Markup, html};
use memory::hierarchical::rows::{Page as Rows, Table};
use memory::hierarchical::{
    self, Agent, Direction, Edge, EdgeKind, GraphStore as _, Neighbour, Node, SPACE, SqlGraphs,
};
use memory_core::{Error, ErrorKind, Op, Provider as _, Result, Scope, ScopeKind, TenantId};

use super::super::ask::{Page, Visit};
use super::super::fields::Fields;
use super::super::html::{hidden, list, more, none, number, plain, remark, said, table, time, whole};
use super::super::place::Place;

/// Memories of a page.
const LISTED: usize = 50;
/// Most edges shown for one memory.
const EDGES: usize = 100;
/// Agents that are listed.
const AGENTS: usize = 100;
/// Characters of a memory that are shown.
const SHOWN: usize = 64 << 10;

/// Opens a tenant's graphs, or says why there are none. Creates nothing.
async fn open(
    page: &Page,
    visit: &Visit,
    place: &Place,
) -> Result<Result<(TenantId, Arc<SqlGraphs>), &'static str>> {
    if !page.memory.capabilities().host_tables {
        return Ok(Err("This store serves no tables of the host, so it keeps no graphs."));
    }
    if visit.caller.policy().graph.is_none() {
        return Ok(Err(
            "The rules of this token allow no graph. The operator allows it by `graph` in memory.toml: under [default], or under \
             the token’s agent.",
        ));
    }
    let Some(tenant) = place.tenant.clone() else {
        return Ok(Err("This token reaches every tenant. Name one to see its graphs."));
    };
    let graphs = page.as_op(visit, Op::Recall, &tenant, None, async {
        match page.has_tables(&tenant, SPACE).await? {
            true => hierarchical::open(&page.memory, &tenant).await.map(Some),
            false => Ok(None),
        }
    });
    Ok(match graphs.await? {
        Some(graphs) => Ok((tenant, graphs)),
        None => Err("No agent of this tenant has a graph yet."),
    })
}

/// The agent to show if the token reaches its scope: the named one, or the token's.
fn agent(visit: &Visit, tenant: &TenantId, fields: &Fields) -> Result<Option<Agent>> {
    let own = visit.caller.grant().agent.as_ref().map(|agent| agent.as_str());
    let Some(name) = fields.get("agent").or(own) else { return Ok(None) };
    let scope = Scope::new(tenant.clone(), ScopeKind::Agent, name.parse()?);
    visit.caller.may(Op::Recall, &scope)?;
    Agent::new(name).map(Some)
}

pub(super) async fn show(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Markup> {
    let (tenant, graphs) = match open(page, visit, place).await? {
        Ok(found) => found,
        Err(words) => return Ok(html! { (place.chooser("/page/graph", false)) (remark(words)) }),
    };
    let Some(agent) = agent(visit, &tenant, fields)? else {
        return Ok(
            html! { (place.chooser("/page/graph", false)) (agents(visit, place, &tenant, &graphs).await?) },
        );
    };
    let stats = hierarchical::memory_of(Arc::clone(&graphs) as _, agent.clone()).stats().await?;
    let events = fields.text("of") == "events";
    let after = fields.get("after");
    let listed = if events { Table::Episodic } else { Table::Semantic };
    let rows = Rows { after: after.as_slice(), ..Rows::first(LISTED) };
    let rows = graphs.page(&agent, listed, rows).await?;
    let nodes: Vec<Node> = rows.into_iter().filter_map(|(_, row)| row.node()).collect();
    let of = if events { "events" } else { "" };
    let here = ("agent", agent.as_str());
    let next = nodes.last().filter(|_| nodes.len() == LISTED);
    let next = next.map(|last| place.link("/page/graph", &[here, ("of", of), ("after", last.id())]));
    let rows: Vec<Markup> = nodes.iter().map(|node| cells(place, &agent, node)).collect();
    let columns: &[&str] = if events {
        &["Memory", "What happened", "Source", "Tags", "Created"]
    } else {
        &["Memory", "Concept", "What it knows", "Sure", "Created"]
    };
    let counts = stats.counts;
    Ok(html! {
        (place.chooser("/page/graph", false))
        form class="line" method="get" action="/page/graph" aria-label="Choose an agent" {
            (hidden(&place.fields()))
            label { "Agent" input name="agent" value=(agent.as_str()) required; }
            button { "Show" }
            @if visit.caller.grant().agent.is_none() { a href=(place.link("/page/graph", &[])) { "All agents" } }
        }
        (list(&[
            ("Semantic memories", html! { (counts.semantic_node_count) }),
            ("Episodic memories", html! { (counts.episodic_node_count) }),
            ("Similar to", html! { (counts.similar_to_edge_count) }),
            ("Derives from", html! { (counts.derives_from_edge_count) }),
            ("Supersedes", html! { (counts.supersedes_edge_count) }),
            ("Transitioned to", html! { (counts.transitioned_to_edge_count) }),
            ("Revision", html! { (stats.revision) }),
        ]))
        nav class="tabs" aria-label="Kinds of memory" {
            @for (name, label) in [("", "what it knows"), ("events", "what happened")] {
                @let current = (name == of).then_some("true");
                a href=(place.link("/page/graph", &[here, ("of", name)])) aria-current=[current] { (label) }
            }
        }
        @if rows.is_empty() { (remark("No memory of this kind.")) }
        @else { (table(&format!("Memories of {agent} by id"), columns, &rows)) (more(next)) }
    })
}

/// The agents that have a graph, for a token that is not bound to one.
async fn agents(visit: &Visit, place: &Place, tenant: &TenantId, graphs: &SqlGraphs) -> Result<Markup> {
    visit.caller.may_tenant(Op::Recall, tenant)?;
    let mut rows = Vec::new();
    for agent in graphs.agents().await?.into_iter().take(AGENTS) {
        let counts = graphs.counts(&agent).await?;
        let edges = counts.similar_to_edge_count
            + counts.derives_from_edge_count
            + counts.supersedes_edge_count
            + counts.transitioned_to_edge_count;
        rows.push(html! {
            td { a href=(place.link("/page/graph", &[("agent", agent.as_str())])) { (said(agent.as_str())) } }
            td class="number" { (counts.semantic_node_count) }
            td class="number" { (counts.episodic_node_count) }
            td class="number" { (edges) }
        });
    }
    Ok(match rows.is_empty() {
        true => remark("No agent of this tenant has a graph yet."),
        false => {
            table("Agents with a graph", &["Agent", "Semantic memories", "Episodic memories", "Edges"], &rows)
        }
    })
}

fn node_link(place: &Place, agent: &Agent, id: &str) -> Markup {
    html! { a href=(place.link("/page/memory", &[("agent", agent.as_str()), ("memory", id)])) { code class="id" { (said(id)) } } }
}

fn cells(place: &Place, agent: &Agent, node: &Node) -> Markup {
    match node {
        Node::Semantic(node) => html! {
            td { (node_link(place, agent, &node.memory_id)) }
            td { (said(&node.concept)) }
            td class="value" {
                (said(&node.content))
                @if !node.entity_name.is_empty() { span class="under" { "about " (said(&node.entity_name)) } }
            }
            td class="number" { (number(node.confidence)) }
            td { (created(&node.created_at)) }
        },
        Node::Episodic(node) => html! {
            td { (node_link(place, agent, &node.memory_id)) }
            td class="value" { (said(&node.content)) }
            td { (said(&node.source_label)) }
            td { (said(&node.tags.join(", "))) }
            td { (created(&node.created_at)) }
        },
    }
}

pub(super) async fn memory(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Markup> {
    let (tenant, graphs) = match open(page, visit, place).await? {
        Ok(found) => found,
        Err(words) => return Ok(remark(words)),
    };
    let agent =
        agent(visit, &tenant, fields)?.ok_or_else(|| Error::invalid("name the agent whose memory it is"))?;
    let id = fields.need("memory")?.to_owned();
    let memory = hierarchical::memory_of(graphs as _, agent.clone());
    let node = memory
        .nodes(std::slice::from_ref(&id))
        .await?
        .pop()
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "the agent has no such memory"))?;
    let beside = memory.neighbours(&id, Direction::Both, &EdgeKind::ALL, EDGES).await?;
    let rows: Vec<Markup> = beside.shown.iter().map(|one| neighbour(place, &agent, &id, one)).collect();
    Ok(html! {
        p class="path" { "Graph of " a href=(place.link("/page/graph", &[("agent", agent.as_str())])) { (said(agent.as_str())) } }
        h2 class="key" { (said(&id)) }
        (about(&node))
        h3 { "What is beside it" }
        @if rows.is_empty() { (remark("No edge leads here or away.")) }
        @else {
            (table("Neighbours", &["Edge", "Memory", "Says", "About the edge"], &rows))
            @let left = beside.total.saturating_sub(beside.shown.len());
            @if left > 0 { (remark(&format!("{left} more edges are not shown."))) }
        }
    })
}

/// A text, or a dash.
fn some(text: &str) -> Markup {
    if text.is_empty() { none() } else { said(text) }
}

/// A time as the graph keeps it.
fn created(text: &str) -> Markup {
    text.parse().map_or_else(|_| said(text), time)
}

fn about(node: &Node) -> Markup {
    let (content, tags, metadata, at) = match node {
        Node::Semantic(node) => (&node.content, &node.tags, &node.metadata, &node.created_at),
        Node::Episodic(node) => (&node.content, &node.tags, &node.metadata, &node.created_at),
    };
    let own = match node {
        Node::Semantic(node) => vec![
            ("Kind", html! { "semantic: what the agent knows" }),
            ("Concept", some(&node.concept)),
            ("About", some(&node.entity_name)),
            ("Confidence", html! { (number(node.confidence)) }),
            ("Source", some(&node.source_id)),
        ],
        Node::Episodic(node) => {
            vec![("Kind", html! { "episodic: what happened" }), ("Source", some(&node.source_label))]
        }
    };
    let rest = [
        ("Tags", some(&tags.join(", "))),
        ("Created", created(at)),
        (
            "Metadata",
            if metadata.as_object().is_none_or(serde_json::Map::is_empty) {
                none()
            } else {
                said(&plain(metadata))
            },
        ),
    ];
    html! { (whole(content, SHOWN)) (list(&own.into_iter().chain(rest).collect::<Vec<_>>())) }
}

fn neighbour(place: &Place, agent: &Agent, id: &str, one: &Neighbour) -> Markup {
    let (content, other) = match &one.node {
        Node::Semantic(node) => (&node.content, &node.memory_id),
        Node::Episodic(node) => (&node.content, &node.memory_id),
    };
    let leads_away = one.edge.ends().0 == id;
    let kind = match one.edge.kind() {
        EdgeKind::SimilarTo => "similar to",
        EdgeKind::DerivesFrom => "derives from",
        EdgeKind::Supersedes => "supersedes",
        EdgeKind::TransitionedTo => "transitioned to",
    };
    html! {
        td { @if leads_away { (kind) " →" } @else { "← " (kind) } }
        td { (node_link(place, agent, other)) }
        td class="value" { (said(content)) }
        td {
            @match &one.edge {
                Edge::SimilarTo(edge) => { "weight " (number(edge.weight)) }
                Edge::DerivesFrom(edge) => { (said(&edge.extraction_method)) ", sure " (number(edge.confidence)) }
                Edge::Supersedes(edge) => (said(&edge.reason)),
                Edge::TransitionedTo(edge) => { (said(&edge.from_value)) " → " (said(&edge.to_value)) }
            }
        }
    }
}
