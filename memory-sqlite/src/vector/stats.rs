//! Statistics of a scope: its entries, and its vectors by model.

use std::collections::BTreeMap;

use memory_core::{EmbeddingModel, ModelStats, Result, ScopeDigest, ScopeStats, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::commit::readers::{Allowance, Step};
use crate::error::{Unreadable, malformed};
use crate::file::column::unsigned;
use crate::file::counts::{counted, expired};
use crate::vector::rows::model_id;

/// Counts a scope's contents (STA). With many expiring entries or vectors, run this on a worker.
pub(crate) fn stats(
    connection: &Connection,
    digest: &ScopeDigest,
    model: Option<&EmbeddingModel>,
    now: Timestamp,
    allowance: Allowance,
) -> Result<Step<ScopeStats>, Unreadable> {
    let snapshot = connection.unchecked_transaction()?;
    let found = snapshot
        .prepare_cached(
            "SELECT space, entries, bytes, expiring, vectors, recount FROM scope WHERE digest = ?1",
        )?
        .query_row([digest.as_bytes()], |row| {
            let counter = |at| row.get::<_, i64>(at);
            Ok((counter(0)?, counter(1)?, counter(2)?, counter(3)?, counter(4)?, counter(5)?))
        })
        .optional()?;
    let mut stats = ScopeStats::default();
    if let Some((space, mut entries, mut bytes, mut expiring, vectors, recount)) = found {
        if allowance == Allowance::Inline && (expiring > 1_000 || vectors > 1_000 || recount != 0) {
            return Ok(Step::TooMuch);
        }
        if recount != 0 {
            (entries, bytes, expiring) = counted(connection, space)?;
        }
        let (expired, expired_bytes) = expired(connection, space, expiring, now)?;
        stats.entries = unsigned(entries - expired, "counter")?;
        stats.bytes = unsigned(bytes - expired_bytes, "counter")?;
        stats.expiring = unsigned(expiring - expired, "counter")?;
        let (entries, expiring, vectors) = (stats.entries, expired > 0, vectors > 0);
        let held = Held { space, entries, expiring, vectors };
        stats.models = models(&snapshot, held, model, now)?;
    }
    Ok(Step::Done(stats))
}

/// The input of [`models`].
#[derive(Clone, Copy, Debug)]
struct Held {
    space: i64,
    /// Live entries.
    entries: u64,
    /// Whether rows may have expired.
    expiring: bool,
    /// Whether there are vectors at all.
    vectors: bool,
}

/// Vectors of live entries by model, in order of the model. The embedder's own is listed even without vectors.
fn models(
    connection: &Connection,
    held: Held,
    own: Option<&EmbeddingModel>,
    now: Timestamp,
) -> Result<Vec<ModelStats>, Unreadable> {
    let (mut rows_of, mut stale) = (BTreeMap::new(), 0);
    if let Some(own) = own.filter(|_| held.entries > 0) {
        rows_of.insert(own.clone(), 0);
    }
    if held.vectors {
        let mut all = connection.prepare_cached(
            "SELECT m.provider, m.name, m.dimensions, c.rows, c.model FROM \
             (SELECT model, count(*) AS rows FROM vector WHERE space = ?1 GROUP BY model) c \
             JOIN model m ON m.id = c.model",
        )?;
        // Few rows have expired without being reclaimed.
        let mut expired = connection.prepare_cached(
            "SELECT count(*) FROM entry e CROSS JOIN vector v ON v.space = e.space AND v.key = e.key AND v.model = ?2 \
             WHERE e.space = ?1 AND e.expires_at <= ?3",
        )?;
        let mut rows = all.query([held.space])?;
        while let Some(row) = rows.next()? {
            let dimensions = usize::try_from(row.get::<_, i64>(2)?).map_err(|_| malformed("model"))?;
            let model = EmbeddingModel { provider: row.get(0)?, model: row.get(1)?, dimensions };
            let mut count: i64 = row.get(3)?;
            if held.expiring {
                let gone: i64 = expired
                    .query_row(params![held.space, row.get::<_, i64>(4)?, now.as_millis()], |row| {
                        row.get(0)
                    })?;
                count -= gone;
            }
            let count = unsigned(count, "count")?;
            if count > 0 {
                rows_of.insert(model, count);
            }
        }
        if let Some(own) = own.filter(|own| rows_of.keys().any(|model| model != *own)) {
            let stale_now: i64 = connection
                .prepare_cached(
                    "SELECT count(DISTINCT v.key) FROM vector v WHERE v.space = ?1 AND v.model <> ?2 \
                     AND (v.expires_at IS NULL OR v.expires_at > ?3) AND NOT EXISTS (SELECT 1 FROM vector w \
                     WHERE w.space = v.space AND w.key = v.key AND w.model = ?2)",
                )?
                .query_row(
                    params![held.space, model_id(connection, own)?.unwrap_or(0), now.as_millis()],
                    |row| row.get(0),
                )?;
            stale = unsigned(stale_now, "count")?;
        }
    }
    Ok(rows_of
        .into_iter()
        .map(|(model, rows)| {
            let bytes = rows.saturating_mul(4).saturating_mul(model.dimensions as u64);
            let is_own = Some(&model) == own;
            let mut stats = ModelStats::new(model, rows, bytes);
            stats.missing = held.entries.saturating_sub(rows);
            stats.stale = if is_own { stale } else { 0 };
            stats
        })
        .collect())
}
