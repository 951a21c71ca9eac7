//! Reclaims expired rows and dropped scopes, in small steps so that other writers are not blocked for long.

use memory_core::{Result, Timestamp};
use rusqlite::{Connection, params};

use crate::commit::batch::Batch;
use crate::commit::scope::Target;
use crate::commit::writer::{Cost, Writer};
use crate::error::{Fault, Unreadable};
use crate::file::column::{scope, signed};

/// Rows per step.
const STEP: usize = 256;
/// How many free pages one step returns to the file system.
const VACUUM_PAGES: usize = 256;
/// How many free pages the background sweep keeps.
pub(crate) const KEPT_PAGES: usize = 256;
/// How many vectors one step checks for a missing entry.
const LOOK: usize = 2_048;

/// Deletes the rows expired at `now`, scope by scope. Returns how many.
pub(crate) fn expired(writer: &Writer, targets: Vec<Target>, now: Timestamp) -> Result<u64> {
    let mut removed = 0;
    for target in targets {
        loop {
            let target = target.clone();
            let step = writer.submit_blocking(Cost::slow(0), move |batch| {
                let mut space = batch.space(&target.digest)?;
                let step = batch.reclaim(&target.digest, &mut space, now, STEP)?;
                batch.keep(&target.digest, space);
                Ok(step)
            })?;
            removed += step as u64;
            if step < STEP {
                break;
            }
        }
    }
    Ok(removed)
}

/// Scopes with expired rows.
pub(crate) fn targets(connection: &Connection, now: Timestamp) -> Result<Vec<Target>, Unreadable> {
    let mut statement = connection.prepare_cached(
        "SELECT tenant, kind, name FROM scope s WHERE expiring > 0 \
         AND EXISTS (SELECT 1 FROM entry e WHERE e.space = s.space AND e.expires_at <= ?1)",
    )?;
    let mut rows = statement.query(params![now.as_millis()])?;
    let mut targets = Vec::new();
    while let Some(row) = rows.next()? {
        targets.push(Target::of(&scope(row.get(0)?, row.get(1)?, row.get(2)?)?));
    }
    Ok(targets)
}

/// Deletes the rows of dropped scopes.
pub(crate) fn garbage(writer: &Writer) -> Result<()> {
    while writer.submit_blocking(Cost::slow(0), garbage_step)? {}
    Ok(())
}

/// Returns whether there may be more.
fn garbage_step(batch: &mut Batch<'_>) -> Result<bool, Fault> {
    let space: i64 = {
        let mut statement = batch.statement("SELECT space FROM garbage LIMIT 1")?;
        let mut rows = statement.query([])?;
        match rows.next()? {
            Some(row) => row.get(0)?,
            None => return Ok(false),
        }
    };
    let segments = batch
        .statement(
            "DELETE FROM text_segment WHERE id IN (SELECT id FROM text_segment WHERE space = ?1 LIMIT 8)",
        )?
        .execute([space])?;
    if segments > 0 {
        batch.wrote(segments);
        return Ok(true);
    }
    let vectors = batch
        .statement("DELETE FROM vector WHERE id IN (SELECT id FROM vector WHERE space = ?1 LIMIT ?2)")?
        .execute(params![space, signed(STEP as u64)])?;
    if vectors > 0 {
        batch.wrote(vectors);
        return Ok(true);
    }
    batch
        .statement(
            "DELETE FROM body WHERE id IN \
             (SELECT body FROM entry WHERE space = ?1 AND body IS NOT NULL AND key IN \
             (SELECT key FROM entry WHERE space = ?1 ORDER BY key LIMIT ?2))",
        )?
        .execute(params![space, signed(STEP as u64)])?;
    let removed = batch
        .statement(
            "DELETE FROM entry WHERE space = ?1 AND key IN \
             (SELECT key FROM entry WHERE space = ?1 ORDER BY key LIMIT ?2)",
        )?
        .execute(params![space, signed(STEP as u64)])?;
    batch.wrote(removed);
    if removed < STEP {
        batch.statement("DELETE FROM garbage WHERE space = ?1")?.execute([space])?;
    }
    Ok(true)
}

/// Removes vectors whose entry another program deleted. Returns how many.
pub(crate) fn dead_vectors(writer: &Writer) -> Result<u64> {
    let (mut from, mut dead) = (0_i64, 0_u64);
    loop {
        let step = writer.submit_blocking(Cost::alone(), move |batch| dead_vectors_after(batch, from))?;
        let Some((last, removed)) = step else { return Ok(dead) };
        (from, dead) = (last, dead + removed);
    }
}

/// Checks some vectors after an id; returns the last id, and how many were removed.
fn dead_vectors_after(batch: &mut Batch<'_>, from: i64) -> Result<Option<(i64, u64)>, Fault> {
    let (mut last, mut dead) = (None, Vec::new());
    {
        let mut statement = batch.statement(
            "SELECT v.id, v.space, EXISTS (SELECT 1 FROM entry e WHERE e.space = v.space AND e.key = v.key) \
             OR EXISTS (SELECT 1 FROM garbage g WHERE g.space = v.space) FROM vector v WHERE v.id > ?1 ORDER BY v.id LIMIT ?2",
        )?;
        let mut rows = statement.query(params![from, signed(LOOK as u64)])?;
        while let Some(row) = rows.next()? {
            let id: i64 = row.get(0)?;
            last = Some(id);
            if !row.get::<_, bool>(2)? {
                dead.push((id, row.get::<_, i64>(1)?));
            }
        }
    }
    for (id, space) in &dead {
        batch.statement("DELETE FROM vector WHERE id = ?1")?.execute([id])?;
        // The next writer to the scope recounts its counters.
        batch.statement("UPDATE scope SET recount = 1 WHERE space = ?1")?.execute([space])?;
    }
    batch.wrote(dead.len() * 2);
    Ok(last.map(|last| (last, dead.len() as u64)))
}

/// Returns free pages to the file system, except `kept` of them, which will soon be reused.
pub(crate) fn vacuum(writer: &Writer, kept: usize) -> Result<()> {
    loop {
        let left: i64 = writer.submit_blocking(Cost::slow(0), move |batch| {
            let connection = batch.connection();
            let free: i64 = connection.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
            let wanted = free - signed(kept as u64);
            if wanted > 0 {
                let pages = wanted.min(signed(VACUUM_PAGES as u64));
                let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                batch.wrote(VACUUM_PAGES);
            }
            Ok(wanted - signed(VACUUM_PAGES as u64))
        })?;
        if left <= 0 {
            return Ok(());
        }
    }
}
