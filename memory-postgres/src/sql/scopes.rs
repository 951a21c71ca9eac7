//! Lists, describes and drops scopes' databases.

use std::sync::Arc;

use memory_core::cursor::Cursor;
use memory_core::sql::{ColumnInfo, SqlScopePage, SqlScopesQuery, SqlUsage, TableInfo};
use memory_core::{Result, Scope, ScopeId, TenantId};
use memory_sql::Ended;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::Effect;
use crate::sql::engine::{Engine, detached};
use crate::sql::pool::ScopeState;
use crate::sql::quota::usage::StoredUsage;
use crate::store::scope_ref::{kind_number, kind_of};

/// Tables, views and materialised views of a schema, and their columns in order.
const COLUMNS: &str = "\
    SELECT c.oid, c.relname::text, c.relkind::text, a.attname::text, format_type(a.atttypid, a.atttypmod), \
        NOT (a.attnotnull OR t.typnotnull), coalesce(array_position(k.conkey, a.attnum), 0) \
    FROM pg_class c \
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped \
    LEFT JOIN pg_type t ON t.oid = a.atttypid \
    LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'p' \
    WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') \
    ORDER BY c.relname COLLATE \"C\", a.attnum";

/// Indexes that somebody created, excluding those of constraints.
const INDEXES: &str = "\
    SELECT x.indrelid, i.relname::text FROM pg_class i JOIN pg_index x ON x.indexrelid = i.oid \
    WHERE i.relnamespace = to_regnamespace($1) AND i.relkind IN ('i', 'I') \
      AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.oid AND k.contype IN ('p', 'u', 'x')) \
    ORDER BY i.relname COLLATE \"C\"";

impl Engine {
    pub(crate) async fn tables(self: &Arc<Self>, scope: &Scope) -> Result<Vec<TableInfo>> {
        self.wake()?;
        let state = self.pool.scope(scope);
        self.settled(&state).await?;
        let schema = state.hex.schema();
        let columns = self.admin.look(COLUMNS, &[(&schema, Type::TEXT)]).await?;
        let indexes = self.admin.look(INDEXES, &[(&schema, Type::TEXT)]).await?;
        let mut tables: Vec<(u32, TableInfo)> = Vec::new();
        for row in columns {
            let oid: u32 = row.get(0);
            if tables.last().is_none_or(|(last, _)| *last != oid) {
                let kind = match row.get::<_, &str>(2) {
                    "v" => "view",
                    "m" => "materialized view",
                    "f" => "foreign table",
                    _ => "table",
                };
                tables.push((oid, TableInfo::new(row.get::<_, String>(1), kind)));
            }
            if let (Some((_, table)), Some(name)) = (tables.last_mut(), row.get::<_, Option<String>>(3)) {
                let mut column = ColumnInfo::new(name, row.get::<_, Option<String>>(4).unwrap_or_default());
                column.nullable = row.get::<_, Option<bool>>(5).unwrap_or(true);
                column.primary_key = u32::try_from(row.get::<_, i32>(6)).unwrap_or_default();
                table.columns.push(column);
            }
        }
        for row in indexes {
            let of: u32 = row.get(0);
            if let Some((_, table)) = tables.iter_mut().find(|(oid, _)| *oid == of) {
                table.indexes.push(row.get(1));
            }
        }
        Ok(tables.into_iter().map(|(_, table)| table).collect())
    }

    pub(crate) async fn scopes(
        self: &Arc<Self>,
        tenant: &TenantId,
        query: SqlScopesQuery,
    ) -> Result<SqlScopePage> {
        self.wake()?;
        let (kind, id) = match &query.cursor {
            Some(cursor) => {
                let (kind, id) = cursor.scope(tenant)?;
                (kind_number(kind), id.as_str().to_owned())
            }
            None => (i16::MIN, String::new()),
        };
        let limit = i64::try_from(query.limit.saturating_add(1)).unwrap_or(i64::MAX);
        let rows = loop {
            let rows = self
                .admin
                .look(
                    "SELECT kind, id, crowded, mem_sql.bytes_of(hex), leaving FROM mem_sql.scopes \
                     WHERE tenant = $1 AND (kind, id) > ($2, $3) AND written ORDER BY kind, id LIMIT $4",
                    &[
                        (&tenant.as_str(), Type::TEXT),
                        (&kind, Type::INT2),
                        (&id, Type::TEXT),
                        (&limit, Type::INT8),
                    ],
                )
                .await?;
            let waiting = rows.iter().filter(|row| row.get::<_, Option<i64>>(4).is_some());
            let waiting: Vec<Scope> = waiting.map(|row| scope_of(tenant, row)).collect::<Result<_>>()?;
            if !self.complete_those(&waiting).await? {
                break rows;
            }
        };
        let mut scopes: Vec<(Scope, SqlUsage)> = Vec::new();
        for row in rows {
            if scopes.len() >= query.limit {
                let next = scopes.last().map(|(last, _)| Cursor::after_scope(tenant, last.kind, &last.id));
                return Ok(SqlScopePage::new(scopes, next));
            }
            let scope = scope_of(tenant, &row)?;
            let filled = StoredUsage {
                written: true,
                crowded: row.get(2),
                bytes: u64::try_from(row.get::<_, i64>(3)).unwrap_or_default(),
            };
            let bytes = self.bytes(&self.pool.scope(&scope), &filled).await?;
            scopes.push((scope, SqlUsage::new(bytes, self.config.quota_bytes)));
        }
        Ok(SqlScopePage::new(scopes, None))
    }

    /// The tenants that have a scope with a database, in byte order of their ids: at most `limit` after this one.
    pub(crate) async fn tenants(
        self: &Arc<Self>,
        after: Option<&TenantId>,
        limit: usize,
    ) -> Result<Vec<TenantId>> {
        self.wake()?;
        let after = after.map_or("", TenantId::as_str);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = self
            .admin
            .look(
                "SELECT DISTINCT tenant FROM mem_sql.scopes WHERE tenant > $1 AND written ORDER BY tenant LIMIT $2",
                &[(&after, Type::TEXT), (&limit, Type::INT8)],
            )
            .await?;
        rows.iter().map(|row| TenantId::new(row.get::<_, String>(0))).collect()
    }

    /// Drops a scope's database; returns whether there was one.
    pub(crate) async fn drop_scope(self: &Arc<Self>, scope: &Scope) -> Result<bool> {
        self.wake()?;
        let (engine, scope) = (Arc::clone(self), scope.clone());
        detached(async move {
            let state = engine.pool.scope(&scope);
            engine.end_those(Ended::Dropped, |open| open.scope == state.scope).await?;
            let there = engine
                .admin
                .look(
                    "SELECT 1 FROM mem_sql.scopes WHERE hex = $1 UNION ALL \
                     SELECT 1 WHERE to_regrole('mem_r_' || $1) IS NOT NULL OR to_regnamespace('mem_s_' || $1) IS NOT NULL",
                    &[(&state.hex.as_str(), Type::TEXT)],
                )
                .await?;
            if there.is_empty() {
                return Ok(false);
            }
            let was = engine.admin.remove(&state.hex, None).await?;
            engine.forget_all_of(&state);
            Ok(was)
        })
        .await
    }

    /// A tenant's scopes for which anything exists, even if nothing was ever committed.
    pub(crate) async fn some_of(self: &Arc<Self>, tenant: &TenantId) -> Result<Vec<Scope>> {
        self.wake()?;
        let sql = "SELECT kind, id FROM mem_sql.scopes WHERE tenant = $1 ORDER BY kind, id LIMIT 200";
        let rows = self.admin.look(sql, &[(&tenant.as_str(), Type::TEXT)]).await?;
        rows.iter().map(|row| scope_of(tenant, row)).collect()
    }

    /// Vacuums the names of removed scopes. Returns what remains for later.
    pub(crate) async fn scrub(&self) -> Option<String> {
        let vacuumed = match self.admin.connections.take().await {
            Ok(connection) => connection.batch("VACUUM mem_sql.scopes", Effect::None).await,
            Err(error) => Err(error),
        };
        vacuumed.err().map(|_| {
            "pages of `mem_sql.scopes`, in the database for agents' SQL, could not be vacuumed; its owner must run \
             `VACUUM mem_sql.scopes`"
                .to_owned()
        })
    }

    /// Forgets what is cached about a database that is gone.
    pub(crate) fn forget_all_of(&self, state: &Arc<ScopeState>) {
        if let Some(generation) = state.generation() {
            state.forget(generation);
        }
        self.pool.clear(state);
    }
}

/// The scope of a row that begins with kind and id.
fn scope_of(tenant: &TenantId, row: &Row) -> Result<Scope> {
    Ok(Scope::new(tenant.clone(), kind_of(row.get(0))?, ScopeId::new(row.get::<_, String>(1))?))
}
