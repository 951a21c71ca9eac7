//! Indexes of large scopes: an HNSW graph over the vectors of one scope and model, so that a search never passes
//! through other scopes' vectors.
//!
//! They are built in the background, without blocking writers, once a scope has enough vectors; the server keeps them
//! up to date. Until then, vectors are compared one by one. A graph is approximate, and useless if very many vectors
//! are equal, because these lead only to each other: such a scope gets none.

use std::time::Duration;

use memory_core::{Error, ErrorKind, Result};
use tokio::time::timeout;
use tokio_postgres::types::Type;

use crate::config::Prepared;
use crate::error::{Effect, engine, late};
use crate::store::Store;
use crate::store::columns::{column, signed};
use crate::store::parameters::Value;

/// The longest vectors that pgvector can index, with 32 and with 16 bits per number.
const MAX_WHOLE: i32 = 2_000;
const MAX_HALF: i32 = 4_000;

/// How long the server may take for one index.
const PATIENCE: Duration = Duration::from_secs(4 * 3_600);

/// Scopes with at least that many vectors of one model, whether they have a valid index, and what share of the vectors
/// a sample of ten thousand is. Only scopes without a valid index are counted.
const LARGE: &str = "SELECT s.space, m.id, m.dimensions, s.tenant, coalesce(i.indisvalid, false), \
     greatest(s.vectors / 10000, 1)::integer FROM @schema@.scope s CROSS JOIN LATERAL unnest(s.models) u (id) \
     JOIN @schema@.model m ON m.id = u.id \
     LEFT JOIN pg_catalog.pg_class r ON r.relname = 'vector_near_' || s.space || '_' || m.id \
     AND r.relnamespace = '@schema@'::pg_catalog.regnamespace LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = r.oid \
     WHERE s.vectors >= $1 AND m.dimensions <= $2 AND CASE WHEN i.indisvalid IS DISTINCT FROM true THEN (SELECT count(*) \
     FROM @schema@.vector v WHERE v.tenant = s.tenant AND v.space = s.space AND v.model = m.id) >= $1 ELSE true END";

/// Whether a scope has a thousand equal vectors of a model, by a sample of one in $4.
const CROWDED: &str = "WITH sampled AS MATERIALIZED (SELECT v.key FROM @schema@.vector v \
     WHERE v.tenant = $1 AND v.space = $2 AND v.model = $3 AND hashtext(v.key) % $4 = 0) \
     SELECT coalesce(max(d.equal) >= 5 AND max(d.equal) * $4 >= 1000, false) FROM (SELECT count(*) AS equal \
     FROM sampled s CROSS JOIN LATERAL (SELECT w.embedding FROM @schema@.vector w WHERE w.tenant = $1 AND w.space = $2 \
     AND w.model = $3 AND w.key = s.key OFFSET 0) v \
     GROUP BY sha256(@vector@.vector_send(@vector@.l2_normalize(v.embedding)))) d";

/// Indexes of scopes that are gone.
const LEFT: &str = "SELECT r.relname::text FROM pg_catalog.pg_class r WHERE r.relkind = 'i' \
     AND r.relnamespace = '@schema@'::pg_catalog.regnamespace AND r.relname ~ '^vector_near_[0-9]+_[0-9]+$' \
     AND NOT EXISTS (SELECT FROM @schema@.scope s WHERE s.space = split_part(r.relname, '_', 3)::bigint)";

/// Whether pgvector is recent enough to continue an index scan until enough rows pass the filter.
const VERSION: &str = "SELECT string_to_array(extversion, '.')::integer[] >= '{0,8}' FROM pg_catalog.pg_extension \
     WHERE extname = 'vector' AND extversion ~ '^[0-9]+([.][0-9]+)*$'";

/// The indexed expression for a vector `v` of this many dimensions, and the operator class.
pub(crate) fn indexed(dimensions: i32) -> (String, &'static str) {
    if dimensions <= MAX_WHOLE {
        (format!("(embedding::@vector@.vector({dimensions}))"), "vector_cosine_ops")
    } else {
        // The components of a unit vector fit 16 bits.
        (format!("(@vector@.l2_normalize(embedding)::@vector@.halfvec({dimensions}))"), "halfvec_cosine_ops")
    }
}

/// The type of a query that is compared with the indexed expression.
pub(crate) fn compared(dimensions: i32) -> String {
    let name = if dimensions <= MAX_WHOLE { "vector" } else { "halfvec" };
    format!("@vector@.{name}({dimensions})")
}

/// Builds the worthwhile indexes, and removes the others. Returns how many were built. Fails with `forbidden` if the
/// database user does not own the table, or with the server's errors; what was built stays.
pub(crate) async fn maintain(store: &Store) -> Result<u64> {
    let connection = store.connections.take().await?;
    // Behind a pooler no statement may run that long.
    if store.vector.is_none() || store.config.prepared == Prepared::Off {
        return Ok(0);
    }
    let recent = connection.query(VERSION, &[], Effect::None).await?;
    if !recent.first().map(|row| column::<bool>(row, 0, "version")).transpose()?.unwrap_or_default() {
        return Ok(0);
    }
    let from = signed(u64::try_from(store.config.index_vectors_from).unwrap_or(u64::MAX));
    let values: [Value<'_>; 2] = [(&from, Type::INT8), (&MAX_HALF, Type::INT4)];
    let large = connection.query(&store.named(LARGE), &values, Effect::None).await?;
    let left = connection.query(&store.named(LEFT), &[], Effect::None).await?;
    drop(connection);
    if large.is_empty() && left.is_empty() {
        return Ok(0);
    }
    let alone = store.connections.hosts.connect_within(store.config.wait_timeout()).await?;
    let run = async |sql: &str| match timeout(PATIENCE, alone.batch_execute(sql)).await {
        Ok(done) => done.map_err(|error| engine(&error, Effect::None)),
        Err(_) => Err(late()),
    };
    run("SET statement_timeout = 0").await?;
    // Only one replica does this; the lock ends with the connection.
    let locked = alone.query_one("SELECT pg_try_advisory_lock(1298483521, 1)", &[]).await;
    if !locked.and_then(|row| row.try_get::<_, bool>(0)).map_err(|error| engine(&error, Effect::None))? {
        return Ok(0);
    }
    for row in &left {
        let name: &str = column(row, 0, "name")?;
        run(&store.named(&format!("DROP INDEX CONCURRENTLY IF EXISTS @schema@.{name}"))).await?;
    }
    let mut made = 0;
    for row in &large {
        let (space, model): (i64, i32) = (column(row, 0, "scope")?, column(row, 1, "model")?);
        let (tenant, is_indexed): (&str, bool) = (column(row, 3, "scope")?, column(row, 4, "index")?);
        let sample: i32 = column(row, 5, "count")?;
        let crowded = alone.query_one(&store.named(CROWDED), &[&tenant, &space, &model, &sample]).await;
        let is_crowded: bool =
            crowded.and_then(|row| row.try_get(0)).map_err(|error| engine(&error, Effect::None))?;
        if is_indexed && !is_crowded {
            continue;
        }
        let name = format!("vector_near_{space}_{model}");
        // An invalid index left by a failed attempt is useless, too.
        run(&store.named(&format!("DROP INDEX CONCURRENTLY IF EXISTS @schema@.{name}"))).await?;
        if is_crowded {
            continue;
        }
        let (expression, operators) = indexed(column(row, 2, "model")?);
        let create = store.named(&format!(
            "CREATE INDEX CONCURRENTLY {name} ON @schema@.vector USING hnsw ({expression} @vector@.{operators}) \
             WITH (m = 16, ef_construction = 100) WHERE space = {space} AND model = {model} AND embedding IS NOT NULL"
        ));
        match run(&create).await {
            Ok(()) => made += 1,
            // The scope may have been dropped, or memory may be short: the next round tries again.
            Err(error) if error.kind() == ErrorKind::Forbidden => return Err(not_owner(error)),
            Err(error) => tracing::warn!(%error, space, model, "a vector index could not be built"),
        }
    }
    Ok(made)
}

fn not_owner(error: Error) -> Error {
    Error::forbidden(
        "the database user does not own the table `vector`, so large scopes get no vector index and are \
         searched one by one; make it the owner",
    )
    .with_source(error)
}
