//! Filling a matrix: one thread reads the rows, another encodes them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::{Rows, Statement, params};

use super::matrix::Matrix;
use super::numbers::decode_into;
use crate::error::{Unreadable, malformed};

/// Rows that are handed over together, and how many such parcels wait at most.
const PARCEL: usize = 512;
const AHEAD: usize = 4;

/// Rows of id and expiry, and their numbers one after another.
#[derive(Default)]
struct Parcel {
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

/// Rows of id, key, expiry and numbers above an id, in its order.
pub(super) const ROWS: &str =
    "SELECT id, key, expires_at, data FROM vector WHERE space = ?1 AND model = ?2 AND id > ?3 ORDER BY id";

/// How a load ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loaded {
    /// All rows up to this id.
    UpTo(i64),
    /// Memory ended.
    Full,
    /// No thread can be had to encode; nothing was loaded.
    Alone,
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
        let (sender, parcels) = sync_channel(AHEAD);
        let (full, dimensions) = (&full, wanted.dimensions);
        let encode = move || encode(&parcels, matrix, dimensions, budget, full);
        let encoder = std::thread::Builder::new().name("memory-sqlite-load".to_owned());
        if encoder.spawn_scoped(threads, encode).is_err() {
            return Ok(Loaded::Alone);
        }
        let rows = statement.query(params![wanted.space, wanted.model, wanted.after])?;
        // The sender ends with this, and the encoder with the sender.
        read(rows, wanted, sender)
    })
    .map(|loaded| if full.load(Ordering::Acquire) { Loaded::Full } else { loaded })
}

/// Reads rows until they end, or nobody takes them any more.
fn read(mut rows: Rows<'_>, wanted: Wanted, sender: SyncSender<Parcel>) -> Result<Loaded, Unreadable> {
    let (mut parcel, mut one, mut last) = (Parcel::default(), Vec::new(), wanted.after);
    while let Some(row) = rows.next()? {
        last = row.get(0)?;
        let data = row.get_ref(3)?.as_blob().map_err(|_| malformed("vector"))?;
        decode_into(data, wanted.dimensions, &mut one)?;
        parcel.rows.push((last, row.get(2)?));
        parcel.numbers.extend_from_slice(&one);
        if parcel.rows.len() >= PARCEL && sender.send(std::mem::take(&mut parcel)).is_err() {
            return Ok(Loaded::Full);
        }
    }
    Ok(if sender.send(parcel).is_ok() { Loaded::UpTo(last) } else { Loaded::Full })
}

fn encode(
    parcels: &Receiver<Parcel>,
    matrix: &mut Matrix,
    dimensions: usize,
    budget: usize,
    full: &AtomicBool,
) {
    while let Ok(Parcel { rows, numbers }) = parcels.recv() {
        for ((id, expires_at), numbers) in rows.into_iter().zip(numbers.chunks_exact(dimensions.max(1))) {
            matrix.push(id, numbers, expires_at);
        }
        if matrix.heap_bytes() > budget {
            full.store(true, Ordering::Release);
            return;
        }
    }
}
