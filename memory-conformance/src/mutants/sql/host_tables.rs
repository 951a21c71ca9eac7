//! Tables of the host that agents can reach, or that do not belong to the host.

use memory_core::sql::SqlScopesQuery;
use memory_core::{EraseTarget, Error, ErrorKind, Reply, Request, ScopeKind};

use super::requests::{change_scope, exec, sql, statement};
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "sql.host-is-an-agent": ["HST-1"] needs [Sql, HostTables], "the host's tables are in the database of the agent of that id"
        => ask(|request| change_scope(request, |scope| if scope.kind == ScopeKind::Host { scope.kind = ScopeKind::Agent; }));
    "sql.host-is-a-run": ["HST-1"] needs [Sql, HostTables], "the host's tables are in the database of the run of that id"
        => ask(|request| change_scope(request, |scope| if scope.kind == ScopeKind::Host { scope.kind = ScopeKind::Run; }));
    "sql.host-under-rules": ["HST-2"] needs [Sql, HostTables], "the host may make no triggers"
        => around({
            if statement(&request).is_some_and(|sql| sql.starts_with("CREATE TRIGGER")) {
                return Err(Error::new(ErrorKind::StatementRefused, "triggers are not allowed; check in your program"));
            }
            next.run(request).await
        });
    "sql.host-ignores-triggers": ["HST-2"] needs [Sql, HostTables], "triggers of the host are accepted and never fire"
        => around({
            if statement(&request).is_some_and(|sql| sql.starts_with("CREATE TRIGGER")) {
                return Ok(Reply::Exec(memory_core::sql::ExecOutcome::default()));
            }
            next.run(request).await
        });
    "sql.host-unlisted": ["HST-3"] needs [Sql, HostTables], "the host's databases are not listed, so no snapshot has them"
        => around({
            let mut reply = next.run(request).await?;
            if let Reply::SqlScopes(page) = &mut reply {
                page.scopes.retain(|(scope, _)| scope.kind != ScopeKind::Host);
            }
            Ok(reply)
        });
    "sql.host-not-erased": ["HST-3"] needs [Sql, HostTables, Erase], "the host's databases outlive their tenant"
        => around({
            let Request::Erase { target: EraseTarget::Tenant(tenant) } = &request else {
                return next.run(request).await;
            };
            let mut left = sql(&next)?.sql_scopes(tenant, SqlScopesQuery::default()).await?.scopes;
            left.retain(|(scope, _)| scope.kind == ScopeKind::Host);
            let reply = next.run(request).await?;
            for (scope, _) in &left {
                exec(&next, scope, "CREATE TABLE left_over (n INTEGER)").await?;
            }
            Ok(reply)
        });
}
