//! Fills a matrix: one thread reads the rows, another encodes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::{Rows, Statement, params};

use super::matrix::Matrix;
use super::numbers::decode_into;
use crate::error::{Unreadable, malformed};

/// Rows per batch, and batches waiting at most.
const BATCH_ROWS: usize = 512;
const AHEAD: usize = 4;

/// Ids, expiries, and numbers of some rows.
#[derive(Default)]
struct Batch {
    rows: Vec<(i64, Option<i64>)>,
    numbers: Vec<f32>,
}

/// Which rows to load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) space: i64,
    pub(super) model: i64,
    pub(super) dimensions: usize,
    /// Rows above this id.
    pub(super) after: i64,
}

/// Id, key, expiry and numbers of rows above an id, in order of id.
pub(super) const ROWS: &str =
    "SELECT id, key, expires_at, data FROM vector WHERE space = ?1 AND model = ?2 AND id > ?3 ORDER BY id";

/// How a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    /// All rows up to this id were loaded.
    UpTo(i64),
    /// The memory budget was used up.
    Full,
    /// No thread could be started to encode; nothing was loaded.
    NoThread,
}

/// Adds many rows to a matrix without columns.
pub(super) fn many(
    statement: &mut Statement<'_>,
    wanted: Wanted,
    matrix: &mut Matrix,
    budget: usize,
) -> Result<Loaded, Unreadable> {
    let full = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let (sender, batches) = sync_channel(AHEAD);
        let (full, dimensions) = (&full, wanted.dimensions);
        let encode = move || encode(&batches, matrix, dimensions, budget, full);
        let encoder = std::thread::Builder::new().name("memory-sqlite-load".to_owned());
        if encoder.spawn_scoped(threads, encode).is_err() {
            return Ok(Loaded::NoThread);
        }
        let rows = statement.query(params![wanted.space, wanted.model, wanted.after])?;
        // This drops the sender, which ends the encoder.
        read(rows, wanted, sender)
    })
    .map(|loaded| if full.load(Ordering::Acquire) { Loaded::Full } else { loaded })
}

/// Reads rows until the end, or until the receiver is gone.
fn read(mut rows: Rows<'_>, wanted: Wanted, sender: SyncSender<Batch>) -> Result<Loaded, Unreadable> {
    let (mut batch, mut one, mut last) = (Batch::default(), Vec::new(), wanted.after);
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        let data = row.get_ref(3)?.as_blob().map_err(|_| malformed("vector"))?;
        decode_into(data, wanted.dimensions, &mut one)?;
        batch.rows.push((last, row.get(2)?));
        batch.numbers.extend_from_slice(&one);
        if batch.rows.len() >= BATCH_ROWS && sender.send(std::mem::take(&mut batch)).is_err() {
            return Ok(Loaded::Full);
        }
    }
    Ok(if sender.send(batch).is_ok() { Loaded::UpTo(last) } else { Loaded::Full })
}

fn encode(
    batches: &Receiver<Batch>,
    matrix: &mut Matrix,
    dimensions: usize,
    budget: usize,
    full: &AtomicBool,
) {
    while let Ok(Batch { rows, numbers }) = batches.recv() {
        for ((id, expires_at), numbers) in rows.into_iter().zip(numbers.chunks_exact(dimensions.max(1))) {
            matrix.push(id, numbers, expires_at);
        }
        if matrix.heap_bytes() > budget {
            full.store(true, Ordering::Release);
            return;
        }
    }
}
