//! Databases of the wrong scope.

use memory_core::{Error, ErrorKind, Next, Reply, Request, Result, Scope, ScopeKind, TenantId};

use super::requests::{change_id, change_scope, exec, sql};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "sql.scope-without-tenant": ["OWN-1"] needs [Sql], "tenants share databases of scopes with the same name" => ask(without_tenant);
    "sql.scope-without-kind": ["OWN-1"] needs [Sql], "agents, users and runs share databases with the same name"
        => ask(|request| change_scope(request, |scope| scope.kind = ScopeKind::Agent));
    "sql.scope-in-lower-case": ["OWN-1"] needs [Sql], "ids that differ only by case share a database"
        => ask(|request| change_scope(request, |scope| change_id(scope, &scope.id.as_str().to_lowercase())));
    "sql.scope-as-file-name": ["OWN-1"] needs [Sql], "characters not allowed in file names become `_`"
        => ask(|request| change_scope(request, |scope| {
            let plain = |c: char| if c.is_alphanumeric() || ".- ".contains(c) { c } else { '_' };
            change_id(scope, &scope.id.as_str().chars().map(plain).collect::<String>());
        }));
    "sql.scope-cut": ["OWN-1"] needs [Sql], "long ids with the same beginning share a database"
        => ask(|request| change_scope(request, |scope| change_id(scope, &scope.id.as_str().chars().take(64).collect::<String>())));
    "sql.one-database": ["OWN-1", "OWN-2"] needs [Sql], "the agents of a tenant share one database"
        => ask(|request| change_scope(request, |scope| if scope.kind == ScopeKind::Agent { change_id(scope, "one"); }));
    "sql.tenant-of-the-run-unchecked": ["OWN-3"] needs [Sql], "a run may use another tenant's scope"
        => ask_ahead(|request| {
            match request {
                Request::Exec { run, scope, .. }
                | Request::Query { run, scope, .. }
                | Request::Begin { run, scope, .. }
                | Request::Commit { run, scope, .. }
                | Request::Rollback { run, scope, .. }
                | Request::DescribeTables { run, scope } => run.tenant = scope.tenant.clone(),
                _ => {}
            }
        });
    "sql.run-apart": ["OWN-4"] needs [Sql], "each run has a separate database" => ask(run_apart);
    "sql.missing-is-an-error": ["OWN-5"] needs [Sql], "a scope without a database cannot be queried"
        => around({
            if let Request::Query { scope, .. } | Request::DescribeTables { scope, .. } | Request::Dump { scope } =
                &request
                && is_missing(&next, scope).await?
            {
                return Err(Error::new(ErrorKind::NotFound, "this scope has no database; write to it first"));
            }
            next.run(request).await
        });
    "sql.reading-makes": ["OWN-5", "DBS-1"] needs [Sql], "a query creates a database"
        => ask(Request::Query { scope, .. } => make(&next, scope).await?);
    "sql.refusals-make": ["OWN-5"] needs [Sql], "a refused statement creates a database" => around(refusals_make);
}

fn without_tenant(request: &mut Request) {
    let own = |tenant: &mut TenantId| {
        if let Some(own) = tenant.as_str().strip_suffix("/other").and_then(|own| TenantId::new(own).ok()) {
            *tenant = own;
        }
    };
    change_scope(request, |scope| own(&mut scope.tenant));
    match request {
        Request::Exec { run, .. }
        | Request::Query { run, .. }
        | Request::Begin { run, .. }
        | Request::Commit { run, .. }
        | Request::Rollback { run, .. }
        | Request::DescribeTables { run, .. } => own(&mut run.tenant),
        _ => {}
    }
}

fn run_apart(request: &mut Request) {
    let run = match request {
        Request::Exec { run, .. }
        | Request::Query { run, .. }
        | Request::Begin { run, .. }
        | Request::Commit { run, .. }
        | Request::Rollback { run, .. }
        | Request::DescribeTables { run, .. } => run.run.clone(),
        _ => return,
    };
    change_scope(request, |scope| change_id(scope, &format!("{}~{run}", scope.id)));
}

/// Whether the scope has no database.
pub(super) async fn is_missing(next: &Next<'_>, scope: &Scope) -> Result<bool> {
    Ok(sql(next)?.sql_usage(scope).await?.bytes == 0)
}

async fn make(next: &Next<'_>, scope: &Scope) -> Result<()> {
    if is_missing(next, scope).await? {
        exec(next, scope, "CREATE TABLE made_by_reading (n INTEGER)").await?;
        exec(next, scope, "DROP TABLE made_by_reading").await?;
    }
    Ok(())
}

async fn refusals_make(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let asked = match &request {
        Request::Exec { scope, .. } => Some(scope.clone()),
        _ => None,
    };
    let reply = next.run(request).await;
    if reply.is_err()
        && let Some(scope) = asked
    {
        make(&next, &scope).await?;
    }
    reply
}
