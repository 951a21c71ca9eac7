//! Whose memory a view shows: the tenant and scope named in its address, or those of the token.

use maud::{Markup, html};
use memory_core::{Error, Result, Scope, ScopeKind, TenantId};

use super::fields::{Fields, link};
use memory_api::Caller;

/// The tenant and the scope of a view.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) tenant: Option<TenantId>,
    pub(super) scope: Option<Scope>,
    /// Whether the token reaches every tenant, so that one must be named.
    names_tenant: bool,
}

impl Place {
    /// What the fields name. The API decides whether the token may reach it.
    ///
    /// # Errors
    /// `invalid_argument` for a malformed tenant, kind or id.
    pub(super) fn of(caller: &Caller, fields: &Fields) -> Result<Self> {
        let grant = caller.grant();
        let named = fields.get("tenant").map(TenantId::new).transpose()?;
        let tenant = named.or_else(|| grant.tenant.clone());
        let own = match (&grant.agent, &grant.user) {
            (Some(agent), _) => Some((ScopeKind::Agent, agent.clone())),
            (None, Some(user)) => Some((ScopeKind::User, user.clone())),
            (None, None) => None,
        };
        let scope = match (fields.get("kind"), fields.get("id")) {
            (Some(kind), Some(id)) => Some((kind.parse()?, id.parse()?)),
            _ => own,
        };
        let scope = match (&tenant, scope) {
            (Some(tenant), Some((kind, id))) => Some(Scope::new(tenant.clone(), kind, id)),
            _ => None,
        };
        Ok(Self { tenant, scope, names_tenant: grant.tenant.is_none() })
    }

    /// This place with another scope.
    pub(super) fn at(scope: &Scope) -> Self {
        Self { tenant: Some(scope.tenant.clone()), scope: Some(scope.clone()), names_tenant: true }
    }

    /// Its tenant.
    ///
    /// # Errors
    /// `invalid_argument` if none is named.
    pub(super) fn need_tenant(&self) -> Result<&TenantId> {
        self.tenant.as_ref().ok_or_else(|| Error::invalid("this token reaches every tenant; choose one"))
    }

    /// Its scope.
    ///
    /// # Errors
    /// `invalid_argument` if none is named.
    pub(super) fn need_scope(&self) -> Result<&Scope> {
        self.need_tenant()?;
        self.scope.as_ref().ok_or_else(|| Error::invalid("choose a scope: its kind and its id"))
    }

    /// As the fields of a link or form.
    pub(super) fn fields(&self) -> Vec<(&'static str, &str)> {
        let mut fields = Vec::new();
        if let Some(tenant) = self.tenant.as_ref().filter(|_| self.names_tenant) {
            fields.push(("tenant", tenant.as_str()));
        }
        if let Some(scope) = &self.scope {
            fields.extend([("kind", scope.kind.as_str()), ("id", scope.id.as_str())]);
        }
        fields
    }

    /// A link to a path at this place.
    pub(super) fn link(&self, path: &str, more: &[(&str, &str)]) -> String {
        link(path, &[&self.fields()[..], more].concat())
    }

    /// The form for choosing a place; with `scoped`, including a scope.
    pub(super) fn chooser(&self, path: &str, scoped: bool) -> Markup {
        let kind = self.scope.as_ref().map(|scope| scope.kind);
        html! {
            @if scoped || self.names_tenant {
                form class="line" method="get" action=(path) aria-label="Choose whose memory" {
                    @if self.names_tenant {
                        label { "Tenant" input name="tenant" required value=[self.tenant.as_ref().map(TenantId::as_str)]; }
                    }
                    @if scoped {
                        label { "Scope"
                            select name="kind" {
                                @for one in [ScopeKind::Agent, ScopeKind::User, ScopeKind::Run] {
                                    option value=(one.as_str()) selected[kind == Some(one)] { (one.as_str()) }
                                }
                            }
                        }
                        @let id = self.scope.as_ref().map(|scope| scope.id.as_str());
                        label class="wide" { "Its id" input name="id" required value=[id]; }
                    }
                    button { "Show" }
                }
            }
        }
    }
}
