//! Lists tenants and scopes.

use memory_core::{Cursor, Result, Scope, ScopeId, ScopeInfo, ScopePage, ScopesQuery, TenantId, Timestamp};
use rusqlite::{Connection, params};

use crate::error::{Unreadable, malformed_scope};
use crate::file::column::{kind, kind_number, unsigned};
use crate::file::counts::{counted, expired};

/// Lists the tenants that have a scope, in order (SCO-6).
pub(crate) fn tenants(
    connection: &Connection,
    after: Option<&TenantId>,
    limit: usize,
) -> Result<Vec<TenantId>, Unreadable> {
    // One seek per tenant, however many scopes it has.
    let mut statement = connection.prepare_cached("SELECT min(tenant) FROM scope WHERE tenant > ?1")?;
    let mut tenants: Vec<TenantId> = Vec::new();
    while tenants.len() < limit {
        // No tenant has an empty id.
        let last = tenants.last().or(after).map_or("", TenantId::as_str);
        let next: Option<String> = statement.query_row([last], |row| row.get(0))?;
        let Some(next) = next else { break };
        match TenantId::new(next.as_str()) {
            Ok(tenant) => tenants.push(tenant),
            Err(_) => {
                let row = "SELECT space FROM scope WHERE tenant = ?1 LIMIT 1";
                let space = connection.query_row(row, [next], |row| row.get(0))?;
                return Err(malformed_scope(space).into());
            }
        }
    }
    Ok(tenants)
}

/// Lists the scopes of a tenant that hold live entries, a page at a time (SCO-1 to SCO-3).
pub(crate) fn scopes(
    connection: &Connection,
    tenant: &TenantId,
    query: &ScopesQuery,
    now: Timestamp,
) -> Result<ScopePage, Unreadable> {
    let (after_kind, after_id) = match &query.cursor {
        Some(cursor) => {
            let (kind, id) = cursor.scope(tenant)?;
            (kind_number(kind), String::from(id))
        }
        None => (i64::MIN, String::new()),
    };
    let (low, high) = query.kind.map_or((0, 2), |kind| (kind_number(kind), kind_number(kind)));
    // A read transaction already has a snapshot.
    let _snapshot = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
    let mut statement = connection.prepare_cached(
        "SELECT kind, name, space, entries, bytes, expiring, recount FROM scope \
         WHERE tenant = ?1 AND (kind, name) > (?2, ?3) AND kind BETWEEN ?4 AND ?5 AND (entries > 0 OR recount <> 0) ORDER BY kind, name",
    )?;
    let mut rows = statement.query(params![tenant.as_str(), after_kind, after_id, low, high])?;
    let mut scopes: Vec<ScopeInfo> = Vec::new();
    while let Some(row) = rows.next()? {
        let kind = kind(row.get(0)?)?;
        let (space, mut entries, mut bytes, mut expiring): (i64, i64, i64, i64) =
            (row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?);
        let id = ScopeId::new(row.get::<_, String>(1)?).map_err(|_| malformed_scope(space))?;
        if row.get::<_, i64>(6)? != 0 {
            (entries, bytes, expiring) = counted(connection, space)?;
        }
        let (expired, expired_bytes) = expired(connection, space, expiring, now)?;
        let entries = unsigned(entries - expired, "counter")?;
        if entries == 0 {
            continue;
        }
        if scopes.len() >= query.limit {
            let next = scopes.last().map(|last| Cursor::after_scope(tenant, last.scope.kind, &last.scope.id));
            return Ok(ScopePage::new(scopes, next));
        }
        let scope = Scope::new(tenant.clone(), kind, id);
        scopes.push(ScopeInfo::new(scope, entries, unsigned(bytes - expired_bytes, "counter")?));
    }
    Ok(ScopePage::new(scopes, None))
}
