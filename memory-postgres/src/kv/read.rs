//! The operations that read.

use std::collections::{BTreeMap, HashMap};

use memory_core::limits::MAX_PAGE_BYTES;
use memory_core::scope::upper_bound;
use memory_core::{
    Cursor, EmbeddingModel, Entry, Key, ListQuery, ModelStats, Result, Scope, ScopeId, ScopeInfo, ScopePage,
    ScopeStats, ScopesQuery, TenantId,
};
use tokio_postgres::types::Type;

use crate::error::{Effect, malformed};
use crate::kv::filter::condition;
use crate::kv::row::StoredEntry;
use crate::kv::snapshot::Snapshot;
use crate::kv::terms::required;
use crate::kv::{row, snapshot};
use crate::store::Store;
use crate::store::columns::{column, signed, unsigned};
use crate::store::parameters::{ModelValues, Value, Values};
use crate::store::scope_ref::{ScopeRef, kind_number, kind_of};
use crate::store::statements::{COLUMNS, SPACE};

/// Pages up to this size use a shared connection; longer ones take an exclusive one.
const SHORT_PAGE: usize = 100;

/// The entry of a key. Its access count omits accesses still held in memory.
pub(crate) async fn stored(store: &Store, target: &ScopeRef, key: &Key) -> Result<Option<StoredEntry>> {
    let (now, key) = (store.time.parameter(), key.as_str());
    let values = target.parameters([(&key, Type::TEXT), (&now, Type::INT8)]);
    let connection = store.connections.read().await?;
    let rows = connection.query(&store.statements.get, &values, Effect::None).await?;
    rows.first().map(row::read).transpose()
}

pub(crate) async fn entry(store: &Store, target: &ScopeRef, key: &Key) -> Result<Option<Entry>> {
    Ok(stored(store, target, key).await?.map(|stored| stored.entry))
}

/// The entries of many keys, each once, from one statement and thus one snapshot.
pub(crate) async fn many(
    store: &Store,
    target: &ScopeRef,
    keys: &[Key],
) -> Result<HashMap<Key, StoredEntry>> {
    let keys: Vec<&str> = keys.iter().map(Key::as_str).collect();
    let now = store.time.parameter();
    let values = target.parameters([(&keys, Type::TEXT_ARRAY), (&now, Type::INT8)]);
    let rows = if keys.len() > SHORT_PAGE {
        store.connections.take().await?.query(&store.statements.get_many, &values, Effect::None).await?
    } else {
        store.connections.read().await?.query(&store.statements.get_many, &values, Effect::None).await?
    };
    let entries = rows.iter().map(|found| {
        let stored = row::read(found)?;
        Ok((stored.entry.key.clone(), stored))
    });
    entries.collect()
}

/// LST: a page of entries. Their access counts omit accesses still held in memory.
pub(crate) async fn list(
    store: &Store,
    target: &ScopeRef,
    query: &ListQuery,
) -> Result<(Vec<StoredEntry>, Option<Cursor>)> {
    let after = query.cursor.as_ref().map(|cursor| cursor.key(&target.scope, &query.prefix)).transpose()?;
    let mut values = Values::default();
    let wanted = u64::try_from(query.limit).unwrap_or(u64::MAX).saturating_add(1);
    let sql = page(store, target, query, after.as_ref().map(Key::as_str), wanted, &mut values);
    let parameters = values.parameters();
    let rows = if query.limit <= SHORT_PAGE && query.filter.is_none() {
        store.connections.read().await?.query(&sql, &parameters, Effect::None).await?
    } else {
        store.connections.take().await?.query(&sql, &parameters, Effect::None).await?
    };
    // How many entries match up to the limit, including those that do not fit the page's bytes.
    let there = rows.first().map(|row| unsigned(row, 12, "count")).transpose()?.unwrap_or_default();
    let mut entries = rows.iter().take(query.limit).map(row::read).collect::<Result<Vec<_>>>()?;
    entries.truncate(query.limit);
    let more = there > u64::try_from(entries.len()).unwrap_or(u64::MAX);
    let next = entries
        .last()
        .filter(|_| more)
        .map(|last| Cursor::after_key(&target.scope, &query.prefix, &last.entry.key));
    Ok((entries, next))
}

/// The statement for a page: up to `wanted` entries after `after`, until the page's bytes are used up. Column 12 counts
/// them without the byte limit.
pub(crate) fn page(
    store: &Store,
    target: &ScopeRef,
    query: &ListQuery,
    after: Option<&str>,
    wanted: u64,
    values: &mut Values,
) -> String {
    // `SPACE` refers to the first three.
    let tenant = values.text(target.tenant());
    values.int2(target.kind());
    values.text(target.scope.id.as_str());
    let now = values.int8(store.time.parameter());
    let mut conditions = format!(
        "e.tenant = {tenant} AND e.space = {SPACE} \
         AND (e.expires_at IS NULL OR e.expires_at > coalesce({now}, @schema@.now_ms()))"
    );
    match after {
        Some(after) => conditions.push_str(&format!(" AND e.key > {}", values.text(after))),
        None if query.prefix.is_empty() => {}
        None => conditions.push_str(&format!(" AND e.key >= {}", values.text(query.prefix.as_str()))),
    }
    if let Some(upper) = upper_bound(&query.prefix) {
        conditions.push_str(&format!(" AND e.key < {}", values.text(upper)));
    }
    if let Some(filter) = &query.filter {
        for group in required(&target.digest, filter) {
            conditions.push_str(&format!(" AND e.marks && {}", values.int8s(group)));
        }
        conditions.push_str(&format!(" AND {}", condition(filter, values)));
    }
    let limit = values.int8(signed(wanted));
    let bytes = values.int8(signed(u64::try_from(MAX_PAGE_BYTES).unwrap_or(u64::MAX)));
    store.named(&format!(
        "SELECT {COLUMNS}, e.there FROM (SELECT d.*, sum(d.size) OVER (ORDER BY d.key) - d.size AS before, \
         count(*) OVER () AS there FROM (SELECT e.* FROM @schema@.entry e \
         WHERE {conditions} ORDER BY e.key LIMIT {limit}) d) e WHERE e.before < {bytes} ORDER BY e.key"
    ))
}

/// STA: the statistics of a scope.
pub(crate) async fn stats(
    store: &Store,
    target: &ScopeRef,
    own: Option<&EmbeddingModel>,
) -> Result<ScopeStats> {
    let now = store.time.parameter();
    let model = ModelValues::from(own);
    let [provider, name, dimensions] = model.values();
    let values = target.parameters([(&now, Type::INT8), provider, name, dimensions]);
    let connection = store.connections.take().await?;
    let rows = connection.query(&store.statements.stats, &values, Effect::None).await?;
    let mut stats = ScopeStats::default();
    let Some(first) = rows.first() else { return Ok(stats) };
    stats.entries = unsigned(first, 0, "counter")?;
    stats.bytes = unsigned(first, 1, "counter")?;
    stats.expiring = unsigned(first, 2, "counter")?;
    let (mut models, mut stale) = (BTreeMap::new(), 0_u64);
    if let Some(own) = own.filter(|_| stats.entries > 0) {
        models.insert(own.clone(), 0);
    }
    for row in &rows {
        if let Some(provider) = column::<Option<String>>(row, 3, "model")? {
            let dimensions =
                usize::try_from(column::<i32>(row, 5, "model")?).map_err(|_| malformed("model"))?;
            let model = EmbeddingModel { provider, model: column(row, 4, "model")?, dimensions };
            models.insert(model, unsigned(row, 6, "count")?);
            stale = stale.saturating_add(unsigned(row, 7, "count")?);
        }
    }
    let of_model = |(model, rows): (EmbeddingModel, u64)| {
        let dimensions = u64::try_from(model.dimensions).unwrap_or(u64::MAX);
        let is_own = Some(&model) == own;
        let mut of_model = ModelStats::new(model, rows, rows.saturating_mul(4).saturating_mul(dimensions));
        of_model.missing = stats.entries.saturating_sub(rows);
        // An entry may have vectors of several other models.
        of_model.stale = if is_own { stale.min(of_model.missing) } else { 0 };
        of_model
    };
    stats.models = models.into_iter().map(of_model).collect();
    Ok(stats)
}

/// SCO-6: a page of tenants.
pub(crate) async fn tenants(
    store: &Store,
    at: Option<&Snapshot>,
    after: Option<&TenantId>,
    limit: usize,
) -> Result<Vec<TenantId>> {
    // No tenant's id is empty.
    let after = after.map_or("", TenantId::as_str);
    let limit = signed(u64::try_from(limit).unwrap_or(u64::MAX));
    let values: [Value<'_>; 2] = [(&after, Type::TEXT), (&limit, Type::INT8)];
    let rows = snapshot::rows(store, at, &store.statements.tenants, &values).await?;
    rows.iter()
        .map(|row| TenantId::new(column::<String>(row, 0, "scope")?).map_err(|_| malformed("scope")))
        .collect()
}

/// SCO-1: a page of a tenant's scopes.
pub(crate) async fn scopes(
    store: &Store,
    at: Option<&Snapshot>,
    tenant: &TenantId,
    query: &ScopesQuery,
) -> Result<ScopePage> {
    let after = query.cursor.as_ref().map(|cursor| cursor.scope(tenant)).transpose()?;
    let of_kind = query.kind.map(kind_number);
    let (after_kind, after_id) = match &after {
        Some((kind, id)) => (kind_number(*kind), id.as_str()),
        None => (i16::MIN, ""),
    };
    let limit = signed(u64::try_from(query.limit).unwrap_or(u64::MAX).saturating_add(1));
    let (owner, now) = (tenant.as_str(), store.time.parameter());
    let values: [Value<'_>; 6] = [
        (&owner, Type::TEXT),
        (&of_kind, Type::INT2),
        (&after_kind, Type::INT2),
        (&after_id, Type::TEXT),
        (&limit, Type::INT8),
        (&now, Type::INT8),
    ];
    let rows = snapshot::rows(store, at, &store.statements.scopes, &values).await?;
    let infos = rows.iter().take(query.limit).map(|row| {
        let kind = kind_of(column(row, 0, "scope")?)?;
        let id = ScopeId::new(column::<String>(row, 1, "scope")?).map_err(|_| malformed("scope"))?;
        let scope = Scope::new(tenant.clone(), kind, id);
        Ok(ScopeInfo::new(scope, unsigned(row, 2, "counter")?, unsigned(row, 3, "counter")?))
    });
    let infos = infos.collect::<Result<Vec<_>>>()?;
    let last = infos.last().filter(|_| rows.len() > query.limit);
    let next = last.map(|last| Cursor::after_scope(tenant, last.scope.kind, &last.scope.id));
    Ok(ScopePage::new(infos, next))
}
