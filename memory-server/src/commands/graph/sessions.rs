//! `graph sessions` and `graph clean`: flat memories in sessions.

use std::sync::Arc;

use clap::Args;
use memory::hierarchical::{self, Agent, EntryQuery, SessionSummary, Sessions};
use memory_core::{Error, ScopeKind};
use serde_json::json;

use super::glob::Glob;
use super::{Graphs, has_sessions_of_original};
use crate::terminal::{Exit, Failure, Out, counted, note};

/// The sessions of the store, and the agent that is named.
async fn opened(graphs: &Graphs) -> Result<(Sessions, Option<Agent>), Failure> {
    graphs.check_scope()?;
    let opened = &graphs.opened;
    let (tenant, provider) = (&opened.settings.tenant, Arc::new(opened.memory.clone()));
    // What was never made reads as empty.
    let sessions = match Sessions::are_made(provider, tenant).await? {
        true => hierarchical::sessions(&opened.memory, tenant).await?,
        false => hierarchical::sessions(&opened.settings.empty().await?, tenant).await?,
    };
    let agent = (opened.scope().kind == ScopeKind::Agent).then(|| graphs.agent()).transpose()?;
    Ok((sessions, agent))
}

#[derive(Args, Debug)]
pub(crate) struct SessionsArgs {
    /// Show what is stored in this one, the newest first
    session: Option<String>,
    /// Most entries: 1 to 9,999
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..10_000))]
    limit: u16,
}

pub(super) async fn sessions(graphs: &Graphs, args: &SessionsArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (sessions, agent) = opened(graphs).await?;
    let mut found = sessions.list().await?;
    if let Some(id) = &args.session {
        if !found.iter().any(|session| session.session_id == *id) {
            return Err(
                Error::not_found("there is no such session; `memory graph sessions` lists them").into()
            );
        }
        return entries(&sessions, agent, id, usize::from(args.limit), out).await;
    }
    if let Some(agent) = agent {
        found.retain(|session| session.agents.iter().any(|name| name == agent.as_str()));
    }
    let row = |session: &SessionSummary| {
        let entries = session.entries.to_string();
        [session.session_id.clone(), entries, session.agents.join(", "), session.last_accessed.clone()]
    };
    let rows: Vec<[String; 4]> = found.iter().map(row).collect();
    if rows.is_empty() && has_sessions_of_original() {
        note("memory: files of the original have sessions; take them over with `memory graph migrate`");
    }
    out.tell(&found, |out| out.table(["SESSION", "ENTRIES", "AGENTS", "LAST USED"], &rows))?;
    Ok(Exit::Ok)
}

/// What is stored in a session.
async fn entries(
    sessions: &Sessions,
    agent: Option<Agent>,
    id: &str,
    limit: usize,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let mut query = EntryQuery::default().in_session(id);
    query.agent = agent;
    // One more than is shown tells whether there is more.
    query.limit = limit + 1;
    let mut found = sessions.entries(&query).await?;
    let is_cut = found.len() > limit;
    found.truncate(limit);
    out.tell(&found, |out| {
        for entry in &found {
            out.line(format!(
                "{}  {} of {}: {}",
                entry.created_at, entry.memory_type, entry.agent_id, entry.title
            ))?;
            if entry.content != entry.title {
                out.line(format!("  {}", entry.content))?;
            }
        }
        Ok(())
    })?;
    if is_cut {
        note("memory: the session has more; ask for it with --limit");
        return Ok(Exit::Partial);
    }
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct CleanArgs {
    /// The ids of sessions: `*` stands for any characters, `?` for one, `[a-f0-9]` for one of these, `[!a-f]` for one of the
    /// others
    pattern: String,
    /// Remove them; without it they are only listed
    #[arg(long)]
    pub(super) yes: bool,
    /// Only list them, as without --yes
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

pub(super) async fn clean(graphs: &Graphs, args: &CleanArgs, out: &mut Out) -> Result<Exit, Failure> {
    if args.pattern.is_empty() {
        return Err(Error::invalid("the pattern is empty; `*` names every session").into());
    }
    let (sessions, agent) = opened(graphs).await?;
    let mut found = sessions.list().await?;
    let pattern = Glob::new(&args.pattern);
    found.retain(|session| pattern.matches(&session.session_id));
    if let Some(agent) = agent {
        found.retain(|session| session.agents == [agent.as_str()]);
    }
    let ids: Vec<String> = found.iter().map(|session| session.session_id.clone()).collect();
    let removed = if args.yes { sessions.remove(&ids).await? } else { 0 };
    let report = json!({ "dry_run": !args.yes, "sessions": found, "removed": removed });
    out.tell(&report, |out| {
        for session in &found {
            out.line(format!("{}: {}", session.session_id, counted(session.entries, "entry")))?;
        }
        match args.yes {
            true => out.line(format!("{} removed", counted(removed, "session"))),
            false => out.line(format!("{} would be removed; give --yes", counted(found.len(), "session"))),
        }
    })?;
    Ok(if found.is_empty() { Exit::Nothing } else { Exit::Ok })
}
