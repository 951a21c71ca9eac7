//! Who a request is from, and what it may do. Nothing in a request can widen that.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use memory::{Policy, ToolOp};
use memory_core::{Capabilities, Error, ErrorKind, Op, Result, Scope, ScopeId, ScopeKind, TenantId};

use crate::metrics::Metrics;

/// The prefix of a JWT subject's id.
pub(crate) const SUBJECT: &str = "j-";

/// Whether a caller's id is that of a JWT subject rather than of a token.
fn is_subject(id: &str) -> bool {
    id.starts_with(SUBJECT)
}

/// What a token allows, as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// `None`: every tenant, which makes it the operator's.
    pub tenant: Option<TenantId>,
    /// The only agent whose memory it reaches; `None` for every agent of the tenant.
    pub agent: Option<ScopeId>,
    /// The only user; `None` for no user if an agent is named, otherwise for every user of the tenant.
    pub user: Option<ScopeId>,
    /// Kinds of scope; `None` for those of the policy.
    pub kinds: Option<BTreeSet<ScopeKind>>,
    /// Operations; `None` for all except those on the whole store.
    pub ops: Option<BTreeSet<Op>>,
    /// Only operations that change nothing.
    pub read_only: bool,
}

impl Grant {
    /// Whether it is bound to an agent or a user, and so never sees a whole tenant.
    pub fn is_bound(&self) -> bool {
        self.agent.is_some() || self.user.is_some()
    }

    /// Whether it belongs to the operator, who sees the whole store.
    pub fn is_operators(&self) -> bool {
        self.tenant.is_none() && !self.is_bound()
    }

    /// An agent's policy within this grant.
    fn narrowed(&self, policy: &Policy) -> Policy {
        let mut policy = policy.clone();
        if let Some(kinds) = &self.kinds {
            policy.memory_scopes.retain(|kind| kinds.contains(kind));
            policy.sql_scopes.retain(|kind| kinds.contains(kind));
        }
        if self.agent.is_some() && self.user.is_none() {
            policy.memory_scopes.remove(&ScopeKind::User);
            policy.sql_scopes.remove(&ScopeKind::User);
        }
        policy
    }
}

/// The holder of a request's token, within the operator's policy.
#[derive(Clone, Debug)]
pub struct Caller {
    id: Arc<str>,
    grant: Grant,
    policy: Policy,
    metrics: Arc<Metrics>,
}

impl Caller {
    /// `policy` is the operator's policy for the grant's agent.
    pub fn new(id: Arc<str>, grant: Grant, policy: &Policy, metrics: Arc<Metrics>) -> Self {
        let policy = grant.narrowed(policy);
        Self { id, grant, policy, metrics }
    }

    /// The id of its token: not secret, used in logs and runs.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The same, shared.
    pub fn shared_id(&self) -> &Arc<str> {
        &self.id
    }

    /// What its token allows.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// The operator's rules for it: kinds of scope, quotas, sizes of answers.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// An agent's policy, within what the token allows.
    pub(crate) fn narrowed(&self, policy: &Policy) -> Policy {
        self.grant.narrowed(policy)
    }

    /// Whether it may call an operation of the tool as this agent. The tool's policy decides in which scopes.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub(crate) fn may_as(&self, op: ToolOp, tenant: &TenantId, agent: &ScopeId) -> Result<()> {
        let needed = needs(op).ok_or_else(|| Error::internal("an operation needs no right"))?;
        self.decide(needed, || {
            let grant = &self.grant;
            let own = match &grant.agent {
                Some(own) => own == agent,
                None => !grant.is_bound(),
            };
            if own && grant.tenant.as_ref().is_none_or(|own| own == tenant) {
                return Ok(());
            }
            Err(Error::new(
                ErrorKind::ScopeDenied,
                format!(
                    "the token `{}` does not speak for this agent with `{}`; see {}",
                    self.id,
                    op.as_str(),
                    self.whereabouts()
                ),
            )
            .with_detail("operation", op.as_str()))
        })
    }

    /// The operations of the tool that its token does not allow.
    pub fn denied(&self) -> impl Iterator<Item = ToolOp> {
        ToolOp::ALL.iter().copied().filter(|op| {
            let is_free = matches!(op, ToolOp::ListScopes | ToolOp::Describe);
            !is_free && needs(*op).is_none_or(|op| self.allows(op).is_err())
        })
    }

    /// Whether it may do `op` in `scope`. For a token bound to an agent or a user, the ids of runs start with the
    /// token's id and `-`, so that it cannot name another's run.
    ///
    /// # Errors
    /// `forbidden` for the operation, `read_only`, `scope_denied` for the scope.
    pub fn may(&self, op: Op, scope: &Scope) -> Result<()> {
        self.decide(op, || {
            let grant = &self.grant;
            let own = |bound: &Option<ScopeId>| match bound {
                Some(id) => *id == scope.id,
                None => !grant.is_bound(),
            };
            let kinds =
                if op.facet() == "SqlFacet" { &self.policy.sql_scopes } else { &self.policy.memory_scopes };
            let reaches = kinds.contains(&scope.kind)
                && grant.tenant.as_ref().is_none_or(|tenant| *tenant == scope.tenant)
                && match scope.kind {
                    ScopeKind::Agent => own(&grant.agent),
                    ScopeKind::User => own(&grant.user),
                    ScopeKind::Run => !grant.is_bound() || self.owns_run(&scope.id),
                    ScopeKind::Host => false,
                };
            if reaches {
                return Ok(());
            }
            // The same message whether the scope exists or not.
            let asked = grant.kinds.as_ref().is_none_or(|named| named.contains(&scope.kind));
            let (what, field) = match op.facet() {
                "SqlFacet" => ("SQL", "sql_scopes"),
                _ => ("memory", "memory_scopes"),
            };
            let why = match kinds.contains(&scope.kind) {
                false if asked && !(grant.agent.is_some() && scope.kind == ScopeKind::User) => format!(
                    "the operator allows no {what} in {0} scopes; `{field}` of memory.toml names the kinds, docs/configuration.md",
                    scope.kind
                ),
                _ => format!(
                    "the token `{}` does not reach this {} scope with `{op}`; see {}",
                    self.id,
                    scope.kind,
                    self.whereabouts()
                ),
            };
            Err(Error::new(ErrorKind::ScopeDenied, why).with_detail("operation", op.as_str()))
        })
    }

    /// Where the operator can see what this caller may do.
    pub fn whereabouts(&self) -> &'static str {
        if is_subject(&self.id) { "`[http.jwt]` of memory.toml" } else { "`memory token list`" }
    }

    /// The part of the served store that this caller may use: no SQL without a kind of scope for it, and no facet that
    /// its token excludes. `erase` stays, because even a caller that may not erase has to know that the store keeps
    /// tombstones.
    pub fn capabilities(&self, served: &Capabilities) -> Capabilities {
        let mut capabilities = served.clone();
        if self.policy.sql_scopes.is_empty() {
            (capabilities.sql, capabilities.sql_dialect) = (false, None);
            (capabilities.sql_transactions, capabilities.sql_vectors) = (false, false);
            (capabilities.sql_entries, capabilities.shared_schemas) = (false, false);
        }
        let (allows, operators) = (|op| self.may_do(op).is_ok(), self.grant.is_operators());
        capabilities.tenants &= operators && allows(Op::Tenants);
        capabilities.read_snapshot &= capabilities.tenants && allows(Op::ReadSnapshot);
        capabilities.eviction &= !self.grant.is_bound() && allows(Op::ScopeUses);
        capabilities.atomic_import &= allows(Op::ImportScope);
        capabilities.layer_forget &= allows(Op::Forget);
        capabilities
    }

    /// Whether it may do `op` on a whole tenant, such as list its scopes. A token bound to an agent or a user never
    /// may; for the end of a run, ask [`Caller::may`] about the run's scope.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub fn may_tenant(&self, op: Op, tenant: &TenantId) -> Result<()> {
        self.decide(op, || {
            let own = self.grant.tenant.as_ref().is_none_or(|own| own == tenant) && !self.grant.is_bound();
            if own {
                return Ok(());
            }
            Err(Error::new(
                ErrorKind::ScopeDenied,
                format!(
                    "the token `{}` does not reach this tenant with `{op}`; see {}",
                    self.id,
                    self.whereabouts()
                ),
            )
            .with_detail("operation", op.as_str()))
        })
    }

    /// Whether it may do `op` on the whole store. Every token may ask for `health`.
    ///
    /// # Errors
    /// As [`Caller::may`].
    pub(crate) fn may_store(&self, op: Op) -> Result<()> {
        self.decide(op, || {
            if op == Op::Health || self.grant.is_operators() {
                return Ok(());
            }
            Err(forbidden(&self.id, op))
        })
    }

    /// Whether it may do `op` anywhere.
    ///
    /// # Errors
    /// `forbidden`, `read_only`.
    pub fn may_do(&self, op: Op) -> Result<()> {
        self.decide(op, || Ok(()))
    }

    /// The id that keeps this token's runs apart from others': the named id, prefixed with the token's id and `-`
    /// unless it already is.
    ///
    /// # Errors
    /// `too_large`.
    pub(crate) fn own_run(&self, named: &ScopeId) -> Result<ScopeId> {
        match self.owns_run(named) {
            true => Ok(named.clone()),
            false => ScopeId::new(format!("{}-{named}", self.id)),
        }
    }

    /// Whether a run is one of this token's.
    pub fn owns_run(&self, run: &ScopeId) -> bool {
        run.as_str().strip_prefix(&*self.id).is_some_and(|rest| rest.starts_with('-'))
    }

    fn decide(&self, op: Op, reaches: impl FnOnce() -> Result<()>) -> Result<()> {
        let decision = self.allows(op).and_then(|()| reaches());
        self.metrics.operation(op, decision.is_err());
        decision
    }

    /// Records how long an allowed operation took.
    pub fn took(&self, op: Op, after: Duration) {
        self.metrics.took(op, after);
    }

    /// Whether the token allows the operation, without counting the question.
    ///
    /// # Errors
    /// `forbidden`, `read_only`.
    pub fn allows(&self, op: Op) -> Result<()> {
        let named = match &self.grant.ops {
            Some(ops) => ops.contains(&op),
            None => !on_whole_stores(op),
        };
        if !named && op != Op::Health {
            return Err(forbidden(&self.id, op));
        }
        if self.grant.read_only && !op.is_read() {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                format!("the token `{}` only reads; `{op}` needs one made without --read-only", self.id),
            )
            .with_detail("operation", op.as_str()));
        }
        Ok(())
    }
}

fn forbidden(id: &str, op: Op) -> Error {
    let instead = match is_subject(id) {
        true => "the operator allows it by `ops` under `[http.jwt]`",
        false => "the operator makes one that does, with --ops",
    };
    Error::new(ErrorKind::Forbidden, format!("the token `{id}` does not allow `{op}`; {instead}"))
        .with_detail("operation", op.as_str())
}

/// Operations that a token has only if its `--ops` names them.
fn on_whole_stores(op: Op) -> bool {
    op.facet() == "Provider" && !matches!(op, Op::Health | Op::EndRun)
}

/// The operation that a token must allow for an operation of the tool; `None` if none is needed, or the operation is
/// unknown here. Reading shared state or a graph counts as `recall`, forgetting in shared state as `forget`, and
/// anything else that may change them as `add`.
pub fn needs(op: ToolOp) -> Option<Op> {
    Some(match op {
        ToolOp::Get => Op::Get,
        ToolOp::Set => Op::Set,
        ToolOp::Delete => Op::Delete,
        ToolOp::List => Op::List,
        ToolOp::Search => Op::Search,
        ToolOp::Incr => Op::Increment,
        ToolOp::Update => Op::Update,
        ToolOp::BulkInsert => Op::BulkInsert,
        ToolOp::Add | ToolOp::Note | ToolOp::Pending | ToolOp::Remember | ToolOp::Relate => Op::Add,
        ToolOp::Recall | ToolOp::Shared | ToolOp::Why | ToolOp::RecallGraph => Op::Recall,
        ToolOp::Facts => Op::Facts,
        ToolOp::Event => Op::Event,
        ToolOp::Forget | ToolOp::ForgetShared => Op::Forget,
        ToolOp::SqlExec => Op::Exec,
        ToolOp::SqlQuery => Op::Query,
        ToolOp::SqlBegin => Op::Begin,
        ToolOp::SqlCommit => Op::Commit,
        ToolOp::SqlRollback => Op::Rollback,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(grant: Grant) -> Caller {
        let all = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
        Caller::new("t-1".into(), grant, &all, Arc::default())
    }

    fn scope(tenant: &str, kind: ScopeKind, id: &str) -> Scope {
        Scope::new(tenant.parse().unwrap(), kind, id.parse().unwrap())
    }

    fn bound() -> Grant {
        Grant {
            tenant: Some("acme".parse().unwrap()),
            agent: Some("ann".parse().unwrap()),
            ..Grant::default()
        }
    }

    #[test]
    fn a_bound_token_reaches_its_own_scopes_alone() {
        let caller = caller(bound());
        assert!(caller.may(Op::Set, &scope("acme", ScopeKind::Agent, "ann")).is_ok());
        assert!(caller.may(Op::Exec, &scope("acme", ScopeKind::Run, "t-1-7")).is_ok());
        for denied in [
            scope("globex", ScopeKind::Agent, "ann"),
            scope("acme", ScopeKind::Agent, "bob"),
            scope("acme", ScopeKind::User, "ada"),
            scope("acme", ScopeKind::User, "ann"),
            scope("acme", ScopeKind::Run, "t-10-7"),
            scope("acme", ScopeKind::Run, "run-1"),
        ] {
            let error = caller.may(Op::Get, &denied).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ScopeDenied, "{denied:?}");
        }
        let whole = caller.may_tenant(Op::Scopes, &"acme".parse().unwrap()).unwrap_err();
        assert_eq!(whole.kind(), ErrorKind::ScopeDenied);
    }

    #[test]
    fn a_tenants_token_reaches_its_tenant_alone() {
        let caller = caller(Grant { tenant: Some("acme".parse().unwrap()), ..Grant::default() });
        assert!(caller.may(Op::Get, &scope("acme", ScopeKind::Run, "run-1")).is_ok());
        assert!(caller.may_tenant(Op::Scopes, &"acme".parse().unwrap()).is_ok());
        assert!(caller.may_tenant(Op::Scopes, &"globex".parse().unwrap()).is_err());
        assert!(caller.may(Op::Get, &scope("globex", ScopeKind::Run, "run-1")).is_err());
        assert!(caller.may_tenant(Op::Erase, &"acme".parse().unwrap()).is_err(), "not named by --ops");
    }

    #[test]
    fn a_refusal_names_what_decided() {
        let told = |id: &str, policy: &Policy, op| {
            let caller = Caller::new(id.into(), bound(), policy, Arc::default());
            caller.may(op, &scope("acme", ScopeKind::Agent, "bob")).unwrap_err().message().to_owned()
        };
        let all = Policy::default().with_memory_scopes(ScopeKind::ALL).with_sql_scopes(ScopeKind::ALL);
        assert!(told("t-1", &all, Op::Get).contains("`memory token list`"));
        let subject = told("j-1", &all, Op::Get);
        assert!(subject.contains("[http.jwt]") && !subject.contains("token list"), "{subject}");
        assert!(told("t-1", &Policy::default(), Op::Query).contains("`sql_scopes` of memory.toml"));
    }

    #[test]
    fn what_a_token_names_is_all_that_it_does() {
        let own = scope("acme", ScopeKind::Agent, "ann");
        let reads = caller(Grant { read_only: true, ..bound() });
        assert_eq!(reads.may(Op::Set, &own).unwrap_err().kind(), ErrorKind::ReadOnly);
        assert!(reads.may(Op::Recall, &own).is_ok());
        let gets = caller(Grant { ops: Some([Op::Get].into()), ..bound() });
        assert!(gets.may(Op::Get, &own).is_ok());
        assert_eq!(gets.may(Op::List, &own).unwrap_err().kind(), ErrorKind::Forbidden);
        let users = caller(Grant { kinds: Some([ScopeKind::User].into()), ..bound() });
        assert_eq!(users.may(Op::Get, &own).unwrap_err().kind(), ErrorKind::ScopeDenied);
    }
}
