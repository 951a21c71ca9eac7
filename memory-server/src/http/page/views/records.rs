//! The latest records of the audit file that a token may see.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memory_core::layer::Share;
use memory_core::{Error, ErrorKind, Result, ScopeId, ScopeKind, TenantId, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use memory_api::Caller;

/// How much of the file's end is read, in bytes.
const MAX_READ: u64 = 4 << 20;

/// A record of a tool call or an HTTP request, as written.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    pub(super) kind: String,
    pub(super) time: Timestamp,
    #[serde(default)]
    pub(super) tenant: Option<String>,
    #[serde(default)]
    pub(super) agent: Option<String>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    pub(super) token: Option<String>,
    #[serde(default)]
    pub(super) run: Option<String>,
    #[serde(default)]
    pub(super) op: Option<String>,
    #[serde(default)]
    pub(super) scope: Option<ScopeKind>,
    #[serde(default)]
    pub(super) scope_id: Option<String>,
    #[serde(default)]
    pub(super) micros: Option<u64>,
    #[serde(default)]
    pub(super) rows: Option<u64>,
    #[serde(default)]
    pub(super) outcome: String,
    #[serde(default)]
    pub(super) recalled: Vec<Recalled>,
    #[serde(default)]
    pub(super) input: Option<Value>,
}

/// A fact that a recall returned.
#[derive(Debug, Deserialize)]
pub(super) struct Recalled {
    pub(super) id: String,
    #[serde(default)]
    pub(super) score: Option<f64>,
    #[serde(default)]
    pub(super) similarity: Option<f64>,
    #[serde(default)]
    pub(super) shares: Vec<Share>,
}

impl Record {
    /// Whether a token may see it: its own requests, and calls in scopes that it reaches, unless they were for a user
    /// it does not act for.
    fn is_for(&self, caller: &Caller, tenant: &TenantId) -> bool {
        let grant = caller.grant();
        if self.tenant.as_deref() != Some(tenant.as_str()) {
            return false;
        }
        if self.token.as_deref() == Some(caller.id()) {
            return true;
        }
        if grant.user.is_some() && grant.agent.is_none() {
            // A record does not say whose scope an agent's call was about.
            return false;
        }
        let own = |bound: &Option<ScopeId>, named: &Option<String>| {
            bound.as_ref().map(ScopeId::as_str) == named.as_deref()
        };
        // A user's questions are theirs, whichever scope the call was about.
        let theirs = self.user.is_none() || own(&grant.user, &self.user);
        if grant.is_bound() && !(own(&grant.agent, &self.agent) && theirs) {
            return false;
        }
        let run = self.run.as_deref().and_then(|run| ScopeId::new(run).ok());
        let runs_own = run.is_some_and(|run| caller.owns_run(&run));
        let policy = caller.policy();
        match self.scope {
            // A bound token cannot reach others' runs.
            Some(ScopeKind::Run) if grant.is_bound() && !runs_own => false,
            Some(kind) => policy.memory_scopes.contains(&kind) || policy.sql_scopes.contains(&kind),
            // It was about every scope that the run could use.
            None => grant.kinds.is_none(),
        }
    }
}

/// A tenant's latest calls and requests, newest first: at most `most` of each kind. Lines that are not records are
/// skipped.
///
/// # Errors
/// `not_found` if there is no file, `unavailable` if it cannot be read.
pub(super) fn latest(
    path: &Path,
    caller: &Caller,
    tenant: &TenantId,
    most: usize,
) -> Result<[Vec<Record>; 3]> {
    let unread = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, "the audit file cannot be read").with_source(error)
    };
    let mut file = File::open(path).map_err(unread)?;
    let length = file.metadata().map_err(unread)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_READ))).map_err(unread)?;
    let (mut reader, mut line) = (BufReader::new(file.take(MAX_READ)), Vec::new());
    let mut groups: [VecDeque<Record>; 3] = Default::default();
    while reader.read_until(b'\n', &mut line).map_err(unread)? > 0 {
        let record = serde_json::from_slice::<Record>(&line);
        line.clear();
        let Ok(record) = record else { continue };
        let group = match (record.kind.as_str(), record.op.as_deref()) {
            ("call", Some("recall")) => 0,
            // Without a scope it was a look at shared state or a graph, which counts as `recall`.
            ("request", Some("recall")) if record.scope.is_some() => 0,
            ("call", _) => 1,
            ("request", _) => 2,
            _ => continue,
        };
        if record.is_for(caller, tenant)
            && let Some(group) = groups.get_mut(group)
        {
            if group.len() == most {
                group.pop_front();
            }
            group.push_back(record);
        }
    }
    Ok(groups.map(|group| group.into_iter().rev().collect()))
}
