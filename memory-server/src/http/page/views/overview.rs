//! The store's state, and its scopes.

use maud::{Markup, html};
use memory_core::{
    Cursor, Error, Op, Provider as _, Reply, Request, Result, Scope, ScopeInfo, ScopeKind, ScopesQuery,
    TenantId,
};

use super::super::ask::{Page, Visit, unexpected};
use super::super::fields::{Fields, link};
use super::super::html::{more, refusal, remark, said, spelled, table};
use super::super::place::Place;
use super::store::health;
use crate::terminal::bytes;

/// Scopes of a page.
const LISTED: usize = 100;
/// Tenants of a page.
const TENANTS: usize = 200;
const COLUMNS: [&str; 5] = ["Kind", "Scope", "Entries", "Size", "See also"];

pub(super) async fn show(page: &Page, visit: &Visit, place: &Place, fields: &Fields) -> Result<Markup> {
    let capabilities = page.memory.capabilities();
    let served = [
        (capabilities.kv, "entries"),
        (capabilities.lexical_search, "search by words"),
        (capabilities.vector_search, "search by meaning"),
        (capabilities.memory_layer, "conversations"),
        (capabilities.sql, "SQL"),
        (capabilities.host_tables, "shared state and graphs"),
    ];
    Ok(html! {
        div class="cards" {
            section aria-labelledby="health" { h2 id="health" { "Health" } (health(page, visit).await) }
            section aria-labelledby="serves" {
                h2 id="serves" { "Store " code { (page.memory.name()) } }
                ul class="flags" {
                    @for (is_served, what) in served {
                        li class=(if is_served { "yes" } else { "no" }) { @if !is_served { "no " } (what) }
                    }
                }
                p { a href="/page/store" { "More about the store" } }
            }
        }
        h2 { "Scopes" }
        (place.chooser("/", false))
        (tenants(page, visit, place).await)
        @match &place.tenant {
            None => (remark("This token reaches every tenant. Name one to see its scopes.")),
            Some(tenant) => (scopes(page, visit, tenant, place, fields).await?),
        }
    })
}

/// The tenants, for a token that may list them.
async fn tenants(page: &Page, visit: &Visit, place: &Place) -> Markup {
    if visit.caller.grant().tenant.is_some() || place.tenant.is_some() {
        return html! {};
    }
    match page.ask(visit, Request::Tenants { after: None, limit: TENANTS }).await {
        Ok(Reply::Tenants(tenants)) => html! {
            ul class="flags" {
                @for tenant in &tenants { li { a href=(link("/", &[("tenant", tenant.as_str())])) { (said(tenant.as_str())) } } }
            }
            @if tenants.is_empty() { (remark("The store is empty.")) }
        },
        Ok(_) => refusal(&unexpected()),
        Err(error) => refusal(&error),
    }
}

async fn scopes(
    page: &Page,
    visit: &Visit,
    tenant: &TenantId,
    place: &Place,
    fields: &Fields,
) -> Result<Markup> {
    let grant = visit.caller.grant();
    if grant.agent.is_some() || grant.user.is_some() {
        return own(page, visit, tenant).await;
    }
    let kind: Option<ScopeKind> = fields.parse("only")?;
    let mut query = ScopesQuery::default()
        .with_limit(LISTED)
        .with_cursor(fields.get("cursor").map(|cursor| Cursor::from_text(cursor.to_owned())));
    query.kind = kind;
    let found = match page.ask(visit, Request::Scopes { tenant: tenant.clone(), query }).await {
        Ok(Reply::Scopes(found)) => found,
        Ok(_) => return Err(unexpected()),
        Err(error) => return Ok(refusal(&error)),
    };
    let only = kind.map_or("", ScopeKind::as_str);
    let next = found.next.as_ref().map(|next| place.link("/", &[("only", only), ("cursor", next.as_str())]));
    let rows: Vec<Markup> = found.scopes.iter().map(row).collect();
    Ok(html! {
        nav class="tabs" aria-label="Kinds of scope" {
            @for (name, label) in [("", "all"), ("agent", "agents"), ("user", "users"), ("run", "runs")] {
                a href=(place.link("/", &[("only", name)])) aria-current=[(name == only).then_some("true")] { (label) }
            }
        }
        @if rows.is_empty() {
            (remark("No scope holds an entry or a conversation. Shared state and graphs have pages of their own."))
        } @else {
            (table("Scopes with entries, and their sizes", &COLUMNS, &rows))
            (more(next))
        }
    })
}

fn row(info: &ScopeInfo) -> Markup {
    let place = Place::at(&info.scope);
    let (entries, recall) = (place.link("/page/entries", &[]), place.link("/page/recall", &[]));
    html! {
        td { (info.scope.kind.as_str()) }
        td { a href=(entries) { (said(info.scope.id.as_str())) } }
        td class="number" { (info.entries) }
        td class="number" { (bytes(info.bytes)) }
        td { a href=(recall) aria-label=(format!("Conversations of {}", spelled(info.scope.id.as_str()))) { "conversations" } }
    }
}

/// The scopes of a token bound to an agent or a user, which may not list a tenant's.
async fn own(page: &Page, visit: &Visit, tenant: &TenantId) -> Result<Markup> {
    let grant = visit.caller.grant();
    let scopes = [(ScopeKind::Agent, &grant.agent), (ScopeKind::User, &grant.user)];
    let (mut rows, mut refused): (Vec<Markup>, Vec<Error>) = (Vec::new(), Vec::new());
    for (kind, id) in scopes {
        let Some(id) = id else { continue };
        let scope = Scope::new(tenant.clone(), kind, id.clone());
        match page.ask(visit, Request::Stats { scope: scope.clone() }).await {
            Ok(Reply::Stats(stats)) => rows.push(row(&ScopeInfo::new(scope, stats.entries, stats.bytes))),
            Ok(reply) => {
                return Err(Error::internal(format!("`{}` was answered for `{}`", reply.op(), Op::Stats)));
            }
            Err(error) => refused.push(error),
        }
    }
    Ok(html! {
        @if !rows.is_empty() { (table("Scopes of this token", &COLUMNS, &rows)) }
        @for error in &refused { (refusal(error)) }
    })
}
