//! Erasing keys, scopes and tenants. `docs/spec/forget.md` has the behaviours.

use memory_core::{EraseTarget, Erased, Error, Result, Scope, TenantId, Tombstone, TombstoneId};
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::Type;

use crate::connect::Transaction;
use crate::error::{Effect, malformed};
use crate::kv::expiry;
use crate::lifecycle::tombstones::{lock, now, put};
use crate::store::Store;
use crate::store::columns::{column, unsigned};
use crate::store::parameters::Value;
use crate::store::scope_ref::{ScopeRef, kind_of};

/// Removes the entries and leaves the tombstone, in one transaction.
pub(crate) async fn entries(store: &Store, target: &EraseTarget) -> Result<Erased> {
    let mut connection = store.connections.take().await?;
    let transaction = connection.transaction(IsolationLevel::ReadCommitted, false).await?;
    match delete(store, target, &transaction).await {
        Ok(erased) => transaction.commit().await.map(|()| erased),
        Err(error) => {
            transaction.rollback().await;
            Err(error)
        }
    }
}

async fn delete(store: &Store, target: &EraseTarget, transaction: &Transaction<'_>) -> Result<Erased> {
    let id = TombstoneId::of(target);
    lock(&id.tenant, transaction).await?;
    let now = now(store, transaction).await?;
    let (mut scopes, mut entries, mut version) = (0, 0, 0);
    match target {
        EraseTarget::Tenant(tenant) => {
            for scope in scopes_of(store, tenant, transaction).await? {
                let (found, held, highest) = erase_scope(store, &scope, transaction).await?;
                let of_scope = TombstoneId::of(&EraseTarget::Scope(scope));
                put(store, Tombstone { id: of_scope, at: now, version: highest }, transaction).await?;
                scopes += u64::from(found);
                entries += held;
                version = version.max(highest);
            }
        }
        EraseTarget::Scope(scope) => {
            let (found, held, highest) = erase_scope(store, scope, transaction).await?;
            (scopes, entries, version) = (u64::from(found), held, highest);
        }
        EraseTarget::Key { scope, key } => {
            let target = ScopeRef::of(scope);
            // As of a time when nothing had expired.
            let (at, name, any) = (i64::MIN, key.as_str(), 0_i16);
            let (no_version, no_sum): (Option<i64>, Option<Vec<u8>>) = (None, None);
            let values = target.parameters([
                (&at, Type::INT8),
                (&name, Type::TEXT),
                (&any, Type::INT2),
                (&no_version, Type::INT8),
                (&no_sum, Type::BYTEA),
            ]);
            let rows = transaction.query(&store.statements.delete, &values).await?;
            let row = rows.first().ok_or_else(|| malformed("outcome"))?;
            entries = u64::from(column::<i16>(row, 0, "outcome")? == 0);
            let rows = transaction.query(&store.named(GIVEN), &target.values()).await?;
            version = unsigned(rows.first().ok_or_else(|| malformed("version"))?, 0, "version")?;
        }
        _ => return Err(Error::unsupported("erase", "postgres")),
    }
    let tombstone = put(store, Tombstone { id, at: now, version }, transaction).await?;
    let mut erased = Erased::new(tombstone);
    (erased.scopes, erased.entries) = (scopes, entries);
    Ok(erased)
}

/// The highest version that a scope has assigned, including before an erasure.
const GIVEN: &str = "SELECT coalesce(max(g.version), 0) FROM (SELECT s.version FROM @schema@.scope s \
     WHERE s.tenant = $1 AND s.kind = $2 AND s.name = $3 UNION ALL SELECT t.version FROM @schema@.tombstone t \
     WHERE t.tenant = @schema@.tenant_digest($1) AND t.scope = @schema@.scope_digest($1, $2, $3)) g";

async fn scopes_of(store: &Store, tenant: &TenantId, transaction: &Transaction<'_>) -> Result<Vec<Scope>> {
    let sql = store.named("SELECT s.kind, s.name FROM @schema@.scope s WHERE s.tenant = $1 ORDER BY 1, 2");
    let rows = transaction.query(&sql, &[(&tenant.as_str(), Type::TEXT)]).await?;
    rows.iter()
        .map(|row| {
            let kind = kind_of(column(row, 0, "scope")?)?;
            let id = memory_core::ScopeId::new(column::<&str>(row, 1, "scope")?)
                .map_err(|_| malformed("scope"))?;
            Ok(Scope::new(tenant.clone(), kind, id))
        })
        .collect()
}

async fn erase_scope(
    store: &Store,
    scope: &Scope,
    transaction: &Transaction<'_>,
) -> Result<(bool, u64, u64)> {
    let target = ScopeRef::of(scope);
    let sql = store.named("SELECT * FROM @schema@.erase_scope($1, $2, $3)");
    let rows = transaction.query(&sql, &target.values()).await?;
    let row = rows.first().ok_or_else(|| malformed("outcome"))?;
    Ok((column(row, 0, "outcome")?, unsigned(row, 1, "count")?, unsigned(row, 2, "version")?))
}

/// Tables whose pages may still contain erased data.
const TABLES: [&str; 4] = ["entry", "vector", "scope", "garbage"];

/// Whether this role may vacuum a table: the server reports a missing privilege as a notice, not as an error.
const MAY_VACUUM: &str = "SELECT t.name, pg_has_role(c.relowner, 'USAGE') OR pg_has_role(d.datdba, 'USAGE') \
     OR CASE WHEN current_setting('server_version_num')::int < 170000 THEN false \
        ELSE has_table_privilege(c.oid, 'MAINTAIN') END \
     FROM unnest($1) t(name) JOIN pg_class c ON c.oid = ('@schema@.' || t.name)::regclass \
     JOIN pg_database d ON d.datname = current_database()";

/// Deletes invisible rows and vacuums the tables. Returns a message for each thing left for later: whatever fails here,
/// the erasure is committed.
pub(crate) async fn scrub(store: &Store) -> Vec<String> {
    let mut remains = vec![
        "the server's write-ahead log, standbys and base backups hold the data until they are rotated; vacuumed pages \
         are overwritten when reused"
            .to_owned(),
    ];
    if let Err(error) = expiry::sweep(store).await {
        remains.push(format!(
            "rows that nobody can read any more stay in the tables, because they could not be deleted ({}); erase again, \
             with the rights that `memory postgres provision --apply --role` grants",
            error.message()
        ));
    }
    let all = || TABLES.iter().map(|table| store.named(&format!("@schema@.{table}"))).collect();
    let left = vacuum(store).await.unwrap_or_else(|_| all());
    if !left.is_empty() {
        remains.push(format!(
            "pages of tables that this role did not vacuum hold the data until autovacuum runs; to do it now, the owner runs \
             `VACUUM {}`",
            left.join(", ")
        ));
    }
    remains
}

/// Vacuums the tables that this role may vacuum; returns the others.
async fn vacuum(store: &Store) -> Result<Vec<String>> {
    let connection = store.connections.take().await?;
    let tables = TABLES.to_vec();
    let values: [Value<'_>; 1] = [(&tables, Type::TEXT_ARRAY)];
    let rows = connection.query(&store.named(MAY_VACUUM), &values, Effect::None).await?;
    let mut left = Vec::new();
    for row in &rows {
        let (table, may): (&str, bool) = (column(row, 0, "table")?, column(row, 1, "right")?);
        let table = store.named(&format!("@schema@.{table}"));
        if !may || connection.batch(&format!("VACUUM {table}"), Effect::None).await.is_err() {
            left.push(table);
        }
    }
    Ok(left)
}
