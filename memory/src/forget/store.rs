//! The store itself.

use memory_core::layer::Forget;
use memory_core::limits::MAX_PAGE;
use memory_core::sql::SqlScopesQuery;
use memory_core::{DeleteOptions, EraseTarget, GetOptions, Result, RunContext, Scope, ScopesQuery, TenantId};

use super::report::{ForgetReport, StepOutcome};
use crate::memory::Memory;

/// What a store without tombstones cannot do.
const NO_TOMBSTONES: &str = "the store can delete but not erase: an older copy may bring the data back, and what its engine \
     keeps of deleted rows stays until it is reclaimed";

/// Counts what exists of a target.
pub(super) async fn look(memory: &Memory, target: &EraseTarget, report: &mut ForgetReport) -> Result<()> {
    match target {
        EraseTarget::Key { scope, key } => {
            if let Some(backend) = memory.backend() {
                let found = backend.get(scope, key, GetOptions::uncounted()).await?;
                report.entries = u64::from(found.is_some());
            }
        }
        _ => {
            for (scope, entries, has_database) in scopes(memory, target.tenant()).await? {
                if target.has_scope(&scope) {
                    report.scopes += 1;
                    report.entries += entries;
                    report.databases += u64::from(has_database);
                }
            }
        }
    }
    let found = report.entries + report.databases;
    report.found("store", None, found);
    Ok(())
}

/// Every scope of a tenant: its entries, and whether it has a database.
async fn scopes(memory: &Memory, tenant: &TenantId) -> Result<Vec<(Scope, u64, bool)>> {
    let mut found = std::collections::BTreeMap::<Scope, (u64, bool)>::new();
    if let Some(backend) = memory.backend() {
        let mut query = ScopesQuery::default().with_limit(MAX_PAGE);
        loop {
            let page = backend.scopes(tenant, query.clone()).await?;
            found.extend(page.scopes.into_iter().map(|info| (info.scope, (info.entries, false))));
            let Some(next) = page.next else { break };
            query = query.with_cursor(Some(next));
        }
    }
    if let Some(sql) = memory.sql() {
        let mut query = SqlScopesQuery::default();
        query.limit = MAX_PAGE;
        loop {
            let page = sql.sql_scopes(tenant, query.clone()).await?;
            for (scope, _) in page.scopes {
                found.entry(scope).or_default().1 = true;
            }
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
    }
    Ok(found.into_iter().map(|(scope, (entries, database))| (scope, entries, database)).collect())
}

/// Erases it, or deletes it if the store cannot erase.
pub(super) async fn step(memory: &Memory, target: &EraseTarget, report: &mut ForgetReport) -> Result<()> {
    if memory.backend().is_none() && memory.sql().is_none() {
        return Ok(());
    }
    if memory.capabilities().erase {
        let erased = memory.erase(target).await?;
        (report.scopes, report.entries, report.databases) = (erased.scopes, erased.entries, erased.databases);
        report.done("store", None, erased.entries + erased.databases);
        for remains in erased.remains {
            report.add("store", None, 0, StepOutcome::Remains, remains);
        }
        return Ok(());
    }
    match target {
        EraseTarget::Key { scope, key } => {
            if let Some(backend) = memory.backend() {
                let deleted = backend.delete(scope, key, DeleteOptions::default()).await?.deleted;
                report.entries = u64::from(deleted);
            }
        }
        _ => {
            for (scope, entries, _) in scopes(memory, target.tenant()).await? {
                if !target.has_scope(&scope) {
                    continue;
                }
                if let Some(backend) = memory.backend() {
                    backend.drop_scope(&scope).await?;
                }
                report.scopes += 1;
                report.entries += entries;
                if let Some(sql) = memory.sql() {
                    report.databases += u64::from(sql.drop_sql_scope(&scope).await?);
                }
            }
        }
    }
    let count = report.entries + report.databases;
    report.add("store", None, count, StepOutcome::Remains, NO_TOMBSTONES);
    Ok(())
}

/// Facts of a conversational layer. If the store has entries too, the facts are among them and were removed with them.
pub(super) async fn facts(
    memory: &Memory,
    target: &EraseTarget,
    run: Option<&RunContext>,
    report: &mut ForgetReport,
) {
    let Some(layer) = memory.layer().filter(|_| memory.backend().is_none()) else { return };
    let mut unreachable = |why: &'static str| report.add("facts", None, 0, StepOutcome::OutOfReach, why);
    let (EraseTarget::Scope(scope), Some(run)) = (target, run) else {
        return unreachable("facts can only be forgotten scope by scope, with credentials for the service");
    };
    if !memory.capabilities().layer_forget {
        return unreachable("the service cannot forget; ask its operator");
    }
    match layer.forget(run, scope, Forget::All).await {
        Ok(outcome) => {
            let count = outcome.forgotten.unwrap_or(1);
            match outcome.remains.as_slice() {
                [] => report.done("facts", None, count),
                remains => report.add("facts", None, count, StepOutcome::Remains, remains.join("; ")),
            }
        }
        Err(error) => report.failed("facts", None::<&str>, &error),
    }
}
